"""How well a retargeted motion keeps to its clip and to the ground, in numbers."""

from __future__ import annotations

import numpy as np

from jaxsim.characters.human import TURNS
from jaxsim.mocap.retarget import Retargeted, sole_sides

__all__ = ["BOUNDS", "failures", "quality"]

# (least, greatest) of what a clip whose feet support it must keep to
BOUNDS = {
    "bone direction error mean deg": (0.0, 0.5),
    "left less right sole mm": (-12.0, 12.0),
    "sole corners apart mm": (0.0, 25.0),
    "deepest corner mm": (-70.0, np.inf),
    "knee flexion 2% deg": (-10.0, np.inf),
    "knee flexion 98% deg": (-np.inf, 145.0),
}
SIDES = ("left", "right")
BONES = ("UpperArm", "Forearm", "Thigh", "Shank")
JOINTS = ("head", *(f"{s}{limb}" for s in SIDES for limb in (*BONES, "Foot")))  # 11
LOW, SLOW = 0.05, 0.35  # [m], [m/s] of an ankle of whose slip the skate is measured
REACH = 0.033  # [s] over which speeds are taken


def quality(motion: Retargeted) -> dict[str, float]:
    """The report of a retargeted clip, by measure with its unit; NaN where there is nothing to
    measure, as without any frame in stance.

    "bone direction error": of upper arms, forearms, thighs, shanks. "joint error": of 11 joints
    from the middle of the hips, against the scaled clip. "sole corners apart": of a standing foot,
    highest less lowest, the median; "left less right sole": of the median lowest corners. "deepest
    corner": of both feet in all frames. "skate": horizontal speed of ankles that are low and slow.
    """
    found = {**_bones(motion), **_joints(motion), **_soles(motion), **_skate(motion)}
    for side, name in zip(SIDES, ("left", "right")):
        found[f"{name} stands %"] = 100.0 * float(motion.stance[:, SIDES.index(side)].mean())
    return {**found, **_bends(motion), **_limits(motion)}


def failures(report: dict[str, float]) -> list[str]:
    """The measures of ``quality`` that are beyond BOUNDS, in words."""
    return [
        f"{name} is {report[name]:.3g}, beyond {low:g} to {high:g}"
        for name, (low, high) in BOUNDS.items()
        if not (np.isnan(report[name]) or low <= report[name] <= high)
    ]


def _bones(motion: Retargeted) -> dict[str, float]:
    errors = []
    for side in SIDES:
        for limb in BONES:
            role = f"{side}{limb}"
            if role in motion.source_bones and role in motion.body.roles:
                down = -motion.frames[:, motion.body.index(role), :, 2]
                bone = motion.source_bones[role]
                across = np.linalg.norm(np.cross(down, bone), axis=1)
                errors.append(np.arctan2(across, np.sum(down * bone, axis=1)))
    degrees = np.degrees(np.array(errors))
    return {
        "bone direction error mean deg": float(degrees.mean()),
        "bone direction error 95% deg": float(np.percentile(degrees, 95)),
    }


def _joints(motion: Retargeted) -> dict[str, float]:
    """From the middle of the hips, in mm."""
    roles = [r for r in JOINTS if r in motion.source_points and r in motion.body.roles]
    thighs = [motion.body.index(f"{s}Thigh") for s in SIDES]
    middle = motion.points[:, thighs].mean(axis=1)
    source_middle = 0.5 * sum(motion.source_points[f"{s}Thigh"] for s in SIDES)
    errors = [
        (motion.points[:, motion.body.index(r)] - middle)
        - (motion.source_points[r] - source_middle)
        for r in roles
    ]
    size = 1e3 * np.linalg.norm(np.array(errors), axis=-1)
    return {
        "joint error mean mm": float(size.mean()),
        "joint error 95% mm": float(np.percentile(size, 95)),
    }


def _soles(motion: Retargeted) -> dict[str, float]:
    lowest, apart, tilt = [], [], []
    every = []
    for k, points in enumerate(sole_sides(motion.body)):
        heights = 1e3 * motion.soles[:, points, 2]
        stands = motion.flat[:, k]
        every.append(heights.min(axis=1))
        lowest.append(_median(heights[stands].min(axis=1)))
        apart.append(np.ptp(heights[stands], axis=1))
        up = motion.frames[stands][:, motion.body.index(f"{SIDES[k]}Foot"), 2, 2]
        tilt.append(np.degrees(np.arccos(np.clip(up, -1.0, 1.0))))
    below = np.minimum(np.array(every), 0.0)
    return {
        "floor m": motion.floor,
        "left less right sole mm": lowest[0] - lowest[1],
        "sole corners apart mm": _median(np.concatenate(apart)),
        "sole tilt deg": _median(np.concatenate(tilt)),
        "deepest corner mm": float(np.min(every)),
        "penetration mean mm": float(-below.mean()),
    }


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else float("nan")


