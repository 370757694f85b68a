"""The balance controllers: states, conditions and weights as the document prints them.

Source: Jain, Ye, Liu (2009), section 6.1.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers import goals
from controllers.goal_machine import GoalMachine, GoalState
from controllers.goals import Goal
from controllers.senses import Senses, support_center, support_margin
from jaxsim.math.safe import safe_norm

FEET = ("leftFoot", "rightFoot")
CLEARANCE = 0.06  # of a foot on its way, at most [m]
SUNK = -0.03  # where a foot is sent that is put down [m]
FORESIGHT = 1.0
RELAXED = 0.05  # a foot that bears less than this part of the weight can be lifted


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Step:
    """The step that is being taken."""

    swing: Array  # () int: 0 the left, 1 the right foot
    distance: Array  # () the foot's least distance to its place so far [m]
    begun: Array  # () when the foot was free to go [s]
    placing: Array  # () bool: the foot goes down


def no_step() -> Step:
    return Step(jnp.asarray(0), jnp.asarray(1e3), jnp.asarray(0.0), jnp.asarray(False))


def foot(senses: Senses, which: Array) -> Array:
    """(ne,) bool: the points of one foot, 0 the left, 1 the right."""
    left, right = (senses.group(name) for name in FEET)
    return jnp.where(which == 0, left, right)


def bearing_feet(senses: Senses) -> Array:
    """(ne,) bool: points of the feet on the ground."""
    return senses.touching & (senses.group(FEET[0]) | senses.group(FEET[1]))


def com_ahead(senses: Senses) -> Array:
    """(2,) where the centre of mass is going: x + v sqrt(z / g), its capture point.

    The document's condition and step look at x alone; see docs/synthesis.md for what that survives.
    """
    view = senses.view
    height = jnp.maximum(view.com[2], 0.1)
    time = jnp.sqrt(height / jnp.sqrt(jnp.sum(view.model.gravity**2)))
    return view.com[:2] + FORESIGHT * time * view.com_velocity[:2]


def com_is_supported(senses: Senses, _) -> Array:
    """The centre of mass is over the support polygon."""
    return support_margin(senses, bearing_feet(senses), com_ahead(senses)) >= 0


def lift_farther_foot(senses: Senses, step: Step) -> Step:
    """"The foot farther from the ground projection of the COM is easier to lift." """
    apart = [safe_norm(senses.place(senses.group(f))[:2] - com_ahead(senses)) for f in FEET]
    return replace(step, swing=jnp.where(apart[1] > apart[0], 1, 0))


def foot_is_loaded(senses: Senses, step: Step) -> Array:
    return senses.load(foot(senses, step.swing)) > RELAXED


def foot_place(senses: Senses, step: Step) -> Array:
    """(2,) where the foot should be for the COM to be midway between the feet."""
    return 2 * com_ahead(senses) - senses.place(foot(senses, 1 - step.swing))[:2]


def start_step(senses: Senses, step: Step) -> Step:
    return Step(step.swing, jnp.full_like(step.distance, 1e3), senses.time, jnp.asarray(False))


def watch_foot(senses: Senses, step: Step) -> Step:
    """Once the foot does not come nearer to its place any more, it is put down."""
    here = senses.place(foot(senses, step.swing))[:2]
    distance = safe_norm(here - foot_place(senses, step))
    late = senses.time - step.begun
    worse = (distance > step.distance) & (late > 0.1) | (late > 0.4)
    least = jnp.minimum(distance, step.distance)
    return Step(step.swing, least, step.begun, step.placing | worse | (distance < 0.03))


def foot_is_under_way(senses: Senses, step: Step) -> Array:
    return ~(step.placing & (senses.touching & foot(senses, step.swing)).any())


def foot_to_place() -> Goal:
    """Gp: the heel and the ball of the lifted foot to their places, the sole level.

    The document says where the foot goes, not how: the sole stays parallel to the ground and along
    the pelvis, and is lifted in proportion to the way that is left, up to ``CLEARANCE``.
    """

    def rows(senses: Senses, step: Step):
        view = senses.view
        names = view.effectors.names
        forward = view.kin.link_rot[view.link("pelvis")][:2, 0]
        forward = forward / jnp.maximum(safe_norm(forward), 1e-6)
        place = foot_place(senses, step)
        errors, Js = [], []
        for end in ("Heel", "Ball"):
            pairs = [
                np.array([n in (f"{f}{end}Left", f"{f}{end}Right") for n in names]) / 2 for f in FEET
            ]
            pick = jnp.where(step.swing == 0, pairs[0], pairs[1]).astype(view.q.dtype)
            here = pick @ view.position
            Js.append(jnp.einsum("e,eij->ij", pick, view.jacobian))
            errors.append(here)
        middle, half = (errors[0] + errors[1]) / 2, safe_norm(errors[1] - errors[0]) / 2
        height = jnp.where(step.placing, SUNK, CLEARANCE)
        out = []
        for sign, here in zip((-1.0, 1.0), errors):
            target = jnp.append(place + sign * half * forward, height)
            out.append(here - target)
        return jnp.concatenate(out), jnp.concatenate(Js)

    return Goal("foot", "limb", rows)


def balance_machine() -> GoalMachine:
    """Section 6.1.2: keep balance, and step where that fails."""
    return GoalMachine(
        goals=(
            goals.com_over("com", lambda s, _: support_center(s, bearing_feet(s))),
            goals.com_over("com_foot", lambda s, step: s.place(foot(s, 1 - step.swing))[:2]),
            goals.upright("chest"),
            goals.damping(),
            foot_to_place(),
            goals.relax("relax", lambda s, step: foot(s, step.swing)),
        ),
        states={
            "balance": GoalState({"com": 5.0, "spine": 70.0, "damping": 0.5}, com_is_supported),
            "relaxFoot": GoalState(
                {"damping": 0.2, "com_foot": 50.0, "relax": 1.0}, foot_is_loaded, lift_farther_foot
            ),
            "takeStep": GoalState(
                {"damping": 3.0, "spine": 20.0, "foot": 0.8},
                foot_is_under_way,
                start_step,
                watch_foot,
                lambda senses, step: foot(senses, step.swing),
            ),
        },
        transitions={
            "balance": ("relaxFoot",),
            "relaxFoot": ("takeStep",),
            "takeStep": ("balance",),
        },
        notes=no_step(),
    )
