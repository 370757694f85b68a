"""Machine that stays aboard of a moving vehicle: balance, steps, grips in reach, hanging, swinging.

Existing machines, composed; conditions alone select the active one. Source: Jain, Ye, Liu (2009),
section 6.4, the cable car.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.balance import Gait, balance_machine
from controllers.goals.compose import Submachine, composed
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.sensors import reachable_points
from controllers.goals.surroundings import ARMS, STEEP
from controllers.goals.swing import Swing, swing_machine
from controllers.goals.tasks import Goal
from jaxsim.math.safe import safe_norm
from jaxsim.model.roles import FEET
from jaxsim.synthesis.holds import NO_HOLD
from jaxsim.synthesis.observation import EffectorObservation

HANDS = 2.0  # weight of hands on their way to a hold, as of a hand that reaches
LEGS = 1.0  # weight of legs that swing to stay as the body stands
GROUND = 0.1  # of its height: feet that are nearer to a surface have ground below them


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Caution:
    """Thresholds for taking hold and letting go, and the memory of alarms.

    Fields may be arrays: a search may change them.
    """

    alarm: Array | float = 0.3  # sway above which the hands take hold [m/s]
    calm: Array | float = 3.0  # time without an alarm after which they let go [s]
    still: Array | float = 1.0  # time of hanging by both hands after which it swings [s]
    alarmed: Array | float = -1e3  # time of the last alarm [s]
    fell: Array | float = 0.0  # time since which it hangs by both hands [s]


def sway(obs: EffectorObservation) -> Array:
    """Horizontal speed () of the centre of mass relative to the feet on the ground [m/s]."""
    feet = obs.touching & np.any([obs.group(name) for name in FEET], axis=0)
    part = jnp.where(feet, 1.0, 0.0).astype(obs.conf.v.dtype)
    ground = part @ obs.conf.velocity / jnp.maximum(jnp.sum(part), 1.0)
    return safe_norm((obs.conf.com_velocity - ground)[:2])


def on_ground(obs: EffectorObservation) -> Array:
    """() bool: a foot touches the ground below it, or is about to; a wall is no ground."""
    feet, near = np.any([obs.group(name) for name in FEET], axis=0), obs.conf.near
    below = near.normal[:, 2] > STEEP
    return (feet & below & (near.gap < GROUND * obs.height)).any()


def holding(obs: EffectorObservation) -> Array:
    """Number () of hands that hold on."""
    now = obs.conf.holds
    assert now is not None
    hands = np.flatnonzero(now.holds.hands)
    return jnp.sum(jnp.where(now.grips.held[hands] != NO_HOLD, 1, 0))


def notice(obs: EffectorObservation, caution: Caution) -> Caution:
    """Update the time of the last alarm, and the time since which both hands hang."""
    shaken = on_ground(obs) & (sway(obs) > caution.alarm)
    hangs = ~on_ground(obs) & (holding(obs) == 2)
    return replace(
        caution,
        alarmed=jnp.where(shaken, obs.time, caution.alarmed),
        fell=jnp.where(hangs, caution.fell, obs.time),
    )


def take_hold(obs: EffectorObservation, _: Caution) -> Array:
    """Hold (ng,) requested by each gripper: hands keep their holds, and take those in reach."""
    now = obs.conf.holds
    assert now is not None
    held = now.grips.held
    wanted = jnp.where(held != NO_HOLD, held, now.in_reach(obs.conf.position))
    return jnp.where(np.array(now.holds.hands), wanted, NO_HOLD)


def let_go(obs: EffectorObservation, _: Caution) -> Array:
    """Hold (ng,) requested by each gripper: none."""
    now = obs.conf.holds
    assert now is not None
    return jnp.full_like(now.grips.held, NO_HOLD)


def hands_to_holds() -> Goal:
    """Move each free hand to the nearest point of a hold in the arm's reach."""

    def rows(obs: EffectorObservation, _: Caution):
        conf, now = obs.conf, obs.conf.holds
        if now is None:
            raise ValueError("the goal 'hands' needs holds; give the scene a [[hold]]")
        errors, Js = [], []
        for gripper in np.flatnonzero(now.holds.hands):
            hand = int(now.grippers[gripper])
            places, ends = now.nearest(conf.position[hand][None])
            near = reachable_points(obs, ARMS, places[0])[hand] & now.there
            gap = jnp.where(near, safe_norm(conf.position[hand] - places[0]), jnp.inf)
            one = (jnp.argmin(gap) == np.arange(len(now.holds.shapes))) & near
            goes = one.any() & (now.grips.held[gripper] == NO_HOLD)
            place = jnp.sum(jnp.where(one[:, None], ends[0], 0.0), axis=0)
            errors.append(jnp.where(goes, conf.position[hand] - place, 0.0))
            Js.append(jnp.where(goes, conf.jacobian[hand], 0.0))
        return jnp.concatenate(errors), jnp.concatenate(Js)

    return Goal("hands", "limb", rows)


def hold_on_machine(
    joints: Sequence[str],
    angles: Array | np.ndarray,
    caution: Caution | None = None,
    gait: Gait | None = None,
    swing: Swing | None = None,
) -> GoalMachine:
    """Machine that balances, takes hold when it sways, and hangs and swings without ground.

    It balances (``stand``), also takes hold when it sways (``grab``), hangs without ground
    (``hang``), and after a while swings (``swing``), with joints (of its legs) at ``angles`` [rad].
    """

    def calm(obs: EffectorObservation, now: Caution):
        return on_ground(obs) & (obs.time - now.alarmed > now.calm)

    def alarmed(obs: EffectorObservation, now: Caution):
        return on_ground(obs) & (obs.time - now.alarmed <= now.calm)

    def falls(obs: EffectorObservation, now: Caution):
        return ~on_ground(obs) & (obs.time - now.fell <= now.still)

    def hangs(obs: EffectorObservation, now: Caution):
        return ~on_ground(obs) & (obs.time - now.fell > now.still)

    balance = balance_machine(gait or Gait())
    swings = swing_machine(joints, angles, swing or Swing()).weighing({"pose": LEGS})
    holds = {"during": notice, "holds": take_hold}
    return composed(
        goals=(goals.damping(), goals.upright("chest"), hands_to_holds()),
        states={
            "stand": Submachine(balance, calm, during=notice, holds=let_go),
            "grab": Submachine(balance, alarmed, {"hands": HANDS}, **holds),
            "hang": GoalState({"damping": 0.5, "spine": 1.0, "hands": HANDS}, falls, **holds),
            "swing": Submachine(swings, hangs, **holds),
        },
        transitions={
            "stand": ("grab", "hang"),
            "grab": ("stand", "hang"),
            "hang": ("swing", "grab"),
            "swing": ("hang", "grab"),
        },
        variables=caution or Caution(),
    )
