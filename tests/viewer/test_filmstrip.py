"""The film strip: what it draws, in which colours, on which scale."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxsim.io.motion import MotionShape
from jaxsim.viewer import read_page, write_filmstrip, write_page
from jaxsim.viewer.colours import LIGHT, part_of
from jaxsim.viewer.filmstrip import _drawing
from jaxsim.viewer.views import view_from


def pixels(path) -> np.ndarray:
    return np.asarray(pytest.importorskip("PIL.Image").open(path).convert("RGB"), dtype=float)


def share(image: np.ndarray, part: str) -> float:
    """How much of a picture has exactly the colour of a part."""
    colour = [int(LIGHT[part][k : k + 2], 16) for k in (1, 3, 5)]
    return float((image == colour).all(axis=-1).mean())


def test_filmstrip_has_the_limbs_colours(tmp_path, walker):
    write_filmstrip(tmp_path / "strip.png", walker, frames=4)
    image = pixels(tmp_path / "strip.png").reshape(-1, 3)
    shares = [(image == colour).all(axis=1).mean() for colour in ((55, 85, 122), (120, 169, 224))]
    assert min(shares) > 0.005  # right limbs dark, left limbs light


def test_frames_do_not_overlap(tmp_path, walker):
    """Between the panels there is a white column."""
    write_filmstrip(tmp_path / "strip.png", walker, frames=5)
    image = pixels(tmp_path / "strip.png")
    body = image[int(0.3 * len(image)) : int(0.8 * len(image)), int(0.1 * image.shape[1]) :]
    empty = (body == 255).all(axis=(0, 2))
    assert np.count_nonzero(np.diff(empty.astype(int)) == 1) >= 4


def test_a_body_that_flew_apart_is_drawn_in_a_picture_of_common_size(tmp_path, walker):
    """Parts of it 6000 km away: as many ticks and inches as ever."""
    far = np.array(walker.link_pos)
    far[-1, -1, 0] += 6e6
    path = tmp_path / "far.png"
    write_filmstrip(path, dataclasses.replace(walker, link_pos=far), frames=3)
    assert 0 < path.stat().st_size < 1e6


def with_role(falling, role: str):
    return dataclasses.replace(falling, link_roles=(role, "character"))


@pytest.mark.parametrize(
    ("role", "part"), [("character", "middle"), ("prop", "loose"), ("driven", "driven")]
)
def test_what_is_loose_driven_or_the_character_has_its_own_colour(tmp_path, falling, role, part):
    """The trunk in the colour of its role, the right arm in the character's, the chair in its own:
    the same in the film strip and on the page."""
    motion = with_role(falling, role)
    assert part_of(motion, 0) == part
    write_filmstrip(tmp_path / "strip.png", motion, frames=3)
    image = pixels(tmp_path / "strip.png")
    for name in ("middle", "loose", "driven"):
        assert (share(image, name) > 0.005) == (name == part), name
    assert share(image, "right") > 0.005
    assert share(image, "surroundings") > 0.005
    write_page(tmp_path / "motion.html", motion)
    data = read_page(tmp_path / "motion.html")
    assert [link["part"] for link in data["links"]] == [part, "right"]
    assert data["colours"]["light"][part] == LIGHT[part]


def test_a_ghost_is_drawn_thin_and_changes_nothing_else(tmp_path, falling, followed):
    motion = dataclasses.replace(followed, gauges={})
    write_filmstrip(tmp_path / "strip.png", falling, frames=3)
    write_filmstrip(tmp_path / "ghost.png", motion, frames=3)
    without, image = pixels(tmp_path / "strip.png"), pixels(tmp_path / "ghost.png")
    assert image.shape == without.shape
    other = (image != without).any(axis=-1)
    assert 0.001 < other.mean() < 0.02
    reddish = image[other][:, 0] > image[other][:, 1]
    assert reddish.mean() > 0.9


def test_parts_have_colours_that_can_be_told_apart():
    parts = ("left", "middle", "right", "surroundings", "loose", "driven", "ground")
    rgb = np.array([[int(LIGHT[p][k : k + 2], 16) for k in (1, 3, 5)] for p in parts])
    apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1)
    assert apart[~np.eye(len(parts), dtype=bool)].min() > 45.0


def test_a_walk_along_y_is_as_wide_as_along_x(tmp_path, walker):
    """Turned by a quarter about z and seen from the front, it takes as many panels of the same
    size, and shows as much of the walker."""
    c = np.sqrt(0.5)
    turned = dataclasses.replace(
        walker,
        planar=False,
        shapes=tuple(shape for shape in walker.shapes if shape.link >= 0),
        link_pos=walker.link_pos[..., [1, 0, 2]] * [-1, 1, 1],
        link_quat=_product(np.array([c, 0, 0, c]), walker.link_quat),
    )
    straight = dataclasses.replace(walker, shapes=turned.shapes)
    images = []
    for name, motion in (("x", straight), ("y", turned)):
        write_filmstrip(tmp_path / f"{name}.png", motion, frames=4)
        images.append(pixels(tmp_path / f"{name}.png"))
    assert images[0].shape == images[1].shape
    body = [sum(share(image, part) for part in ("left", "middle", "right")) for image in images]
    assert body[0] == pytest.approx(body[1], rel=0.02)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of quaternions (4,) and (..., 4)."""
    w, u, v = a[0] * b[..., :1] - (b[..., 1:] @ a[1:])[..., None], a[1:], b[..., 1:]
    return np.concatenate([w, a[0] * v + b[..., :1] * u + np.cross(u, v)], axis=-1)


