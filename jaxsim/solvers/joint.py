"""Equations that several small QPs have in common, such as two bodies that hold each other.

The problems are members of a ``jax.vmap`` over an axis with a name; each knows its own part of the
equations. What all of them decide together are sums and maxima along that axis, so that a system of
problems costs as much as they do, and the solution of a system the size of the joint equations.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Joint:
    """The sum of all problems' C x is c; idle rows are zero."""

    C: Array  # (mj, n) of this problem
    c: Array  # (mj,) the same of all
    axis: str = field(metadata={"static": True})  # of the vmap whose members the problems are

    def total(self, x: Array) -> Array:
        """The sum of all problems'."""
        return lax.psum(x, self.axis)


def total(joint: Joint | None, x: Array) -> Array:
    """The sum of all problems' x, of one that is alone x."""
    return x if joint is None else joint.total(x)


def most(joint: Joint | None, x: Array) -> Array:
    """The largest of all problems' x; NaN if any is."""
    return x if joint is None else lax.pmax(x, joint.axis) + 0 * joint.total(x)


def every(joint: Joint | None, x: Array) -> Array:
    """() bool: it is so of all problems."""
    return x if joint is None else joint.total(jnp.where(x, 0, 1)) == 0
