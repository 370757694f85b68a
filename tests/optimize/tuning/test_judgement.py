"""What a search hands out: never worse than its start, as it is judged."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimize.problems.fitness import Evaluation
from optimize.problems.problem import Problem
from optimize.tuning.judgement import candidates, evaluate_candidates
from optimize.tuning.tune import tune
from tests.optimize.tuning.toy import NUMBERS, OBJECTIVE, scenario, terms, toy_run, unsimulated


def mirrored(x):
    """Terms as a search with coarse steps has them: better where the start's other side is."""
    return terms(10.0 - np.asarray(x, float))


@pytest.fixture
def deceived(monkeypatch):
    """The search sees other terms than the judgement."""

    def evaluate(self, z, generation=0):
        parts = mirrored(np.stack([self.tunables.decode(row) for row in z]))
        return Evaluation(self.objective.total(parts), parts, False, len(z))

    def values_and_slopes(self, z):
        def loss(row):
            return float(self.objective.total(mirrored(self.tunables.decode(row)[None]))[0])

        steps = 1e-4 * np.eye(z.shape[1])
        slopes = [[(loss(r + d) - loss(r - d)) / 2e-4 for d in steps] for r in np.asarray(z, float)]
        return np.array([loss(row) for row in z]), np.array(slopes)

    unsimulated(monkeypatch)
    monkeypatch.setattr(Problem, "evaluate", evaluate)
    monkeypatch.setattr(Problem, "values_and_slopes", values_and_slopes)


ONE = float(OBJECTIVE.total(terms([[5.0, 5.0]]))[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"restarts": "ipop"},
        {"runs": 3, "by_run": {"weights.energy": [0.01, 0.5, 0.4]}},
        {"method": "adam", "trust_derivative": True},
    ],
    ids=["cma", "restarts", "runs", "gradient"],
)
def test_the_start_is_handed_out_where_none_is_better(deceived, tmp_path, options):
    found = toy_run(tmp_path / "run", **options)
    begun, ended = found.evolution.history[0].best, found.evolution.best_fitness
    assert ended < begun  # the search believes in it
    assert found.before == found.after and found.after["total"] == pytest.approx(ONE)
    assert any(note.startswith("NOTHING GAINED") for note in found.notes)
    np.testing.assert_array_equal(found.best_x, 0.0)
    best, result = (
        json.loads((found.folder / n).read_text()) for n in ("best.json", "result.json")
    )
    assert best["fitness"]["after"] == best["fitness"]["before"] == result["after"]["total"]
    assert result["handed out"] == "start"
    assert all(number["after"] == pytest.approx(5.0) for number in best["numbers"].values())


def test_a_resumed_search_is_judged_anew(deceived, tmp_path):
    toy_run(tmp_path / "run", generations=2)
    longer = tune(
        scenario(), OBJECTIVE, out=tmp_path / "run", resume=True, generations=5, progress=False
    )
    assert longer.evolution.generations == 5 and longer.before == longer.after


def test_a_gain_is_judged_and_written_alike(monkeypatch, tmp_path):
    unsimulated(monkeypatch)
    found = toy_run(tmp_path / "run")
    assert found.after["total"] < found.before["total"] == pytest.approx(ONE)
    assert found.after["total"] <= found.evolution.best_fitness + 1e-6
    best = json.loads((found.folder / "best.json").read_text())
    numbers = [number["after"] for number in best["numbers"].values()]
    assert float(OBJECTIVE.total(terms([numbers]))[0]) == pytest.approx(best["fitness"]["after"])
    assert best["fitness"]["after"] == pytest.approx(found.after["total"])


def history(count):
    """A run whose best member became better ``count`` times."""
    records = [SimpleNamespace(best_x=[float(k), 0.0], generation=k) for k in range(1, count + 1)]
    return SimpleNamespace(
        best_x=np.array([float(count), 0.0]), mean=np.array([0.5, 0.5]), history=records
    )


def test_the_latest_bests_and_some_of_all_are_judged():
    run: Any = history(100)
    asked = candidates([run], 20)
    assert len(asked) == 20 and asked[0].name == "start"
    assert [one.name for one in asked[1:3]] == ["best", "mean"]
    at = [int(one.x[0]) for one in asked[3:]]
    assert at[-9:] == [*range(91, 100)] and at[0] == 1 and at == sorted(set(at))
    few = candidates([history(3)], 20)  # type: ignore[list-item]
    assert [tuple(one.x) for one in few] == [(0, 0), (3, 0), (0.5, 0.5), (1, 0), (2, 0)]


@pytest.mark.parametrize("start_fails", [False, True])
def test_a_member_that_fails_as_it_is_judged_is_not_handed_out(start_fails):
    problem = Problem(scenario(), NUMBERS, OBJECTIVE)

    def evaluate_values(x):
        failed = np.array([bool(np.allclose(row, 5.0)) == start_fails for row in x])
        parts = terms(x)
        total = np.where(failed, np.nan, OBJECTIVE.total(parts))
        return Evaluation(total, parts, failed)

    fine: Any = SimpleNamespace(
        trials=1, others=(), objective=OBJECTIVE, evaluate_values=evaluate_values
    )
    found = evaluate_candidates(problem, fine, [history(3)], progress=False)  # type: ignore[list-item]
    assert found.gained == start_fails and np.isfinite(found.chosen.worth)
    assert (found.start.total is None) == start_fails
