"""Starts of episodes other than the scenario's: on a clip, or in states of another motion."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.reference import Reference
from jaxsim.dynamics.kinematics import difference, integrate
from jaxsim.model import Model, State


def starts_on(model: Model, clip: Reference, standing: State, starts: State) -> State:
    """Starts (n, ...) on a clip, with their deviations from ``standing`` carried over.

    The n times are spread over the clip evenly; the clock of each start shows its time.
    """
    n = len(starts.q)
    times = jnp.asarray(np.arange(n) / n * float(clip.duration()), standing.q.dtype)

    def one(start, time):
        now = clip.at(model, time)
        return replace(_carried(model, start, standing, now.q, now.qd), time=time)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(starts, times))


def starts_among(model: Model, states: State, standing: State, starts: State) -> State:
    """Starts (n, ...) of which the second half is moved to states of another motion.

    Their deviations from ``standing`` are carried over to the states (m, ...), which are taken
    evenly.
    """
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
    """Carry a start's deviation from ``standing`` over to another state."""
    off = difference(model, start.q, standing.q, free=False)
    q = integrate(model, q, off, jnp.ones((), off.dtype))
    return replace(start, q=q, qd=qd + start.qd - standing.qd)
