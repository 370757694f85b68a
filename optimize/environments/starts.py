"""Beginnings of episodes that are not the scenario's: on a clip, or in states of another motion."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.reference import Reference
from jaxsim.dynamics.kinematics import difference, integrate
from jaxsim.model import Model, State


def starts_on(model: Model, clip: Reference, standing: State, starts: State) -> State:
    """Deviations of starts (n, ...) from ``standing``, carried over to states of a clip at n times
    that are spread over it evenly; the clock of each shows its time."""
    n = len(starts.q)
    times = jnp.asarray(np.arange(n) / n * float(clip.duration()), standing.q.dtype)

    def one(start, time):
        now = clip.at(model, time)
        return replace(_carried(model, start, standing, now.q, now.qd), time=time)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(starts, times))


def starts_among(model: Model, states: State, standing: State, starts: State) -> State:
    """Of starts (n, ...) the first half as they are; of the others the deviations from
    ``standing``, carried over to states (m, ...) that are spread over theirs evenly."""
    n = len(starts.q)
    own, others = n - n // 2, n // 2
    chosen = np.arange(others) * len(states.q) // max(1, others)
    at = states.q[chosen], states.qd[chosen]
    half = jax.tree.map(lambda x: x[own:], starts)
    carry = jax.jit(jax.vmap(lambda start, q, qd: _carried(model, start, standing, q, qd)))
    return jax.tree.map(
        lambda x, y: np.concatenate([np.asarray(x)[:own], np.asarray(y)]), starts, carry(half, *at)
    )


def _carried(model: Model, start: State, standing: State, q: Array, qd: Array) -> State:
    """A start's deviation from ``standing``, in another state."""
    off = difference(model, start.q, standing.q, free=False)
    q = integrate(model, q, off, jnp.ones((), off.dtype))
    return replace(start, q=q, qd=qd + start.qd - standing.qd)