def test_from_a_corner_the_ground_fills_the_panel_and_has_a_grid(tmp_path, falling):
    pos = np.array(falling.link_pos)
    pos[..., 1] += pos[:, :1, 0]  # along x and y
    motion = dataclasses.replace(falling, link_pos=pos)
    for name, shapes in (("ground", motion.shapes), ("none", motion.shapes[1:])):
        write_filmstrip(tmp_path / f"{name}.png", dataclasses.replace(motion, shapes=shapes), 3)
    ground, none = (pixels(tmp_path / f"{name}.png") for name in ("ground", "none"))
    assert share(ground, "ground") > 0.4 > 0.001 > share(none, "ground")
    assert share(ground, "grid") > 0.001 > share(none, "grid")


def with_thing(falling, shape: MotionShape, x: float, y: float = 0.0):
    """The falling motion with a loose thing at x and y [m] beside it, at its height."""
    pos = np.concatenate([falling.link_pos, falling.link_pos[:, :1] + [x, y, 0]], axis=1)
    quat = np.concatenate([falling.link_quat, np.ones((falling.n_frames, 1, 4)) / 2], axis=1)
    return dataclasses.replace(
        falling,
        link_names=("trunk", "right_arm", "thing"),
        link_roles=("character", "character", "prop"),
        link_pos=pos,
        link_quat=quat,
        shapes=(*falling.shapes, dataclasses.replace(shape, link=2)),
    )


def test_panels_reach_one_and_a_half_metres_to_things_beside_and_no_farther(tmp_path, falling):
    """A ball 1 m off widens them; one 30 m off does not; a long plank is cut off."""
    ball = MotionShape("sphere", 0, size=(0.1,))
    motions = {
        "none": falling,
        "near": with_thing(falling, ball, 1.0),
        "gone": with_thing(falling, ball, 30.0),
        "plank": with_thing(falling, MotionShape("box", 0, size=(2.0, 2.0, 2.0)), 0.0),
        "long": with_thing(falling, MotionShape("box", 0, size=(9.0, 9.0, 9.0)), 0.0),
    }
    shapes = {}
    for name, motion in motions.items():
        write_filmstrip(tmp_path / f"{name}.png", motion, frames=2)
        shapes[name] = pixels(tmp_path / f"{name}.png").shape
    assert shapes["gone"] == shapes["none"]
    assert shapes["near"][1] > 1.5 * shapes["none"][1]
    assert shapes["long"] == shapes["plank"]


def test_a_thing_far_before_the_character_does_not_hide_it(tmp_path, falling):
    """Nearer, it does."""
    for name, y in (("near", -1.0), ("far", -3.0)):
        motion = with_thing(falling, MotionShape("sphere", 0, size=(0.25,)), 0.0, y)
        write_filmstrip(tmp_path / f"{name}.png", motion, frames=2)
    near, far = (share(pixels(tmp_path / f"{name}.png"), "loose") for name in ("near", "far"))
    assert near > 0.05 and far == 0.0


def test_what_is_on_a_wall_is_drawn_after_it_all_over_the_wall(falling):
    """Also where the middle of the wall is nearer to the eye than the thing."""
    wall = MotionShape("box", -1, pos=(0.0, 0.0, 2.0), size=(0.1, 2.0, 2.0))
    on = [
        MotionShape("sphere", -1, pos=(side, y, 2.0), size=(0.03,))
        for side in (-0.15, 0.15)
        for y in (-1.9, 1.9)
    ]
    view = view_from("corner")
    for shapes in ((wall, *on), (*on, wall)):
        motion = dataclasses.replace(falling, shapes=shapes)
        kinds = [drawn.shape for drawn in _drawing(motion, 0, view)]
        ahead = [s for s in on if view.back[0] * s.pos[0] > 0]
        assert all(kinds.index(wall) < kinds.index(s) for s in ahead)
