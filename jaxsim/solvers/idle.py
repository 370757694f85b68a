"""Skip work on constraint rows that are all zeros.

Most contact slots of a step are empty most of the time: their rows are zeros, and so are all
results of them. XLA computes them all the same, for a batch does the work of its busiest member in
any case. In a fused kernel only the members beside one another, a vector of lanes, have to agree.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.varying import mesh_axes


def unless_idle(used: Array | None, work: Callable, *args, idle: Callable | None = None) -> Any:
    """work(*args), or the equal ``idle(*args)`` where its rows are idle.

    used () bool, None for always; idle: by default zeros of the shapes that work returns.
    """
    if used is None or mesh_axes(used):  # a kernel is traced without a mesh
        return work(*args)

    def zeros(*args):
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(work, *args))

    def fused(used, *args):
        return lax.cond(used, work, idle or zeros, *args)

    return lax.platform_dependent(used, *args, fused=fused, default=lambda _, *args: work(*args))
