"""What retargeting asks of a character: which links play which roles, and how they stand.

Each role has a frame of its own, the same for all characters: x ahead, y left, z up as a human
stands with hanging arms, straight legs and flat feet. In limbs z points against the bone and y is
the line about which knee or elbow bends. A link's frame is that of its role times a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxsim.characters.standing import effectors_of, standing_kinematics, standing_q
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.model import Model, ModelError, Topology
from jaxsim.model.roles import FEET, SIDES, sided

__all__ = ["DRIVEN", "Body", "body_of"]

TRUNK = ("pelvis", "chest", "abdomen", "head")
LIMBS = ("upperArm", "forearm", "thigh", "shank", "foot")
DRIVEN = (*TRUNK, *(sided(side, limb) for side in SIDES for limb in LIMBS))
BENT = np.sin(np.radians(20.0))  # of limbs that tell by their pose which way they bend


@dataclass(frozen=True)
class Body:
    """The links of a character that a clip drives. Static: it may be an argument of jit."""

    roles: tuple[str, ...]  # (K,) of DRIVEN, one for a link, parents before children
    links: tuple[int, ...]  # (K,)
    joints: tuple[tuple[int, ...], ...]  # (K,) turning joints of each link; () of the root
    frames: tuple[tuple[float, ...], ...]  # (K,) of 9: the link's frame in that of its role
    leg: float  # [m] from hip to knee to ankle, the mean of both sides
    standing: tuple[float, ...]  # (nq,)
    sole_links: tuple[int, ...]  # (ne,) of the points of both feet
    sole_points: tuple[tuple[float, ...], ...]  # (ne,) of 3, in their links' frames [m]
    sole_left: tuple[bool, ...]  # (ne,) whether of the left foot

    @property
    def offsets(self) -> np.ndarray:
        """(K, 3, 3) B, with R_link = R_role B."""
        return np.array(self.frames).reshape(-1, 3, 3)

    def index(self, role: str) -> int:
        """Where a role stands in the arrays."""
        return self.roles.index(role)


def body_of(model: Model) -> Body:
    """The body of a character, as it stands.

    Raises ModelError, with the remedy, where a role of the pelvis, a thigh, shank, foot or of the
    root's link is not known, where the root does not move freely, or the feet have no soles.
    """
    top = model.topology
    legs = [sided(side, limb) for side in SIDES for limb in ("thigh", "shank", "foot")]
    top.require("retargeting", "pelvis", *legs)
    kinds = [k for k, link in zip(top.joint_kinds, top.joint_link) if top.link_parent[link] < 0]
    if kinds.count("free") != 1:
        name = top.roles.character or "this model"
        raise ModelError(
            f"{name} has no root that moves freely in space, which retargeting needs; take a "
            "character with one free joint, such as ball_joint_human"
        )
    played: dict[int, str] = {}
    for role in DRIVEN:
        link = top.roles.link(role)
        if link is not None:
            played.setdefault(top.link_names.index(link), role)
    roles, links = tuple(played[k] for k in sorted(played)), tuple(sorted(played))
    root = next(k for k, kind in enumerate(top.joint_kinds) if kind == "free")
    if top.joint_link[root] not in links:
        raise ModelError(
            f"the root link {top.link_names[top.joint_link[root]]!r} has no role; say in the roles "
            "file which part it is, such as pelvis or chest (docs/explanation/characters.md)"
        )
    joints = tuple(_turning(top, link) for link in links)
    return _measured(model, roles, links, joints)


def _turning(top: Topology, link: int) -> tuple[int, ...]:
    return tuple(
        j
        for j, own in enumerate(top.joint_link)
        if own == link and top.joint_kinds[j] in ("hinge", "ball")
    )


def _measured(
    model: Model,
    roles: tuple[str, ...],
    links: tuple[int, ...],
    joints: tuple[tuple[int, ...], ...],
) -> Body:
    """The body, with lengths and frames from the standing pose."""
    kin, _ = standing_kinematics(model)
    rot, anchor = np.asarray(kin.link_rot, float), np.asarray(kin.joint_anchor, float)
    points = {
        role: anchor[list(own)].mean(0) if own else np.asarray(kin.link_pos, float)[link]
        for role, link, own in zip(roles, links, joints)
    }
    axes = {
        role: np.asarray(model.joint_axis, float)[own[0]] @ np.asarray(kin.joint_rot)[own[0]].T
        for role, own in zip(roles, joints)
        if len(own) == 1 and model.topology.joint_kinds[own[0]] == "hinge"
    }
    heading = _heading(rot[links[roles.index("pelvis")]] @ model.topology.roles.forward)
    frames = {role: heading for role in roles}
    for side in SIDES:
        for upper, lower, way in (("thigh", "shank", 1.0), ("upperArm", "forearm", -1.0)):
            above, below = sided(side, upper), sided(side, lower)
            if above in roles and below in roles:
                first = points[below] - points[above]
                second = _end(model, roles, links, points, kin, below) - points[below]
                bend = _bend(first, second, axes.get(below), heading[:, 1], way)
                frames[above], frames[below] = limb_frame(first, bend), limb_frame(second, bend)
    leg = 0.0
    for side in SIDES:
        way = np.stack([points[sided(side, limb)] for limb in ("thigh", "shank", "foot")])
        leg += 0.5 * float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
    offsets = [frames[role].T @ rot[link] for role, link in zip(roles, links)]
    flat = tuple(tuple(np.round(o, 12).ravel().tolist()) for o in offsets)
    standing = tuple(standing_q(model).tolist())
    return Body(roles, links, joints, flat, leg, standing, *_soles(model))


def _soles(model: Model) -> tuple[tuple, tuple, tuple]:
    """Links, places and sides of the points of both feet, see ``Body``."""
    found = effectors_of(model)
    group = [found.group_names[g] for g in found.groups]
    feet = [k for k, name in enumerate(group) if name in FEET]
    points = np.asarray(found.point, float)[feet]
    links = tuple(found.links[k] for k in feet)
    return links, tuple(map(tuple, points.tolist())), tuple(group[k] == FEET[0] for k in feet)


def _heading(forward: np.ndarray) -> np.ndarray:
    """(3, 3) whose columns are ahead, left and up; forward (3,) need not be level."""
    ahead = np.array([forward[0], forward[1], 0.0])
    ahead = ahead / np.linalg.norm(ahead)
    return np.stack([ahead, np.cross([0.0, 0.0, 1.0], ahead), [0.0, 0.0, 1.0]], axis=1)


def _end(
    model: Model,
    roles: tuple[str, ...],
    links: tuple[int, ...],
    points: dict[str, np.ndarray],
    kin: Kinematics,
    role: str,
) -> np.ndarray:
    """(3,) [m] where a lower limb ends: at the ankle, at the wrist, else beyond its shapes."""
    top, anchor = model.topology, np.asarray(kin.joint_anchor, float)
    pos, rot = np.asarray(kin.link_pos, float), np.asarray(kin.link_rot, float)
    foot = role.replace("Shank", "Foot")
    if foot != role:
        return points[foot]
    link, place = links[roles.index(role)], points[role]
    hand = top.roles.link(role.replace("Forearm", "Hand"))
    if hand is not None and top.link_names.index(hand) != link:
        own = _turning(top, top.link_names.index(hand))
        return anchor[list(own)].mean(0) if own else place
    shapes = [s for s, owner in enumerate(top.shape_link) if owner == link]
    centre = np.asarray(model.shape_pos, float)[shapes].mean(0) if shapes else np.zeros(3)
    return pos[link] + rot[link] @ centre


def _bend(
    first: np.ndarray, second: np.ndarray, axis: np.ndarray | None, left: np.ndarray, way: float
) -> np.ndarray:
    """(3,) the y axis of a limb: the line it is bent about, else its hinge, else leftward.
    way: 1 where bending turns about y, as knees do, -1 where against it."""
    bend = np.cross(first, second) / np.linalg.norm(first) / np.linalg.norm(second)
    if np.linalg.norm(bend) > BENT:
        return way * bend
    if axis is None:
        return left
    return axis if axis @ left > 0 else -axis


def limb_frame(bone: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """(..., 3, 3) whose columns are x, y, z of a limb: z against its bone, y near ``bend``, both
    (..., 3) and not parallel."""
    z = -bone / np.linalg.norm(bone, axis=-1, keepdims=True)
    y = bend - np.sum(bend * z, axis=-1, keepdims=True) * z
    y = y / np.maximum(np.linalg.norm(y, axis=-1, keepdims=True), 1e-9)
    return np.stack([np.cross(y, z), y, z], axis=-1)
