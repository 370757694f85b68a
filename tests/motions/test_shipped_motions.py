"""The shipped scripts do what they are for: thesis section 4.5, issue's marks for success."""

import numpy as np
import pytest

from optimize.simulate import simulate

pytestmark = pytest.mark.usefixtures("x64_module")


def on_feet_and_up(simulation, seconds):
    """The head above 1.8 m and a foot on the ground in every frame of the last ``seconds``."""
    motion = simulation.motion
    late = motion.time >= motion.time[-1] - seconds
    feet = [i for i, name in enumerate(motion.link_names) if name.endswith("Foot")]
    sole = motion.link_pos[late][:, feet, 2].min(axis=1)
    force = np.linalg.norm(motion.contact_force[late].sum(axis=1), axis=-1)
    assert motion.heights["head"][late].min() > 1.8
    assert sole.max() < 0.08  # heel ball of 0.04 m
    assert force.min() > 0.5 * simulation.summary["total_mass"] * 9.81


def test_sit_to_stand_as_printed():
    simulation = simulate("sit_to_stand", seconds=5.0, dt=0.001)
    assert simulation.summary["start"] == "sitting"
    assert simulation.motion.heights["head"][0] < 1.7
    on_feet_and_up(simulation, 2.0)


def test_walk_as_printed():
    simulation = simulate("walk", seconds=10.0, dt=0.001)
    assert simulation.motion.heights["head"].min() > 1.8
    assert simulation.summary["distance"] > 2.0
    assert len(simulation.summary["phases"]) > 8


def test_kip_up_ends_standing():
    simulation = simulate("kip_up", seconds=8.0, dt=0.001)
    motion = simulation.motion
    assert motion.heights["head"][0] < 0.3
    assert motion.heights["head"][np.searchsorted(motion.time, 5.0)] > 1.8
    on_feet_and_up(simulation, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seconds"), [("sit_to_stand", 5.0), ("walk", 10.0), ("kip_up", 8.0)]
)
def test_at_the_step_of_the_thesis(name, seconds):
    simulation = simulate(name, seconds=seconds, dt=0.00025)
    assert simulation.motion.heights["head"][-1] > 1.8