def _skate(motion: Retargeted) -> dict[str, float]:
    """[cm/s] of ankles that are low and slow, of the character."""
    found = {}
    for k, side in enumerate(SIDES):
        ankle = motion.points[:, motion.body.index(f"{side}Foot")]
        speed = _speed(ankle, motion.rate)
        level = _speed(ankle * np.array([1.0, 1.0, 0.0]), motion.rate)
        stands = motion.flat[:, k]
        height = np.median(ankle[stands, 2]) if stands.any() else np.nan
        flat = stands & (ankle[:, 2] - height < LOW) & (speed < SLOW)
        found[f"{side} skate cm/s"] = 1e2 * float(level[flat].mean()) if flat.any() else np.nan
    return found


def _speed(points: np.ndarray, rate: float) -> np.ndarray:
    """(T,) [m/s] of (T, 3), over REACH to both sides."""
    reach, last = max(1, round(REACH * rate)), len(points) - 1
    k = np.arange(last + 1)
    before, after = np.maximum(k - reach, 0), np.minimum(k + reach, last)
    way = np.linalg.norm(points[after] - points[before], axis=-1)
    return way * rate / np.maximum(after - before, 1)


def _bends(motion: Retargeted) -> dict[str, float]:
    """Knees and elbows: flexion in the frames of their roles, and what of it is about another
    axis."""
    found = {}
    for name, upper, lower, way in (
        ("knee", "Thigh", "Shank", 1.0),
        ("elbow", "UpperArm", "Forearm", -1.0),
    ):
        bends = []
        for side in SIDES:
            if f"{side}{upper}" in motion.body.roles and f"{side}{lower}" in motion.body.roles:
                first, second = (
                    motion.frames[:, motion.body.index(f"{side}{limb}")] for limb in (upper, lower)
                )
                z = np.einsum("tij,ti->tj", first, second[..., 2])  # in the upper limb's frame
                bends.append(np.degrees(np.arctan2(way * z[:, 0], z[:, 2])))
        if bends:
            low, high = np.percentile(bends, [2, 98])
            found |= {f"{name} flexion 2% deg": float(low), f"{name} flexion 98% deg": float(high)}
    return found


def _limits(motion: Retargeted) -> dict[str, float]:
    """Share of frames in which a knee or elbow bends further than a human's, and in which a hinge
    is at one of its limits: it would have to go beyond."""
    top = motion.model.topology
    at = np.zeros(len(motion.q), bool)
    for j in top.limited_joints:
        if top.joint_kinds[j] == "hinge" and top.joint_link[j] in motion.body.links:
            angle = motion.q[:, top.q_start[j]]
            lower = float(motion.model.joint_lower[j])
            upper = float(motion.model.joint_upper[j])
            at |= (angle <= lower + 1e-5) | (angle >= upper - 1e-5)
    return {"frames at a joint's limit %": 100.0 * float(at.mean()), **_beyond(motion)}


def _beyond(motion: Retargeted) -> dict[str, float]:
    """Frames [%] in which a knee or an elbow is bent beyond a human's range."""
    beyond = np.zeros(len(motion.q), bool)
    pairs = (("kneeFlexion", "Thigh", "Shank", 1.0), ("elbowFlexion", "UpperArm", "Forearm", -1.0))
    for turn, upper, lower, way in pairs:
        low, high = TURNS[turn].range
        for side in SIDES:
            if f"{side}{upper}" not in motion.body.roles:
                continue
            first, second = (
                motion.frames[:, motion.body.index(f"{side}{limb}")] for limb in (upper, lower)
            )
            z = np.einsum("tij,ti->tj", first, second[..., 2])
            bend = np.degrees(np.arctan2(way * z[:, 0], z[:, 2]))
            beyond |= (bend < low - 5.0) | (bend > high + 5.0)
    return {"frames beyond a human's range %": 100.0 * float(beyond.mean())}
