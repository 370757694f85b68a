"""XLA programs cached by content: a function that is defined again is not compiled again."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import jaxpr_as_fun

from jaxsim.fused.fuse import without_tracers
from jaxsim.fused.kept import get_or_make


def run_compiled(function: Callable, arguments: list[jax.Array]) -> Any:
    """Call a function of arrays by the XLA program that an equal function was compiled to.

    A function that is defined again, as by a notebook's cell that runs twice, is not compiled
    again. Called under ``vmap`` it is one program a batch; where the call itself is traced, by
    ``jit`` or for a derivative, the function becomes part of that trace.
    """
    if not all(map(_evaluated, arguments)):
        return function(*arguments)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in arguments]
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*specs)
    closed, outer = without_tracers(closed)
    if not all(map(_evaluated, outer)):
        return function(*arguments)

    def compiled(closed):
        @wraps(function)  # notices of long compilations have its name
        def program(*values):
            return jaxpr_as_fun(closed)(*values)

        return jax.jit(program)

    program = get_or_make(closed, compiled, values_only=True)
    return jax.tree.unflatten(jax.tree.structure(shapes), program(*outer, *arguments))


def _evaluated(x: Any) -> bool:
    """True if a value is computed at once: it is no tracer, or one of ``vmap`` only."""
    while type(x).__name__ == "BatchTracer":  # JAX does not export the class
        x = x.val  # type: ignore[attr-defined]
    return not isinstance(x, Tracer)
