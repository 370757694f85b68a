"""Outlines of shapes, and faces of boxes and terrains, from the side, the front and a corner."""

from __future__ import annotations

import numpy as np
import pytest

from jaxsim.io.motion import MotionShape
from jaxsim.viewer.outlines import faces, outline
from jaxsim.viewer.views import view_from

SIDE, FRONT, CORNER = (view_from(name) for name in ("side", "front", "corner"))


def support(outline: np.ndarray, angle: float) -> float:
    """How far an outline reaches in a direction."""
    return float((outline @ np.array([np.cos(angle), np.sin(angle)])).max())


@pytest.mark.parametrize("angle", np.linspace(0.1, 6.2, 7))
def test_outline_is_the_hull_of_both_circles(angle):
    shape = MotionShape("tapered_capsule", 0, size=(0.2, 0.1, 0.3))
    pos, axes = np.array([0.5, 0.0, 1.0]), np.eye(3)
    direction = np.array([np.cos(angle), np.sin(angle)])
    ends = [(np.array([0.8, 1.0]), 0.2), (np.array([0.2, 1.0]), 0.1)]
    wanted = max(centre @ direction + radius for centre, radius in ends)
    assert support(outline(shape, pos, axes, SIDE), angle) == pytest.approx(wanted, abs=2e-3)


def test_outline_where_one_circle_holds_the_other():
    shape = MotionShape("tapered_capsule", 0, size=(0.3, 0.1, 0.05))
    line = outline(shape, np.zeros(3), np.eye(3), SIDE)
    distance = np.linalg.norm(line - [0.05, 0.0], axis=1)
    np.testing.assert_allclose(distance, 0.3, atol=1e-12)


def test_outline_of_a_turned_box():
    axes = np.array([[np.sqrt(0.5), 0, np.sqrt(0.5)], [0, 1, 0], [-np.sqrt(0.5), 0, np.sqrt(0.5)]])
    line = outline(MotionShape("box", 0, size=(0.1, 0.5, 0.1)), np.zeros(3), axes, SIDE)
    assert len(line) == 4
    assert support(line, 0.0) == pytest.approx(np.sqrt(0.02))
    with pytest.raises(ValueError, match="plane"):
        outline(MotionShape("plane", -1), np.zeros(3), np.eye(3), SIDE)


def test_outline_of_a_height_field():
    field = MotionShape("height_field", -1, size=(1, 2), heights=((0, 0.1), (0.3, 0.2), (0, 0)))
    line = outline(field, np.array([5.0, 0, 1]), np.eye(3), SIDE)
    np.testing.assert_allclose(line, [[4, 1.1], [5, 1.3], [6, 1], [6, 0.98], [4, 0.98]], atol=1e-12)


def test_from_the_front_y_is_to_the_right():
    """A capsule along y is long from the front, and a circle from the side."""
    axes = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    shape, pos = MotionShape("capsule", 0, size=(0.1, 0.4)), np.array([5.0, 2.0, 1.0])
    front, side = (outline(shape, pos, axes, view) for view in (FRONT, SIDE))
    np.testing.assert_allclose(front.min(axis=0), [1.5, 0.9], atol=1e-9)
    np.testing.assert_allclose(front.max(axis=0), [2.5, 1.1], atol=1e-9)
    np.testing.assert_allclose(side.min(axis=0), [4.9, 0.9], atol=1e-9)


def test_outline_of_a_height_field_from_the_front():
    field = MotionShape("height_field", -1, size=(1, 2), heights=((0, 0.1), (0.3, 0.2), (0, 0)))
    line = outline(field, np.array([5.0, 0, 1]), np.eye(3), FRONT)
    np.testing.assert_allclose(line, [[-2, 1.3], [2, 1.2], [2, 0.98], [-2, 0.98]], atol=1e-12)


def test_three_faces_of_a_box_are_seen_from_a_corner():
    """Those towards +x, -y and up; together they cover the outline."""
    box, pos = MotionShape("box", 0, size=(0.1, 0.2, 0.3)), np.array([1.0, 2.0, 3.0])
    seen = faces(box, pos, np.eye(3), CORNER)
    normals = {tuple(map(int, normal)) for _, normal in seen}
    assert normals == {(1, 0, 0), (0, -1, 0), (0, 0, 1)}
    areas = [_area(points) for points, _ in seen]
    assert sum(areas) == pytest.approx(_area(outline(box, pos, np.eye(3), CORNER)))
    assert faces(MotionShape("sphere", 0, size=(0.1,)), pos, np.eye(3), CORNER) == []


def test_triangles_of_a_terrain_come_the_farthest_first():
    field = MotionShape("height_field", -1, size=(1, 2), heights=((0, 0.1), (0.3, 0.2), (0, 0)))
    seen = faces(field, np.zeros(3), np.eye(3), CORNER)
    assert len(seen) == 4  # two cells of two triangles, all turned up
    assert all(normal[2] > 0 and np.linalg.norm(normal) == pytest.approx(1) for _, normal in seen)
    heights = [points[:, 1].mean() for points, _ in seen]
    assert heights[0] > heights[-1]  # in the picture what is far is above


def _area(points: np.ndarray) -> float:
    x, y = points.T
    return 0.5 * abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1)))
