"""Rest-pose alignment: the constant rotation between a joint of a clip and the role it drives.

R_role(t) = R_joint(t) A, with R_joint the rotation from the file's zero pose and R_role in the
frames of ``jaxsim.mocap.body``: z against a limb's bone, y the axis about which it bends. A comes
from the file's zero pose, with the twist of its naming scheme, or from the joint positions in the
motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxsim.math.rotation import quat_multiply, quat_to_matrix
from jaxsim.mocap.body import DRIVEN, limb_frame
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import end_positions, joint_poses, poses_of
from jaxsim.mocap.rotations import turning
from jaxsim.mocap.schemes import NamingScheme

__all__ = ["ALIGNMENTS", "Source", "align", "source_of", "target_rotations"]

ALIGNMENTS = ("rest", "geometry")
SIDES = ("left", "right")
LEAST_BONE = 0.05  # [m] of a bone that shows the direction of a limb
BENT = np.sin(np.radians(20.0))  # bend of limbs whose pose shows their axis
UPRIGHT = np.cos(np.radians(35.0))
LEAST_BENT = 0.02  # part of the frames
CMU = ("CMU ASF", "CMU BVH (MotionBuilder)", "CMU BVH (3ds-max)")
# [deg] about the bones of the left upper arm and forearm, the other way on the right: in CMU's
# data the hinge of the elbow is turned by 30 about the bone from where the T pose has it.
TWISTS = {**{name: (30.0, 30.0) for name in CMU}, "CMU BVH (DAZ)": (24.0, 7.0)}
NEXT = {"UpperArm": "Forearm", "Forearm": "Hand", "Thigh": "Shank", "Shank": "Foot"}


@dataclass(frozen=True, eq=False)
class Source:
    """Poses of the joints of a clip that drive roles; numpy, float64."""

    clip: Clip
    scheme: NamingScheme
    roles: tuple[str, ...]  # of DRIVEN, those that the clip has
    quat: np.ndarray  # (T, n, 4) of their joints
    pos: np.ndarray  # (T, n, 3) [m]
    bones: dict[str, np.ndarray]  # limb, or a foot to its toes -> (T, 3) [m] along it
    rest: dict[str, np.ndarray]  # the same (3,) in the zero pose, and pelvis, leg and hips there

    def of(self, role: str) -> tuple[np.ndarray, np.ndarray]:
        """Positions (T, 3) [m] and orientations (T, 4) of a role's joint."""
        k = self.roles.index(role)
        return self.pos[:, k], self.quat[:, k]


def source_of(clip: Clip, scheme: NamingScheme) -> Source:
    """Poses of the joints that drive roles, in the motion and in the zero pose.

    Raises ClipError where the scheme lacks a role that every figure needs.
    """
    needed = [
        "pelvis",
        "chest",
        *(f"{s}{limb}" for s in SIDES for limb in ("Thigh", "Shank", "Foot")),
    ]
    lacking = [role for role in needed if role not in scheme.joints]
    if lacking:
        raise ClipError(
            f"{clip.name} has no {' and no '.join(lacking)}, which retargeting needs; name them in"
            " a joint map"
        )
    pos, quat = poses_of(clip)
    ends = end_positions(clip, pos, quat)
    still = np.zeros((1, clip.n_joints, 4))
    still[..., 0] = 1.0
    pos0, quat0 = joint_poses(clip.parents, clip.offsets[None], still)
    ends0 = end_positions(clip.take(slice(0, 1)), pos0, quat0)
    bones, rest = {}, {}
    for side in SIDES:
        for limb in (*NEXT, "Foot"):
            role = f"{side}{limb}"
            end = _end(clip, scheme, role, pos0[0], ends0[0])
            if end is not None:
                start, (kind, k) = clip.joint(scheme.joints[role]), end
                bones[role] = (pos if kind == "joint" else ends)[:, k] - pos[:, start]
                rest[role] = (pos0 if kind == "joint" else ends0)[0, k] - pos0[0, start]
    at = {role: pos0[0, clip.joint(name)] for role, name in scheme.joints.items()}
    hips = 0.5 * (at["leftThigh"] + at["rightThigh"])
    rest["trunk"] = at["chest"] - hips
    rest["legs"] = hips - 0.5 * (at["leftFoot"] + at["rightFoot"])
    rest["hips"] = at["leftThigh"] - at["rightThigh"]
    roles = tuple(role for role in DRIVEN if role in scheme.joints)
    index = [clip.joint(scheme.joints[role]) for role in roles]
    return Source(clip, scheme, roles, quat[:, index], pos[:, index], bones, rest)


