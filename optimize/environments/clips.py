"""Beginnings of episodes anywhere on a clip."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from controllers.tracking.reference import Reference
from jaxsim.dynamics.kinematics import difference, integrate
from jaxsim.model import Model, State


def starts_on(model: Model, clip: Reference, standing: State, starts: State) -> State:
    """Deviations of starts (n, ...) from ``standing``, carried over to states of a clip at n times
    that are spread over it evenly; the clock of each shows its time."""
    n = len(starts.q)
    times = np.arange(n) / n * float(clip.duration())

    def one(start, time):
        now = clip.at(model, time)
        off = difference(model, start.q, standing.q, free=False)
        q = integrate(model, now.q, off, jnp.ones((), off.dtype))
        return replace(start, q=q, qd=now.qd + start.qd - standing.qd, time=time)

    times = jnp.asarray(times, standing.q.dtype)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(starts, times))
