"""A fused function as JAX sees it: a primitive that vmap, jit and grad know how to treat."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from jaxsim.fused.launch import Kernel

fused_p = Primitive("fused")
fused_p.multiple_results = True


def call(kernel: Kernel, leaves) -> list:
    """The outputs of a kernel for one character; under ``vmap`` for a batch."""
    return fused_p.bind(*leaves, kernel=kernel, own=(False,) * len(leaves), batch=None)


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
    return [jax.core.ShapedArray((*front, *a.shape), a.dtype) for a in kernel.out_avals]


def _vmapped(leaves, dims, *, kernel: Kernel, own, batch):
    """A new batch axis in front; one that is there already is folded into it."""
    size = next(x.shape[d] for x, d in zip(leaves, dims) if d is not None)
    moved, new_own = [], []
    for x, d, mine in zip(leaves, dims, own):
        mapped = d is not None
        if mapped:
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
    """Inside compiled code the kernel is called back; its memory goes through the host."""
    _ = kernel.program  # what cannot be fused is said here, not within the callback
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in
              _shapes(*leaves, kernel=kernel, own=own, batch=batch)]  # fmt: skip

    def on_host(*leaves):
        out = kernel.run([np.asarray(x) for x in leaves], own, _lanes(batch), "cpu", as_numpy=True)
        return [x.reshape(x.shape[1:]) for x in out] if batch is None else out

    return jax.pure_callback(on_host, shapes, *leaves, vmap_method="sequential")


mlir.register_lowering(fused_p, mlir.lower_fun(_from_jit, multiple_results=True))
