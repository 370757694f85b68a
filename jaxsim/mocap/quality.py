"""Quality of a retargeted motion: deviations from its clip and from the ground."""

from __future__ import annotations

import numpy as np

from jaxsim.characters.human import TURNS
from jaxsim.mocap.retarget import Retargeted, sole_sides
from jaxsim.mocap.rotations import angle_between

__all__ = ["BOUNDS", "at_limits", "failures", "over_time", "quality"]

# (least, greatest) of what a clip whose feet support it keeps to on a body of balls
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
BENDS = {  # joint -> upper limb, lower limb, sign of flexion about y, of TURNS
    "knee": ("Thigh", "Shank", 1.0, "kneeFlexion"),
    "elbow": ("UpperArm", "Forearm", -1.0, "elbowFlexion"),
}
SLACK = 5.0  # [deg] beyond a human's range that measuring a pose may account for
LOW, SLOW = 0.05, 0.35  # [m], [m/s] of an ankle of whose slip the skate is measured
REACH = 0.033  # [s] to both sides, over which speeds are taken
AT = 1e-5  # [rad] from its limit a hinge is at it


def quality(motion: Retargeted) -> dict[str, float]:
    """Report of a retargeted clip, by measure with its unit; measures without data are omitted.

    "bone direction error": of upper arms, forearms, thighs, shanks. "joint error": of the head,
    shoulders, elbows, hips, knees and ankles from the middle of the hips, against the scaled clip.
    Of feet in certain stance (``Retargeted.flat``), medians: "sole corners apart", highest less
    lowest; "sole tilt" of the foot; "left less right sole" of their lowest corners. "deepest
    corner": of both feet in all frames. "skate": horizontal speed of ankles that are low and slow.
    "beyond a human's range": a knee or elbow, by over 5 degrees.
    """
    bones, joints = _bone_errors(motion), _joint_errors(motion)
    report = {
        "bone direction error mean deg": float(bones.mean()),
        "bone direction error 95% deg": float(np.percentile(bones, 95)),
        "joint error mean mm": float(joints.mean()),
        "joint error 95% mm": float(np.percentile(joints, 95)),
        **_soles(motion),
        **_skate(motion),
    }
    for k, side in enumerate(SIDES):
        report[f"{side} stands %"] = 100.0 * float(motion.stance[:, k].mean())
    bends = _bends(motion)
    for joint in BENDS:
        both = [bend for name, bend in bends.items() if name.endswith(joint)]
        if both:
            low, high = np.percentile(both, [2, 98])
            report[f"{joint} flexion 2% deg"] = float(low)
            report[f"{joint} flexion 98% deg"] = float(high)
    report["fastest joint rad/s"] = _fastest(motion)
    return {**report, **_limits(motion, bends)}


def failures(report: dict[str, float]) -> list[str]:
    """Measures of ``quality`` that are beyond BOUNDS, as text. A NaN is beyond any."""
    return [
        f"{name} is {report[name]:.3g}, beyond {low:g} to {high:g}"
        for name, (low, high) in BOUNDS.items()
        if name in report and not low <= report[name] <= high
    ]


def over_time(motion: Retargeted) -> dict[str, np.ndarray]:
    """Series (T,) behind ``quality``: errors, sole heights and flexion.

    Mean bone direction error [deg], mean joint error [mm], the lowest point of each sole [mm],
    flexion of knees and elbows [deg].
    """
    soles = motion.soles[..., 2]
    return {
        "bone direction error deg": _bone_errors(motion).mean(axis=0),
        "joint error mm": _joint_errors(motion).mean(axis=0),
        **{
            f"{side} sole mm": 1e3 * soles[:, points].min(axis=1)
            for side, points in zip(SIDES, sole_sides(motion.body))
        },
        **{f"{joint} flexion deg": bend for joint, bend in _bends(motion).items()},
    }


def _bone_errors(motion: Retargeted) -> np.ndarray:
    """Angles (bones, T) [deg] between limbs of the character and of the clip."""
    errors = []
    for role in (f"{side}{limb}" for side in SIDES for limb in BONES):
        if role in motion.source_bones and role in motion.body.roles:
            down = -motion.frames[:, motion.body.index(role), :, 2]
            bone = motion.source_bones[role]
            across = np.linalg.norm(np.cross(down, bone), axis=1)
            errors.append(np.arctan2(across, np.sum(down * bone, axis=1)))
    return np.degrees(np.array(errors))


def _joint_errors(motion: Retargeted) -> np.ndarray:
    """Distances (joints, T) [mm] of joints from the clip's, relative to the middle of the hips."""
    roles = [r for r in JOINTS if r in motion.source_points and r in motion.body.roles]
    thighs = [f"{side}Thigh" for side in SIDES]
    own = motion.points - motion.points[:, [motion.body.index(r) for r in thighs]].mean(
        axis=1, keepdims=True
    )
    middle = 0.5 * (motion.source_points[thighs[0]] + motion.source_points[thighs[1]])
    errors = [own[:, motion.body.index(r)] - (motion.source_points[r] - middle) for r in roles]
    return 1e3 * np.linalg.norm(np.array(errors), axis=-1)


