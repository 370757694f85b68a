"""Compile a JAX function of one character to one kernel over a batch: ``fuse``, ``fuse_one``."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.api_util import flatten_axes
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxsim.fused.call import fused_p, run
from jaxsim.fused.errors import FusedUnavailable, warn_of_xla
from jaxsim.fused.gradient import differentiable
from jaxsim.fused.kept import get_or_make
from jaxsim.fused.launch import Kernel, check_process
from jaxsim.fused.llvm import prepare
from jaxsim.fused.lower import rule
from jaxsim.fused.rules.control import inline

BACKENDS = ("fused", "xla")


def fuse(fn: Callable, in_axes: Any = 0, backend: str = "fused") -> Callable:
    """Compile ``fn`` of one character to a function over a batch that runs as one kernel.

    fn takes and returns pytrees of small arrays. in_axes as for ``jax.vmap``: arguments with None
    are shared by all members and read once. New values of the arguments reuse the kernel; arrays
    that fn closes over become part of it, and a product with a constant that is exactly zero is
    zero (so a NaN of the other factor is lost). The result can be called from jitted code, and
    differentiated in reverse (not forward).

    backend "fused" needs Dr.Jit and, on the CPU, an LLVM library; where they are missing, or with
    "xla", it is ``jax.jit(jax.vmap(fn, in_axes))``.

    A function with a primitive without a rule runs by XLA, after one warning that names the
    primitive, the line and a replacement (``explain`` raises it). Raises
    FuseError, at the first call, where a function cannot be fused for another reason, such as its
    dtypes or its size; ValueError for an unknown backend.

    >>> import jax.numpy as jnp
    >>> fuse(lambda x, k: k * jnp.sum(x * x), in_axes=(0, None))(jnp.ones((4, 3)), 2.0)
    Array([6., 6., 6., 6.], dtype=float32)
    """
    if choose_backend(backend) == "xla":
        return jax.jit(jax.vmap(fn, in_axes))
    one = _One(fn)
    mapped = jax.vmap(one, in_axes)

    @wraps(fn)
    def batched(*args):
        args = jax.tree.map(_array, args)  # vmap does not convert numpy arrays
        done = one.run_batch(args, in_axes)
        return mapped(*args) if done is None else done

    return batched


def fuse_one(fn: Callable) -> Callable:
    """Compile ``fn`` of one character to a kernel, also within ``vmap``, ``jit`` and ``grad``."""
    one = _One(fn)
    return wraps(fn)(lambda *args: one(*args))


class _One:
    """Function with its kernels by the shapes and dtypes of the arguments of one character."""

    def __init__(self, fn: Callable):
        self.fn = fn
        self.known: dict = {}

    def __call__(self, *args):
        leaves, tree = jax.tree.flatten(args)
        leaves = list(map(_array, leaves))
        traced = self.traced(tree, [_spec(x, x.shape) for x in leaves])
        leaves = [*traced.outer, *leaves]
        out = traced.run((False,) * len(leaves), None, *leaves)
        return jax.tree.unflatten(traced.out_tree, out)

    def traced(self, tree, specs) -> "_Traced":
        """Kernel for arguments of these shapes and dtypes, cached."""
        key = tree, *specs, jnp.zeros(()).dtype
        if key in self.known:
            return self.known[key]
        closed, out = jax.make_jaxpr(
            lambda *flat: self.fn(*jax.tree.unflatten(tree, flat)), return_shape=True
        )(*specs)
        closed, outer = without_tracers(closed)
        kernel, run = get_or_make(closed, _made)
        traced = _Traced(kernel, run, outer, jax.tree.structure(out))
        if not outer:  # tracers are only good for this call
            self.known[key] = traced
        return traced

    def run_batch(self, args, in_axes):
        """Results for a batch without ``vmap``, which takes a millisecond a call.

        None where ``vmap`` is needed: for other axes than the first, or if fn closes over tracers.
        """
        leaves, tree = jax.tree.flatten(args)
        axes = flatten_axes(
            "in_axes", tree, tuple(in_axes) if isinstance(in_axes, list) else in_axes
        )
        if set(axes) - {0, None}:
            return None
        sizes = {x.shape[:1] for x, axis in zip(leaves, axes) if axis == 0}
        if len(sizes) != 1 or () in sizes:
            return None
        shapes = [x.shape if axis is None else x.shape[1:] for x, axis in zip(leaves, axes)]
        traced = self.traced(tree, list(map(_spec, leaves, shapes)))
        if traced.outer:
            return None
        own, batch = tuple(axis == 0 for axis in axes), sizes.pop()[0]
        if any(isinstance(x, Tracer) for x in leaves):
            out = traced.run(own, batch, *leaves)
        else:  # without JAX's machinery, which would take twice the time
            out = run(*leaves, kernel=traced.kernel, own=own, batch=batch)
        return jax.tree.unflatten(traced.out_tree, out)


def _made(closed: ClosedJaxpr) -> tuple[Kernel, Callable]:
    kernel = Kernel(closed)
    return kernel, differentiable(kernel)


class _Traced(NamedTuple):
    kernel: Kernel
    run: Callable  # of own, batch and the leaves, with a custom_vjp
    outer: list  # tracers that fn closes over, the first arguments
    out_tree: Any


def _array(x) -> jax.Array:
    """Convert to a JAX array; ``jnp.asarray`` is slow even for arrays, above all for tracers."""
    return x if isinstance(x, jax.Array) else jnp.asarray(x)


def _spec(x, shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, x.dtype, weak_type=x.weak_type)


def without_tracers(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list]:
    """Turn traced constants of a jaxpr (of an outer jit, vmap or grad) into its first arguments."""
    outer = [k for k, c in enumerate(closed.consts) if isinstance(c, Tracer)]
    if not outer:
        return closed, []
    jaxpr, consts = closed.jaxpr, closed.consts
    known = [k for k in range(len(consts)) if k not in outer]
    moved = [jaxpr.constvars[k] for k in outer]
    jaxpr = jaxpr.replace(
        constvars=[jaxpr.constvars[k] for k in known],
        invars=[*moved, *jaxpr.invars],
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    return ClosedJaxpr(jaxpr, [consts[k] for k in known]), [consts[k] for k in outer]


def choose_backend(backend: str) -> str:
    """Choose the back end: ``backend``, or "xla" with one warning of the reason."""
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; choose from {', '.join(BACKENDS)}")
    check_process()
    if backend == "fused":
        try:
            prepare("gpu" if jax.default_backend() == "gpu" else "cpu")
        except FusedUnavailable as error:
            warn_of_xla(str(error), stacklevel=3)
            return "xla"
    return backend


@rule(fused_p.name)
def _nested(lowering, eqn, *args):
    """Rule of a fused function within another: inline its jaxpr."""
    jaxpr, own, batch = eqn.params["kernel"].jaxpr, eqn.params["own"], eqn.params["batch"]
    if batch is not None:
        each = jax.vmap(jaxpr_as_fun(jaxpr), [0 if mine else None for mine in own], axis_size=batch)
        jaxpr = jax.make_jaxpr(each)(*(v.aval for v in eqn.invars))
    return inline(lowering, jaxpr, args)
