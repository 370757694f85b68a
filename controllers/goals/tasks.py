"""Kinematic goals: an error and its Jacobian, with a unit; the states of a machine weigh them.

Source: Jain, Ye, Liu (2009), sections 5.1 and 6.1. Each is a small function of the observation and
of the machine's variables; ``residual_goal`` differentiates an error without a Jacobian. Goals
without functions as arguments are cached, so that machines that have them can be composed.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.jacobians import angular_jacobian
from jaxsim.dynamics.kinematics import integrate
from jaxsim.dynamics.momentum import angular_momentum_jacobian
from jaxsim.math.rotation import cross, rotate
from jaxsim.math.safe import safe_sqrt
from jaxsim.synthesis.config import Units
from jaxsim.synthesis.observation import EffectorObservation

VANISH = {"force": "contact forces", "torque": "torques"}  # levels without rows on the velocity
LEVELS = ("position", "velocity", *VANISH)
OVERTURNED = 0.1  # [rad]


@dataclass(frozen=True)
class Goal:
    """Weighted objective of a machine, as an error (m,) and its Jacobian J (m, nv).

    ``rows(obs, memory)`` gives both, with d error / dt = J v. Of a goal on velocities the error is
    minus the velocity that J v is to have. Of a goal on forces rows gives (ne,) bool: effectors
    whose contact forces are to vanish; of one on torques (nv,) bool: dofs whose torques are to
    vanish, relative to their limits. unit: a field of ``synthesis.config.Units``, or "one".
    """

    name: str
    unit: str
    rows: Callable[[EffectorObservation, Any], Any]
    level: str = "position"

    def __post_init__(self):
        units = ["one", *(field.name for field in fields(Units))]
        if self.unit not in units:
            raise ValueError(
                f"goal {self.name!r}: unit {self.unit!r}; there are {', '.join(units)}"
            )
        if self.level not in LEVELS:
            raise ValueError(f"goal {self.name!r}: level {self.level!r}; there are {LEVELS}")


def residual_goal(
    name: str, unit: str, residual: Callable[[EffectorObservation, Any], Array]
) -> Goal:
    """Goal from its error (m,) alone; the Jacobian is found by forward differentiation."""

    def rows(obs: EffectorObservation, memory):
        conf = obs.conf

        def error(v):
            q = integrate(conf.model, conf.q, v, 1.0)
            return residual(obs.with_conf(conf.at(q, conf.v)), memory)

        zero = jnp.zeros_like(conf.v)
        return error(zero), jax.jacfwd(error)(zero)

    return Goal(name, unit, rows)


@cache
def damping() -> Goal:
    """Gqv: joint velocities at zero, against sudden movements."""
    return Goal(
        "damping",
        "rate",
        lambda obs, _: (jnp.zeros_like(obs.conf.v), jnp.eye(obs.conf.v.shape[0])),
        "velocity",
    )


def com_over(
    name: str, where: Callable[[EffectorObservation, Any], Array], unit: str = "com"
) -> Goal:
    """Gcp, Gcf: centre of mass over a point (2,) of the ground."""

    def rows(obs: EffectorObservation, memory):
        conf = obs.conf
        return conf.com[:2] - where(obs, memory), conf.com_jacobian[:2]

    return Goal(name, unit, rows)


def com_velocity(name: str, target: Callable[[EffectorObservation, Any], Array]) -> Goal:
    """Gcv: centre of mass with a velocity (3,)."""

    def rows(obs: EffectorObservation, memory):
        return -target(obs, memory), obs.conf.com_jacobian

    return Goal(name, "com", rows, "velocity")


def angular_momentum(name: str, target: Callable[[EffectorObservation, Any], Array]) -> Goal:
    """Angular momentum about the centre of mass at a target (3,) [N m s].

    Source: Macchietto, Zordan, Shelton (2009), "Momentum control for balance".
    """

    def rows(obs: EffectorObservation, memory):
        conf = obs.conf
        return -target(obs, memory), angular_momentum_jacobian(conf.model, conf.kin)

    return Goal(name, "momentum", rows, "velocity")


def tilt(spine: Array) -> Array:
    """Horizontal rotation vector (2,) [rad] that brings a unit vector (3,) to the vertical.

    To first order it is their cross product, but its length is the angle, so that it also says how
    to get up from far down. Within ``OVERTURNED`` of upside down, where neither way up is shorter,
    it falls off to zero; value and slope stay finite.
    """
    square = spine[0] ** 2 + spine[1] ** 2
    small = (square < 1e-3) & (spine[2] > 0)  # where angle / sine is better found by its series
    sine = safe_sqrt(jnp.where(small, 1.0, square))
    series = 1 + square * (1 / 6 + square * (3 / 40 + square * (5 / 112 + square * 35 / 1152)))
    least = jnp.where(spine[2] < 0, np.sin(OVERTURNED), 0.0)
    far = jnp.arctan2(sine, spine[2]) / jnp.maximum(sine, least)
    return jnp.where(small, series, far) * jnp.stack([spine[1], -spine[0]])


@cache
def upright(link: str) -> Goal:
    """Gspine: up axis of a link, by its role or name, along the vertical; the error is ``tilt``.

    The axis is that of the standing body: of a chest ``Roles.up``, of others the z axis. The error
    of Jain, Ye, Liu (2009) is the cross product, which shrinks beyond 90 degrees.
    """

    def rows(obs: EffectorObservation, _):
        conf = obs.conf
        index = conf.link(link)
        up = conf.model.topology.roles.up if link == "chest" else (0.0, 0.0, 1.0)
        spine = rotate(conf.kin.link_rot[index], jnp.asarray(up, conf.q.dtype))
        turn = angular_jacobian(conf.model, conf.kin, index)  # (3, nv)
        change = cross(turn.T, spine[None, :])  # (nv, 3) d spine / dt
        return tilt(spine), jax.jacfwd(tilt)(spine) @ change.T

    return Goal("spine", "one", rows)


def pose(
    name: str, joints: tuple[str, ...], target: Callable[[EffectorObservation, Any], Array]
) -> Goal:
    """Gpose: hinges at angles (len(joints),) [rad]."""

    def rows(obs: EffectorObservation, memory):
        top = obs.conf.model.topology
        q = np.array([top.q_start[top.joint(j)] for j in joints])
        v = np.array([top.dof(j) for j in joints])
        J = np.zeros((len(joints), top.nv))
        J[np.arange(len(joints)), v] = 1.0
        return obs.conf.q[q] - target(obs, memory), jnp.asarray(J, obs.conf.q.dtype)

    return Goal(name, "angle", rows)


def reach(
    name: str,
    effector: str,
    target: Callable[[EffectorObservation, Any], Array],
    start: Array | float = -jnp.inf,
    end: Array | float = jnp.inf,
    onset: float = 0.0,
) -> Goal:
    """Effector at a point (3,) of the world, from time ``start`` until ``end`` [s].

    The weight grows to its value in the first ``onset`` [s]: at once, a body far from the point
    would jerk. Raises KeyError, when the goal is first used, for an effector that the body lacks.
    """

    def rows(obs: EffectorObservation, memory):
        conf = obs.conf
        names = conf.effectors.names
        if effector not in names:
            raise KeyError(f"goal {name!r}: no effector {effector!r}; there are {', '.join(names)}")
        at = names.index(effector)
        now = (obs.time >= start) & (obs.time < end)
        part = jnp.clip((obs.time - start) / onset, 0.0, 1.0) if onset else 1.0
        root = jnp.where(now, part * part * (3 - 2 * part), 0.0)  # of the weight
        return root * (conf.position[at] - target(obs, memory)), root * conf.jacobian[at]

    return Goal(name, "limb", rows)


def relax(name: str, whose: Callable[[EffectorObservation, Any], Array]) -> Goal:
    """Gc: contact forces of some effectors (ne,) bool at zero."""
    return Goal(name, "force", whose, "force")


@cache
def effort() -> Goal:
    """Torques of all joints at zero, relative to their limits.

    A small weight slowly reduces the forces with which limbs that hold on pull against one another.
    """
    return Goal("effort", "one", lambda obs, _: np.ones(obs.conf.v.shape[0], bool), "torque")
