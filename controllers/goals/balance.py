"""The balance controllers: states, conditions and weights as the document prints them.

Source: Jain, Ye, Liu (2009), section 6.1.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.senses import support_center, support_margin
from controllers.goals.tasks import Goal
from jaxsim.math.safe import safe_norm
from jaxsim.synthesis.observation import Senses
from jaxsim.synthesis.view import View

SOLE = 30.0  # weight of the goal ``sole_down``
SWINGS = 0.05  # weight of the goal ``relax`` for a foot on its way
FEET = ("leftFoot", "rightFoot")
HANDS = ("leftHand", "rightHand")
THIGHS = ("leftThigh", "rightThigh")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gait:
    """How a protective step is taken, where the document says nothing. Arrays: may be tuned.

    Lengths are in heights of the standing body's centre of mass, times in sqrt(height / g), so that
    bodies of any size step alike.
    """

    time: Array | float = 0.78  # a step is meant to take, until the foot is put down
    landing: Array | float = 0.16  # putting it down takes
    reach: Array | float = 0.46  # of a step at most, in heights of the centre of mass as it is now
    beyond: Array | float = 0.1  # how much further than needed a foot is put
    across: Array | float = 0.5  # of half a hip's width: how far beyond it a foot is that crosses
    clearance: Array | float = 0.05  # of a foot on its way
    sunk: Array | float = 0.2  # how far below the ground a foot is sent that is put down
    margin: Array | float = -0.02  # of the support polygon within which balance is lost
    settled: Array | float = 0.05  # the same where a step ends
    relaxed: Array | float = 0.05  # a foot with a smaller load can be lifted [body weights]
    sole: Array | float = 0.13  # a foot on its edge bears, in a moment, on what is not higher


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Step:
    """The step that is being taken."""

    swing: Array  # () int: 0 the left, 1 the right foot
    distance: Array  # () the foot's least distance to its place so far [m]
    begun: Array  # () when the foot was free to go [s]
    stepping: Array  # () bool: the foot is off, or about to be
    placing: Array  # () bool: the foot goes down
    place: Array  # (2,) where it goes [m]
    gait: Gait


def no_step(gait: Gait, swing: int = 0) -> Step:
    no = jnp.asarray(False)
    return Step(jnp.asarray(swing), jnp.asarray(1e3), jnp.asarray(0.0), no, no, jnp.zeros(2), gait)


def foot(senses: Senses, which: Array) -> Array:
    """(ne,) bool: the points of one foot, 0 the left, 1 the right."""
    left, right = (senses.group(name) for name in FEET)
    return jnp.where(which == 0, left, right)


def bearing_feet(senses: Senses, step: Step) -> Array:
    """(ne,) bool: the points of feet that touch the ground, but those lifted too far; and of feet
    that are about to, if no step is taken: a body that is put down has not lost its balance.
    """
    view = senses.view
    bears = jnp.zeros(view.effectors.count, bool)
    lands = ~step.stepping & (view.near.gap < step.gait.clearance * senses.height)
    for name in FEET:
        own = senses.group(name)
        bears = bears | (own & ((senses.touching | lands) & own).any())
    return bears & (view.near.gap < step.gait.sole * senses.height)


def com_ahead(senses: Senses) -> Array:
    """(2,) where the centre of mass is going: x + v sqrt(z / g), its capture point.

    The document's condition and step look at x alone; see docs/behaviours.md.
    """
    view = senses.view
    return view.com[:2] + fall_time(senses) * view.com_velocity[:2]


def com_is_supported(senses: Senses, step: Step) -> Array:
    """The centre of mass is going to stay over what bears: feet, and hands on a wall. After a step
    it has to be further inside (``Gait.settled``), else the next step follows at once."""
    hands = [senses.group(name) for name in HANDS if name in senses.view.effectors.group_names]
    bearing = bearing_feet(senses, step)
    for hand in hands:
        bearing = bearing | (senses.touching & hand)
    margin = jnp.where(step.stepping, step.gait.settled, step.gait.margin)
    return support_margin(senses, bearing, com_ahead(senses)) >= margin * senses.height


def lift_farther_foot(senses: Senses, step: Step) -> Step:
    """ "The foot farther from the ground projection of the COM is easier to lift." """
    apart = [safe_norm(senses.place(senses.group(f))[:2] - com_ahead(senses)) for f in FEET]
    swing = jnp.where(apart[1] > apart[0], 1, 0)
    return replace(step, swing=swing, stepping=jnp.asarray(False))


def foot_is_loaded(senses: Senses, step: Step) -> Array:
    return senses.load(foot(senses, step.swing)) > step.gait.relaxed


def next_place(senses: Senses, step: Step) -> Array:
    """(2,) where the foot should be: where the COM is going once it lands, and half a hip's width
    to its own side of that, so that both feet have it between them. Where it is going past the
    other foot, this one crosses, and is put beyond it on that side instead (``Gait.across``).

    On one leg the capture point runs away from the foot as exp(t sqrt(g / z)). Not further from the
    COM than a leg reaches, or leans without slipping.
    """
    view = senses.view
    hips = [view.kin.link_pos[view.link(name)][:2] for name in THIGHS]
    half = safe_norm(hips[0] - hips[1]) / 2
    forward = heading(senses)
    left = jnp.stack([-forward[1], forward[0]])
    own_side = jnp.where(step.swing == 0, 1.0, -1.0) * left
    stance = senses.place(foot(senses, 1 - step.swing))[:2]
    lasts = step_time(senses, step)
    lands = step.gait.landing * _pendulum(senses, senses.height)
    remaining = jnp.clip(lasts - (senses.time - step.begun), 0.0, lasts) + lands
    place = stance + (com_ahead(senses) - stance) * jnp.exp(remaining / fall_time(senses))
    away = place - view.com[:2]
    beyond = step.gait.beyond * senses.height
    away = away * (1 + beyond / jnp.maximum(safe_norm(away), 1e-2))
    most = jnp.minimum(step.gait.reach, jnp.min(view.near.friction)) * view.com[2]
    share = jnp.minimum(1.0, most / jnp.maximum(safe_norm(away), 1e-6))
    aside = jnp.clip((place - stance) @ own_side, -step.gait.across * half, half)
    return view.com[:2] + share * away + aside * own_side


def fall_time(senses: Senses) -> Array:
    """() sqrt(z / g), the time constant of falling over [s]."""
    return _pendulum(senses, jnp.maximum(senses.view.com[2], 0.1))


def step_time(senses: Senses, step: Step) -> Array:
    """() what a step is meant to take, until the foot is put down [s]."""
    return step.gait.time * _pendulum(senses, senses.height)


def _pendulum(senses: Senses, height: Array) -> Array:
    return jnp.sqrt(height / jnp.sqrt(jnp.sum(senses.view.model.gravity**2)))


def heading(senses: Senses) -> Array:
    """(2,) unit, where the pelvis looks."""
    view = senses.view
    forward = view.kin.link_rot[view.link("pelvis")][:2, 0]
    return forward / jnp.maximum(safe_norm(forward), 1e-6)


def start_step(senses: Senses, step: Step) -> Step:
    """With the farther foot, but not with one that carries load."""
    farther = lift_farther_foot(senses, step)
    loaded = foot_is_loaded(senses, farther)
    step = replace(step, swing=jnp.where(loaded, step.swing, farther.swing))
    begun = replace(step, begun=senses.time, stepping=jnp.asarray(True), placing=jnp.asarray(False))
    return replace(
        begun, distance=jnp.full_like(step.distance, 1e3), place=next_place(senses, begun)
    )


def watch_foot(senses: Senses, step: Step) -> Step:
    """The place is found anew until the foot does not come nearer any more; then it is put down."""
    place = jnp.where(step.placing, step.place, next_place(senses, step))
    distance = safe_norm(senses.place(foot(senses, step.swing))[:2] - place)
    late = senses.time - step.begun
    lasts = step_time(senses, step)
    worse = (distance > step.distance) & (late > lasts / 2)
    placing = step.placing | worse | (late > lasts)
    least = jnp.minimum(distance, step.distance)
    return replace(step, distance=least, placing=placing, place=place)


def foot_is_under_way(senses: Senses, step: Step) -> Array:
    return ~(step.placing & (senses.touching & foot(senses, step.swing)).any())


def foot_to_place() -> Goal:
    """Gp: the heel and the ball of the lifted foot to their places, the sole level.

    The document says where the foot goes, not how: the sole stays parallel to the ground and along
    the pelvis, ``Gait.clearance`` above it, until the foot is put down.
    """

    def rows(senses: Senses, step: Step):
        view = senses.view
        ends = []
        for end in ("Heel", "Ball"):
            pick = jnp.where(step.swing == 0, *(_middle(view, f"{f}{end}") for f in FEET))
            ends.append((pick @ view.position, jnp.einsum("e,eij->ij", pick, view.jacobian)))
        (heel, J_heel), (ball, J_ball) = ends
        ahead = heading(senses) * safe_norm(ball - heel) / 2
        height = senses.height * jnp.where(step.placing, -step.gait.sunk, step.gait.clearance)
        errors = (
            heel - jnp.append(step.place - ahead, height),
            ball - jnp.append(step.place + ahead, height),
        )
        return jnp.concatenate(errors), jnp.concatenate([J_heel, J_ball])

    return Goal("foot", "limb", rows)


def _middle(view: View, edge: str) -> Array:
    """(ne,) shares of the effectors left and right of an edge of the sole."""
    both = [name in (f"{edge}Left", f"{edge}Right") for name in view.effectors.names]
    return jnp.asarray(np.array(both) / 2, view.q.dtype)


def sole_down() -> Goal:
    """A foot that bears comes down where it is, with all of its sole; so does, during a step, the
    other foot, which may just have landed.

    Not in the document, whose feet are presumably flat when they land: on its heel alone a body
    cannot stop, and a foot that bounces off goes on as it came.
    """

    def rows(senses: Senses, step: Step):
        view = senses.view
        normal = jnp.einsum("ei,eid->ed", view.near.normal, view.jacobian)
        low = view.near.gap < step.gait.sole * senses.height
        other = foot(senses, 1 - step.swing) & low
        mask = jnp.where(step.stepping, other, bearing_feet(senses, step))
        across = view.near.normal[:, :, None] * normal[:, None, :]
        J = jnp.where(senses.touching[:, None, None], across, view.jacobian)
        error = jnp.where(mask[:, None], view.near.gap[:, None] * view.near.normal, 0.0)
        J = jnp.where(mask[:, None, None], J, 0.0)
        return error.reshape(-1), J.reshape(-1, J.shape[-1])

    return Goal("sole", "limb", rows)


def balance_machine(gait: Gait = Gait()) -> GoalMachine:
    """Section 6.1.2: keep balance, and step where that fails."""
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
                keep=lift_farther_foot,
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
                lambda senses, step: foot(senses, step.swing),
            ),
        },
        transitions={
            "balance": ("relaxFoot",),
            "relaxFoot": ("takeStep",),
            "takeStep": ("balance", "relaxFoot", "takeStep"),
        },
        notes=no_step(gait),
    )
