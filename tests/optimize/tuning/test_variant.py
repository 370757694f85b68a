"""One set of numbers for several scenarios: a search whose members are judged in all of them."""

from dataclasses import replace

import numpy as np
import pytest

from optimize.cli.tune import parse_variant
from optimize.problems.problem import Problem
from optimize.running.objectives import Objective
from optimize.tuning.build import build_problem
from optimize.tuning.config import new_config, resumed_config
from optimize.tuning.evaluators import _with
from optimize.tuning.tune import tune
from tests.optimize.tuning import toy

JUDGED = Objective("held", 0.02, {"energy": 1.0, "time": 0.1}, "for these tests")
BODIES = [{"set": {"character.build": "child"}, "pushes": [120, 90]}]
ICE = {"set": {"character.friction": 0.2}}
FALLS = dict(pushes=(350.0,), trials=3, population=4)


@pytest.fixture(scope="module")
def pair():
    """Two toys, of which one is heavier, and both as one."""
    light = toy.scenario()
    heavy = light.set("model.mass[3]", 20.0)
    options = dict(trials=2, backend="xla", chunk=4)
    first, second = (Problem(own, toy.NUMBERS, JUDGED, **options) for own in (light, heavy))
    return first, second, replace(first, others=(second,))


def test_all_trials_count_alike(pair):
    x = np.array([[3.0, 7.0], [8.0, 2.0]])
    (parts, good), *alone = (own.outcomes(x) for own in (pair[2], *pair[:2]))
    assert good.shape == (2, 4) and good.all()
    for name in JUDGED.weights:
        np.testing.assert_array_equal(parts[name], np.hstack([own[0][name] for own in alone]))
    assert (parts["energy"][:, 2:] != parts["energy"][:, :2]).all()
    light, heavy, both = (own.evaluate_values(x) for own in pair)
    np.testing.assert_allclose(both.fitness, (light.fitness + heavy.fitness) / 2, rtol=1e-6)
    assert both.steps == light.steps + heavy.steps
    raced = replace(pair[2], halve_after=1).evaluate_values(x)
    # who is dropped is scored no better than who is kept: with equal scores argmin may name either
    kept = np.argmin(np.abs(raced.fitness - both.fitness))
    np.testing.assert_allclose(raced.fitness[kept], both.fitness[kept], rtol=1e-6)
    assert raced.fitness[kept] == raced.fitness.min()
    assert raced.steps < both.steps


@pytest.mark.slow
def test_derivatives_are_of_all_trials(pair):
    z = np.array([[0.1, -0.2]])
    light, heavy, both = (own.values_and_slopes(z) for own in pair)
    for k in range(2):
        np.testing.assert_allclose(both[k], (light[k] + heavy[k]) / 2, rtol=1e-6)


def test_numbers_that_begin_elsewhere_are_refused(pair):
    other = replace(pair[1], scenario=pair[1].scenario.set("model.gain_p[4]", 2.0))
    with pytest.raises(ValueError, match="begin elsewhere than those of toy"):
        _ = replace(pair[0], others=(other,)).tunables


def test_runs_that_differ_in_a_number_have_it_in_every_scenario(pair):
    whole = _with(pair[2], {"model.friction[0]": np.array([0.4, 0.8])})
    assert whole.tunables.names == whole.others[0].tunables.names
    assert whole.tunables.size == pair[2].tunables.size + 1


def test_a_run_poses_the_body_the_ground_and_the_pushes_of_each():
    config = new_config("push", "survive", {**FALLS, "variant": [*BODIES, ICE]}, [])
    problem = build_problem(config)
    child, ice = problem.others
    forces = [list(own.varied()["forces.force[0,0]"]) for own in (problem, child, ice)]
    assert forces == [[350] * 3, [120] * 3, [350] * 3]
    assert child.scenario.model.mass.sum() < 0.5 * problem.scenario.model.mass.sum()
    assert float(ice.scenario.model.friction[0]) == np.float32(0.2)
    assert problem.names == child.names and "gait.time" in problem.names
    assert config.as_json()["variant"][1] == {**ICE, "pushes": [350.0]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"set": {}}], "it sets nothing"),
        ([{"set": {"character.build": "child"}, "force": 3}], "there is no force"),
        ([{"set": {"character.build": "child"}, "pushes": [-1]}], "more than zero"),
        ([{"set": {"character.bild": "child"}}], "bild"),
    ],
)
def test_what_cannot_be_is_told_before_the_run(given, said):
    with pytest.raises((ValueError, KeyError), match=said):
        build_problem(new_config("push", "survive", {**FALLS, "variant": given}, []))


def test_a_scenario_of_python_has_no_settings(tmp_path):
    with pytest.raises(ValueError, match="Problem"):
        toy.toy_run(tmp_path / "run", variant=[ICE])


def test_a_run_that_goes_on_has_its_own(tmp_path, monkeypatch):
    toy.unsimulated(monkeypatch)
    options = {**FALLS, "variant": BODIES, "progress": False}
    tune("push", toy.OBJECTIVE, out=tmp_path / "run", generations=1, **options)
    from optimize.results.folder import RunFolder

    folder = RunFolder.open(tmp_path / "run")
    kept = resumed_config(folder, None, toy.OBJECTIVE, {"variant": BODIES})
    assert kept.as_json()["variant"] == [{"set": BODIES[0]["set"], "pushes": [120.0, 90.0]}]
    with pytest.raises(ValueError, match="variant"):
        resumed_config(folder, None, toy.OBJECTIVE, {"variant": [ICE]})


def test_the_command_reads_settings_and_pushes():
    assert parse_variant(["character.build=child", "pushes=90,120"]) == {
        "set": {"character.build": "child"},
        "pushes": (90.0, 120.0),
    }
    assert parse_variant(["character.friction=0.2"]) == ICE
    with pytest.raises(ValueError, match="--variant child: expected PATH=VALUE"):
        parse_variant(["child"])
    assert parse_variant(["a=1", "pushes=90@180,120"])["pushes"] == ((90.0, 180.0), 120.0)
    with pytest.raises(ValueError, match="expected degrees after @, as in 350@180, got '90@b'"):
        parse_variant(["a=1", "pushes=90@b"])
    with pytest.raises(ValueError, match="--variant a=1 pushes=-3: expected a positive number"):
        parse_variant(["a=1", "pushes=-3"])
