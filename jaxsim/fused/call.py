"""JAX primitive of a fused function, with rules for vmap, jit and grad."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.backend import backends
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir

from jaxsim.fused import handler
from jaxsim.fused.launch import Kernel

fused_p = Primitive("fused")
fused_p.multiple_results = True


def call(kernel: Kernel, leaves, own: tuple[bool, ...], batch: int | None) -> list:
    """Outputs of a kernel for a batch, of which leaf k has a leading axis if ``own[k]``.

    batch: None for one character, which ``vmap`` makes a batch of.
    """
    return fused_p.bind(*leaves, kernel=kernel, own=own, batch=batch)


def _lanes(batch: int | None) -> int:
    return 1 if batch is None else batch


@fused_p.def_impl
def run(*leaves, kernel: Kernel, own, batch):
    """Run all lanes at once on the leaves' device; leaf k has a batch axis if ``own[k]``."""
    # as compiled code, whose device and memory are JAX's to choose
    if kernel.lacks or not on_cpu(leaves):
        return kernel.compiled(own, batch, lambda: _bound(leaves, kernel, own, batch))(*leaves)
    out = kernel.run(leaves, own, _lanes(batch))
    return [x.reshape(x.shape[1:]) for x in out] if batch is None else out


def _bound(leaves, kernel: Kernel, own, batch):
    for device in _devices(leaves):
        if device.platform == "gpu" and not kernel.lacks:
            kernel.check(own, _lanes(batch), "cuda")
            kernel.foresee(device.local_hardware_id or 0, _lanes(batch))
    return jax.jit(lambda *leaves: fused_p.bind(*leaves, kernel=kernel, own=own, batch=batch))


def on_cpu(leaves) -> bool:
    """True if all arrays are on the CPU."""
    if jax.default_backend() == "cpu" and len(backends()) == 1:
        return True
    return all(device.platform == "cpu" for device in _devices(leaves))


def _devices(leaves) -> set:
    """Devices of the arrays; without arrays the default device."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    return {d for x in arrays for d in x.devices()} or jnp.zeros(()).devices()


@fused_p.def_abstract_eval
def _shapes(*leaves, kernel: Kernel, own, batch):
    front = () if batch is None else (batch,)
    return [ShapedArray((*front, *a.shape), a.dtype) for a in kernel.out_avals]


def _vmapped(leaves, dims, *, kernel: Kernel, own, batch):
    """Batching rule: a new leading batch axis, into which an existing one is folded."""
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


def make_lowering(platform: str, target: Callable[[str], str] = handler.target):
    """Lowering of the primitive for a platform: XLA calls a target with its own memory."""

    def rule(ctx, *operands, kernel: Kernel, own, batch):
        if kernel.lacks:
            return _lower_to_xla(ctx, *operands, kernel=kernel, own=own, batch=batch)
        kernel.check(own, _lanes(batch), platform)  # raise here and not in the call
        name, found = handler.name_kernel(kernel, own, _lanes(batch))
        ctx.module_context.add_keepalive(found)
        return jax.ffi.ffi_lowering(target(platform))(ctx, *operands, kernel=name)

    return rule


def _by_xla(*leaves, kernel: Kernel, own, batch):
    """Evaluate a kernel's jaxpr by XLA, for platforms without kernels."""
    function = jaxpr_as_fun(kernel.jaxpr)
    if batch is None:
        return function(*leaves)
    return jax.vmap(function, [0 if mine else None for mine in own], axis_size=batch)(*leaves)


_lower_to_xla = mlir.lower_fun(_by_xla, multiple_results=True)
mlir.register_lowering(fused_p, _lower_to_xla)
for _platform in handler.PLATFORMS:
    mlir.register_lowering(fused_p, make_lowering(_platform), platform=_platform)
