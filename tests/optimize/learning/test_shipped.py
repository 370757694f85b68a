"""What the policies that ship do, each for a few seconds of its scenario."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxsim.io.motion import Motion
from optimize.running.simulate import simulate
from optimize.scenarios import find
from optimize.studies.verdict import VerdictOptions, verdict

CURVES = Path(__file__).parents[3] / "docs" / "images" / "policies.json"


def test_each_network_that_ships_has_its_command_and_curve():
    curves = json.loads(CURVES.read_text())
    files = (Path(find.__file__).parent / "shipped").glob("*_policy.npz")
    assert curves.keys() == {file.stem for file in files}
    for name, curve in curves.items():
        assert curve["command"].startswith(f"jaxsim learn {name} --updates ")
        assert len(curve["actions"]) == len(curve["return"]) == len(curve["whole"]) > 5
        assert curve["actions"] == sorted(curve["actions"])
        assert max(curve["return"]) > 1.5 * curve["return"][0]  # it learned


def played(name: str, seconds: float, changes: dict | None = None) -> Motion:
    return simulate(name, seconds=seconds, set=changes, backend="fused").motion


def speed(motion: Motion) -> np.ndarray:
    """Ahead and aside in the second half [m/s]."""
    half = len(motion.time) // 2
    way = motion.com[-1, :2] - motion.com[half, :2]
    return way / (motion.time[-1] - motion.time[half])


def flying(motion: Motion) -> float:
    """The part of the time in which nothing touches the ground."""
    return np.mean(np.linalg.norm(motion.contact_force, axis=-1).sum(axis=1) <= 1.0)


@pytest.mark.parametrize("told", [2.0, 3.0])
def test_it_runs_as_fast_as_it_is_told(told):
    motion = played("run_policy", 5.0, {"controller.command.speed": told})
    assert speed(motion)[0] == pytest.approx(told, abs=0.3)
    assert 0.1 < flying(motion) < 0.6


@pytest.mark.slow
def test_it_walks_in_space_as_fast_as_it_is_told():
    for told in (0.7, 1.2):
        motion = played("walk_space_policy", 8.0, {"controller.command.speed": told})
        ahead, aside = speed(motion)
        assert ahead == pytest.approx(told, abs=0.2) and abs(aside) < 0.2
        assert motion.com[:, 2].min() > 0.85


@pytest.mark.slow
def test_it_runs_in_space_nearly_as_fast_as_it_is_told():
    for told in (1.7, 2.2):
        motion = played("run_space_policy", 8.0, {"controller.command.speed": told})
        ahead, aside = speed(motion)
        assert ahead == pytest.approx(told, abs=0.3) and abs(aside) < 0.3
        assert 0.4 < flying(motion) < 0.8


def test_it_gets_up():
    """From 24 starts of the default spread, of which some 22 stand."""
    options = VerdictOptions(starts=24, dts=(0.001,), seed=31_337)
    way = {"backend": "fused", "precision": "float32", "scheme": "time_stepping"}
    assert verdict("get_up_policy", options, **way).columns[0].ok >= 20


def test_it_stands_up_from_a_chair():
    motion = played("stand_up_policy", 4.0)
    assert motion.heights["head"][0] < 1.6
    assert motion.heights["head"][-60:].min() > 1.9  # of 2.03 m with straight knees
    assert np.abs(motion.com[-60:, 0] - motion.com[-1, 0]).max() < 0.02


@pytest.mark.slow
def test_it_follows_the_walk():
    motion = played("follow_policy", 5.0)
    assert motion.ghost_pos is not None
    off = motion.link_pos - motion.ghost_pos
    own = np.isfinite(off).all(axis=(0, 2))
    assert np.linalg.norm(off[:, own], axis=-1).mean() < 0.06
