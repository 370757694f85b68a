"""Balance machine with protective steps: states, conditions and weights.

Source: Jain, Ye, Liu (2009), section 6.1, whose weights these are.
"""

from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.sensors import pendulum_time, support_center, support_margin
from controllers.goals.tasks import Goal
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_norm
from jaxsim.model.roles import FEET, HANDS, THIGHS
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.observation import EffectorObservation

SOLE = 30.0  # weight of the goal ``sole_down``
SWINGS = 0.05  # weight of the goal ``relax`` for a foot on its way
FIRM = {"com": Response(0.3, 100.0), "spine": Response(0.3, 30.0)}  # for ``GoalMachine.weighing``
ROLES = (*FEET, *THIGHS, "pelvis", "chest")  # required for balance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gait:
    """Numbers of a protective step that Jain, Ye, Liu (2009) leave open.

    Fields may be arrays: a search may change them. Lengths are in heights of the standing body's
    centre of mass, times in sqrt(height / g), so that bodies of any size step alike.
    """

    time: Array | float = 0.78  # intended duration of a step, until the foot is set down
    landing: Array | float = 0.16  # duration of setting it down
    reach: Array | float = 0.46  # longest step, in present heights of the centre of mass
    beyond: Array | float = 0.1  # distance by which a foot is set down further than needed
    across: Array | float = 0.5  # distance beyond it of a foot that crosses, in half hip widths
    clearance: Array | float = 0.05  # height of a moving foot above the ground
    sunk: Array | float = 0.2  # depth below the ground of the target of a landing foot
    margin: Array | float = -0.02  # support margin below which balance is lost
    settled: Array | float = 0.05  # support margin at which a step ends
    relaxed: Array | float = 0.05  # load below which a foot can be lifted [body weights]
    sole: Array | float = 0.13  # height up to which points of a foot on its edge will carry load


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepState:
    """State of the step that is being taken."""

    swing: Array  # () int: 0 the left, 1 the right foot
    distance: Array  # () the foot's least distance to its place so far [m]
    begun: Array  # () time at which the foot lifted off [s]
    stepping: Array  # () bool: the foot is off, or about to be
    placing: Array  # () bool: the foot goes down
    place: Array  # (2,) where it goes [m]
    gait: Gait


def no_step(gait: Gait, swing: int = 0) -> StepState:
    """Initial memory of a balance machine; swing: 0 the left, 1 the right foot."""
    no = jnp.asarray(False)
    return StepState(
        jnp.asarray(swing), jnp.asarray(1e3), jnp.asarray(0.0), no, no, jnp.zeros(2), gait
    )


def foot(obs: EffectorObservation, which: Array) -> Array:
    """Mask (ne,) of the points of one foot, 0 the left, 1 the right."""
    left, right = (obs.group(name) for name in FEET)
    return jnp.where(which == 0, left, right)


def bearing_feet(obs: EffectorObservation, step: StepState) -> Array:
    """Mask (ne,) of the points of feet that support the body.

    Feet that touch the ground count, except points lifted too far; unless a step is under way, feet
    about to touch do, too: a body that is set down has not lost its balance.
    """
    conf = obs.conf
    bears = jnp.zeros(conf.effectors.count, bool)
    lands = ~step.stepping & (conf.near.gap < step.gait.clearance * obs.height)
    for name in FEET:
        points = obs.group(name)
        bears = bears | (points & ((obs.touching | lands) & points).any())
    return bears & (conf.near.gap < step.gait.sole * obs.height)


def com_ahead(obs: EffectorObservation) -> Array:
    """Capture point (2,) of the body [m]: x + v sqrt(z / g).

    Condition and step of Jain, Ye, Liu (2009) use x alone; see docs/explanation/behaviours.md.
    """
    conf = obs.conf
    return conf.com[:2] + fall_time(obs) * conf.com_velocity[:2]


def com_is_supported(obs: EffectorObservation, step: StepState) -> Array:
    """True while the capture point is within the support polygon of feet, and of hands on a wall.

    After a step it has to be further inside (``Gait.settled``), else the next step follows at once.
    """
    hands = [obs.group(name) for name in HANDS if name in obs.conf.effectors.group_names]
    bearing = bearing_feet(obs, step)
    for hand in hands:
        bearing = bearing | (obs.touching & hand)
    margin = jnp.where(step.stepping, step.gait.settled, step.gait.margin)
    return support_margin(obs, bearing, com_ahead(obs)) >= margin * obs.height


