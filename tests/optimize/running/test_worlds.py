"""Worlds through the command line: what is simulated, reported and written."""

import json

import numpy as np
import pytest

from jaxsim.io.motion_file import load_motion
from jaxsim.viewer import read_page
from optimize import simulate
from optimize.cli.main import main
from optimize.running.gallery import write_index
from optimize.scenarios.find import scenario, shipped_scenarios

SCENE = """
[world]
title = "Ball & <rope>"
dt = 0.005

[[fixed]]
shape = "height_field"
half_extents = [1, 1]
heights = [[0, 0.1], [0, 0.1]]

[[body]]
name = "ball"
shape = "sphere"
radius = 0.1
mass = 3
pos = [0, 0, 0.16]

[[body]]
name = "flyer"
shape = "sphere"
radius = 0.1
mass = 4
pos = [3, 0, 2]
velocity = [4, 0, 0]
throw_at = 0.15

[[body]]
name = "load"
shape = "sphere"
radius = 0.1
mass = 10
pos = [-3, 0, 2]

[[driven]]
name = "wall"
shape = "box"
half_extents = [0.1, 1, 1]
pos = [-2, 0, 1]

[[driven.motion]]
slide = [1, 0, 0]
rate = 0.5

[[grip]]
name = "rope"
link = "load"
strength = 90
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    (folder / "scene.toml").write_text(SCENE)
    out = folder / "out"
    options = ["--seconds", "0.3", "--fps", "200", "--precision", "float32", "--quiet"]
    code = main(["simulate", str(folder / "scene.toml"), *options, "--out", str(out)])
    return code, out


def test_a_world_is_simulated_and_written(done):
    code, out = done
    assert code == 0
    names = {path.name for path in out.iterdir()}
    assert {"motion.html", "summary.json", "trajectory.npz", "scenario.toml"} <= names
    assert (out / "scenario.toml").read_text() == SCENE
    summary = json.loads((out / "summary.json").read_text())
    assert summary["finite"] and summary["seconds"] == pytest.approx(0.3)
    assert summary["dt"] == 0.005 and summary["scheme"] == "time_stepping"
    assert summary["most_left_out"] == 0 and summary["largest_penetration"] < 1e-3
    [torn] = summary["broken_grips"]  # 90 N do not hold 10 kg
    assert torn.startswith("rope at 0.0")


def test_the_motion_is_what_physics_says(done):
    motion = load_motion(done[1] / "trajectory.npz")
    assert motion.link_names == ("ball", "flyer", "load", "wall")
    assert motion.link_roles == ("prop", "prop", "prop", "driven")
    assert motion.grip_names == ("rope", "hand_of_flyer")
    t, end = motion.time, motion.link_pos[-1]
    np.testing.assert_allclose(motion.link_pos[:, 3, 0], -2 + 0.5 * t, atol=1e-4)
    # Held until 50 ms before it is thrown, it then has 4 m/s, and gravity all the while after.
    hand = motion.grip_closed[:, 1]
    assert hand[0] and not hand[-1] and t[np.argmin(hand)] == pytest.approx(0.1, abs=0.006)
    np.testing.assert_allclose(motion.link_pos[hand, 1], [[3, 0, 2]] * hand.sum(), atol=1e-3)
    assert end[1, 0] == pytest.approx(3 + 4 * 0.025 + 4 * 0.15, abs=0.02)
    assert end[1, 2] == pytest.approx(2 - 4.905 * 0.15**2, abs=0.01)
    # The ball lies on a slope of 5 %: its weight is on the ground, which carries it.
    assert motion.contact_outer.all()
    force = motion.contact_force.sum(axis=1)[-10:].mean(axis=0)
    assert force[2] == pytest.approx(3 * 9.81, rel=0.05)
    assert end[2, 2] < 2 - 4.905 * 0.28**2 + 0.02  # torn off, it falls


def test_the_page_holds_it_all(done):
    data = read_page(done[1] / "motion.html")
    assert [link["role"] for link in data["links"]] == ["prop", "prop", "prop", "driven"]
    assert data["grips"] == ["rope", "hand_of_flyer"] and not data["planar"]
    assert data["grip_pos"].shape == (len(data["time"]), 2, 3)
    assert set(data["grip_closed"][:, 1]) == {0, 1}
    [field] = [s for s in data["shapes"] if s["kind"] == "height_field"]
    assert field["heights"] == [[0, 0.1], [0, 0.1]] and field["size"] == [1, 1]


def test_the_shipped_scenarios_are_read(tmp_path):
    titles = shipped_scenarios()
    assert len(titles) == 58 and all(titles.values())
    (tmp_path / "box_stack").mkdir()
    (tmp_path / "box_stack" / "motion.html").write_text("")
    page = write_index(tmp_path, titles).read_text()
    assert 'href="box_stack/motion.html"' in page and "pull_up" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_scenarios())
def test_the_shipped_scenarios_begin_without_overlap(name):
    from jaxsim.collision.contacts import overlapping_pairs

    built = scenario(name)
    model = built.model.replace(shape_size=built.model.shape_size * (1 - 1e-4))
    assert overlapping_pairs(model, built.state.q) == ()


RAMP = """
[world]
title = "A walk up or down a ramp"

[character]
model = "planar_human"
start = "standing"

[controller]
name = "script"
file = "walk"

[[fixed]]
shape = "box"
half_extents = [10, 1, 0.5]
pos = [{x}, 0, {z}]
turn_deg = [0, {turn}, 0]
"""


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, -2.0])
def test_a_script_walks_on_a_ramp(tmp_path, slope):
    file, angle = tmp_path / "ramp.toml", np.deg2rad(slope)
    place = {"x": 0.5 * np.sin(angle), "z": -0.5 * np.cos(angle)}  # its top is at the origin
    file.write_text(RAMP.format(**place, turn=-slope))
    run = simulate(str(file), seconds=2.0)
    assert run.summary["standing"] and run.summary["steps_taken"] >= 1
    feet = [run.motion.link_names.index(f"{side}Foot") for side in ("left", "right")]
    moved = run.motion.link_pos[-1, feet] - run.motion.link_pos[0, feet]
    assert moved[:, 0].max() > 0.2  # a foot was put down further on
    above = moved[:, 2] - moved[:, 0] * np.tan(angle)
    assert np.abs(above).min() < 0.02  # the one that bears stands on the slope


def test_a_push_is_found_by_its_name(tmp_path):
    file = tmp_path / "pushed.toml"
    push = '[[push]]\nname = "{}"\nlink = "trunk"\nforce = [{}, 0, 0]\n'
    model = '[character]\nmodel = "planar_human"\n'
    file.write_text(model + push.format("first", 1) + push.format("second", 2))
    found = scenario(str(file), {"push.second.force": [70, 0, 0]})
    np.testing.assert_allclose(found.forces.force[:, 0], [1, 70])
