"""Equations that several small QPs have in common, such as two bodies that hold each other.

The problems are members of a ``jax.vmap`` over an axis with a name; each has its own columns of the
equations. Common decisions are sums and maxima along that axis, so that the cost is that of all
problems, and of the solution of a system the size of the joint equations.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class JointEquations:
    """Joint equations: the sum of all problems' C x is c; idle rows are zero."""

    C: Array  # (mj, n) of this problem
    c: Array  # (mj,) the same of all
    axis: str = field(metadata={"static": True})  # of the vmap whose members the problems are

    def total(self, x: Array) -> Array:
        """Sum of x over all problems."""
        return lax.psum(x, self.axis)


def total(joint: JointEquations | None, x: Array) -> Array:
    """Sum of x over all problems; x itself without joint equations."""
    return x if joint is None else joint.total(x)


def most(joint: JointEquations | None, x: Array) -> Array:
    """Largest x of all problems; NaN if any is."""
    return x if joint is None else lax.pmax(x, joint.axis) + 0 * joint.total(x)


def every(joint: JointEquations | None, x: Array) -> Array:
    """() bool: x is true in all problems."""
    return x if joint is None else joint.total(jnp.where(x, 0, 1)) == 0
