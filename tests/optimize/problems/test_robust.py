"""Members judged by many trials: scores, trials drawn anew, racing."""

from dataclasses import replace

import numpy as np
import pytest

from optimize.problems.evaluation import Evaluation
from optimize.problems.problem import Problem
from optimize.problems.score import check_score, scored, succeeded
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario
from optimize.tuning.evolution import evolve

TOTALS = np.array([[1.0, 2.0, 3.0, 6.0], [4.0, 4.0, 4.0, 4.0]])
OK = np.array([[True, True, True, False], [True, True, True, True]])


@pytest.mark.parametrize(
    "score, worth",
    [("mean", [3, 4]), ("worst", [6, 4]), ("cvar:0.5", [4.5, 4]), ("cvar:0.25", [6, 4])],
)
def test_scores_of_four_trials(score, worth):
    np.testing.assert_allclose(scored(TOTALS, OK, score), worth)


def test_success_counts_the_failures_and_then_looks_at_the_mean():
    worth = scored(np.vstack([TOTALS, TOTALS[:1] - 9]), np.vstack([OK, OK[:1]]), "success")
    np.testing.assert_array_equal(np.floor(4 * worth), [1, 0, 1])
    assert worth[2] < worth[0]
    with pytest.raises(ValueError, match="final_state or toppled"):
        scored(TOTALS, None, "success")
    assert succeeded({"energy": TOTALS}) is None
    np.testing.assert_array_equal(succeeded({"final_state": np.array([0.0, 9.0])}), [True, False])


@pytest.mark.parametrize("score", ["median", "cvar", "cvar:0", "cvar:x", "worst:2"])
def test_a_score_that_there_is_none_of(score):
    with pytest.raises(ValueError, match="choose from mean, worst, cvar:SHARE, success"):
        check_score(score)


@pytest.fixture(scope="module")
def rise():
    """A script of the planar human for some steps, with friction and starts drawn anew."""
    made = scenario("sit_to_stand_quick")
    return Problem(
        replace(made, scheme=replace(made.scheme, dt=0.001)),
        {"controller.values[0]": (-90.0, 90.0), "model.friction": (0.1, 2.0)},
        replace(OBJECTIVES["quick-rise"], seconds=0.01),
        trials=3, spread=(0.0, 0.5), fresh=True, seed=5, racing=0,
        drawn={"model.gravity[2]": (-20.0, -5.0)},
    )  # fmt: skip


def test_trials_are_those_of_their_generation(rise):
    again, other = replace(rise), replace(rise, seed=6)
    for made in (rise, again):
        np.testing.assert_array_equal(made.starts(3).qd, rise.starts(3).qd)
        np.testing.assert_array_equal(
            made.varied(3)["model.gravity[2]"], rise.varied(3)["model.gravity[2]"]
        )
    for changed in (rise.starts(4), other.starts(3)):
        assert (np.asarray(changed.qd) != np.asarray(rise.starts(3).qd))[1:].any(axis=1).all()
    np.testing.assert_array_equal(rise.starts(4).qd[0], rise.scenario.state.qd)
    kept = replace(rise, fresh=False)
    np.testing.assert_array_equal(kept.starts(4).qd, kept.starts(9).qd)
    gravity = rise.varied(0)["model.gravity[2]"]
    assert ((gravity > -20) & (gravity < -5)).all() and len(np.unique(gravity)) == 3


def test_a_number_that_is_drawn_is_the_same_throughout_its_array(rise):
    drawn = replace(rise, drawn={"model.friction": (0.5, 0.8)}).varied(0)["model.friction"]
    assert drawn.shape == (3, *np.shape(rise.scenario.model.friction))
    assert (drawn == drawn[:, :1]).all() and len(np.unique(drawn)) == 3
    with pytest.raises(ValueError, match=r"no range from 2.0 to 1.0"):
        replace(rise, drawn={"model.friction": (2.0, 1.0)}).varied()
    with pytest.raises(KeyError, match="no number 'model.weight'"):
        replace(rise, drawn={"model.weight": (0.0, 1.0)}).varied()
    with pytest.raises(ValueError, match="racing is 3 of 3 trials"):
        replace(rise, racing=3)


@pytest.mark.parametrize("score", ["mean", "cvar:0.5"])
def test_racing_changes_no_score_of_who_goes_on(rise, score):
    z = 3.0 * np.random.default_rng(0).normal(size=(6, rise.tunables.size))
    whole = replace(rise, score=score).evaluate(z, 2)
    raced = replace(rise, score=score, racing=1).evaluate(z, 2)
    same = raced.fitness == whole.fitness
    assert same.sum() == 3 and raced.steps == rise.steps * (6 + 3 * 2) < whole.steps
    assert raced.fitness[~same].min() >= raced.fitness[same].max()
    for name, part in raced.parts.items():
        np.testing.assert_array_equal(part[same], whole.parts[name][same])
    first = replace(rise, score=score).outcomes(rise.tunables.decode(z), 2, slice(1))[0]
    early = rise.objective.total(first)[:, 0]
    assert set(np.argsort(early)[:3]) == set(np.flatnonzero(same))


def test_a_search_with_fresh_trials_resumes_to_the_same_numbers(tmp_path):
    def evaluate(x, generation):
        noise = np.random.default_rng(generation + 1).normal(size=x.shape)
        return Evaluation(np.sum((x - 1 + 0.1 * noise) ** 2, axis=1))

    options = dict(sigma=0.3, population=6, seed=0, progress=False, by_generation=True)
    whole = evolve(evaluate, np.zeros(2), generations=6, **options)
    evolve(evaluate, np.zeros(2), generations=3, folder=tmp_path, **options)
    parts = evolve(evaluate, np.zeros(2), generations=6, folder=tmp_path, resume=True, **options)
    np.testing.assert_array_equal(whole.mean, parts.mean)
    assert [r.best for r in whole.history] == [r.best for r in parts.history]
