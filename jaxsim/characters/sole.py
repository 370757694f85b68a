"""Effectors of feet and hands, found from a body's shapes in its standing pose.

Plain numpy, on the host, with link_pos (nl, 3) [m] and link_rot (nl, 3, 3) of the standing pose.
"""

from typing import NamedTuple

import numpy as np

from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import Model
from jaxsim.model.roles import SIDES, Point, Roles, Vector3, side_role

LEVEL = 0.15  # the sole's points are no higher over its lowest than this part of its length
OUTWARD = np.vstack([np.eye(3), -np.eye(3)])  # where a shape ends, in shares of its half size


class Spot(NamedTuple):
    """A point of a shape."""

    place: np.ndarray  # (3,) in the world [m]
    shape: str
    share: Vector3  # of the shape's half size


def directions(
    model: Model, roles: Roles, link_pos: np.ndarray, link_rot: np.ndarray
) -> tuple[Vector3, Vector3]:
    """Forward axis of the pelvis and up axis of the chest, each in the link's own frame.

    Forward is to the right of the vector from the right thigh to the left one.
    """
    at = {role: model.topology.link_names.index(name) for role, name in roles.links}
    pair = "thigh" if "leftThigh" in at else "foot"
    left = link_pos[at[side_role("left", pair)]] - link_pos[at[side_role("right", pair)]]
    ahead = np.cross(left, [0.0, 0.0, 1.0])
    ahead /= max(float(np.linalg.norm(ahead)), 1e-9)
    pelvis, chest = link_rot[at.get("pelvis", 0)], link_rot[at.get("chest", 0)]
    return _rounded(pelvis.T @ ahead), _rounded(chest.T @ [0.0, 0.0, 1.0])


def find_points(
    model: Model, roles: Roles, link_pos: np.ndarray, link_rot: np.ndarray
) -> tuple[Point, ...]:
    """Effectors of feet and hands: heels, balls, tips of toes, ends of hands.

    Heel and ball have a left and a right point where the sole is broad. Empty where a foot has no
    distinct heel and ball.
    """
    at = {role: model.topology.link_names.index(name) for role, name in roles.links}
    ahead = link_rot[at.get("pelvis", 0)] @ roles.forward
    axes = np.stack([ahead, np.cross([0.0, 0.0, 1.0], ahead)])  # forward, left
    points: list[Point] = []
    for side in SIDES:
        foot, toes = side_role(side, "foot"), side_role(side, "toes")
        sole = _sole(model, at[foot], link_pos, link_rot)
        heels, balls = (_edge(sole, axes, way) for way in (-1.0, 1.0))
        if not sole or heels[0] == balls[0]:
            return ()
        for end, (left, right) in (("Heel", heels), ("Ball", balls)):
            if left == right:
                points.append((f"{foot}{end}", foot, sole[left].shape, sole[left].share))
            else:
                for edge, k in (("Left", left), ("Right", right)):
                    points.append((f"{foot}{end}{edge}", foot, sole[k].shape, sole[k].share))
        if toes in at and (tips := _sole(model, at[toes], link_pos, link_rot)):
            points.append((f"{toes}Tip", foot, *_front(tips, axes[0])))
    for side in SIDES:
        hand = side_role(side, "hand")
        if hand in at and (end := _far_end(model, at[hand])) is not None:
            points.append((hand, hand, *end))
    return tuple(points)


def _sole(model: Model, link: int, link_pos: np.ndarray, link_rot: np.ndarray) -> list[Spot]:
    """Lowest points of a link's shapes that are about level."""
    spots = []
    for shape in _shapes(model, link):
        pos, rot, half = _placed(model, shape)
        rot = link_rot[link] @ rot
        for share in _lowest(model, shape, rot):
            place = link_pos[link] + link_rot[link] @ pos + rot @ (share * half)
            spots.append(Spot(place, model.topology.shape_names[shape], _rounded(share)))
    if not spots:
        return []
    places = np.array([spot.place for spot in spots])
    length = np.linalg.norm(np.ptp(places[:, :2], axis=0))
    level = places[:, 2].min() + max(LEVEL * length, 1e-6)
    return [spot for spot in spots if spot.place[2] <= level]


def _edge(sole: list[Spot], axes: np.ndarray, way: float) -> tuple[int, int]:
    """Indices of the left and the right of the points furthest ahead (way 1) or back (-1)."""
    if not sole:
        return 0, 0
    places = np.array([spot.place for spot in sole]) @ axes.T
    size = np.ptp(places, axis=0)
    places = places / np.where(size > 1e-6, size, np.inf)
    return int(np.argmax(places @ [way, 1.0])), int(np.argmax(places @ [way, -1.0]))


def _front(sole: list[Spot], ahead: np.ndarray) -> tuple[str, Vector3]:
    """Middle of the front edge of the shape that reaches furthest ahead."""
    reach = np.array([spot.place @ ahead for spot in sole])
    first = sole[int(np.argmax(reach))]
    front = reach >= reach.max() - max(0.25 * float(np.ptp(reach)), 1e-6)
    edge = [spot.share for spot, on in zip(sole, front) if on and spot.shape == first.shape]
    return first.shape, _rounded(np.mean(edge, axis=0))


def _far_end(model: Model, link: int) -> tuple[str, Vector3] | None:
    """End of a link's shapes that is furthest from the link's origin."""
    ends = []
    for shape in _shapes(model, link):
        pos, rot, half = _placed(model, shape)
        for share in OUTWARD:
            far = float(np.linalg.norm(pos + rot @ (share * half)))
            ends.append((round(far, 9), model.topology.shape_names[shape], _rounded(share)))
    return max(ends, key=lambda end: end[0])[1:] if ends else None


def _shapes(model: Model, link: int) -> list[int]:
    return [s for s, owner in enumerate(model.topology.shape_link) if owner == link]


def _placed(model: Model, shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position (3,) and axes (3, 3) of a shape in its link, and its half sizes (3,) for shares."""
    pos, quat, size = (
        np.asarray(numbers, float)[shape]
        for numbers in (model.shape_pos, model.shape_quat, model.shape_size)
    )
    return pos, rotation_matrix(quat), np.array(model.topology.shape_record(shape).half(size))


def _lowest(model: Model, shape: int, rot: np.ndarray) -> list[np.ndarray]:
    """Lowest points of a shape, in shares of its half size; rot (3, 3): its axes in the world."""
    size = np.asarray(model.shape_size, float)[shape]
    return model.topology.shape_record(shape).lowest(size, -rot[2])


def _rounded(vector: np.ndarray) -> Vector3:
    x, y, z = (np.round(vector, 9) + 0.0).tolist()
    return x, y, z
