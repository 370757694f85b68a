"""Faces of boxes that a flush neighbour on the same body covers; static."""

from collections.abc import Sequence

import numpy as np

from jaxsim.math.rotation import rotation_matrix
from jaxsim.model.shapes import Shape

FLUSH = 5e-5  # largest distance of the surfaces of flush shapes [m]
AHEAD = 5e-3  # least extent of a neighbour beyond the face that it covers [m]


def flush_faces(shapes: Sequence[tuple[int, Shape]]) -> tuple[tuple[int, int, int], ...]:
    """Rows (box, face, neighbour) of flush neighbours that continue beyond a face of a box.

    shapes: each with its link. A face is 2 axis for the side of +axis of the box, and one more for
    that of -axis. The neighbour, a box or a plane, has a face in one plane with another of the
    box's. Decided from these numbers; ``collision.seams`` finds the covered points of a face.
    """
    link = np.array([link for link, _ in shapes])
    kind = np.array([shape.kind for _, shape in shapes])
    pos = np.array([shape.pos for _, shape in shapes]).reshape(-1, 3)
    reach = np.linalg.norm([shape.size for _, shape in shapes], axis=-1)
    rows = []
    for b in np.flatnonzero(kind == "box").tolist():
        far = np.linalg.norm(pos - pos[b], axis=1) > reach + reach[b] + FLUSH
        near = (link == link[b]) & ((kind == "plane") | ((kind == "box") & ~far))
        near[b] = False
        for c in np.flatnonzero(near).tolist():
            rows += [(b, face, c) for face in _covered(shapes[b][1], shapes[c][1])]
    return tuple(rows)


def _covered(box: Shape, other: Shape) -> list[int]:
    """Faces of a box beyond which the other shape continues in one plane with the box."""
    half, frame = np.asarray(box.size), rotation_matrix(box.quat)
    axes = frame.T @ rotation_matrix(other.quat)  # columns: the other's axes in the box's frame
    middle = frame.T @ (np.asarray(other.pos) - np.asarray(box.pos))
    if other.kind == "plane":
        low, high = np.full(3, -np.inf), np.full(3, np.inf)
        faces = [(axes[:, 2], axes[:, 2] @ middle)]
    else:
        reach = np.abs(axes) @ np.asarray(other.size)
        low, high = middle - reach, middle + reach
        faces = [
            (sign * axes[:, k], sign * axes[:, k] @ middle + other.size[k])
            for k in range(3)
            for sign in (1, -1)
        ]
    level = {  # faces of the box in one plane with one of the other's
        (axis, side)
        for axis in range(3)
        for side in (1, -1)
        for normal, offset in faces
        if side * normal[axis] > 1 - 1e-6 and abs(offset - half[axis]) < FLUSH
    }
    beside = (low < half - FLUSH) & (high > FLUSH - half)
    covered = []
    for axis in range(3):
        across = beside[np.arange(3) != axis].all() and any(j != axis for j, _ in level)
        for face, near, far in ((2 * axis, low, high), (2 * axis + 1, -high, -low)):
            if across and near[axis] < half[axis] + FLUSH and far[axis] > half[axis] + AHEAD:
                covered.append(face)
    return covered