def lift_farther_foot(obs: EffectorObservation, step: StepState) -> StepState:
    """Select the foot farther from the capture point for the next step.

    Jain, Ye, Liu (2009): "The foot farther from the ground projection of the COM is easier to
    lift".
    """
    apart = [safe_norm(obs.place(obs.group(f))[:2] - com_ahead(obs)) for f in FEET]
    swing = jnp.where(apart[1] > apart[0], 1, 0)
    return replace(step, swing=swing, stepping=jnp.asarray(False))


def foot_is_loaded(obs: EffectorObservation, step: StepState) -> Array:
    """True while the foot of the step carries more than ``Gait.relaxed`` [body weights]."""
    return obs.load(foot(obs, step.swing)) > step.gait.relaxed


def next_place(obs: EffectorObservation, step: StepState) -> Array:
    """Target (2,) of the stepping foot [m]: beside the capture point at the time of landing.

    The foot lands half a hip's width to its own side of the point, so that the feet have it between
    them. Where the point passes the other foot, this foot crosses, and lands beyond it on that side
    instead (``Gait.across``).

    On one leg the capture point runs away from the foot as exp(t sqrt(g / z)). The target is not
    further from the centre of mass than a leg reaches, or leans without slipping.
    """
    conf = obs.conf
    hips = [conf.kin.link_pos[conf.link(name)][:2] for name in THIGHS]
    half = safe_norm(hips[0] - hips[1]) / 2
    forward = heading(obs)
    left = jnp.stack([-forward[1], forward[0]])
    own_side = jnp.where(step.swing == 0, 1.0, -1.0) * left
    stance = obs.place(foot(obs, 1 - step.swing))[:2]
    lasts = step_time(obs, step)
    lands = step.gait.landing * pendulum_time(obs, obs.height)
    remaining = jnp.clip(lasts - (obs.time - step.begun), 0.0, lasts) + lands
    place = stance + (com_ahead(obs) - stance) * jnp.exp(remaining / fall_time(obs))
    away = place - conf.com[:2]
    beyond = step.gait.beyond * obs.height
    away = away * (1 + beyond / jnp.maximum(safe_norm(away), 1e-2))
    most = jnp.minimum(step.gait.reach, jnp.min(conf.near.friction)) * conf.com[2]
    share = jnp.minimum(1.0, most / jnp.maximum(safe_norm(away), 1e-6))
    aside = jnp.clip((place - stance) @ own_side, -step.gait.across * half, half)
    return conf.com[:2] + share * away + aside * own_side


def fall_time(obs: EffectorObservation) -> Array:
    """Time constant () sqrt(z / g) of falling over [s]."""
    return pendulum_time(obs, jnp.maximum(obs.conf.com[2], 0.1))


def step_time(obs: EffectorObservation, step: StepState) -> Array:
    """Intended duration () of a step until the foot is set down [s]."""
    return step.gait.time * pendulum_time(obs, obs.height)


def heading(obs: EffectorObservation) -> Array:
    """Unit vector (2,) of the direction that the pelvis faces."""
    conf = obs.conf
    axis = jnp.asarray(conf.model.topology.roles.forward, conf.q.dtype)
    forward = rotate(conf.kin.link_rot[conf.link("pelvis")], axis)[:2]
    return forward / jnp.maximum(safe_norm(forward), 1e-6)


def start_step(obs: EffectorObservation, step: StepState) -> StepState:
    """Begin a step with the farther foot, unless that foot carries load."""
    farther = lift_farther_foot(obs, step)
    loaded = foot_is_loaded(obs, farther)
    step = replace(step, swing=jnp.where(loaded, step.swing, farther.swing))
    begun = replace(step, begun=obs.time, stepping=jnp.asarray(True), placing=jnp.asarray(False))
    return replace(begun, distance=jnp.full_like(step.distance, 1e3), place=next_place(obs, begun))


def watch_foot(obs: EffectorObservation, step: StepState) -> StepState:
    """Update the foot's target until the foot no longer approaches it; then set the foot down."""
    place = jnp.where(step.placing, step.place, next_place(obs, step))
    distance = safe_norm(obs.place(foot(obs, step.swing))[:2] - place)
    late = obs.time - step.begun
    lasts = step_time(obs, step)
    worse = (distance > step.distance) & (late > lasts / 2)
    placing = step.placing | worse | (late > lasts)
    least = jnp.minimum(distance, step.distance)
    return replace(step, distance=least, placing=placing, place=place)


def foot_is_under_way(obs: EffectorObservation, step: StepState) -> Array:
    """True until the foot of the step has been set down and touches."""
    return ~(step.placing & (obs.touching & foot(obs, step.swing)).any())


