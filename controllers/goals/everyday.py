"""Everyday goals: a head that looks at a place, a hand that waves.

They are added to a machine that keeps balance::

    machine = balance_machine().adding(look_at((2.0, 1.0, 1.5)), Response(0.3))
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import heading
from controllers.goals.tasks import Goal, reach
from jaxsim.dynamics.jacobians import angular_jacobian, point_jacobian
from jaxsim.math.rotation import cross, rotate
from jaxsim.math.safe import safe_normalize, safe_sqrt
from jaxsim.model.roles import HANDS, UPPER_ARMS
from jaxsim.synthesis.observation import EffectorObservation

Place = Sequence[float] | Array | Callable[[EffectorObservation, Any], Array]
RAISED = (0.15, 0.25, 0.3)  # of a hand that waves: forward, aside, up from its shoulder [heights]
HANGS = (0.0, 0.0, -0.7)  # the same of a hand that does nothing
RISES = 1.0  # duration in which a hand comes up [s]
SWING = 0.12  # how far it goes to either side [heights of the centre of mass]
BEHIND = 0.1  # [rad] angle from straight behind within which the head turns more slowly


def look_at(place: Place, link: str = "head", name: str = "look") -> Goal:
    """Point the forward axis of a link at a place (3,) of the world [m].

    link: by its role or name; its forward axis is that of the standing body. place: three numbers,
    or a function of observation and memory. The error is the rotation vector (3,) between the two
    directions, as long as the angle [rad]; within ``BEHIND`` of straight behind, where neither way
    round is shorter, it falls off to zero.
    """
    where = _function(place)

    def rows(obs: EffectorObservation, memory: Any):
        conf, index = obs.conf, obs.conf.link(link)
        forward = jnp.asarray(conf.model.topology.roles.forward, conf.q.dtype)
        axis, eye = rotate(conf.kin.link_rot[index], forward), conf.kin.com[index]
        target = where(obs, memory)

        def error(axis, eye):
            return _turned(safe_normalize(target - eye), axis)

        by_axis, by_eye = jax.jacfwd(error, (0, 1))(axis, eye)
        turns = cross(angular_jacobian(conf.model, conf.kin, index).T, axis[None, :]).T  # (3, nv)
        moves = point_jacobian(conf.model, conf.kin, index, eye)
        return error(axis, eye), by_axis @ turns + by_eye @ moves

    return Goal(name, "one", rows)


def _turned(to: Array, axis: Array) -> Array:
    """Rotation vector (3,) [rad], negated, that brings one unit vector to another."""
    across, along = cross(to, axis), jnp.sum(to * axis)
    square = jnp.sum(across**2)
    small = (square < 1e-3) & (along > 0)  # where angle / sine is better found by its series
    sine = safe_sqrt(jnp.where(small, 1.0, square))
    series = 1 + square * (1 / 6 + square * (3 / 40 + square * 5 / 112))
    least = jnp.where(along < 0, np.sin(BEHIND), 0.0)
    return jnp.where(small, series, jnp.arctan2(sine, along) / jnp.maximum(sine, least)) * across


def wave(
    hand: str = "rightHand",
    frequency: float = 1.0,
    start: float = 0.0,
    end: float = np.inf,
    name: str = "wave",
) -> Goal:
    """Raise a hand beside its shoulder and move it from side to side there.

    ``RAISED`` and ``SWING`` give the distances in heights, so that a child waves as an adult does;
    frequency: waves a second, from ``start`` to ``end`` [s]; the hand rises within ``RISES``.

    With a ``Response`` of time T the hand follows with 1 / (1 + (2.93 frequency T)^2) of the width.
    Raises ValueError for an unknown hand, a start that is not finite, and a frequency that is not
    positive.
    """
    if hand not in HANDS:
        raise ValueError(f"hand is {hand!r}; choose from {', '.join(HANDS)}")
    if not (np.isfinite(frequency) and frequency > 0):
        raise ValueError(f"frequency is {frequency}; give so many waves a second, such as 1")
    if not np.isfinite(start):
        raise ValueError(f"start is {start} s; a wave begins at a time")
    side = HANDS.index(hand)

    def place(obs: EffectorObservation, _: Any) -> Array:
        conf = obs.conf
        ahead = heading(obs)
        out = jnp.stack([-ahead[1], ahead[0]]) * (1.0 if side == 0 else -1.0)
        since = obs.time - start
        part = jnp.clip(since / RISES, 0.0, 1.0)
        part = part * part * (3 - 2 * part)
        forward, aside, up = (1 - part) * jnp.asarray(HANGS) + part * jnp.asarray(RAISED)
        aside = aside + part * SWING * jnp.sin(2 * np.pi * frequency * since)
        shoulder = conf.kin.link_pos[conf.link(UPPER_ARMS[side])]
        return shoulder + obs.height * jnp.append(forward * ahead + aside * out, up)

    return reach(name, hand, place, start, end)


def _function(place: Place) -> Callable[[EffectorObservation, Any], Array]:
    if callable(place):
        return place
    fixed = np.asarray(place, float)
    if fixed.shape != (3,) or not np.isfinite(fixed).all():
        raise ValueError(f"place is {place!r}; give three finite numbers [m], or a function")
    return lambda obs, _: jnp.asarray(fixed, obs.conf.q.dtype)
