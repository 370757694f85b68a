"""Walls of random holds, as scenario files declare them."""

import numpy as np
import pytest

from jaxsim.io.climbing_wall import random_places
from jaxsim.io.toml_table import Table, WorldError
from jaxsim.io.world_file import world_of
from jaxsim.math.rotation import rotation_matrix

WALL = {"pos": [0.5, 0.2, 0.1], "width": 2.0, "height": 3.2, "density": 5, "lowest": 0.2}


def wall(folder, **keys):
    """The world of a file with one wall."""
    return world_of(Table("world.toml", "", {"wall": [{**WALL, **keys}]}), "world", folder)


def places(world):
    """(nh, 3) of the holds."""
    return np.array([hold.shape.pos for hold in world.holds])


def test_holds_are_as_many_as_the_density_says_apart_and_the_same_for_a_seed(tmp_path):
    world = wall(tmp_path, spacing=0.25)
    at = places(world)
    assert len(at) == 30  # 5 on a square metre, on 2 m by 3 m
    assert [hold.name for hold in world.holds][:2] == ["wall_1", "wall_2"]
    apart = np.linalg.norm(at[:, None] - at, axis=-1) + 10 * np.eye(30)
    assert apart.min() >= 0.25
    np.testing.assert_allclose(at[:, 0], 0.5 - 0.08)
    assert np.abs(at[:, 1] - 0.2).max() <= 1.0
    assert at[:, 2].min() >= 0.3 and at[:, 2].max() <= 3.3
    np.testing.assert_array_equal(at, places(wall(tmp_path, spacing=0.25)))
    assert np.abs(at - places(wall(tmp_path, spacing=0.25, seed=1))).max() > 0.1


def test_places_fill_their_rectangle_evenly():
    drawn = np.concatenate([random_places(40, (-1, 0), (1, 4), 0.1, seed) for seed in range(50)])
    counts, _, _ = np.histogram2d(*drawn.T, bins=(2, 4), range=[(-1, 1), (0, 4)])
    np.testing.assert_allclose(counts, 250, atol=60)  # four standard deviations of even draws


@pytest.mark.parametrize("lean", [10.0, -10.0])
def test_a_wall_leans_over_who_climbs_by_its_angle(tmp_path, lean):
    world = wall(tmp_path, lean_deg=lean)
    (box,) = world.fixed
    up, outward = rotation_matrix(box.quat)[:, 2], rotation_matrix(box.quat)[:, 1]
    angle = np.deg2rad(lean)
    np.testing.assert_allclose(up, [-np.sin(angle), 0, np.cos(angle)], atol=1e-12)
    np.testing.assert_allclose(outward, [-np.cos(angle), 0, -np.sin(angle)], atol=1e-12)
    front = np.array([0.5, 0.2, 0.1])
    np.testing.assert_allclose((places(world) - front) @ outward, 0.08, atol=1e-12)
    np.testing.assert_allclose((box.pos - front) @ outward, -box.size[1], atol=1e-12)
    assert {tuple(hold.shape.quat) for hold in world.holds} == {tuple(box.quat)}


def test_a_wall_faces_where_it_is_told_to(tmp_path):
    at = places(wall(tmp_path, facing_deg=90.0))
    np.testing.assert_allclose(at[:, 1], 0.2 + 0.08)


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"density": 0.1}, r"\[\[wall\]\] 1.*key 'density': is 0.1, so few that there are 1 holds"),
        ({"spacing": 0.6}, r"key 'spacing': is 0.6 m, too much for 5 .* give at most 0.34 m"),
        ({"lowest": 4.0}, r"key 'lowest': is 4 m, not below the height, 3.2 m"),
        ({"lean_deg": 90}, r"key 'lean_deg': is 90; give a finite number"),
        ({"sed": 2}, r"key 'sed': is not known here; did you mean 'seed'"),
        ({"strength": -1}, r"key 'strength': is -1"),
    ],
)
def test_a_wall_that_cannot_be_is_told(tmp_path, keys, message):
    with pytest.raises(WorldError, match=message):
        wall(tmp_path, **keys)
