"""Dismount from a bar: swing, brake, let go so that the feet land below the body, and stand.

Existing machines, composed (``controllers.goals.compose``), with a flight between them. Source of
the swing and of balance: Jain, Ye, Liu (2009), sections 6.1.2 and 6.3; the paper has no dismount.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.balance import FIRM, balance_machine, heading
from controllers.goals.compose import Submachine, composed
from controllers.goals.hinges import LEFT
from controllers.goals.hold_on import holding, let_go, on_ground
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.sensors import gravity, pendulum_time
from controllers.goals.swing import Swing, hang, swing_machine
from controllers.goals.tasks import Goal
from jaxsim.math.safe import safe_norm, safe_sqrt
from jaxsim.model.roles import FEET, HANDS, SIDES, THIGHS
from jaxsim.synthesis.observation import EffectorObservation

LEGS = {"Thigh": -LEFT, "Shank": LEFT}  # about which axis of the body legs are tucked
TUCKED = tuple((f"{side}{part}", axis, 90.0) for side in SIDES for part, axis in LEGS.items())
FIRMLY = Response(0.2, 30.0)  # of a pose on the bar
FALLS = 0.3  # it has not landed, and takes no step, while it falls faster [m/s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dismount:
    """Numbers of release and landing, and the memory of the swing.

    Fields may be arrays: a search may change them. Lengths are in heights of the standing body's
    centre of mass.
    """

    least: Array | float = 0.5  # angle back that ends the swinging [rad]
    most: Array | float = 0.5  # largest angle back that ends the braking [rad]
    slow: Array | float = 0.5  # speed in front below which the legs are tucked [sqrt(height g)]
    spread: Array | float = 0.2  # angle in front at which they are stretched again [rad]
    tuck: Array | float = 1.2  # factor on the angles of the pose ``TUCKED`` while braking
    ahead: Array | float = 0.0  # distance beyond ``feet_ahead`` of the landing at release
    reach: Array | float = 0.5  # factor on ``feet_ahead``, which is for a body without rotation
    legs: Array | float = 0.95  # height of the centre of mass above the soles at the landing
    stands: Array | float = 1.0  # height of the centre of mass after the landing
    back: Array | float = 0.0  # largest angle back since the body was in front of the bar [rad]


def swung_back(obs: EffectorObservation, now: Dismount) -> Dismount:
    """Update the largest angle back since the body was last in front of the bar."""
    angle = hang(obs).angle
    return replace(now, back=jnp.where(angle > 0, 0.0, jnp.maximum(now.back, -angle)))


def anew(obs: EffectorObservation, now: Dismount) -> Dismount:
    """Reset the angle back, for another swing."""
    return replace(now, back=jnp.zeros_like(now.back))


def landing(obs: EffectorObservation, now: Dismount) -> tuple[Array, Array]:
    """Time () from letting go now to the landing of the feet [s], and fall speed () then [m/s].

    The feet land ``Dismount.legs`` below the centre of mass; at once, if the body is so low
    already.
    """
    up, g = obs.com_velocity[2], gravity(obs)
    drop = jnp.maximum(obs.com[2] - _ground(obs) - now.legs * obs.height, 0.0)
    fall = safe_sqrt(up**2 + 2 * g * drop)
    return jnp.maximum((up + fall) / g, 0.0), fall


def feet_ahead(obs: EffectorObservation, now: Dismount) -> Array:
    """Horizontal offset (2,) from centre of mass to feet for a landing that comes to rest [m].

    Legs that stop the fall w push along the line to the centre of mass, x back and h up, and take w
    x / h from its velocity v; the remaining capture point is above the feet where x = t (v - w x /
    h), with t the time constant of falling over.
    """
    time, fall = pendulum_time(obs, obs.height), landing(obs, now)[1]
    stopped = 1 + fall * time / (now.legs * obs.height)
    return now.reach * time / stopped * obs.com_velocity[:2]


def lands_ahead(obs: EffectorObservation, now: Dismount) -> Array:
    """Distance () beyond ``feet_ahead`` at which the feet would land after letting go now [m].

    Along the heading of the pelvis, for a body that continues to turn as it does about the bar.
    Feet and centre of mass fall alike: only the rotation of one about the other matters.
    """
    seen, forward = hang(obs), heading(obs)
    hands = np.any([obs.group(name) for name in HANDS], axis=0)
    rate = seen.speed / safe_norm(obs.com - obs.place(hands))
    feet, turn = obs.place(_feet(obs)) - obs.com, rate * landing(obs, now)[0]
    lands = feet[:2] @ forward * jnp.cos(turn) - feet[2] * jnp.sin(turn)
    return lands - feet_ahead(obs, now) @ forward


def _feet(obs: EffectorObservation) -> np.ndarray:
    return np.any([obs.group(name) for name in FEET], axis=0)


def _ground(obs: EffectorObservation) -> Array:
    """Height () of the ground below the feet [m]."""
    under = obs.conf.position[:, 2] - obs.conf.near.gap
    return jnp.min(jnp.where(_feet(obs), under, jnp.inf))


def feet_to_land() -> Goal:
    """Feet below the capture point, level and along the pelvis, each to its own side by its hip.

    Heels and balls are where the body could stand if it landed now.
    """

    def rows(obs: EffectorObservation, now: Dismount):
        conf, forward = obs.conf, heading(obs)
        goes = feet_ahead(obs, now)
        errors, Js = [], []
        hips = [conf.kin.link_pos[conf.link(name)][:2] for name in THIGHS]
        for name, hip, other in zip(FEET, hips, reversed(hips)):
            ends = [np.array([e.startswith(f"{name}{end}") for e in conf.effectors.names])
                    for end in ("Heel", "Ball")]  # fmt: skip
            parts = [jnp.asarray(end / end.sum(), conf.q.dtype) for end in ends]
            heel, ball = (part @ conf.position for part in parts)
            half = safe_norm(ball - heel) / 2
            for part, at, sign in zip(parts, (heel, ball), (-1.0, 1.0)):
                place = conf.com[:2] + goes + (hip - other) / 2 + sign * half * forward
                errors.append(at - jnp.append(place, conf.com[2] - now.legs * obs.height))
                J = jnp.einsum("e,eij->ij", part, conf.jacobian)
                Js.append(J - conf.com_jacobian)
        return jnp.concatenate(errors), jnp.concatenate(Js)

    return Goal("feet", "limb", rows)


def braking(obs: EffectorObservation, now: Dismount) -> Array:
    """Degree () to which the legs are tucked to brake.

    They are tucked from near the front end of the swing until the body is on its way back through
    the lowest point. The centre of mass approaches the bar where it pulls least, and recedes where
    it pulls most: in each swing it loses the work m (g + v^2 / r) dr, more than it gains.
    """
    seen = hang(obs)
    slow = now.slow * jnp.sqrt(gravity(obs) * obs.height)
    return jnp.where((seen.angle > now.spread) & (seen.speed < slow), now.tuck, 0.0)


def height() -> Goal:
    """Centre of mass ``Dismount.stands`` above the ground below the feet."""

    def rows(obs: EffectorObservation, now: Dismount):
        conf = obs.conf
        error = conf.com[2] - _ground(obs) - now.stands * obs.height
        return error[None], conf.com_jacobian[2:]

    return Goal("height", "com", rows)


def _lets_go(obs: EffectorObservation, now: Dismount) -> Array:
    """True while the body swings forward and its feet would land at ``feet_ahead``."""
    return (hang(obs).speed > 0) & (lands_ahead(obs, now) > now.ahead * obs.height)


def _turns(obs: EffectorObservation) -> Array:
    """True while the body is behind the bar and swings forward, so that its angle back is known."""
    seen = hang(obs)
    return (seen.angle < 0) & (seen.speed > 0)


def _comes(obs: EffectorObservation) -> Array:
    """True while the body is behind the bar, or swings forward."""
    seen = hang(obs)
    return (seen.angle < 0) | (seen.speed > 0)


def _swings(obs: EffectorObservation, now: Dismount) -> Array:
    """Condition of ``swing``: the body has not swung back far enough."""
    return (holding(obs) == 2) & ((now.back <= now.least) | ~_turns(obs))


def _brakes(obs: EffectorObservation, now: Dismount) -> Array:
    """Condition of ``brake``: the body swings back further than allowed."""
    return (holding(obs) == 2) & ((now.back > now.most) | ~_turns(obs))


def _waits(obs: EffectorObservation, now: Dismount) -> Array:
    """Condition of ``wait``: the body comes forward from a swing that is short enough."""
    return (holding(obs) == 2) & (now.back <= now.most) & _comes(obs) & ~_lets_go(obs, now)


def _flies(obs: EffectorObservation, now: Dismount) -> Array:
    """Condition of ``fly``: the hands have let go, or are to, and no foot touches."""
    free = (holding(obs) == 0) | _lets_go(obs, now)
    return free & ~(obs.touching & _feet(obs)).any()


def _lands(obs: EffectorObservation, _: Dismount) -> Array:
    """Condition of ``land``: the body is on the ground and still falls."""
    return on_ground(obs) & (obs.com_velocity[2] < -FALLS)


def _stands(obs: EffectorObservation, _: Dismount) -> Array:
    """Condition of ``stand``: the body is on the ground."""
    return on_ground(obs)


def dismount_machine(
    joints: Sequence[str],
    angles: Array | np.ndarray,
    tucked: Array | np.ndarray,
    stiff: Sequence[str],
    dismount: Dismount | None = None,
    swing: Swing | None = None,
) -> GoalMachine:
    """Machine that swings, brakes, lets go and lands on the feet.

    The body swings (``swing``) until it has swung back far enough; brakes by its legs (``brake``)
    until it swings back no further than allowed; comes forward straight (``wait``) until the feet
    would land at ``feet_ahead``; lets go, and brings them there (``fly``); stays upright until its
    fall is stopped (``land``); and balances (``stand``).

    joints: of the body, with their angles where it is straight and where its legs are tucked [rad];
    stiff: those of them that are stiff during the swing.
    """

    at, legs = np.asarray(angles), np.asarray(tucked) - np.asarray(angles)
    stiff_angles = at[[list(joints).index(name) for name in stiff]]

    def tucks(obs: EffectorObservation, now: Dismount):
        dtype = obs.conf.q.dtype
        return jnp.asarray(at, dtype) + braking(obs, now) * jnp.asarray(legs, dtype)

    straight = goals.pose(
        "straight", tuple(stiff), lambda obs, _: jnp.asarray(stiff_angles, obs.conf.q.dtype)
    )
    swinging = swing_machine(stiff, stiff_angles, swing or Swing())
    standing = balance_machine().weighing(FIRM)
    upright = replace(standing.states["balance"], condition=lambda *_: jnp.asarray(True))
    landing_machine = replace(standing, states={"upright": upright}, transitions={})
    return composed(
        goals=(
            goals.damping(),
            goals.upright("chest"),
            goals.pose("brake", tuple(joints), tucks),
            straight,
            feet_to_land(),
            height(),
        ),
        states={
            "swing": Submachine(swinging, _swings, enter=anew, during=swung_back),
            "brake": GoalState({"damping": 0.1, "brake": FIRMLY}, _brakes, during=swung_back),
            "wait": GoalState({"damping": 0.1, "straight": 5.0}, _waits),
            "fly": GoalState(
                {"damping": 0.5, "spine": Response(0.3, 10.0), "feet": 3.0}, _flies, holds=let_go
            ),
            "land": Submachine(landing_machine, _lands, {"height": 5.0}, holds=let_go),
            "stand": Submachine(standing, _stands, {"height": 5.0}, holds=let_go),
        },
        transitions={
            "swing": ("wait", "brake"),
            "brake": ("wait",),
            "wait": ("fly", "swing"),
            "fly": ("land", "stand"),
            "land": ("stand", "fly"),
            "stand": ("fly",),
        },
        variables=dismount or Dismount(),
    )
