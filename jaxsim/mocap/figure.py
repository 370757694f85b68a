"""Viewer motions of clips: a capsule for each bone, the stance as phases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jaxsim.io.motion import Motion, MotionShape
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.rotations import turning
from jaxsim.mocap.schemes import NamingScheme
from jaxsim.mocap.stance import Stance

__all__ = ["beside", "clip_motion"]

PHASES = ("no foot stands", "left foot", "right foot", "both feet")
THIN, THICK = 0.012, 0.045  # [m] radii of bones


def clip_motion(
    clip: Clip, scheme: NamingScheme | None = None, stance: Stance | None = None
) -> Motion:
    """Motion of a clip's skeleton: a link for each joint, a capsule for each bone, the ground.

    With a scheme, links have the names of their roles and sides, which gives sides their colours,
    and the heights of head and ankles are charted; with a stance, its labels are the phases.
    """
    pos, quat = poses_of(clip)
    lowest = float(np.percentile(pos[..., 2].min(axis=1), 5))
    shapes = [MotionShape("plane", -1, pos=(0.0, 0.0, min(lowest, 0.0) if lowest < -0.5 else 0.0))]
    bones = [
        (parent, clip.offsets[j], j)
        for j, parent in enumerate(clip.parents)
        if parent >= 0 and j not in clip.moved
    ]
    bones += [(joint, end, -1) for joint, end in zip(clip.end_parents, clip.end_offsets)]
    for joint, offset, _ in bones:
        shape = bone_shape(joint, offset)
        if shape is not None:
            shapes.append(shape)
    frames, joints = clip.n_frames, clip.n_joints
    charted = {"head": "head", "left ankle": "leftFoot", "right ankle": "rightFoot"}
    joint_of = scheme.joints if scheme is not None else {}
    phase = np.full(frames, -1) if stance is None else stance.stands @ np.array([1, 2])
    return Motion(
        title=clip.name,
        link_names=_labels(clip, scheme),
        joint_names=(),
        phase_names=() if stance is None else PHASES,
        shapes=tuple(shapes),
        time=clip.time,
        q=np.zeros((frames, 0)),
        qd=np.zeros((frames, 0)),
        link_pos=pos,
        link_quat=quat,
        contact_pos=np.zeros((frames, 0, 3)),
        contact_force=np.zeros((frames, 0, 3)),
        phase=phase,
        torque=np.zeros((frames, 0)),
        torque_limit=np.zeros(0),
        heights={
            k: pos[:, clip.joint(joint_of[r]), 2] for k, r in charted.items() if r in joint_of
        },
        link_roles=("character",) * joints,
    )


def bone_shape(link: int, offset: np.ndarray) -> MotionShape | None:
    """Capsule of a bone from a link's origin to a place in its frame [m]; None under 1 mm."""
    length = float(np.linalg.norm(offset))
    if length < 1e-3:
        return None
    radius = float(np.clip(0.12 * length, min(THIN, 0.4 * length), THICK))
    quat = turning(np.array([1.0, 0.0, 0.0]), np.asarray(offset))
    size = (radius, max(0.5 * length - radius, 0.0))
    return MotionShape("capsule", link, tuple(0.5 * offset), tuple(quat.tolist()), size)


def _labels(clip: Clip, scheme: NamingScheme | None) -> tuple[str, ...]:
    """Names of the joints, with their roles; a side is inherited by all joints below."""
    role_of = {joint: role for role, joint in scheme.joints.items()} if scheme else {}
    sides: list[str] = []
    labels: list[str] = []
    for j, name in enumerate(clip.joint_names):
        role = role_of.get(name, "")
        own = next((side for side in ("left", "right") if role.startswith(side)), "")
        side = own or (sides[clip.parents[j]] if j else "")
        sides.append(side)
        labels.append(f"{role} ({name})" if role else f"{side} {name}".strip())
    return tuple(labels)


def beside(left: Motion, right: Motion, apart: float = 1.2) -> Motion:
    """Join two motions of the same times into one, ``right`` shifted by ``-apart`` [m] along y.

    Such as a source and a character that follows it. Phases, heights and contacts are the left
    one's; shapes of the right one that are fixed to the world are left out. Raises ValueError where
    the times differ.
    """
    if left.time.shape != right.time.shape or not np.allclose(left.time, right.time, atol=1e-6):
        raise ValueError("beside needs two motions with samples at the same times")
    shift = np.array([0.0, -apart, 0.0])
    moved = tuple(
        replace(shape, link=shape.link + left.n_links) for shape in right.shapes if shape.link >= 0
    )
    return replace(
        left,
        link_names=(*left.link_names, *right.link_names),
        link_roles=(*left.link_roles, *right.link_roles),
        shapes=(*left.shapes, *moved),
        link_pos=np.concatenate([left.link_pos, right.link_pos + shift], axis=1),
        link_quat=np.concatenate([left.link_quat, right.link_quat], axis=1),
    )
