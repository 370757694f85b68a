"""Swinging machine: speed up the centre of mass about a bar, then swing passively.

Source: Jain, Ye, Liu (2009), section 6.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.tasks import Goal
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_normalize
from jaxsim.model.roles import HANDS
from jaxsim.synthesis.observation import EffectorObservation

UP = np.array([0.0, 0.0, 1.0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Swing:
    """Numbers of a swing. Fields may be arrays: a search may change them."""

    faster: Array | float = 1.0  # gain of speed requested of the centre of mass [m/s]
    threshold: Array | float = 0.5  # angle beyond which the body swings passively [rad]


@dataclass(frozen=True)
class Hang:
    """Position and speed of the body about the hands."""

    angle: Array  # () of the centre of mass about the hands, 0 below them, forward positive [rad]
    way: Array  # (3,) unit: along the circle, forward where it hangs
    speed: Array  # () of the centre of mass along that [m/s]


def hang(obs: EffectorObservation) -> Hang:
    """Angle, direction and speed of the centre of mass about the middle of the hands.

    In the plane across the line between the hands.
    """
    left, right = (obs.place(obs.group(name)) for name in HANDS)
    across = safe_normalize(left - right)
    arm = obs.com - (left + right) / 2
    arm = arm - across * jnp.sum(across * arm)
    way = safe_normalize(cross(safe_normalize(arm), across))
    forward = cross(across, jnp.asarray(UP, arm.dtype))
    angle = jnp.arctan2(jnp.sum(arm * forward), -arm[2])
    return Hang(angle, way, jnp.sum(obs.com_velocity * way))


def faster() -> Goal:
    """Gcv: centre of mass faster than it is by ``Swing.faster``, in its present direction."""

    def rows(obs: EffectorObservation, swing: Swing):
        now = hang(obs)
        wanted = now.speed + jnp.where(now.speed >= 0, swing.faster, -swing.faster)
        return -wanted[None], (now.way @ obs.conf.com_jacobian)[None]

    return Goal("faster", "com", rows, "velocity")


def as_fast() -> Goal:
    """Centre of mass at its present speed along the circle about the hands."""

    def rows(obs: EffectorObservation, _: Swing):
        now = hang(obs)
        return -now.speed[None], (now.way @ obs.conf.com_jacobian)[None]

    return Goal("as_fast", "com", rows, "velocity")


def swing_machine(
    joints: Sequence[str], angles: Array | np.ndarray, swing: Swing = Swing()
) -> GoalMachine:
    """Swinging machine with the two states of Jain, Ye, Liu (2009).

    The weights are those of their first swing. joints: those that the goal ``pose`` keeps at
    ``angles`` [rad], where it has a weight.
    """
    target = np.asarray(angles)

    def inside(obs: EffectorObservation, swing: Swing):
        return jnp.abs(hang(obs).angle) < swing.threshold

    def outside(obs: EffectorObservation, swing: Swing):
        return ~inside(obs, swing)

    return GoalMachine(
        goals=(
            goals.damping(),
            faster(),
            as_fast(),
            goals.pose("pose", tuple(joints), lambda obs, _: jnp.asarray(target, obs.conf.q.dtype)),
        ),
        states={
            "trySwing": GoalState({"damping": 0.1, "faster": 4.0, "pose": 0.0}, inside),
            "passiveSwing": GoalState({"damping": 0.1, "as_fast": 4.0, "pose": 0.0}, outside),
        },
        transitions={"trySwing": ("passiveSwing",), "passiveSwing": ("trySwing",)},
        variables=swing,
    )
