"""Which view of a motion is chosen: across where it goes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxsim.io.motion import Motion, MotionShape
from jaxsim.viewer import read_page, write_page
from jaxsim.viewer.views import VIEWS_DEG, choose_view, view_from


def person(pos: np.ndarray, tilt: np.ndarray, **changes) -> Motion:
    """Two capsules, one above the other, that stand at pos (T, 2) [m] and lean to the left by the
    angles tilt (T,) [rad] about their feet, and a ball beside them that stays where it is."""
    n = len(tilt)
    zero, up = np.zeros(n), np.stack([0 * tilt, -np.sin(tilt), np.cos(tilt)], axis=-1)
    feet = np.concatenate([pos, np.zeros((n, 1))], axis=1)
    ball = np.tile([0.5, 0.5, 0.1], (n, 1))
    quat = np.stack([np.cos(tilt / 2), np.sin(tilt / 2), zero, zero], axis=-1)
    upright = (np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0)  # its x axis along the link's z
    motion = Motion(
        title="person",
        link_names=("legs", "head", "ball"),
        joint_names=(),
        phase_names=(),
        shapes=(
            MotionShape("plane", -1),
            MotionShape("capsule", 0, quat=upright, size=(0.1, 0.4)),
            MotionShape("capsule", 1, quat=upright, size=(0.1, 0.2)),
            MotionShape("sphere", 2, size=(0.1,)),
        ),
        time=np.linspace(0.0, 1.0, n),
        q=np.zeros((n, 0)),
        qd=np.zeros((n, 0)),
        link_pos=np.stack([feet + 0.5 * up, feet + 1.3 * up, ball], axis=1),
        link_quat=np.stack([quat, quat, np.tile([1.0, 0, 0, 0], (n, 1))], axis=1),
        contact_pos=np.zeros((n, 0, 3)),
        contact_force=np.zeros((n, 0, 3)),
        phase=np.full(n, -1),
        torque=np.zeros((n, 0)),
        torque_limit=np.zeros(0),
        heights={},
        link_roles=("character", "character", "prop"),
    )
    return dataclasses.replace(motion, **changes)


def walk(x: float, y: float) -> Motion:
    """2 m along (x, y), swaying by 0.1 m across."""
    s = np.linspace(0.0, 1.0, 50)[:, None]
    way = 2.0 * np.array([x, y]) / np.hypot(x, y)
    return person(way * s + 0.05 * np.sin(20 * s) * np.array([-way[1], way[0]]) / 2, 0 * s[:, 0])


STAY = np.zeros((50, 2))
FALL = np.linspace(0.0, np.pi / 2, 50)


def test_a_walk_is_seen_from_across():
    assert choose_view(walk(1, 0)).name == "side"
    assert choose_view(walk(-1, 0.2)).name == "side"
    assert choose_view(walk(0, 1)).name == "front"
    assert choose_view(walk(0.2, -1)).name == "front"


def test_a_fall_to_the_side_is_seen_from_the_front():
    """Only the upper parts move; both directions, and also while it walks a little."""
    assert choose_view(person(STAY, FALL)).name == "front"
    assert choose_view(person(STAY, -FALL)).name == "front"
    assert choose_view(person(0.2 * walk(1, 0).link_pos[:, 0, :2], FALL)).name == "front"


@pytest.mark.parametrize("ahead", [0.6, -0.6])
def test_a_wall_does_not_come_between_the_eye_and_who_is_at_it(ahead):
    """Who falls to the side is seen from the front, unless a wall is there."""
    fall = person(STAY, FALL)
    assert choose_view(fall).name == "front"
    wall = MotionShape("box", -1, pos=(ahead, 0.0, 1.5), size=(0.1, 2.0, 1.5))
    view = choose_view(dataclasses.replace(fall, shapes=(*fall.shapes, wall)))
    assert (view.name == "front") == (ahead < 0)
    assert view.back[0] * ahead < 0 or view.name == "front"


def test_a_link_that_turns_about_its_own_origin_counts():
    """Of a single body the shape moves, not the origin of the link."""
    shapes = (MotionShape("capsule", 0, pos=(0, 0, 0.5), size=(0.1, 0.4)),)
    falling = person(STAY, FALL)
    fixed = np.zeros_like(falling.link_pos)
    assert choose_view(dataclasses.replace(falling, shapes=shapes, link_pos=fixed)).name == "front"


@pytest.mark.parametrize("way", [(1, 1), (-1, -1), (1, -1), (-1, 1)])
def test_all_directions_are_seen_from_the_corner_that_shows_them(way):
    """Walks along a diagonal, each from the corner that looks across it, not along it."""
    view = choose_view(walk(*way))
    assert view.name == "corner"
    assert abs(view.right @ [*way, 0]) / np.sqrt(2) > 0.95


def test_circles_are_seen_from_the_corner_that_the_page_has():
    """Also ellipses that are somewhat wider from the other one."""
    angle = np.linspace(0, 2 * np.pi, 50)
    for tilt in (0.0, 0.3):
        way = np.stack([np.cos(angle), np.sin(angle) - tilt * np.cos(angle)], axis=1)
        view = choose_view(person(way, 0 * angle))
        np.testing.assert_allclose(view.back, view_from("corner").back)


def test_planar_characters_and_who_stays_in_place_are_seen_from_the_side(walker):
    assert choose_view(walker).name == "side"
    assert choose_view(dataclasses.replace(walk(0, 1), planar=True)).name == "side"
    assert choose_view(person(STAY, 0.03 * FALL)).name == "side"
    assert choose_view(person(STAY, FALL).take(np.array([49]))).name == "side"


def test_things_count_while_they_are_near():
    """A ball that passes along y; the same 10 m off; all of it where there is no character."""
    pos = np.array(walk(1, 0).link_pos)
    pos[:, 2, 0], pos[:, 2, 1] = 1.0, np.linspace(-8, 8, 50)
    near = dataclasses.replace(walk(1, 0), link_pos=pos)
    assert choose_view(near).name == "corner"
    pos[:, 2, 0] = 11.0
    assert choose_view(dataclasses.replace(near, link_pos=pos)).name == "side"
    things = ("prop", "prop", "prop")
    assert choose_view(dataclasses.replace(near, link_pos=pos, link_roles=things)).name == "front"


def test_samples_that_are_not_finite_do_not_count():
    pos = np.array(walk(0, 1).link_pos)
    pos[40:], pos[10, 1] = np.nan, np.inf
    assert choose_view(dataclasses.replace(walk(0, 1), link_pos=pos)).name == "front"
    assert choose_view(dataclasses.replace(walk(0, 1), link_pos=pos * np.nan)).name == "side"


@pytest.mark.parametrize("name", VIEWS_DEG)
def test_a_view_is_a_right_handed_frame(name):
    view = view_from(name)
    frame = np.stack([view.right, view.up, view.back])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(view.right, view.up), view.back, atol=1e-12)
    assert view.level == (name in ("side", "front"))


def test_from_the_front_the_face_is_seen():
    """Characters face +x, to the eye; their left, +y, is to the right."""
    np.testing.assert_allclose(view_from("front").back, [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(view_from("front").project(np.array([7.0, 2, 3])), [2, 3])
    np.testing.assert_allclose(view_from("side").project(np.array([7.0, 2, 3])), [7, 3])


def test_the_page_has_the_same_views(tmp_path, walker):
    write_page(tmp_path / "motion.html", walker)
    views = read_page(tmp_path / "motion.html")["views"]
    assert {name: tuple(angles) for name, angles in views.items()} == VIEWS_DEG