@cache
def foot_to_place() -> Goal:
    """Gp: heel and ball of the lifted foot to their targets, the sole level.

    Jain, Ye, Liu (2009) say where the foot goes, not how: here the sole stays parallel to the
    ground and along the pelvis, ``Gait.clearance`` above it, until the foot is set down.
    """

    def rows(obs: EffectorObservation, step: StepState):
        conf = obs.conf
        ends = []
        for end in ("Heel", "Ball"):
            pick = jnp.where(step.swing == 0, *(_middle(conf, f"{f}{end}") for f in FEET))
            ends.append((pick @ conf.position, jnp.einsum("e,eij->ij", pick, conf.jacobian)))
        (heel, J_heel), (ball, J_ball) = ends
        ahead = heading(obs) * safe_norm(ball - heel) / 2
        height = obs.height * jnp.where(step.placing, -step.gait.sunk, step.gait.clearance)
        errors = (
            heel - jnp.append(step.place - ahead, height),
            ball - jnp.append(step.place + ahead, height),
        )
        return jnp.concatenate(errors), jnp.concatenate([J_heel, J_ball])

    return Goal("foot", "limb", rows)


def _middle(conf: Configuration, edge: str) -> Array:
    """Weights (ne,) that average the one or two effectors at an end of the sole."""
    there = np.array([name.startswith(edge) for name in conf.effectors.names])
    return jnp.asarray(there / there.sum(), conf.q.dtype)


@cache
def sole_down() -> Goal:
    """Lower the whole sole of a supporting foot onto the ground where it is.

    During a step the other foot is lowered, too, since it may just have landed. Not in Jain, Ye,
    Liu (2009), whose feet are presumably flat when they land: on its heel alone a body cannot stop,
    and a foot that bounces off is not slowed down.
    """

    def rows(obs: EffectorObservation, step: StepState):
        conf = obs.conf
        normal = jnp.einsum("ei,eid->ed", conf.near.normal, conf.jacobian)
        low = conf.near.gap < step.gait.sole * obs.height
        other = foot(obs, 1 - step.swing) & low
        mask = jnp.where(step.stepping, other, bearing_feet(obs, step))
        across = conf.near.normal[:, :, None] * normal[:, None, :]
        J = jnp.where(obs.touching[:, None, None], across, conf.jacobian)
        error = jnp.where(mask[:, None], conf.near.gap[:, None] * conf.near.normal, 0.0)
        J = jnp.where(mask[:, None, None], J, 0.0)
        return error.reshape(-1), J.reshape(-1, J.shape[-1])

    return Goal("sole", "limb", rows)


def balance_machine(gait: Gait = Gait()) -> GoalMachine:
    """Machine that keeps balance and takes a protective step where that fails.

    Source: Jain, Ye, Liu (2009), section 6.1.2.
    """
    return GoalMachine(
        goals=(
            goals.com_over("com", lambda s, step: support_center(s, bearing_feet(s, step))),
            goals.com_over(
                "com_foot", lambda s, step: s.place(foot(s, 1 - step.swing))[:2], "shift"
            ),
            goals.upright("chest"),
            goals.damping(),
            foot_to_place(),
            sole_down(),
            goals.relax("relax", lambda s, step: foot(s, step.swing)),
        ),
        states={
            "balance": GoalState(
                {"com": 5.0, "spine": 70.0, "damping": 0.5, "sole": SOLE},
                com_is_supported,
                during=lift_farther_foot,
            ),
            "relaxFoot": GoalState(
                {"damping": 0.2, "com_foot": 50.0, "relax": 1.0, "sole": SOLE},
                foot_is_loaded,
                lift_farther_foot,
            ),
            "takeStep": GoalState(
                {"damping": 3.0, "spine": 20.0, "foot": 0.8, "relax": SWINGS, "sole": SOLE},
                foot_is_under_way,
                start_step,
                watch_foot,
                lambda obs, step: foot(obs, step.swing),
            ),
        },
        transitions={
            "balance": ("relaxFoot",),
            "relaxFoot": ("takeStep",),
            "takeStep": ("balance", "relaxFoot", "takeStep"),
        },
        variables=no_step(gait),
    )


def check_balances(machine: GoalMachine, what: str, state: str | None = None) -> None:
    """Raise ValueError unless a machine has the states of a balance machine, and not ``state``."""
    if not {"balance", "relaxFoot", "takeStep"} <= set(machine.states):
        raise ValueError(
            f'{what} starts from a balance machine; choose the controller name = "balance"'
        )
    if state in machine.states:
        raise ValueError(f"the machine has {what} already; give one")
