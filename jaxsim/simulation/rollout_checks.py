"""Checks of the measures, records and controllers of a rollout, when it is traced."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.simulation.checks import check_kind, describe, is_number, whole_number


def check_folding(
    steps: Any, measures: Any, kind: type, record: Callable | None, record_every: Any
) -> None:
    """Raise ValueError or TypeError for an invalid length, measure or record."""
    whole_number("steps", steps, 0)
    whole_number("record_every", record_every, 1)
    if record is not None and not callable(record):
        raise TypeError(f"record is {describe(record)}; expected a function of a Sample")
    if record is not None and steps % record_every:
        raise ValueError(f"record_every={record_every} does not divide steps={steps}")
    check_kind("measures", measures, Mapping, how=" from names to measures, as largest(...) is one")
    for name, measure in measures.items():
        check_kind(f"measures[{name!r}]", measure, kind, how=", as total, largest or final make it")
        for leaf in jax.tree.leaves(measure.initial):
            if not is_number(leaf):
                raise TypeError(
                    f"measures[{name!r}] begins with {describe(leaf)}; expected numbers"
                )


def check_update(memory: Any, returned: Any) -> tuple[Any, Any]:
    """Check the return value of ``controller.update`` against its memory, and return it."""
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise TypeError(f"controller.update returned {describe(returned)}; expected a tuple"
                        " (memory, command)")  # fmt: skip
    _check_same("controller.update: memory", memory, returned[0], "controller.init")
    return returned


def fold_measure(name: str, old: Any, new: Any) -> Any:
    """New value of a measure, in the precision of the old one. Raises if the kind differs."""
    what = f"measures[{name!r}]"
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise TypeError(
            f"{what} begins with {jax.tree.structure(old)} and becomes {jax.tree.structure(new)};"
            " both have to be alike"
        )

    def cast(new, old):
        if np.shape(new) != np.shape(old):
            raise ValueError(
                f"{what} begins with shape {np.shape(old)} and becomes {np.shape(new)}; give an"
                f" initial value of that shape, as in final(f, jnp.zeros({np.shape(new)}))"
            )
        dtype = jnp.result_type(new)
        if jnp.issubdtype(dtype, jnp.inexact) and not jnp.issubdtype(old.dtype, jnp.inexact):
            raise TypeError(
                f"{what} begins with {old.dtype} and becomes {dtype}, which would be cut off; begin"
                " with 0.0"
            )
        return jnp.asarray(new, old.dtype)

    return jax.tree.map(cast, new, old)


def check_record(record: Any) -> Any:
    """Check that a record is a tree of arrays, and return it. Raises TypeError if it is not."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(record)[0]:
        if not is_number(leaf):
            raise TypeError(
                f"record returned {describe(leaf)} at {jax.tree_util.keystr(path) or 'its root'};"
                " expected arrays, alone or in tuples, dicts or registered dataclasses"
            )
    return record


def _check_same(what: str, old: Any, new: Any, source: str) -> None:
    """Raise TypeError unless two trees have the same structure, shapes and dtypes."""
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise TypeError(
            f"{what} is {jax.tree.structure(new)}, and {source} gave {jax.tree.structure(old)}"
        )
    pairs = zip(jax.tree_util.tree_flatten_with_path(new)[0], jax.tree.leaves(old), strict=True)
    for (path, x), y in pairs:
        at = what + jax.tree_util.keystr(path)
        if not is_number(x):
            raise TypeError(f"{at} is {describe(x)}; expected numbers")
        if np.shape(x) != np.shape(y):
            raise TypeError(f"{at} has shape {np.shape(x)}, and {source} gave {np.shape(y)}")
        found, begun = jnp.result_type(x), jnp.result_type(y)
        weak = getattr(y, "weak_type", False) or getattr(x, "weak_type", False)
        if found != begun and not weak:
            raise TypeError(f"{at} has dtype {found}, and {source} gave {begun}")
