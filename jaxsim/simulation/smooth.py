"""Velocity products (centrifugal, Coriolis, gyroscopic forces) of second order in the step.

A semi-implicit Euler step evaluates them at its first instant: a tumbling body gains energy, the
faster the more. Here they are those of the pose half a step ahead, their mean over the step is that
of the classical Runge-Kutta method for the velocity at this pose, with all other forces, and the
pose moves with their effect at half the step. Forces, damping and the rows of contacts act as in
the step of first order.
"""

from collections.abc import Callable

from jax import Array

from jaxsim.dynamics.kinematics import (
    Kinematics,
    forward_kinematics,
    integrate,
    with_velocity,
)
from jaxsim.dynamics.rigid import bias_force
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.model.topology import WORLD, Topology

ORDERS = (None, 1, 2)
# weights of the stages in the mean, and times of those after the first, relative to the step
WEIGHTS, AHEAD = (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.5, 0.5, 1.0)


def second_order(top: Topology, order: int | None) -> bool:
    """True for order 2; None means 2 if every joint is to the world, where it costs little."""
    return all(parent == WORLD for parent in top.joint_parent) if order is None else order == 2


def halfway(model: Model, state: State, dt: Array | float) -> Kinematics:
    """Kinematics of the pose after half a step at the velocity of the state."""
    return forward_kinematics(model, integrate(model, state.q, state.qd, dt / 2), state.qd)


def mean_bias(
    model: Model,
    kin: Kinematics,
    qd: Array,
    bias: Array,
    gain: Callable[[Array], Array],
) -> Array:
    """(nv,) mean of the bias force over a step at one pose [N m or N].

    bias: that of qd (nv,), the first stage. gain(bias) (nv,): change of qd in the step under a bias
    force and all other forces.
    """
    mean = WEIGHTS[0] * bias
    for ahead, weight in zip(AHEAD, WEIGHTS[1:], strict=True):
        now = qd + ahead * gain(bias)
        bias = bias_force(model, with_velocity(model.topology, kin, now))
        mean = mean + weight * bias
    return mean
