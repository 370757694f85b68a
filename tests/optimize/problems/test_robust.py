"""Members judged by many trials: scores, trials drawn anew, racing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimize.problems.fitness import Evaluation, aggregate, check_aggregation, successes
from optimize.problems.problem import Problem
from optimize.running.objectives import user_objective
from optimize.scenarios.find import scenario
from optimize.tuning.evolution import evolve

TOTALS = np.array([[1.0, 2.0, 3.0, 6.0], [4.0, 4.0, 4.0, 4.0]])
OK = np.array([[True, True, True, False], [True, True, True, True]])


@pytest.mark.parametrize(
    "score, worth",
    [("mean", [3, 4]), ("worst", [6, 4]), ("cvar:0.5", [4.5, 4]), ("cvar:0.25", [6, 4])],
)
def test_scores_of_four_trials(score, worth):
    np.testing.assert_allclose(aggregate(TOTALS, OK, score), worth)


def test_success_counts_the_failures_and_then_looks_at_the_mean():
    worth = aggregate(np.vstack([TOTALS, TOTALS[:1] - 9]), np.vstack([OK, OK[:1]]), "success")
    np.testing.assert_array_equal(np.floor(4 * worth), [1, 0, 1])
    assert worth[2] < worth[0]
    with pytest.raises(ValueError, match="final_state or toppled"):
        aggregate(TOTALS, None, "success")
    assert successes({"energy": TOTALS}) is None
    np.testing.assert_array_equal(successes({"final_state": np.array([0.0, 9.0])}), [True, False])


@pytest.mark.parametrize("score", ["median", "cvar", "cvar:0", "cvar:x", "worst:2"])
def test_a_score_that_there_is_none_of(score):
    with pytest.raises(ValueError, match="choose from mean, worst, cvar:SHARE, success"):
        check_aggregation(score)


def speed(sample):
    return (sample.state.qd**2).sum()


@pytest.fixture(scope="module")
def arm():
    """A small arm for some steps, with gravity and starts drawn anew."""
    return Problem(
        scenario(Path(__file__).parents[2] / "models" / "arm.urdf"),
        {"model.mass[0]": (0.1, 50.0, "log"), "model.gravity[0]": (-90.0, 90.0)},
        user_objective(speed)[0],
        seconds=0.005, trials=3, spread=(0.0, 0.5), resample=True, seed=5, backend="xla", chunk=3,
        sample={"model.gravity[2]": (-20.0, -5.0)},
    )  # fmt: skip


def test_trials_are_those_of_their_generation(arm):
    again, other = replace(arm), replace(arm, seed=6)
    for made in (arm, again):
        np.testing.assert_array_equal(made.starts(3).qd, arm.starts(3).qd)
        np.testing.assert_array_equal(
            made.varied(3)["model.gravity[2]"], arm.varied(3)["model.gravity[2]"]
        )
    for changed in (arm.starts(4), other.starts(3)):
        assert (np.asarray(changed.qd) != np.asarray(arm.starts(3).qd))[1:].any(axis=1).all()
    np.testing.assert_array_equal(arm.starts(4).qd[0], arm.scenario.state.qd)
    kept = replace(arm, resample=False)
    np.testing.assert_array_equal(kept.starts(4).qd, kept.starts(9).qd)
    gravity = arm.varied(0)["model.gravity[2]"]
    assert ((gravity > -20) & (gravity < -5)).all() and len(np.unique(gravity)) == 3


def test_a_number_that_is_drawn_is_the_same_throughout_its_array(arm):
    drawn = replace(arm, sample={"model.inertia": (0.5, 0.8)}).varied(0)["model.inertia"]
    assert drawn.shape == (3, *np.shape(arm.scenario.model.inertia))
    assert (drawn == drawn[:, :1, :1]).all() and len(np.unique(drawn)) == 3
    with pytest.raises(ValueError, match=r"no range from 2.0 to 1.0"):
        replace(arm, sample={"model.inertia": (2.0, 1.0)}).varied()
    with pytest.raises(KeyError, match=r"no number .model.weight."):
        replace(arm, sample={"model.weight": (0.0, 1.0)}).varied()
    with pytest.raises(ValueError, match="halve_after is 3 of 3 trials"):
        replace(arm, halve_after=3)


@pytest.mark.slow
def test_racing_changes_no_score_of_who_goes_on(arm):
    score = "cvar:0.5"
    z = 0.3 * np.random.default_rng(0).normal(size=(6, arm.tunables.size))
    whole = replace(arm, aggregate=score).evaluate(z, 2)
    raced = replace(arm, aggregate=score, halve_after=1).evaluate(z, 2)
    same = raced.fitness == whole.fitness
    assert same.sum() == 3 and raced.steps == arm.steps * (6 + 3 * 2) < whole.steps
    assert raced.fitness[~same].min() >= raced.fitness[same].max()
    for name, part in raced.parts.items():
        np.testing.assert_array_equal(part[same], whole.parts[name][same])
    first = replace(arm, aggregate=score).outcomes(arm.tunables.decode(z), 2, slice(1))[0]
    early = arm.objective.total(first)[:, 0]
    assert set(np.argsort(early)[:3]) == set(np.flatnonzero(same))


def test_a_search_with_fresh_trials_resumes_to_the_same_numbers(tmp_path):
    def evaluate(x, generation):
        noise = np.random.default_rng(generation + 1).normal(size=x.shape)
        return Evaluation(np.sum((x - 1 + 0.1 * noise) ** 2, axis=1))

    options: dict[str, Any] = dict(
        sigma=0.3, population=6, seed=0, progress=False, by_generation=True
    )
    whole = evolve(evaluate, np.zeros(2), generations=6, **options)
    evolve(evaluate, np.zeros(2), generations=3, folder=tmp_path, **options)
    parts = evolve(evaluate, np.zeros(2), generations=6, folder=tmp_path, resume=True, **options)
    np.testing.assert_array_equal(whole.mean, parts.mean)
    assert [r.best for r in whole.history] == [r.best for r in parts.history]
