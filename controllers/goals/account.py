"""Results of a motion driven by goals: steps, pins, reaches, balls, and shares of the objective.

frames: recorded in a rollout, T along their first axes, with ``contact_pos`` and ``contact_force``
(T, ne, 3) of the effectors, ``link_pos``, ``link_quat``, ``phase``, ``since``, and of ``more``
"sliding", "cost" and "against".
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from controllers.goals.clip import FollowedClip
from controllers.goals.effector_constraints import EffectorConstraint
from controllers.goals.sensors import Objects
from jaxsim.dynamics.effectors import Effectors
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.model import Model
from jaxsim.model.part import main_part
from jaxsim.model.roles import FEET, HANDS

SLIPS = 0.05  # of the weight on a point that slips, at least


@dataclass(frozen=True)
class Reach:
    """A point (3,) [m] that an effector is to reach, from ``start`` until ``end`` [s]."""

    effector: str
    target: tuple[float, ...]
    start: float
    end: float


def account(controller: Any, scheme: Any, model: Model, frames: Any, time: np.ndarray) -> dict:
    """Results by their keys in a summary; None for those that do not apply."""
    points: Effectors = scheme.effectors
    machine, force = controller.machine, np.abs(frames.contact_force).sum(axis=2)
    dt = (time[-1] - time[0]) / max(len(time) - 1, 1)
    hands = [name in HANDS for name in points.names]
    steps = takes_steps(machine.state_names)[frames.phase[entries(frames)]]
    drift, pull = constraint_measures(machine.constraints, points, frames, time)
    clip_error = clip_errors(controller.clip, model, frames, time)
    return {
        "steps_begun": int(steps.sum()),
        "longest_step": max(step_lengths(machine.state_names, points, frames), default=0.0),
        "hand_support_time": dt * (force[:, hands].sum(axis=1) > 0).sum(),
        "sliding_time": dt * frames.more["sliding"].any(axis=1).sum(),
        "slip_distance": slip_distance(frames, float(scheme.unit.force)),
        "goals_against": most_against(machine, frames),
        "reach_distance": reach_distance(controller.reach_targets, points, frames, time),
        "hold_drift": drift,
        "largest_hold_force": pull,
        "clip_error": None if clip_error is None else float(clip_error.mean()),
        "largest_clip_error": None if clip_error is None else float(clip_error.max()),
        "ball_clearance": (
            None
            if controller.objects is None
            else float(ball_clearance(controller.objects, model, frames, time).min())
        ),
    }


def goal_shares(machine: Any, frames: Any) -> dict[str, np.ndarray]:
    """Share (T,) of each goal in the objective, between 0 and 1, without goals that are zero."""
    cost = frames.more["cost"]
    whole = cost.sum(axis=1, keepdims=True)
    part = np.where(whole > 0, cost / np.where(whole > 0, whole, 1.0), 0.0)
    return {name: part[:, k] for k, name in enumerate(machine.row_names) if part[:, k].any()}


def most_against(machine: Any, frames: Any) -> str | None:
    """The two goals that opposed each other most over the run, and their share of all opposition.

    None if no two goals opposed each other.
    """
    opposition = np.triu(np.nan_to_num(frames.more["against"].sum(axis=0)), 1)
    if not opposition.any():
        return None
    a, b = np.unravel_index(opposition.argmax(), opposition.shape)
    names = machine.row_names
    return f"{names[a]} and {names[b]}, {opposition[a, b] / opposition.sum():.0%}"


def reach_distance(
    reaches: tuple[Reach, ...], points: Effectors, frames: Any, time: np.ndarray
) -> float | None:
    """Largest distance [m] between an effector and its target at the end of its reach.

    None if the run ended before any reach began.
    """
    apart = []
    for goal in reaches:
        during = np.flatnonzero((time >= goal.start) & (time <= goal.end))
        if during.size:
            at = points.names.index(goal.effector)
            apart.append(np.linalg.norm(frames.contact_pos[during[-1], at] - goal.target))
    return max(apart, default=None)


def clip_errors(
    clip: FollowedClip | None, model: Model, frames: Any, time: np.ndarray
) -> np.ndarray | None:
    """Errors (T,) of following a clip [m], see ``controllers.goals.clip.following_error``."""
    if clip is None:
        return None
    part = main_part(model.topology)
    root = part.topology.part("pelvis")
    there, _ = clip.reference.track.places(part.of(model), time + float(clip.begin))
    here = frames.link_pos[:, part.links]
    apart = (here - here[:, [root]]) - (there - there[:, [root]])
    return np.linalg.norm(apart, axis=-1).mean(axis=-1)


def constraint_measures(
    constraints: tuple[EffectorConstraint, ...], points: Effectors, frames: Any, time: np.ndarray
) -> tuple[float | None, float | None]:
    """Largest drift [m] of a pinned effector, and the largest force [N] of its pin.

    None if the run ended before any pin began.
    """
    drifts, pulls = [], []
    for pin in constraints:
        during = np.flatnonzero((time >= pin.start) & (time < pin.end))
        if during.size:
            at = points.names.index(pin.effector)
            place = frames.contact_pos[during, at]
            drifts.append(np.linalg.norm(place - place[0], axis=1).max())
            pulls.append(np.linalg.norm(frames.contact_force[during, at], axis=1).max())
    return max(drifts, default=None), max(pulls, default=None)


def entries(frames: Any) -> np.ndarray:
    """Frames in which a phase was entered, also by a transition to itself."""
    return np.flatnonzero(np.diff(frames.since, prepend=-1.0))


def takes_steps(state_names: tuple[str, ...]) -> np.ndarray:
    """Mask (ns,) of states that take a step: ``takeStep``, also of a submachine."""
    return np.array([name.rpartition(".")[2] == "takeStep" for name in state_names])


def step_lengths(state_names: tuple[str, ...], points: Effectors, frames: Any) -> list[float]:
    """Length [m] of each visit of ``takeStep``: of the foot that moved further over the ground."""
    if not takes_steps(state_names).any():
        return []
    places = [frames.contact_pos[:, points.of(foot), :2].mean(axis=1) for foot in FEET]
    place = np.stack(places)  # (2, T, 2)
    starts = entries(frames)
    ends = np.append(starts[1:], len(frames.phase) - 1)
    stepping = takes_steps(state_names)[frames.phase[starts]]
    moved = place[:, ends[stepping]] - place[:, starts[stepping]]
    return np.linalg.norm(moved, axis=2).max(axis=0).tolist()


def slip_distance(frames: Any, weight: float) -> float:
    """Distance [m] that loaded points slide over the ground, summed over all frames.

    The fastest point of each frame counts. A toe that drags along as its foot is lifted does not.
    """
    moved = np.linalg.norm(np.diff(frames.contact_pos[..., :2], axis=0), axis=-1)
    loaded = np.linalg.norm(frames.contact_force, axis=-1) > SLIPS * weight
    slips = frames.more["sliding"] & loaded
    return float(np.where(slips[:-1], moved, 0.0).max(axis=1).sum())


def flight(balls: Objects, model: Model, time: np.ndarray) -> np.ndarray:
    """Positions (T, no, 3) of the balls [m]."""
    at = balls.at(jnp.asarray(time)[:, None, None], model.gravity)
    return np.asarray(at.position)


def ball_clearance(balls: Objects, model: Model, frames: Any, time: np.ndarray) -> np.ndarray:
    """Least distance (T,) between a ball and a sphere or capsule of the body [m]; negative: hit."""
    top, flown = model.topology, flight(balls, model, time)
    least = np.full(len(time), np.inf)
    rotation = _matrices(frames.link_quat)
    for s, kind in enumerate(top.shape_kinds):
        link = top.shape_link[s]
        if link < 0 or kind not in ("sphere", "capsule"):
            continue
        size, local = np.asarray(model.shape_size[s]), np.asarray(model.shape_pos[s])
        axis = _matrices(np.asarray(model.shape_quat[s])[None])[0][:, 0] * size[2]
        ends = [
            frames.link_pos[:, link]
            + np.einsum("tij,j->ti", rotation[:, link], local + sign * axis)
            for sign in (1.0, -1.0)
        ]
        along = ends[1] - ends[0]
        length2 = np.maximum((along**2).sum(-1), 1e-12)
        for k, radius in enumerate(np.asarray(balls.radius)):
            u = np.clip(((flown[:, k] - ends[0]) * along).sum(-1) / length2, 0, 1)
            apart = np.linalg.norm(flown[:, k] - ends[0] - u[:, None] * along, axis=-1)
            least = np.minimum(least, apart - radius - size[0])
    return least


def _matrices(quat: np.ndarray) -> np.ndarray:
    return np.asarray(quat_to_matrix(jnp.asarray(quat)))
