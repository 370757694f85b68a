"""Goals of a clip: joints, effectors and the centre of mass as in a reference motion.

Source: Jain, Ye, Liu (2009), section 8. Each goal asks for the velocity of the reference plus that
which takes its error to 1/e within ``FollowedClip.time``: unlike a goal on positions it does not
lag behind what moves. Places are relative to the middle between the feet, so that a body that took
a step follows the clip from where it stands then.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import StepState, bearing_feet, check_balances, fall_time
from controllers.goals.machine import GoalMachine
from controllers.goals.response import Response
from controllers.goals.sensors import support_center, support_margin
from controllers.goals.tasks import Goal
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.dynamics.kinematics import (
    Kinematics,
    difference,
    forward_kinematics,
    point_velocity,
)
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.model import Model, State
from jaxsim.model.part import main_part
from jaxsim.model.roles import FEET, HANDS
from jaxsim.synthesis.observation import EffectorObservation

if TYPE_CHECKING:
    from controllers.tracking.reference import Instant, Reference

POSE, EFFECTORS, COM = "clip_pose", "clip_effectors", "clip_com"
ENDS = (*HANDS, "head")  # roles of the links that ``clip_effectors`` brings to their places
DAMPING = 0.1  # weight of damping while the joints follow
FASTEST = 5.0  # correction of a joint's angle, at most [rad/s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FollowedClip:
    """Reference motion that goals follow, of the character alone."""

    reference: Reference
    begin: Array | float = 0.0  # time of the clip at the start [s]
    time: Array | float = 0.5  # in which an error falls to 1/e without other goals [s]
    inside: Array | float = 0.08  # depth of the capture point in the support [heights of the com]

    @classmethod
    def of(
        cls, model: Model, reference: Reference, begin: float = begin, time: float = time
    ) -> FollowedClip:
        """Clip from a reference of a whole model."""
        part, dtype = main_part(model.topology), model.mass.dtype
        own = dataclasses.replace(
            reference, q=reference.q[:, part.q], qd=reference.qd[:, part.dofs]
        )
        return cls(own, *(jnp.asarray(x, dtype) for x in (begin, time, cls.inside)))

    def at(self, model: Model, time: Array) -> Instant:
        """Instant of the reference at a time () of the simulation [s]."""
        return self.reference.at(model, time + self.begin)


@dataclass(frozen=True)
class ClipWeights:
    """Weights or responses of the goals of a clip."""

    pose: float | Response = 1.0
    effectors: float | Response = 1.0
    com: float | Response = 10.0


@cache
def clip_pose() -> Goal:
    """Joint angles, and the orientation of the root in the world.

    A correction is at most ``FASTEST`` in each degree of freedom.
    """

    def rows(obs: EffectorObservation, _):
        conf, now = obs.conf, _now(obs)
        top = conf.model.topology
        dofs = np.setdiff1d(np.arange(top.nv), top.v_start[top.joints_of("free")[0]] + np.arange(3))
        back = difference(conf.model, now.q, conf.q)[dofs] / obs.clip.time
        target = now.qd[dofs] + jnp.clip(back, -FASTEST, FASTEST)
        return -target, jnp.eye(top.nv, dtype=conf.v.dtype)[dofs]

    return Goal(POSE, "rate", rows, "velocity")


@cache
def clip_effectors() -> Goal:
    """Hands and head at their places in the reference, relative to the middle between the feet."""

    def rows(obs: EffectorObservation, _):
        conf, now = obs.conf, _now(obs)
        model, kin = conf.model, conf.kin
        there, ends = forward_kinematics(model, now.q, now.qd), np.array([*map(conf.link, ENDS)])
        moves = [point_jacobian(model, kin, k, kin.com[k]) - _feet_jacobian(obs) for k in ends]
        velocity = point_velocity(there, ends, there.com[ends]) - _feet_velocity(model, there)
        apart = there.com[ends] - _feet_place(model, there)
        apart = apart - (kin.com[ends] - _feet_place(model, kin))
        target = velocity + apart / obs.clip.time
        return -target.reshape(-1), jnp.concatenate(moves)

    return Goal(EFFECTORS, "com", rows, "velocity")


@cache
def clip_com() -> Goal:
    """Centre of mass at its place in the reference, relative to the middle between the feet.

    The capture point that the velocity leads to stays in the support, as the reference's may not:
    mass and feet are not those of the person who was recorded.
    """

    def rows(obs: EffectorObservation, step: StepState):
        conf, now = obs.conf, _now(obs)
        there = forward_kinematics(conf.model, now.q, now.qd)
        place = now.com - _feet_place(conf.model, there)
        velocity = now.com_velocity - _feet_velocity(conf.model, there)
        here = conf.com - _feet_place(conf.model, conf.kin)
        target = velocity + (place - here) / obs.clip.time
        target = target.at[:2].set(_supported(obs, step, target[:2]))
        return -target, conf.com_jacobian - _feet_jacobian(obs)

    return Goal(COM, "com", rows, "velocity")


def _supported(obs: EffectorObservation, step: StepState, velocity: Array) -> Array:
    """Velocity (2,) of the centre of mass [m/s], limited so that its capture point is supported.

    The point moves towards the middle of the support; without a foot on the ground it stays.
    """
    bearing, place, lasts = bearing_feet(obs, step), obs.conf.com[:2], fall_time(obs)
    middle = support_center(obs, bearing)
    point = place + lasts * velocity
    inside = support_margin(obs, bearing, middle) - obs.clip.inside * obs.height
    beyond = support_margin(obs, bearing, point) - obs.clip.inside * obs.height
    share = jnp.clip(safe_divide(inside, inside - beyond, 1.0), 0.0, 1.0)
    share = jnp.where((beyond < 0) & bearing.any(), share, 1.0)
    return (middle + share * (point - middle) - place) / lasts


def following_error(obs: EffectorObservation) -> Array:
    """Mean distance () of the links from their places in the reference [m], from the pelvis."""
    model, now = obs.conf.model, _now(obs)
    here = obs.conf.kin.link_pos
    there = forward_kinematics(model, now.q, jnp.zeros_like(now.qd)).link_pos
    root = obs.conf.link("pelvis")
    return jnp.mean(safe_norm((here - here[root]) - (there - there[root]), axis=-1))


@jax.jit
def on_ground(model: Model, state: State) -> State:
    """State moved up or down until the character's lowest point is at height 0, as the ground is.

    Feet of a clip may be millimetres above the ground or below it.
    """
    part = main_part(model.topology)
    body = part.of(model)
    kin = forward_kinematics(body, state.q[part.q], state.qd[part.dofs])
    height = part.q[body.topology.q_start[body.topology.joints_of("free")[0]] + 2]
    return state.replace(q=state.q.at[height].add(-lowest_point(body, kin)))


def following(machine: GoalMachine, weights: ClipWeights = ClipWeights()) -> GoalMachine:
    """Balance machine that follows the clip of its controller.

    While it stands, goals of the clip that have a weight replace goals of balance: the pose that of
    the spine, and damping, and the centre of mass of the clip that over the feet. Protective steps
    stay as they are. Raises ValueError for a machine that does not balance.
    """
    check_balances(machine, "a clip")
    instead: dict[str, float] = {}
    if weights.pose:
        machine = machine.adding(clip_pose(), {"balance": weights.pose})
        instead |= {"spine": 0.0, "damping": DAMPING}
    if weights.effectors:
        machine = machine.adding(clip_effectors(), {"balance": weights.effectors})
    if weights.com:
        machine = machine.adding(clip_com(), {"balance": weights.com})
        instead |= {"com": 0.0}
    stands = machine.states["balance"]
    stands = dataclasses.replace(stands, goals={**stands.goals, **instead})
    return dataclasses.replace(machine, states={**machine.states, "balance": stands})


def _now(obs: EffectorObservation) -> Instant:
    return obs.clip.at(obs.conf.model, obs.time)


def _feet(model: Model) -> np.ndarray:
    return np.array(model.topology.parts(FEET))


def _feet_place(model: Model, kin: Kinematics) -> Array:
    return jnp.mean(kin.com[_feet(model)], axis=0)


def _feet_velocity(model: Model, kin: Kinematics) -> Array:
    feet = _feet(model)
    return jnp.mean(point_velocity(kin, feet, kin.com[feet]), axis=0)


def _feet_jacobian(obs: EffectorObservation) -> Array:
    conf = obs.conf
    Js = [point_jacobian(conf.model, conf.kin, k, conf.kin.com[k]) for k in _feet(conf.model)]
    return sum(Js[1:], Js[0]) / len(Js)
