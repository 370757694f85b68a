"""Gradients compared with those of copies that start a few roundings away.

    checked = checked_gradient(jax.vmap(jax.grad(loss)), states)
    checked.gradient[~checked.named]   # of members whose motion does not depend on rounding

A contact that sticks or slides, or lifts off a step earlier, has another derivative. Where rounding
decides it, float32 has the derivative of another motion than float64, and the gradient alone does
not show that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.model.state import State

ROUNDINGS = 2.0  # distance of a copy's start [units of rounding]
TOLERANCE = 1e-3  # relative difference of gradients from which on a member is named


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CheckedGradient:
    """Gradients of n members, and the members to leave out or repeat in float64."""

    gradient: Any  # tree of (n, ...)
    change: Array  # (n,) relative difference to the copy's, of the leaf where it is largest
    named: Array  # (n,) bool: the change is above the tolerance, or not finite


def checked_gradient(
    gradient: Callable[..., Any],
    states: State,
    *others: Any,
    tolerance: float = TOLERANCE,
    roundings: float = ROUNDINGS,
    seed: int = 0,
) -> CheckedGradient:
    """Gradients of a batch, and the members whose gradient rounding decides.

    gradient: of (states, *others), a tree of arrays (n, ...), as
    ``jax.vmap(jax.grad(loss))`` gives it; it is called twice. states: n of them, q (n, nq). others:
    further arguments of the gradient. The second call starts from positions and velocities moved by
    ``roundings`` units of rounding of their size, at least of 1, up or down by the random ``seed``.
    In float64 that is so little that hardly a member is named.

    Raises TypeError for states that are no State, ValueError for a single state or for gradients
    without an axis of members.

    >>> import jax, jax.numpy as jnp
    >>> states = State(q=jnp.array([[0.5], [1.0]]), qd=jnp.ones((2, 1)), time=jnp.zeros(2))
    >>> bend = jax.vmap(jax.grad(lambda q: jnp.sum(jnp.maximum(q, 1.0))))
    >>> checked_gradient(lambda states: bend(states.q), states).named.tolist()
    [False, True]
    """
    if not isinstance(states, State):
        raise TypeError(f"states is a {type(states).__name__}; give the members' State first")
    if jnp.ndim(states.q) != 2:
        raise ValueError(
            f"states.q has shape {jnp.shape(states.q)}; expected (members, nq), as of "
            "jax.tree.map(lambda x: jnp.stack([x, x]), state) for two"
        )
    rng = np.random.default_rng(seed)
    moved = states.replace(q=_moved(states.q, roundings, rng), qd=_moved(states.qd, roundings, rng))
    slopes = gradient(states, *others)
    pairs = zip(jax.tree.leaves(slopes), jax.tree.leaves(gradient(moved, *others)), strict=True)
    members = jnp.shape(states.q)[0]
    changes = [_change(a, b, members) for a, b in pairs]
    change = jnp.max(jnp.stack(changes), axis=0)
    return CheckedGradient(slopes, change, ~(change <= tolerance))


def _moved(x: Array, roundings: float, rng: np.random.Generator) -> Array:
    """Move each number of x by ``roundings`` units of rounding up or down."""
    signs = jnp.asarray(rng.choice((-1.0, 1.0), jnp.shape(x)), x.dtype)
    return x + roundings * jnp.finfo(x.dtype).eps * jnp.maximum(jnp.abs(x), 1.0) * signs


def _change(slope: Array, other: Array, members: int) -> Array:
    """(n,) relative difference of two gradients; 0 where both are zero."""
    if jnp.ndim(slope) == 0 or jnp.shape(slope)[0] != members:
        raise ValueError(
            f"a gradient has shape {jnp.shape(slope)}; expected ({members}, ...), that of each"
            " member: take jax.vmap(jax.grad(loss)) of the loss of one"
        )
    slope, other = (x.reshape(members, -1) for x in (slope, other))
    missed, size = (jnp.linalg.norm(x, axis=1) for x in (other - slope, slope))
    return jnp.where(missed == 0, 0.0, missed / size)
