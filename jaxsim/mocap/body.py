"""Links of a character that retargeting needs, by role, with their frames in the standing pose.

Each role has a frame of its own, the same for all characters: x ahead, y left, z up as a human
stands with hanging arms, straight legs and flat feet. In limbs z points against the bone and y is
the axis of knee or elbow. A link's frame is that of its role times a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxsim.characters.standing import effectors_of, standing_kinematics, standing_q
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.model import Model, ModelError, Topology
from jaxsim.model.roles import FEET, SIDES, side_role

__all__ = ["DRIVEN", "RoleLinks", "body_of"]

TRUNK = ("pelvis", "chest", "abdomen", "head")
LIMBS = ("upperArm", "forearm", "thigh", "shank", "foot")
DRIVEN = (*TRUNK, *(side_role(side, limb) for side in SIDES for limb in LIMBS))
LEAST_BONE = 0.02  # [m] of a limb that has a direction
BENT = np.sin(np.radians(20.0))  # bend of limbs whose pose shows their axis


@dataclass(frozen=True)
class RoleLinks:
    """Links of a character that a clip drives, by role. Static: it may be an argument of jit."""

    roles: tuple[str, ...]  # (K,) of DRIVEN, parents before children; one for a link, but that a
    # foot may be a part of its shank's
    links: tuple[int, ...]  # (K,)
    joints: tuple[tuple[int, ...], ...]  # (K,) turning joints of each link; () of the root
    pivots: tuple[tuple[float, ...], ...]  # (K,) of 3 in the link [m]: where it turns, without any
    frames: tuple[tuple[float, ...], ...]  # (K,) of 9: the link's frame in that of its role
    leg: float  # [m] from hip to knee to ankle, the mean of both sides
    standing: tuple[float, ...]  # (nq,)
    sole_links: tuple[int, ...]  # (ne,) of the points of both feet
    sole_points: tuple[tuple[float, ...], ...]  # (ne,) of 3, in their links' frames [m]
    sole_left: tuple[bool, ...]  # (ne,) whether of the left foot

    @property
    def offsets(self) -> np.ndarray:
        """Matrices B (K, 3, 3), with R_link = R_role B."""
        return np.array(self.frames).reshape(-1, 3, 3)

    def index(self, role: str) -> int:
        """Index of a role in the arrays."""
        return self.roles.index(role)


def body_of(model: Model) -> RoleLinks:
    """Links of a character by role, from its standing pose.

    Raises ModelError, with the remedy, for missing roles of the pelvis, a thigh, shank, foot or of
    the root's link, for a root that does not move freely, or feet without soles.
    """
    top = model.topology
    legs = [side_role(side, limb) for side in SIDES for limb in ("thigh", "shank", "foot")]
    top.require("retargeting", "pelvis", *legs)
    kinds = [k for k, link in zip(top.joint_kinds, top.joint_link) if top.link_parent[link] < 0]
    if kinds.count("free") != 1:
        name = top.roles.character or "this model"
        raise ModelError(
            f"{name} has no root that moves freely in space, which retargeting needs; take a "
            "character with one free joint, such as ball_joint_human"
        )
    played: list[tuple[int, str]] = []
    for role in DRIVEN:
        name = top.roles.link(role)
        link = -1 if name is None else top.link_names.index(name)
        if link >= 0 and (role.endswith("Foot") or link not in [k for k, _ in played]):
            played.append((link, role))
    played.sort(key=lambda part: part[0])
    links, roles = tuple(k for k, _ in played), tuple(role for _, role in played)
    root = next(k for k, kind in enumerate(top.joint_kinds) if kind == "free")
    if top.joint_link[root] not in links:
        raise ModelError(
            f"the root link {top.link_names[top.joint_link[root]]!r} has no role; say in the roles "
            "file which part it is, such as pelvis or chest (docs/explanation/characters.md)"
        )
    joints = tuple(
        () if k and links[k - 1] == link else _turning(top, link) for k, link in enumerate(links)
    )
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
) -> RoleLinks:
    """Role links with lengths and frames from the standing pose."""
    kin, _ = standing_kinematics(model)
    rot, anchor = np.asarray(kin.link_rot, float), np.asarray(kin.joint_anchor, float)
    heading = _heading(rot[links[roles.index("pelvis")]] @ model.topology.roles.forward)
    points: dict[str, np.ndarray] = {}
    for role, link, turning in zip(roles, links, joints):
        above = points.get(role.replace("Foot", "Shank")) if role.endswith("Foot") else None
        if turning:
            points[role] = anchor[list(turning)].mean(0)
        elif above is not None and link == links[roles.index(role.replace("Foot", "Shank"))]:
            points[role] = _ankle(model, kin, role, above, heading)
        else:
            points[role] = _pivot(model, kin, link, above)
    pos = np.asarray(kin.link_pos, float)
    pivots = [rot[link].T @ (points[role] - pos[link]) for role, link in zip(roles, links)]
    axes = {
        role: np.asarray(model.joint_axis, float)[turning[0]]
        @ np.asarray(kin.joint_rot)[turning[0]].T
        for role, turning in zip(roles, joints)
        if len(turning) == 1 and model.topology.joint_kinds[turning[0]] == "hinge"
    }
    frames = {role: heading for role in roles}
    for side in SIDES:
        for upper, lower, way in (("thigh", "shank", 1.0), ("upperArm", "forearm", -1.0)):
            above, below = side_role(side, upper), side_role(side, lower)
            if above in roles and below in roles:
                first = points[below] - points[above]
                second = _end(model, roles, links, points, kin, below) - points[below]
                bend = _bend(first, second, axes.get(below), heading[:, 1], way)
                frames[above], frames[below] = limb_frame(first, bend), limb_frame(second, bend)
    leg = 0.0
    for side in SIDES:
        way = np.stack([points[side_role(side, limb)] for limb in ("thigh", "shank", "foot")])
        leg += 0.5 * float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
    offsets = [frames[role].T @ rot[link] for role, link in zip(roles, links)]
    flat = tuple(tuple(np.round(o, 12).ravel().tolist()) for o in offsets)
    standing = tuple(standing_q(model).tolist())
    places = tuple(tuple(np.round(p, 12).tolist()) for p in pivots)
    return RoleLinks(roles, links, joints, places, flat, leg, standing, *_soles(model))


def _soles(model: Model) -> tuple[tuple, tuple, tuple]:
    """Links, positions and sides of the points of both feet, see ``RoleLinks``."""
    effectors = effectors_of(model)
    group = [effectors.group_names[g] for g in effectors.groups]
    feet = [k for k, name in enumerate(group) if name in FEET]
    points = np.asarray(effectors.point, float)[feet]
    links = tuple(effectors.links[k] for k in feet)
    return links, tuple(map(tuple, points.tolist())), tuple(group[k] == FEET[0] for k in feet)


def _heading(forward: np.ndarray) -> np.ndarray:
    """Matrix (3, 3) whose columns are ahead, left and up; forward (3,) need not be level."""
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
    """End (3,) [m] of a lower limb: at the ankle, at the wrist, else at its hand."""
    foot = role.replace("Shank", "Foot")
    if foot != role:
        return points[foot]
    top, anchor = model.topology, np.asarray(kin.joint_anchor, float)
    place, link = points[role], links[roles.index(role)]
    name = top.roles.link(role.replace("Forearm", "Hand"))
    hand = link if name is None else top.link_names.index(name)
    own = () if hand == link else _turning(top, hand)
    if own and _apart(anchor[list(own)].mean(0), place):
        return anchor[list(own)].mean(0)
    place_of_hand = _pivot(model, kin, hand, place)
    if not _apart(place_of_hand, place):
        place_of_hand = _pivot(model, kin, link, place)
    above = points[role.replace("Forearm", "UpperArm")]
    return place_of_hand if _apart(place_of_hand, place) else place + (place - above)


def _ankle(model: Model, kin: Kinematics, foot: str, knee: np.ndarray, heading: np.ndarray):
    """Ankle (3,) [m] of a foot that is part of its shank, over the sole.

    A human's ankle is over a quarter of the way from heel to ball, at 0.14 of the knee's height
    (Winter 2009, figure 4.1).
    """
    found = effectors_of(model)
    sole = np.asarray(found.positions(kin), float)[found.of(foot)] @ heading
    heel, ball = sole[:, 0].min(), sole[:, 0].max()
    low = sole[:, 2].min()
    up = low + 0.14 * ((knee @ heading)[2] - low)
    return heading @ np.array([heel + (ball - heel) / 4, sole[:, 1].mean(), up])


def _pivot(model: Model, kin: Kinematics, link: int, above: np.ndarray | None) -> np.ndarray:
    """Start (3,) [m] of a link without a joint: its origin, if that is not at ``above``.

    Where ``above``, the joint before it, is at the origin: the middle of its shapes, or its centre
    of mass.
    """
    origin, rot = np.asarray(kin.link_pos, float)[link], np.asarray(kin.link_rot, float)[link]
    shapes = [s for s, owner in enumerate(model.topology.shape_link) if owner == link]
    places = [origin]
    if shapes:
        places.append(origin + rot @ np.asarray(model.shape_pos, float)[shapes].mean(0))
    places.append(np.asarray(kin.com, float)[link])
    far = [place for place in places if above is None or _apart(place, above)]
    return far[0] if far else origin


def _apart(first: np.ndarray, second: np.ndarray) -> bool:
    """True if two points are far enough apart for the direction of a limb."""
    return bool(np.linalg.norm(first - second) > LEAST_BONE)


def _bend(
    first: np.ndarray, second: np.ndarray, axis: np.ndarray | None, left: np.ndarray, way: float
) -> np.ndarray:
    """Axis y (3,) of a limb: the one about which it is bent, else its hinge, else leftward.

    way: 1 where bending turns about y, as knees do, -1 where against it.
    """
    bend = np.cross(first, second) / np.linalg.norm(first) / np.linalg.norm(second)
    if np.linalg.norm(bend) > BENT:
        return way * bend
    if axis is None:
        return left
    return axis if axis @ left > 0 else -axis


def limb_frame(bone: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Matrix (..., 3, 3) whose columns are x, y, z of a limb: z against its bone, y near ``bend``.

    bone and bend (..., 3) are not parallel.
    """
    z = -bone / np.linalg.norm(bone, axis=-1, keepdims=True)
    y = bend - np.sum(bend * z, axis=-1, keepdims=True) * z
    y = y / np.maximum(np.linalg.norm(y, axis=-1, keepdims=True), 1e-9)
    return np.stack([np.cross(y, z), y, z], axis=-1)
