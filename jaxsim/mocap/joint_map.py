"""Joint maps: the joint of a clip for each role, by naming scheme, from a file, or guessed.

A joint map is a ``NamingScheme``; that of a file or a guess has the name "none", as no rest pose is
known of it.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.io.toml_table import Table, WorldError, read_toml
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import levels, poses_of
from jaxsim.mocap.schemes import NEEDED, ROLES, NamingScheme, detect_scheme

__all__ = ["as_toml", "find_map", "guess_map", "read_map", "write_map"]

NAMELESS = "none"  # the scheme of a map from a file or a guess
GUESS = "guess"


def find_map(
    clip: Clip, joints: NamingScheme | str | os.PathLike[str] | None = None
) -> NamingScheme:
    """Find the joint map of a clip.

    joints: a map, a TOML file of one, "guess" to infer it from the hierarchy; None: the naming
    scheme. Raises ClipError where there is none, with the guess as a table to confirm, and for a
    map that names a joint which the clip lacks, with the nearest names.
    """
    if isinstance(joints, NamingScheme):
        return _checked(clip, joints, "the joint map")
    if joints == GUESS:
        return guess_map(clip)
    if joints is not None:
        return read_map(joints, clip)
    scheme = detect_scheme(clip.joint_names)
    if scheme is not None:
        return scheme
    try:
        table = as_toml(guess_map(clip))
    except ClipError as error:
        raise ClipError(f"{clip.name} has no known naming scheme; {error}") from error
    raise ClipError(
        f"{clip.name} has no known naming scheme. Its hierarchy suggests the table below: write it"
        " to a file, correct it and give that file as the joint map, or give 'guess' to take it as"
        f" it is.\n\n{table}"
    )


def as_toml(scheme: NamingScheme) -> str:
    """Text of a joint-map file."""
    rows = [f'{role} = "{scheme.joints[role]}"' for role in ROLES if role in scheme.joints]
    return "\n".join(["[joints]", *rows]) + "\n"


def write_map(path: str | os.PathLike[str], scheme: NamingScheme) -> None:
    """Write a joint map, to be edited. Raises OSError if the file cannot be written."""
    write_bytes(path, as_toml(scheme).encode("utf-8"))


def read_map(path: str | os.PathLike[str], clip: Clip) -> NamingScheme:
    """Read the joint map in a TOML file: a table [joints] of role = "joint".

    A scheme that has exactly these names keeps its rest pose. Raises ClipError, with file, key and
    remedy, for another kind of file, an unknown role, a joint that the clip lacks.
    """
    path = Path(path)
    if not path.is_file():
        raise ClipError(f"{path}: there is no such file of a joint map")
    try:
        joints = _read(read_toml(path))
    except WorldError as error:
        raise ClipError(str(error)) from error
    known = detect_scheme(clip.joint_names)
    same = known is not None and joints.items() <= known.joints.items()
    name = known.name if known is not None and same else NAMELESS
    return _checked(clip, NamingScheme(name, joints), path.name)


def _read(file: Table) -> dict[str, str]:
    table = file.table("joints")
    if table is None:
        raise file.error('has no table [joints]; give one with rows such as pelvis = "Hips"')
    joints = {role: table.text(role) for role in ROLES if table.has(role)}
    table.done()
    file.done()
    return joints


def _checked(clip: Clip, scheme: NamingScheme, where: str) -> NamingScheme:
    """Raise ClipError for a joint that the clip lacks, and one with two roles."""
    taken: dict[str, str] = {}
    for role, joint in scheme.joints.items():
        if joint not in clip.joint_names:
            near = get_close_matches(joint, clip.joint_names, 3, 0.3)
            hint = f"the nearest names are {', '.join(near)}" if near else "no name is near"
            raise ClipError(
                f"{where}: {role} is {joint!r}, but {clip.name} has no such joint; {hint}; its"
                f" joints are {', '.join(clip.joint_names)}"
            )
        if joint in taken:
            raise ClipError(
                f"{where}: {joint!r} is both {taken[joint]} and {role}; a joint drives one role"
            )
        taken[joint] = role
    lacking = [role for role in NEEDED if role not in scheme.joints]
    if lacking:
        raise ClipError(f"{where}: it has no joint for {', '.join(lacking)}; add them")
    return scheme


def guess_map(clip: Clip) -> NamingScheme:
    """Infer the joint map from a hierarchy with arbitrary names.

    The root, or the first joint that forks into three, is the pelvis, of its longest branches two
    are legs and one the trunk, which forks again into arms and head; sides follow from y in the
    zero pose, or from words for left and right where that is no upright pose. Raises ClipError for
    a hierarchy that is not human.
    """
    children: list[list[int]] = [[] for _ in clip.joint_names]
    for j, parent in enumerate(clip.parents):
        if parent >= 0:
            children[parent].append(j)
    depth = _heights(clip, children)
    hips = _fork(children, depth, 0)
    branches = [] if hips is None else sorted(children[hips], key=lambda j: -_size(children, j))
    forks = [j for j in branches if _fork(children, depth, j) is not None]
    if hips is None or not forks or len(branches) < 3:
        raise ClipError(
            f"{clip.name}: no pelvis with two legs and a trunk is in its hierarchy, so no joint map"
            " can be guessed; is it a human? A joint map in a file names its joints"
        )
    trunk = forks[0]
    chest = _fork(children, depth, trunk)
    assert chest is not None
    limbs = [_chain(children, depth, j) for j in children[hips] if j != trunk]
    upper = [_chain(children, depth, j) for j in children[chest]]
    legs, arms = _pair(clip, [c for c in limbs if len(c) >= 3]), _pair(clip, upper)
    rest = [c for c in upper if arms is None or c not in arms]
    if legs is None or arms is None or not rest:
        raise ClipError(
            f"{clip.name}: no two legs, two arms and a head are in its hierarchy, so no joint map"
            " can be guessed; is it a human? A joint map in a file names its joints"
        )
    forked = [j for j in rest[0] if len(children[j]) > 1]  # as into two eyes
    joint_of = {"pelvis": hips, "chest": chest, "head": (forked or rest[0][-1:])[0]}
    between = [j for j in _line(clip, trunk, chest) if j != chest]
    if between:
        joint_of["abdomen"] = between[len(between) // 2]
    legs, arms = _without_helpers(clip, legs, 0.6), _without_helpers(clip, arms, 0.8)
    for side, leg, arm in zip(
        ("left", "right"), _sided(clip, legs, legs), _sided(clip, arms, legs)
    ):
        joint_of |= {f"{side}{part}": j for part, j in zip(("Thigh", "Shank", "Foot", "Toe"), leg)}
        joint_of |= {f"{side}{part}": j for part, j in zip(("UpperArm", "Forearm", "Hand"), arm)}
    return _checked(
        clip,
        NamingScheme(NAMELESS, {r: clip.joint_names[j] for r, j in joint_of.items()}),
        "the guess",
    )


def _heights(clip: Clip, children: list[list[int]]) -> list[int]:
    """Number (J,) of joints on the longest way down."""
    heights = [0] * clip.n_joints
    for level in reversed(levels(clip.parents)):
        for j in level:
            heights[j] = 1 + max((heights[k] for k in children[j]), default=0)
    return heights


def _size(children: list[list[int]], joint: int) -> int:
    return 1 + sum(_size(children, k) for k in children[joint])


def _fork(children: list[list[int]], depth: list[int], joint: int) -> int | None:
    """First joint on the way down with three branches, two of them of two joints or more."""
    while True:
        branches = children[joint]
        if len(branches) >= 3 and sum(depth[k] >= 2 for k in branches) >= 2:
            return joint
        if not branches:
            return None
        joint = max(branches, key=lambda k: _size(children, k))


def _chain(children: list[list[int]], depth: list[int], joint: int) -> list[int]:
    """Joints on the longest way down."""
    chain = [joint]
    while children[chain[-1]]:
        chain.append(max(children[chain[-1]], key=lambda k: depth[k]))
    return chain


def _line(clip: Clip, above: int, joint: int) -> list[int]:
    line = [joint]
    while line[0] != above and clip.parents[line[0]] >= 0:
        line.insert(0, clip.parents[line[0]])
    return line


def _without_helpers(clip: Clip, pair: list[list[int]], long: float) -> list[list[int]]:
    """Chains of two limbs from their first long bone on, without coincident joints.

    The first bone has at least ``long`` of the longest, as no collar has, and is the same of both;
    at least three joints are left if there are three.
    """
    far = np.linalg.norm(clip.offsets, axis=1)
    bones = [[j for k, j in enumerate(chain) if k == 0 or far[j] > 1e-3] for chain in pair]
    count = min(map(len, bones))
    lengths = np.mean([far[chain[1:count]] for chain in bones], axis=0)
    first = 0
    while count - first > 3 and lengths[first] < long * lengths[first:].max():
        first += 1
    return [chain[first:] for chain in bones]


def _pair(clip: Clip, chains: list[list[int]]) -> list[list[int]] | None:
    """The two longest chains of the same number of joints that are furthest apart."""
    pos, _ = poses_of(clip.some(50))
    best, pair = 0.0, None
    for k, a in enumerate(chains):
        for b in chains[:k]:
            if len(a) == len(b) >= 2:
                gap = np.linalg.norm(pos[:, a[1]] - pos[:, b[1]], axis=-1).mean()
                if gap * len(a) > best:
                    best, pair = float(gap) * len(a), [a, b]
    return pair


def _sided(clip: Clip, pair: list[list[int]], legs: list[list[int]]) -> list[list[int]]:
    """Left and right chain of a pair.

    By words where these state it, else by where the toes point, else by y in the zero pose.
    """
    a, b = pair
    words = [clip.joint_names[chain[0]].lower() for chain in pair]
    left, right = (
        [word.startswith((side[0], side)) or side in word for word in words]
        for side in ("left", "right")
    )
    if left[0] != left[1] and right == left[::-1]:
        return [a, b] if left[0] else [b, a]
    pos, _ = poses_of(clip.some(200))
    across = pos[:, a[0]] - pos[:, b[0]]
    if all(len(leg) > 3 for leg in legs):
        ahead = sum(pos[:, leg[3]] - pos[:, leg[2]] for leg in legs)
        leftward = np.cross([0.0, 0.0, 1.0], ahead)
        return [a, b] if float((across * leftward).sum()) > 0 else [b, a]
    return [a, b] if _zero_places(clip)[a[0], 1] > _zero_places(clip)[b[0], 1] else [b, a]


def _zero_places(clip: Clip) -> np.ndarray:
    places = np.zeros((clip.n_joints, 3))
    for j, parent in enumerate(clip.parents):
        if parent >= 0:
            places[j] = places[parent] + clip.offsets[j]
    return places
