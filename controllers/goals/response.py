"""Goals by response: a time constant and a priority in place of a weight.

A weight says how much an error counts in a step, so its effect depends on the goal's unit, on the
other goals and on the time step. A response states the visible effect: the error falls as that of a
critically damped spring does. The rows ask for the velocity of that spring at the step's end,

    e'' = -2 e' / tau - e / tau^2,  J v' = (J v - dt e / tau^2) / (1 + dt / tau)^2  (implicit),

with tau = time / 2.146, which takes the error from rest to 1/e in ``time``. A goal on velocities
approaches its target as exp(-t / time).

The rows' weight is the priority divided by the goal's mobility: c = mean diag(J H^-1 J^T), where H
is the cost of a step to the goal ``damping`` of weight 1 and the points in contact, which stay.
Against damping of weight d alone, a step takes the share w c / (w c + d) of the requested velocity;
the loss in each step acts as a damper that makes the damping ratio 1 + d / priority, where w c =
priority tau / (2 dt), whatever the goal, its unit, the body's size and the time step. A goal that
the whole body could serve but only one limb is free to, such as a far reach of a balancing
character, is slower than that.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.math.safe import safe_divide
from jaxsim.synthesis.config import Units
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.tasks import TaskRows, root_of_weight, velocity_rows

TO_63 = 2.1461932206205825  # (1 + x) exp(-x) = 1 / e


@dataclass(frozen=True)
class Response:
    """Time constant and priority of a goal, in place of its weight.

    time [s]: in which 63% of an error vanish, from rest, without other goals; priority: against the
    goal ``damping`` of weight d the goal is slower by about 1 + d / priority. Of two conflicting
    goals the one of higher priority gets more. Raises ValueError for a time that is not positive, a
    priority below zero.
    """

    time: float
    priority: float = 3.0

    def __post_init__(self):
        if not (np.isfinite(self.time) and self.time > 0):
            raise ValueError(f"time is {self.time} s; a time constant is positive, such as 0.3")
        if not (np.isfinite(self.priority) and self.priority >= 0):
            raise ValueError(f"priority is {self.priority}; it is zero or more, such as 3")


def ease(conf: Configuration, stays: Array, unit: Units, dt: Array | float) -> Array:
    """Lower Cholesky factor (nv, nv) of H; stays (ne,) bool: the points that are in contact."""
    moved = jnp.where(stays[:, None, None], conf.jacobian, 0.0).reshape(-1, conf.v.shape[0])
    moved = dt / unit.contact * moved
    H = moved.T @ moved + jnp.eye(conf.v.shape[0], dtype=conf.v.dtype) / unit.rate**2
    return lax.linalg.cholesky(H, symmetrize_input=False)


def response_rows(
    conf: Configuration,
    goal_rows: tuple[Array, Array],
    level: str,
    at_v: Array,
    time: Array,
    priority: Array,
    factor: Array,
    dt: Array | float,
) -> TaskRows:
    """Task rows of a goal by its response, from its error and J at the velocity ``at_v`` (nv,).

    conf: of the step's beginning; factor: of ``ease``; time [s] and priority: ().
    """
    error, J = goal_rows
    if level == "velocity":
        span, target = time, (J @ conf.v - dt / time * error) / (1 + dt / time)
    else:
        tau = time / TO_63
        span = tau / 2
        now = error - dt * (J @ at_v)
        target = (J @ conf.v - dt / tau**2 * now) / (1 + dt / tau) ** 2
    eased = lax.linalg.triangular_solve(factor, J.T, left_side=True, lower=True)
    rows = jnp.maximum(jnp.sum(jnp.any(J != 0, axis=1)), 1)  # those that are asked for now
    moves = jnp.sum(eased**2) / rows
    weight = safe_divide(priority * span / dt, moves)
    return velocity_rows(J, target, root_of_weight(weight))