def _soles(motion: Retargeted) -> dict[str, float]:
    lowest, apart, tilt, every = [], [], [], []
    for k, points in enumerate(sole_sides(motion.body)):
        heights, flat = 1e3 * motion.soles[:, points, 2], motion.flat[:, k]
        every.append(heights.min(axis=1))
        lowest.append(heights[flat].min(axis=1))
        apart.append(np.ptp(heights[flat], axis=1))
        up = motion.frames[flat][:, motion.body.index(f"{SIDES[k]}Foot"), 2, 2]
        tilt.append(np.degrees(np.arccos(np.clip(up, -1.0, 1.0))))
    measures = {"floor m": motion.floor}
    if all(low.size for low in lowest):
        measures["left less right sole mm"] = float(np.median(lowest[0]) - np.median(lowest[1]))
    if motion.flat.any():
        measures["sole corners apart mm"] = float(np.median(np.concatenate(apart)))
        measures["sole tilt deg"] = float(np.median(np.concatenate(tilt)))
    return {
        **measures,
        "deepest corner mm": float(np.min(every)),
        "penetration mean mm": float(-np.minimum(every, 0.0).mean()),
    }


def _skate(motion: Retargeted) -> dict[str, float]:
    measures = {}
    for k, side in enumerate(SIDES):
        ankle, flat = motion.points[:, motion.body.index(f"{side}Foot")], motion.flat[:, k]
        level = _speed(ankle * np.array([1.0, 1.0, 0.0]), motion.rate)
        over = ankle[:, 2] - (np.median(ankle[flat, 2]) if flat.any() else 0.0)
        slow = flat & (over < LOW) & (_speed(ankle, motion.rate) < SLOW)
        if slow.any():
            measures[f"{side} skate cm/s"] = 1e2 * float(level[slow].mean())
    return measures


def _speed(points: np.ndarray, rate: float) -> np.ndarray:
    """Speeds (T,) [m/s] of points (T, 3)."""
    reach, last = max(1, round(REACH * rate)), len(points) - 1
    k = np.arange(last + 1)
    before, after = np.maximum(k - reach, 0), np.minimum(k + reach, last)
    way = np.linalg.norm(points[after] - points[before], axis=-1)
    return way * rate / np.maximum(after - before, 1)


def _fastest(motion: Retargeted) -> float:
    """Largest speed [rad/s] of any joint but the root, from frame to frame; a jump shows in it."""
    top, speeds = motion.model.topology, [0.0]
    for kind, start in zip(top.joint_kinds, top.q_start):
        if kind == "ball":
            turn = motion.q[:, start : start + 4]
            speeds.append(motion.rate * float(angle_between(turn[1:], turn[:-1]).max()))
        elif kind == "hinge":
            speeds.append(motion.rate * float(np.abs(np.diff(motion.q[:, start])).max()))
    return max(speeds)


def _bends(motion: Retargeted) -> dict[str, np.ndarray]:
    """Flexion (T,) [deg] of "left knee" and the like, in the plane across its axis."""
    flexion = {}
    for joint, (upper, lower, way, _) in BENDS.items():
        for side in SIDES:
            if {f"{side}{upper}", f"{side}{lower}"} <= set(motion.body.roles):
                first, second = (
                    motion.frames[:, motion.body.index(f"{side}{limb}")] for limb in (upper, lower)
                )
                z = np.einsum("tji,tj->ti", first, second[..., 2])  # in the upper limb's frame
                flexion[f"{side} {joint}"] = np.degrees(np.arctan2(way * z[:, 0], z[:, 2]))
    return flexion


def at_limits(motion: Retargeted) -> dict[str, np.ndarray]:
    """Frames (T,) bool, by hinge, in which it is at a limit that the clip would exceed.

    Hinges that never are at a limit are omitted.
    """
    top, frames = motion.model.topology, {}
    for j in top.limited_joints:
        if top.joint_kinds[j] == "hinge" and top.joint_link[j] in motion.body.links:
            angle = motion.q[:, top.q_start[j]]
            below = angle <= float(motion.model.joint_lower[j]) + AT
            at = below | (angle >= float(motion.model.joint_upper[j]) - AT)
            if at.any():
                frames[top.joint_names[j]] = at
    return frames


def _limits(motion: Retargeted, bends: dict[str, np.ndarray]) -> dict[str, float]:
    """Shares of frames [%] with a hinge at a limit, and beyond a human's range.

    The latter are of knees and elbows, whatever joints they have.
    """
    at, beyond = np.zeros(len(motion.q), bool), np.zeros(len(motion.q), bool)
    for frames in at_limits(motion).values():
        at |= frames
    for name, bend in bends.items():
        low, high = TURNS[BENDS[name.split()[1]][3]].range
        beyond |= (bend < low - SLACK) | (bend > high + SLACK)
    return {
        "frames at a joint's limit %": 100.0 * float(at.mean()),
        "frames beyond a human's range %": 100.0 * float(beyond.mean()),
    }
