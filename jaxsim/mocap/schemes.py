"""Naming schemes: the joints of a file that are pelvis, thigh, foot and so on.

The roles have the names of the links of jaxsim's own humans, and Hand and Toe beside. A joint
drives its role: the one of "leftThigh" is at the hip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ROLES", "SCHEMES", "NamingScheme", "detect_scheme"]

TRUNK = ("pelvis", "abdomen", "chest", "head")
LIMBS = ("UpperArm", "Forearm", "Hand", "Thigh", "Shank", "Foot", "Toe")
ROLES = (*TRUNK, *(f"{side}{limb}" for side in ("left", "right") for limb in LIMBS))
NEEDED = tuple(role for role in ROLES if not role.endswith(("Hand", "Foot", "Toe", "abdomen")))


@dataclass(frozen=True)
class NamingScheme:
    """A naming scheme, as found in a clip."""

    name: str
    joints: dict[str, str]  # role -> joint, of those roles that the clip has

    def lacking(self) -> tuple[str, ...]:
        """Roles that no joint of the clip has."""
        return tuple(role for role in ROLES if role not in self.joints)


def _both(limbs: str, sides: tuple[str, str]) -> dict[str, str]:
    """Names of the limbs in the order of LIMBS, "*" for the side, "-" for none."""
    return {
        f"{role}{limb}": name.replace("*", side)
        for role, side in zip(("left", "right"), sides)
        for limb, name in zip(LIMBS, limbs.split())
        if name != "-"
    }


def _names(trunk: str, limbs: str, sides: tuple[str, str]) -> dict[str, str]:
    return {**dict(zip(TRUNK, trunk.split())), **_both(limbs, sides)}


_WORDS, _LETTERS = ("Left", "Right"), ("l", "r")
_ARM = "*Arm *ForeArm *Hand *UpLeg *Leg *Foot"

# Scheme -> joints by role, and a joint that only this scheme has, "" for none. The first one fits
# whose mark and needed joints are there, so those of many marks stand first.
SCHEMES: dict[str, tuple[dict[str, str], str]] = {
    "jaxsim": (
        _names(
            "pelvis abdomen chest head",
            "*UpperArm *Forearm - *Thigh *Shank *Foot -",
            ("left", "right"),
        ),
        "",
    ),
    "SMPL": (
        _names(
            "pelvis spine1 spine3 head",
            "*_shoulder *_elbow *_wrist *_hip *_knee *_ankle *_foot",
            ("left", "right"),
        ),
        "",
    ),
    "CMU ASF": (
        _names(
            "root upperback thorax head",
            "*humerus *radius *hand *femur *tibia *foot *toes",
            _LETTERS,
        ),
        "",
    ),
    "CMU BVH (DAZ)": (
        _names("hip abdomen chest head", "*Shldr *ForeArm *Hand *Thigh *Shin *Foot -", _LETTERS),
        "",
    ),
    "CMU BVH (3ds-max)": (
        _names("Hips Chest Chest2 Head", "*Shoulder *Elbow *Wrist *Hip *Knee *Ankle *Toe", _WORDS),
        "",
    ),
    "SNU ASF": (
        _names(
            "root Spine Spine1 Head",
            "*_UpperArm *_Forearm *_Hand *_Thigh *_Calf *_Foot *_Toe0",
            ("L", "R"),
        ),
        "",
    ),
    "SNU BVH": (_names("Hips Spine Spine1 Head", f"{_ARM} *Toes", _WORDS), "LeftToes"),
    "CMU BVH (MotionBuilder)": (
        _names("Hips Spine Spine1 Head", f"{_ARM} *ToeBase", _WORDS),
        "LHipJoint",
    ),
    "LaFAN": (_names("Hips Spine Spine2 Head", f"{_ARM} *Toe", _WORDS), "LeftToe"),
    "fair1": (_names("Hips Spine1 Spine3 Head", f"{_ARM} *ToeBase", _WORDS), "Spine3"),
    "mixamo": (_names("Hips Spine Spine2 Head", f"{_ARM} *ToeBase", _WORDS), "Spine2"),
    "MotionBuilder": (_names("Hips Spine Spine1 Head", f"{_ARM} *ToeBase", _WORDS), ""),
}


def detect_scheme(joint_names: Sequence[str]) -> NamingScheme | None:
    """Naming scheme of a clip's joints, None where none of SCHEMES fits.

    joint_names: as in the file; a prefix before a colon, as in "mixamorig:Hips", does not count.
    Feet and hands may be lacking. Names alone decide: ``not_human`` of ``measures`` decides by the
    motion whether the figure is a human.
    """
    plain = {name.rpartition(":")[2]: name for name in reversed(joint_names)}
    for name, (joints, mark) in SCHEMES.items():
        found = {role: plain[joint] for role, joint in joints.items() if joint in plain}
        if all(role in found for role in NEEDED) and (not mark or mark in plain):
            return NamingScheme(name, found)
    return None
