"""Retargeting: the joint angles with which a character moves as the figure of a clip does.

Orientations are copied, through a constant alignment of each joint, and positions are scaled by the
length of the legs; balls follow exactly, hinges as nearly as they can.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.mocap.body import RoleLinks, body_of
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.fit_angles import (
    continue_hinges,
    fit_hinges,
    hinge_places,
    in_blocks,
    initial_angles,
    limit_change,
    move_hips,
    role_poses,
)
from jaxsim.mocap.joint_map import find_map
from jaxsim.mocap.measures import not_human
from jaxsim.mocap.pin_feet import pin_feet
from jaxsim.mocap.rest_pose import Source, align, source_of, target_rotations
from jaxsim.mocap.rotations import continuous
from jaxsim.mocap.schemes import NamingScheme
from jaxsim.mocap.settle import leg_length
from jaxsim.mocap.stance import Stance, StanceRule, label_stance
from jaxsim.model import Model

__all__ = ["Retargeted", "retarget"]

LEAST_RATE = 10.0  # [Hz]: below it neither speeds nor stance can be estimated
LEAST_FRAMES = 2
FASTEST = 30.0  # [rad/s] of a hinge; one that has to change to its other way to turn ramps there
# Of feet that surely lie flat: to fit their alignment, the floor, and to judge the result.
FLAT = StanceRule(speed=0.35, release=1.0, toe_height=0.0)


@dataclass(frozen=True, eq=False)
class Retargeted:
    """T frames of a clip on a character; plain numpy in float64."""

    name: str
    model: Model
    body: RoleLinks
    q: np.ndarray  # (T, nq)
    rate: float  # [Hz]
    stance: np.ndarray  # (T, 2) bool, left and right
    slides: np.ndarray  # (T, 2) bool, feet that stand and slide
    flat: np.ndarray  # (T, 2) bool, feet that stand by the strict rule FLAT
    frames: np.ndarray  # (T, K, 3, 3) orientations of the roles of ``body``
    points: np.ndarray  # (T, K, 3) [m] where their joints are
    soles: np.ndarray  # (T, ne, 3) [m] the points of the feet
    joints: NamingScheme  # the joint map
    alignment: dict[str, np.ndarray]  # role -> (3, 3) A
    aligned_by: str  # "rest", "geometry" or "jaxsim"
    scale: float  # lengths of the character in those of the clip
    floor: float  # [m] that was subtracted from all heights, after scaling
    source_points: dict[str, np.ndarray]  # role -> (T, 3) [m] of its joint, scaled, on the floor
    source_bones: dict[str, np.ndarray]  # limb -> (T, 3) [m] along it, scaled
    problems: tuple[str, ...]

    @property
    def time(self) -> np.ndarray:
        """Times (T,) [s], from 0."""
        return np.arange(len(self.q)) / self.rate


def retarget(
    clip: Clip,
    model: Model,
    *,
    joints: NamingScheme | str | os.PathLike[str] | None = None,
    alignment: str | None = None,
    stance: Stance | None = None,
    pin: bool = False,
    body: RoleLinks | None = None,
) -> Retargeted:
    """Retarget a clip to a character with roles and a free root.

    joints: see ``find_map``; alignment: "rest", "geometry", or None for what fits the scheme, see
    ``align``; stance: labels, computed if not given; pin: move stance feet to one place by inverse
    kinematics of the legs, blended over 0.1 s; body: ``body_of(model)``, where many clips share it.
    The first clip on a character compiles programs that the others use too.

    Raises ModelError for a character without the roles it needs, ClipError for a clip without feet,
    of under 2 frames or 10 Hz, of a figure that is no human, and a map that does not fit.
    """
    body = body or body_of(model)
    _check(clip)
    scheme = find_map(clip, joints)
    problem = not_human(clip, scheme)
    if problem:
        raise ClipError(f"{clip.name}: {problem}; only humans can be retargeted")
    labels = stance or label_stance(clip, scheme)
    if labels.stands.shape != (clip.n_frames, 2):
        raise ClipError(
            f"stance has {len(labels.stands)} frames, the clip {clip.n_frames}; label it anew"
        )
    flat = labels.stands & label_stance(clip, scheme, FLAT).stands & ~labels.slides
    source = source_of(clip, scheme)
    A, way = align(source, flat, alignment)
    scale = body.leg / leg_length(clip, scheme)
    q = _solved(model, body, source, A, scale)
    q, floor = _on_floor(model, body, q, flat)
    if pin:
        q = _pinned(model, body, q, labels, flat)
    return _record(clip, model, body, source, A, way, scale, floor, q, labels, flat)


def _check(clip: Clip) -> None:
    if clip.n_frames < LEAST_FRAMES:
        raise ClipError(
            f"{clip.name} has {clip.n_frames} frame; a motion needs at least {LEAST_FRAMES}, give a"
            " longer one"
        )
    if clip.rate < LEAST_RATE:
        raise ClipError(
            f"{clip.name} has {clip.rate:g} frames a second; neither speeds nor stance can be told"
            f" below {LEAST_RATE:g}; is the rate right? rate= or --rate replaces it"
        )


def _solved(
    model: Model, body: RoleLinks, source: Source, A: dict[str, np.ndarray], scale: float
) -> np.ndarray:
    """Coordinates (T, nq) before the motion is moved to the floor."""
    targets = target_rotations(source, A, body.roles)
    hips = 0.5 * scale * (source.of("leftThigh")[0] + source.of("rightThigh")[0])
    dtype, frames = np.dtype(model.mass.dtype), source.clip.n_frames

    def begin(targets):
        return initial_angles(model, body, jnp.asarray(targets, dtype))

    def fit(*arrays):
        return fit_hinges(model, body, *(jnp.asarray(array, dtype) for array in arrays))

    def put(*arrays):
        return move_hips(model, body, *(jnp.asarray(array, dtype) for array in arrays))

    q = in_blocks(begin, frames, targets)
    q, left = in_blocks(fit, frames, q, q, targets, hips)
    hinges = hinge_places(model, body)
    if hinges.size:
        q = in_blocks(_follower(model, body, q[0]), frames, q, left, targets)
        q, _ = in_blocks(fit, frames, q, q, targets, hips)
        q = in_blocks(put, frames, limit_change(q, hinges, FASTEST / source.clip.rate), hips)
    return _continuous(model, np.asarray(q, np.float64))


def _follower(model: Model, body: RoleLinks, first: np.ndarray) -> Callable[..., Array]:
    """``continue_hinges`` for consecutive pieces of a motion."""
    dtype = np.dtype(model.mass.dtype)
    last = [jnp.asarray(first, dtype)]

    def follow(*arrays: np.ndarray) -> Array:
        q = continue_hinges(model, body, last[0], *(jnp.asarray(array, dtype) for array in arrays))
        last[0] = q[-1]
        return q

    return follow


def _continuous(model: Model, q: np.ndarray) -> np.ndarray:
    """Coordinates with quaternions of unit length, each near the one before."""
    top = model.topology
    for kind, start in zip(top.joint_kinds, top.q_start):
        if kind in ("ball", "free"):
            first = start + (3 if kind == "free" else 0)
            turn = q[:, first : first + 4]
            turn = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
            q[:, first : first + 4] = continuous(turn)
    return q


def places(model: Model, body: RoleLinks, q: np.ndarray) -> dict[str, np.ndarray]:
    """Result of ``role_poses`` for (T, nq) frames of any number, in float64."""

    def some(q):
        return role_poses(model, body, jnp.asarray(q, model.mass.dtype))

    arrays = in_blocks(some, len(q), q)
    return {name: np.asarray(value, np.float64) for name, value in arrays.items()}


def sole_sides(body: RoleLinks) -> tuple[np.ndarray, np.ndarray]:
    """Masks (ne,) of the points of ``soles`` on the left foot, and on the right one."""
    left = np.array(body.sole_left)
    return left, ~left


def _on_floor(
    model: Model, body: RoleLinks, q: np.ndarray, stands: np.ndarray
) -> tuple[np.ndarray, float]:
    """Coordinates moved to the floor, and the height [m] taken off.

    The median lowest sole point of stance feet is at height 0; without stance, the lowest point of
    99 of 100 frames.
    """
    soles = places(model, body, q)["soles"][..., 2]
    lowest = np.stack([soles[:, side].min(axis=1) for side in sole_sides(body)], axis=1)
    floor = np.median(lowest[stands]) if stands.any() else np.percentile(lowest.min(axis=1), 1)
    height = model.topology.root_height
    assert height is not None
    q = q.copy()
    q[:, height] -= floor
    return q, float(floor)


def _pinned(
    model: Model, body: RoleLinks, q: np.ndarray, labels: Stance, flat: np.ndarray
) -> np.ndarray:
    placement = places(model, body, q)
    ankles = placement["points"][:, [body.index("leftFoot"), body.index("rightFoot")]]
    heights = placement["soles"][..., 2]
    lowest = np.stack([heights[:, side].min(axis=1) for side in sole_sides(body)], axis=1)
    moved = pin_feet(model, body, q, ankles, lowest, labels.stands, flat, labels.rate)
    return _continuous(model, moved)


def _record(
    clip: Clip,
    model: Model,
    body: RoleLinks,
    source: Source,
    A: dict[str, np.ndarray],
    way: str,
    scale: float,
    floor: float,
    q: np.ndarray,
    labels: Stance,
    flat: np.ndarray,
) -> Retargeted:
    if not np.isfinite(q).all():
        frame, place = np.argwhere(~np.isfinite(q))[0]
        joint = model.topology.joint_names[
            int(np.searchsorted(model.topology.q_start, place, "right")) - 1
        ]
        raise ClipError(
            f"{clip.name}: joint {joint!r} has no angle in frame {frame}; say in a roles file which"
            " links are thighs, shanks, feet, upper arms and forearms, none of them without length"
        )
    placement = places(model, body, q)
    down = np.array([0.0, 0.0, floor])
    lacking = [role for role in body.roles if role not in source.roles]
    problems = list(clip.problems)
    if lacking:
        problems.append(f"the clip has no {', '.join(lacking)}: these go with their neighbours")
    if not labels.stands.any():
        problems.append("no foot ever stands: the floor is where the feet are lowest")
    return Retargeted(
        name=clip.name,
        model=model,
        body=body,
        q=q,
        rate=clip.rate,
        stance=labels.stands,
        slides=labels.slides,
        flat=flat,
        frames=placement["frames"],
        points=placement["points"],
        soles=placement["soles"],
        joints=source.scheme,
        alignment=A,
        aligned_by=way,
        scale=scale,
        floor=floor,
        source_points={role: scale * source.of(role)[0] - down for role in source.roles},
        source_bones={limb: scale * bone for limb, bone in source.bones.items()},
        problems=tuple(problems),
    )
