"""The shipped scripts do what they are for (thesis, section 4.5)."""

import numpy as np
import pytest

from optimize.running.simulate import simulate
from optimize.studies.verdict import VerdictOptions, verdict

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
    simulation = simulate("sit_to_stand_printed", seconds=5.0, dt=0.001)
    assert simulation.summary["start"] == "sitting"
    assert simulation.motion.heights["head"][0] < 1.7
    on_feet_and_up(simulation, 2.0)


def test_walk_as_printed():
    simulation = simulate("walk_printed", seconds=10.0, dt=0.001)
    assert simulation.motion.heights["head"].min() > 1.8
    assert simulation.summary["distance"] > 2.0
    assert len(simulation.summary["phases"]) > 8


def ends_standing(simulation):
    """The head above 1.8 m at 5 s and for the last 2 s, nothing but feet on the ground."""
    motion = simulation.motion
    head, late = motion.heights["head"], motion.time >= motion.time[-1] - 2.0
    assert head[0] < 0.3
    assert head[np.searchsorted(motion.time, 5.0)] > 1.8
    assert head[late].min() > 1.8
    assert {name[-4:] for name in simulation.summary["contacts_at_end"]} <= {"Foot"}


GETTING_UP = ["kip_up", "kip_up_robust", "prone_to_stand", "prone_to_stand_quick"]


@pytest.mark.parametrize("name", ["kip_up", "prone_to_stand"])
def test_getting_up_ends_standing(name):
    ends_standing(simulate(name, seconds=8.0, dt=0.0005))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GETTING_UP, "kip_up_athletic"])
def test_getting_up_at_the_step_of_the_thesis(name):
    ends_standing(simulate(name, seconds=8.0, dt=0.00025))


@pytest.mark.slow
def test_sit_to_stand_at_the_step_of_the_thesis():
    on_feet_and_up(simulate("sit_to_stand", seconds=5.0, dt=0.00025), 2.0)


@pytest.mark.slow
def test_walk_at_the_step_of_the_thesis():
    simulation = simulate("walk", seconds=10.0, dt=0.00025)
    assert simulation.motion.heights["head"].min() > 1.8
    assert simulation.summary["distance"] > 2.0


def stands(name: str, starts: int, seed: int) -> int:
    """In how many starts of the default spread, at 1 ms."""
    options = VerdictOptions(starts=starts, dts=(0.001,), seed=seed)
    way = {"backend": "fused", "precision": "float64", "scheme": "time_stepping"}
    return verdict(name, options, **way).columns[0].ok


def test_sit_to_stand_stands_from_the_default_spread():
    assert stands("sit_to_stand", 40, seed=31_337) >= 38


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kip_up", "kip_up_robust", "prone_to_stand", "sit_to_stand", "walk"]
)
def test_scripts_stand_from_starts_that_no_search_has_seen(name):
    assert stands(name, 200, seed=777) >= 190
