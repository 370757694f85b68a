"""Checks of a clip: its height, initial rows that are no motion, and whether it is a human."""

from __future__ import annotations

import numpy as np

from jaxsim.mocap.clip import Clip
from jaxsim.mocap.kinematics import end_positions, poses_of
from jaxsim.mocap.rotations import angle_between
from jaxsim.mocap.schemes import NamingScheme

__all__ = ["height", "not_human", "pose_rows"]

ROWS = 10  # how many first rows may be no motion
SAMPLES = 500  # frames that are looked at where not all need be
JUMP = 5.0  # times what the figure else turns between rows at most
LEAST_JUMP = np.radians(5.0)


def height(clip: Clip, scheme: NamingScheme | None) -> float:
    """Height of the figure [m]: the 90th percentile over the frames.

    From the lowest point of the feet to the top of the head, with all that hangs on them; without
    feet, from the lowest joint. Of a figure without a scheme the median extent of its joints and
    ends.
    """
    pos, quat = poses_of(clip)
    ends = end_positions(clip, pos, quat)
    if scheme is None:
        return float(np.median(np.ptp(np.concatenate([pos, ends], axis=1)[..., 2], axis=1)))
    feet = [name for role, name in scheme.joints.items() if role.endswith(("Foot", "Toe"))]
    low = _points(clip, pos, ends, feet) if feet else pos
    top = _points(clip, pos, ends, [scheme.joints["head"]])
    return float(np.percentile(top[..., 2].max(axis=1) - low[..., 2].min(axis=1), 90))


def _points(clip: Clip, pos: np.ndarray, ends: np.ndarray, names: list[str]) -> np.ndarray:
    """Positions (T, n, 3) [m] of joints, all below them and the end sites on these."""
    joints = [clip.joint(name) for name in names]
    for j, parent in enumerate(clip.parents):
        if parent in joints and j not in joints:
            joints.append(j)
    sites = [k for k, parent in enumerate(clip.end_parents) if parent in joints]
    return np.concatenate([pos[:, joints], ends[:, sites]], axis=1)


def pose_rows(clip: Clip, scheme: NamingScheme | None) -> int:
    """Number of initial rows that are a pose of a converter, with the transition from it.

    They are present where the body turns from row 0 to row 1, in the mean over its joints, 5 times
    as far as between 98 of 100 later rows, and 5 degrees at least. The transition lasts while it
    turns over twice as far as it mostly does, and a row more. 0 for a clip under 30 rows.
    """
    if clip.n_frames < 3 * ROWS:
        return 0
    joints = list(range(clip.n_joints))
    if scheme is not None:
        joints = [clip.joint(name) for name in scheme.joints.values()]
    later = np.unique(np.linspace(ROWS, clip.n_frames - 2, SAMPLES).astype(int))
    first, usual = (_turned(clip, joints, rows) for rows in (np.arange(ROWS), later))
    if first[0] < max(JUMP * float(np.percentile(usual, 98)), LEAST_JUMP):
        return 0
    slow = np.flatnonzero(first[1:] <= 2.0 * np.median(usual))
    last = int(slow[0]) if slow.size else ROWS - 1
    return 1 if last == 0 else last + 2


def _turned(clip: Clip, joints: list[int], rows: np.ndarray) -> np.ndarray:
    """Mean rotation (n,) [rad] of the joints after these rows."""
    before, after = (clip.rotations[rows + k][:, joints] for k in (0, 1))
    return angle_between(before, after).mean(axis=1)


def not_human(clip: Clip, scheme: NamingScheme | None) -> str:
    """Reason why the figure is no human that can be followed; "" for a human.

    A figure without a scheme is rejected; with human names it may still be a quadruped, which goes
    on all fours: hands as low as feet, and the trunk level, in most frames.
    """
    if scheme is None:
        return "no known naming scheme: it is no humanoid, or its joints have other names"
    if any("tail" in name.lower() for name in clip.joint_names):
        return "it has a tail: no humanoid"
    pos, _ = poses_of(clip.some(SAMPLES))
    at = {role: pos[:, clip.joint(name)] for role, name in scheme.joints.items()}
    trunk = at["chest"] - at["pelvis"]
    level = trunk[:, 2] < np.sin(np.radians(30.0)) * np.linalg.norm(trunk, axis=-1)
    hands = [at.get(f"{side}Hand", at[f"{side}Forearm"]) for side in ("left", "right")]
    feet = [at.get(f"{side}Foot", at[f"{side}Shank"]) for side in ("left", "right")]
    leg = np.linalg.norm(at["leftShank"] - at["leftThigh"], axis=-1)
    gap = (hands[0] + hands[1] - feet[0] - feet[1])[:, 2] / 2.0
    fours = level & (np.abs(gap) < 0.5 * leg)
    if fours.mean() > 0.5:
        return "it goes on four feet: no humanoid"
    return ""
