"""Static facts from the numbers of a declared model, which make its programs smaller."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.math.rotation import rotation_matrix
from jaxsim.model.joints import Joint
from jaxsim.model.shapes import Shape
from jaxsim.model.topology import WORLD


@dataclass(frozen=True)
class LinkRecord:
    """Declaration of a link."""

    name: str
    parent: int
    pos: np.ndarray
    quat: np.ndarray
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    joints: tuple[Joint, ...]


Links = Sequence[LinkRecord]
Shapes = Sequence[tuple[int, Shape]]
"""Each with its link."""


def covered_ends(
    links: Links, shapes: Shapes, pairs: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """End balls that can never touch first: concentric with a larger one across a joint.

    The knee ends of thigh and shank share a centre at every angle, so the smaller ball (of
    equal ones the child's) is dropped from the contact slots. Decided from these numbers;
    only where friction and restitution agree, and the larger ball touches all shapes that the
    smaller one does (except other balls, which do not touch by ends).
    """
    partners: dict[int, set[int]] = {}
    for a, b in pairs:
        if not shapes[b][1].record.ends:
            partners.setdefault(a, set()).add(b)
    ends = []
    for s, (link, shape) in enumerate(shapes):
        if link == WORLD:
            continue
        axis = rotation_matrix(shape.quat)[:, 0]
        for end, sign in ((0, 1.0), (1, -1.0))[: shape.record.ends]:
            centre = np.asarray(shape.pos) + sign * shape.size[2] * axis
            ends.append((s, end, link, centre, shape.size[end], shape))
    covered = []
    for s, end, link, centre, radius, shape in ends:
        for other_s, other_end, other_link, other_centre, other_radius, other in ends:
            shared = _shared_centre(links, link, centre, other_link, other_centre)
            same_surface = (shape.friction, shape.restitution) == (
                other.friction,
                other.restitution,
            )
            smaller = (radius, -s, -end) < (other_radius, -other_s, -other_end)
            as_much = partners.get(s, set()) <= partners.get(other_s, set())
            if shared and same_surface and smaller and as_much:
                covered.append((s, end))
                break
    return tuple(covered)


def _shared_centre(links: Links, link_a: int, point_a, link_b: int, point_b) -> bool:
    """True where both points are the common rotation centre of two neighbouring links."""
    for child, child_point, parent, parent_point in (
        (link_a, point_a, link_b, point_b),
        (link_b, point_b, link_a, point_a),
    ):
        entry = links[child]
        if entry.parent != parent:
            continue
        turns = all(j.kind in ("hinge", "ball", "fixed") for j in entry.joints)
        anchored = all(
            j.kind == "fixed" or np.allclose(j.anchor, child_point, atol=1e-9) for j in entry.joints
        )
        at_parent = entry.pos + rotation_matrix(entry.quat) @ child_point
        if turns and anchored and np.allclose(at_parent, parent_point, atol=1e-9):
            return True
    return False


def is_planar(links: Links, shapes: Shapes, pairs: Sequence[tuple[int, int]]) -> bool:
    """True if all motion is in the x-z plane, and so are all normals of contacts."""

    def about_y(quat) -> bool:
        return abs(quat[1]) + abs(quat[3]) < 1e-12

    joints = [joint for link in links for joint in link.joints]
    shape_of = [shape for _, shape in shapes]
    of_balls = {s for pair in pairs if shape_of[pair[1]].record.ends for s in pair}
    across = {round(y, 12) for s in of_balls for y in _ball_heights(links, shapes, s)}
    along_y = {"hinge": 1.0, "slide": 0.0, "fixed": None}
    return (
        all(about_y(link.quat) for link in links)
        and all(s.record.ends or (s.record.flat and about_y(s.quat)) for s in shape_of)
        and len(across) <= 1
        and all(joint.kind in along_y for joint in joints)
        and all(
            along_y[j.kind] is None
            or abs(abs(j.axis[1]) / np.linalg.norm(j.axis) - along_y[j.kind]) < 1e-12
            for j in joints
        )
    )


def _ball_heights(links: Links, shapes: Shapes, index: int) -> list[float]:
    """Distances of a ball shape's ends from the x-z plane, where all turns are about y [m]."""
    link, shape = shapes[index]
    offset = shape.pos[1]
    while link != WORLD:
        offset, link = offset + links[link].pos[1], links[link].parent
    half = shape.size[2] if shape.record.ends == 2 else 0.0
    reach = half * rotation_matrix(shape.quat)[1, 0]
    return [offset + reach, offset - reach]