def _end(
    clip: Clip, scheme: NamingScheme, role: str, pos0: np.ndarray, ends0: np.ndarray
) -> tuple[str, int] | None:
    """Joint or end site towards which a limb points; None if nothing indicates it."""
    if role not in scheme.joints:
        return None
    start = clip.joint(scheme.joints[role])
    side = "left" if role.startswith("left") else "right"
    below = NEXT.get(role.removeprefix(side), "Toe")
    name = scheme.joints.get(f"{side}{below}")
    path = _path(clip, start, clip.joint(name)) if name is not None else []
    if below != "Hand":
        path = path[-1:]
    far = [j for j in path if np.linalg.norm(pos0[j] - pos0[start]) > LEAST_BONE]
    if far:
        return "joint", far[0]
    if below in ("Hand", "Toe"):
        sites = [
            (float(np.linalg.norm(ends0[k] - pos0[start])), k)
            for k, parent in enumerate(clip.end_parents)
            if parent == start or start in _path(clip, -1, parent)
        ]
        if sites and max(sites)[0] > LEAST_BONE:
            return "site", max(sites)[1]
    return None


def _path(clip: Clip, above: int, joint: int) -> list[int]:
    """Joints below ``above`` (-1: the world) on the way down to a joint, with it."""
    path: list[int] = []
    while joint != above and joint >= 0:
        path.insert(0, joint)
        joint = clip.parents[joint]
    return path if joint == above else []


def align(source: Source, flat: np.ndarray, how: str | None) -> tuple[dict[str, np.ndarray], str]:
    """Alignment A of each role as a matrix (3, 3), and the method that was used.

    flat (T, 2) bool: certain stance of the feet. how: "rest" takes the zero pose and the scheme's
    twist, "geometry" the motion; None the first for a known scheme, and the second for limbs of
    others. The trunk is taken from the zero pose wherever that is upright. Feet are fitted in
    stance, so that soles lie flat.
    """
    if how is not None and how not in ALIGNMENTS:
        raise ClipError(f"alignment is {how!r}; give one of {', '.join(ALIGNMENTS)}")
    if source.scheme.name == "jaxsim" and how is None:
        return {role: np.eye(3) for role in source.roles}, "jaxsim"
    upright = _upright(source)
    known = source.scheme.name != "none"
    way = how or ("rest" if upright and known else "geometry")
    if way == "rest" and not upright:
        raise ClipError(
            f'{source.clip.name}: its zero pose is no upright figure; take alignment="geometry"'
        )
    alignment = {role: np.eye(3) for role in ("pelvis", "abdomen", "chest", "head")}
    if not upright:
        alignment = _trunk(source)
    rest = _rest_limbs(source)
    bent = _bent_limbs(source, alignment) if way == "geometry" else {}
    for role in source.roles:
        if role.endswith("Foot"):
            alignment[role] = _foot(source, flat, role)
        elif role not in alignment:
            alignment[role] = bent.get(role, rest[role])
    return {role: alignment[role] for role in source.roles}, way


def _upright(source: Source) -> bool:
    """True if the zero pose is an upright figure that faces x."""
    up = [source.rest["trunk"], source.rest["legs"]]
    cosines = [v[2] / max(float(np.linalg.norm(v)), 1e-9) for v in up]
    hips = source.rest["hips"]
    return min(*cosines, hips[1] / max(float(np.linalg.norm(hips)), 1e-9)) > UPRIGHT


def _rest_limbs(source: Source) -> dict[str, np.ndarray]:
    """Alignments of limbs from the zero pose: the shortest rotation from hanging, and the twist."""
    alignment = {}
    arms = TWISTS.get(source.scheme.name, (0.0, 0.0))
    for role in source.roles:
        limb = role.removeprefix("left").removeprefix("right")
        if limb not in NEXT:
            continue
        turn = np.array([1.0, 0.0, 0.0, 0.0])
        if role in source.bones:
            turn = turning(np.array([0.0, 0.0, -1.0]), source.rest[role])
        elif limb == "Forearm":
            turn = turning(np.array([0.0, 0.0, -1.0]), source.rest[role.replace("Fore", "Upper")])
        twist = {"UpperArm": arms[0], "Forearm": arms[1]}.get(limb, 0.0)
        half = np.radians(twist if role.startswith("left") else -twist) / 2.0
        alignment[role] = quat_to_matrix(
            quat_multiply(turn, np.array([np.cos(half), 0, 0, np.sin(half)]))
        )
    return alignment


