"""Forward kinematics of a clip over all frames at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxsim.math.rotation import quat_multiply, quat_rotate
from jaxsim.mocap.clip import Clip

__all__ = ["end_positions", "joint_poses", "poses_of"]


def joint_poses(parents: Sequence[int], places: Any, rotations: Any) -> tuple[Any, Any]:
    """Origins (..., J, 3) [m] and orientations (..., J, 4) of joints in the world.

    parents: (J,), -1 for the root, parents before children; places (..., J, 3) [m] of the joints in
    their parents' frames, of the root in the world; rotations (..., J, 4). Numpy arrays give numpy
    arrays; JAX arrays may be traced, batched and differentiated. All joints of one depth are one
    operation.
    """
    xp = rotations.__array_namespace__()
    pos, quat = [], []
    rows = levels(parents)
    for depth, joints in enumerate(rows):
        index = np.array(joints)
        local, turn = places[..., index, :], rotations[..., index, :]
        if depth:
            above = np.array([rows[depth - 1].index(parents[j]) for j in joints])
            over = quat[-1][..., above, :]
            local, turn = (
                pos[-1][..., above, :] + quat_rotate(over, local),
                quat_multiply(over, turn),
            )
        pos.append(local)
        quat.append(turn)
    back = np.argsort(np.concatenate(rows))
    return xp.concatenate(pos, axis=-2)[..., back, :], xp.concatenate(quat, axis=-2)[..., back, :]


def levels(parents: Sequence[int]) -> list[list[int]]:
    """Joints by their depth below the root."""
    depth = [0] * len(parents)
    for j, parent in enumerate(parents):
        depth[j] = 0 if parent < 0 else depth[parent] + 1
    return [[j for j, d in enumerate(depth) if d == level] for level in range(max(depth) + 1)]


def places_of(clip: Clip) -> np.ndarray:
    """Positions (T, J, 3) [m] of the joints in their parents' frames, of the root in the world."""
    places = np.repeat(clip.offsets[None], clip.n_frames, axis=0)
    places[:, 0] = clip.root_pos
    places[:, list(clip.moved)] = clip.moved_pos
    return places


def poses_of(clip: Clip) -> tuple[np.ndarray, np.ndarray]:
    """Origins (T, J, 3) [m] and orientations (T, J, 4) of a clip's joints in the world, float64."""
    return joint_poses(clip.parents, places_of(clip), clip.rotations)


def end_positions(clip: Clip, pos: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """Positions (T, E, 3) [m] of the end sites in the world; pos and quat as from ``poses_of``."""
    joints = list(clip.end_parents)
    return pos[:, joints] + quat_rotate(
        quat[:, joints], np.broadcast_to(clip.end_offsets, (clip.n_frames, len(joints), 3))
    )
