"""A function of one member, fused and by XLA, side by side."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from jaxsim.fused import FusedUnavailable, fuse
from jaxsim.fused.llvm import prepare
from tests.compiling import quick_jit

try:
    prepare()
except FusedUnavailable as error:
    pytest.skip(str(error), allow_module_level=True)

RTOL = {"float32": 1e-5, "float64": 1e-12}


def numbers(tree) -> Any:
    """The same pytree of numpy arrays."""
    return jax.tree.map(np.asarray, tree)


def fused(fn: Callable, *args, in_axes: Any = 0) -> Any:
    """What the fused function gives."""
    return numbers(fuse(fn, in_axes)(*args))


def by_xla(fn: Callable, *args, in_axes: Any = 0) -> Any:
    """What XLA gives."""
    return numbers(quick_jit(jax.vmap(fn, in_axes))(*args))


def same(got, wanted, rtol: dict[str, float] | None = None, atol: float = 0.0) -> None:
    """Two pytrees agree: structure, dtypes, shapes, and numbers; NaN and infinities at one place.

    rtol goes by dtype; atol is a part of the largest number of its array. A number that is not
    normal may be zero.
    """
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    named = jax.tree_util.tree_leaves_with_path(wanted)
    for x, (path, y) in zip(jax.tree.leaves(got), named):
        x, y, where = np.asarray(x), np.asarray(y), jax.tree_util.keystr(path)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), where
        if y.dtype.kind != "f":
            np.testing.assert_array_equal(x, y, where)
            continue
        close = (rtol or RTOL)[y.dtype.name]
        least = float(np.finfo(y.dtype).tiny)
        least += atol * float(np.max(np.abs(y), where=np.isfinite(y), initial=0))
        np.testing.assert_allclose(x, y, rtol=close, atol=least, err_msg=where)


def agree(fn: Callable, *args, in_axes: Any = 0, rtol=None, atol: float = 0.0) -> Any:
    """Both give the same; returns what the fused function gave."""
    got = fused(fn, *args, in_axes=in_axes)
    same(got, by_xla(fn, *args, in_axes=in_axes), rtol, atol)
    return got