def _trunk(source: Source) -> dict[str, np.ndarray]:
    """Alignments of the trunk from the lines of hips and shoulders, for an unusable zero pose."""
    hips = [source.of(f"{side}Thigh")[0] for side in SIDES]
    arms = [source.of(f"{side}UpperArm")[0] for side in SIDES]
    low, high = 0.5 * (hips[0] + hips[1]), 0.5 * (arms[0] + arms[1])
    chest = source.of("chest")[0]
    pelvis_frame = limb_frame(low - chest, hips[0] - hips[1])
    neck = source.of("head")[0] if "head" in source.roles else high
    chest_frame = limb_frame(chest - neck, arms[0] - arms[1])
    middle = _nearest(pelvis_frame + chest_frame)
    frames = {
        "pelvis": pelvis_frame,
        "abdomen": middle,
        "chest": chest_frame,
        "head": chest_frame,
    }
    return {role: _mean(source, role, frames[role]) for role in frames if role in source.roles}


def _bent_limbs(source: Source, trunk: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Alignments of limbs from the frames in which they are bent.

    Of those that hardly are, from the y axis of the trunk. Empty for a limb without bones.
    """
    alignment = {}
    for side in SIDES:
        for upper, lower, way, part in (
            ("Thigh", "Shank", 1.0, "pelvis"),
            ("UpperArm", "Forearm", -1.0, "chest"),
        ):
            above, below = f"{side}{upper}", f"{side}{lower}"
            if above not in source.bones or below not in source.bones:
                continue
            first, second = source.bones[above], source.bones[below]
            bend = way * np.cross(first, second)
            size = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            weight = (np.linalg.norm(bend, axis=1) > BENT * size).astype(float)
            if weight.mean() < LEAST_BENT:
                if _upright(source):
                    continue
                weight = np.ones(len(first))
                bend = (quat_to_matrix(source.of(part)[1]) @ trunk[part])[..., 1]
            for role, bone in ((above, first), (below, second)):
                alignment[role] = _mean(source, role, limb_frame(bone, bend), weight)
    return alignment


def _foot(source: Source, flat: np.ndarray, role: str) -> np.ndarray:
    """Alignment of a foot: in stance its z is up, and x points level to its toes.

    A foot without stance is turned as in the zero pose.
    """
    stands = flat[:, SIDES.index("left" if role.startswith("left") else "right")]
    toes = source.bones.get(role)
    if stands.sum() < 2 or toes is None:
        ahead = source.rest.get(role, np.array([1.0, 0.0, 0.0]))
        yaw = np.arctan2(ahead[1], ahead[0]) if _upright(source) else 0.0
        half = 0.5 * yaw
        return quat_to_matrix(np.array([np.cos(half), 0.0, 0.0, np.sin(half)]))
    ahead = toes[stands] * np.array([1.0, 1.0, 0.0])
    ahead /= np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 1e-9)
    up = np.broadcast_to(np.array([0.0, 0.0, 1.0]), ahead.shape)
    flat = np.stack([ahead, np.cross(up, ahead), up], axis=-1)
    weight = np.zeros(len(stands))
    weight[stands] = 1.0
    frames = np.broadcast_to(np.eye(3), (len(stands), 3, 3)).copy()
    frames[stands] = flat
    return _mean(source, role, frames, weight)


def _mean(
    source: Source, role: str, frames: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Rotation A (3, 3) nearest to R_joint^T ``frames`` (T, 3, 3) in the mean over frames."""
    R = quat_to_matrix(source.of(role)[1])
    parts = np.swapaxes(R, -1, -2) @ frames
    return _nearest(np.average(parts, axis=0, weights=weight))


def _nearest(M: np.ndarray) -> np.ndarray:
    """Rotations (..., 3, 3) nearest to matrices (..., 3, 3)."""
    U, _, Vt = np.linalg.svd(M)
    sign = np.ones(M.shape[:-1])
    sign[..., 2] = np.sign(np.linalg.det(U @ Vt))
    return (U * sign[..., None, :]) @ Vt


def target_rotations(
    source: Source, found: dict[str, np.ndarray], roles: tuple[str, ...]
) -> np.ndarray:
    """Orientations (T, K, 3, 3) of the roles of a character.

    A part of the trunk that the clip lacks is between its neighbours, another limb that it lacks
    hangs as its parent does.
    """
    R = {role: quat_to_matrix(source.of(role)[1]) @ found[role] for role in source.roles}
    instead = {"abdomen": ("pelvis", "chest"), "head": ("chest", "chest")}
    for role in roles:
        if role in R:
            continue
        upper = role.replace("Forearm", "UpperArm")
        pair = instead.get(role, (upper, upper) if upper in R else ("chest", "chest"))
        R[role] = _nearest(R[pair[0]] + R[pair[1]])
    return np.stack([R[role] for role in roles], axis=1)
