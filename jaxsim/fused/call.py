"""A fused function as JAX sees it: a primitive that vmap, jit and grad know how to treat."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from jaxsim.fused.launch import Kernel

fused_p = Primitive("fused")
fused_p.multiple_results = True


def call(kernel: Kernel, leaves, own: tuple[bool, ...], batch: int | None) -> list:
    """The outputs of a kernel for a batch, of which leaf k has an axis in front if ``own[k]``; or,
    with no batch, for one character, which ``vmap`` makes a batch of."""
    return fused_p.bind(*leaves, kernel=kernel, own=own, batch=batch)


def _lanes(batch: int | None) -> int:
    return 1 if batch is None else batch


@fused_p.def_impl
def run(*leaves, kernel: Kernel, own, batch):
    """All lanes, now: ``own[k]`` says whether leaf k has a batch axis in front."""
    platform = "gpu" if jax.default_backend() == "gpu" else "cpu"
    out = kernel.run(leaves, own, _lanes(batch), platform)
    return [x.reshape(x.shape[1:]) for x in out] if batch is None else out


@fused_p.def_abstract_eval
def _shapes(*leaves, kernel: Kernel, own, batch):
    front = () if batch is None else (batch,)
    return [ShapedArray((*front, *a.shape), a.dtype) for a in kernel.out_avals]


def _vmapped(leaves, dims, *, kernel: Kernel, own, batch):
    """A new batch axis in front; one that is there already is folded into it."""
    size = next(x.shape[d] for x, d in zip(leaves, dims) if d is not None)
    moved, new_own = [], []
    for x, d, mine in zip(leaves, dims, own):
        mapped = d is not None
        if d:
            x = jnp.moveaxis(x, d, 0)
        if batch is not None and (mapped or mine):
            if not mapped:
                x = jnp.broadcast_to(x[None], (size, *x.shape))
            elif not mine:
                x = jnp.broadcast_to(x[:, None], (size, batch, *x.shape[1:]))
            x = x.reshape(size * batch, *x.shape[2:])
        moved.append(jnp.asarray(x))
        new_own.append(mapped or mine)
    out = fused_p.bind(*moved, kernel=kernel, own=tuple(new_own), batch=size * _lanes(batch))
    if batch is not None:
        out = [x.reshape(size, batch, *x.shape[1:]) for x in out]
    return out, [0] * len(out)


batching.primitive_batchers[fused_p] = _vmapped


def _from_jit(*leaves, kernel: Kernel, own, batch):
    """Inside compiled code the kernel is called back; its memory goes through the host.

    Numbers of 64 bits travel as pairs of 32: the thread of a callback may have another precision
    than the one that traced it, and would round them.
    """
    _ = kernel.program  # what cannot be fused is said here, not within the callback
    avals = _shapes(*leaves, kernel=kernel, own=own, batch=batch)
    dtypes = [np.dtype(x.dtype) for x in leaves]

    def on_host(*words):
        given = [_joined(np.asarray(x), dtype) for x, dtype in zip(words, dtypes)]
        out = kernel.run(given, own, _lanes(batch), "cpu", as_numpy=True)
        return [_split(x.reshape(a.shape)) for x, a in zip(out, avals)]

    shapes = [jax.eval_shape(lambda a=a: _split(jnp.zeros(a.shape, a.dtype))) for a in avals]
    words = jax.pure_callback(on_host, shapes, *map(_split, leaves), vmap_method="sequential")
    return [jax.lax.bitcast_convert_type(x, a.dtype) if _wide(a.dtype) else x
            for x, a in zip(words, avals)]  # fmt: skip


def _wide(dtype) -> bool:
    return np.dtype(dtype).itemsize == 8


def _split(x):
    """Numbers of 64 bits as pairs of words, along a new last axis."""
    if not _wide(x.dtype):
        return x
    if isinstance(x, np.ndarray):
        # numpy's contiguous copy of a number is an array of one
        return np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint32)
    return jax.lax.bitcast_convert_type(x, jnp.uint32)


def _joined(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(words).view(dtype)[..., 0] if _wide(dtype) else words


mlir.register_lowering(fused_p, mlir.lower_fun(_from_jit, multiple_results=True))
