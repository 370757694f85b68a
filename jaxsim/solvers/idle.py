"""Work on constraint rows that is left out where there are none.

Where a step chooses contacts from many places, most of the chosen places are empty at most times:
their rows are zeros, and so is all that follows from them. XLA computes with them all the same, for
a batch does the work of its busiest member in any case. In a fused kernel only the members beside
one another, a vector of lanes, have to agree.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.varying import mesh_axes


def unless_idle(used: Array | None, work: Callable, *args, idle: Callable | None = None) -> Any:
    """work(*args), for rows that may be idle: then what ``idle`` says, which has to be the same.

    used () bool, None for always; idle(*args): by default zeros of the shapes that work returns.
    """
    if used is None or mesh_axes(used):  # a kernel is traced without a mesh
        return work(*args)

    def zeros(*args):
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(work, *args))

    def fused(used, *args):
        return lax.cond(used, work, idle or zeros, *args)

    return lax.platform_dependent(used, *args, fused=fused, default=lambda _, *args: work(*args))
