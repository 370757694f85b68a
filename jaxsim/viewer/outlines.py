"""Outlines of shapes in a view, as flat polygons: spheres, capsules, boxes, terrain."""

from __future__ import annotations

import numpy as np

from jaxsim.io.motion import MotionShape
from jaxsim.viewer.views import View

__all__ = ["faces", "outline"]

ARC = 24  # points on a half circle


def outline(shape: MotionShape, pos: np.ndarray, axes: np.ndarray, view: View) -> np.ndarray:
    """Outline (n, 2) [m] of a shape in the picture of a view, as a polygon.

    Convex except for height fields seen along the ground (the upper edge of each row). pos: (3,)
    [m] and axes: (3, 3) (one axis per row): the shape's frame in the world. Raises ValueError for
    planes, which have no outline.
    """
    kind, size = shape.record, shape.full_size
    if kind.endless:
        raise ValueError(f"a {kind.name} has no outline")
    if kind.grid:
        nodes = _nodes(shape, pos, axes)
        if view.level:
            return _upper_edge(nodes, axes, view)
        return _hull(view.project(nodes).reshape(-1, 2))
    circles = [_circle(view.project(pos + at @ axes), r) for at, r in kind.balls(size)]
    if len(circles) == 1:
        return circles[0]
    corners = view.project(pos + kind.corners(size) @ axes)
    return _hull(np.concatenate([corners, *circles]))


def faces(
    shape: MotionShape, pos: np.ndarray, axes: np.ndarray, view: View
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Flat faces of a shape towards the eye, the farthest first.

    Each is a polygon (n, 2) [m] of the picture and its normal (3,) in the world. Of boxes and
    height fields; none of others. pos, axes: as in `outline`.
    """
    if shape.record.grid:
        polygons = _field_faces(_nodes(shape, pos, axes))
    else:
        polygons = shape.record.faces(shape.full_size, pos, axes)
    seen = [(points, normal) for points, normal in polygons if normal @ view.back > 1e-4]
    seen.sort(key=lambda face: float(face[0].mean(axis=0) @ view.back))
    return [(view.project(points), normal) for points, normal in seen]


def _field_faces(nodes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    a, b, c, d = nodes[:-1, :-1], nodes[1:, :-1], nodes[1:, 1:], nodes[:-1, 1:]
    polygons = []
    for corners in ((a, b, c), (a, c, d)):
        triangles = np.stack(corners, axis=2).reshape(-1, 3, 3)
        across = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        size = np.linalg.norm(across, axis=1, keepdims=True)
        polygons += [*zip(triangles, across / np.where(size > 0, size, 1.0), strict=True)]
    return polygons


def _nodes(shape: MotionShape, pos: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Grid (nx, ny, 3) [m] of a height field in the world."""
    heights = np.array(shape.heights)
    sides = [np.linspace(-h, h, n) for h, n in zip(shape.size, heights.shape, strict=True)]
    return pos + np.stack([*np.meshgrid(*sides, indexing="ij"), heights], axis=-1) @ axes


def _upper_edge(nodes: np.ndarray, axes: np.ndarray, view: View) -> np.ndarray:
    """Highest points of the rows that run along the line of sight, filled below."""
    if abs(axes[0] @ view.back) > abs(axes[1] @ view.back):
        nodes = nodes.swapaxes(0, 1)
    points = view.project(nodes)
    top = points[np.arange(len(points)), points[..., 1].argmax(axis=1)]
    low = points[..., 1].min() - 0.02
    return np.concatenate([top, [[top[-1, 0], low], [top[0, 0], low]]])


def _circle(centre: np.ndarray, radius: float) -> np.ndarray:
    angle = np.arange(2 * ARC) * (np.pi / ARC)
    return centre + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _hull(points: np.ndarray) -> np.ndarray:
    """Convex hull of (n, 2) points, counter-clockwise (Andrew's monotone chain)."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    chains = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[np.ndarray] = []
        for point in sequence:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-1] - chain[-2], point - chain[-2]
                if ax * by - ay * bx > 0:
                    break
                chain.pop()
            chain.append(point)
        chains += chain[:-1]
    return np.array(chains) if chains else ordered[:1]
