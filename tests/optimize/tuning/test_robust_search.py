"""Searches with fresh trials keep a mean that stands in nearly all of many starts."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.running.objectives import user_objective
from optimize.scenarios.find import scenario
from optimize.tuning import robust
from optimize.tuning.robust import CHECKS, Check, choose, robust_search

ARM = Path(__file__).parents[2] / "models" / "arm.urdf"


def check(generation, ok, total):
    return Check(generation, ok, 100, total, {}, [0.0])


def test_the_best_of_those_that_stand_nearly_always_is_chosen():
    checks = [check(20, 100, -7.0), check(40, 97, -9.0), check(60, 96, -12.0), check(80, 98, -8.0)]
    assert choose(checks, 0.97).generation == 40
    assert choose(checks, 0.96).generation == 60
    few = [check(20, 0, None), check(40, 50, -9.0), check(60, 90, -1.0)]
    assert choose(few, 0.97).generation == 60


def speed(sample):
    return (sample.state.qd**2).sum()


def problem(**options):
    return Problem(
        scenario(ARM),
        {"model.mass[0]": (0.1, 50.0, "log"), "model.gravity[0]": (-90.0, 90.0)},
        user_objective(speed)[0],
        seconds=0.005, spread=(0.0, 0.5), backend="xla", chunk=4, **options,
    )  # fmt: skip


@pytest.mark.parametrize("precise", [False, True])
def test_a_mean_is_evaluated_in_the_precision_of_its_problem(monkeypatch, precise):
    """A goal controller in float32 is refused its numbers in float64."""
    with jax.enable_x64(precise):
        fine, seen = problem(trials=2), []

    def outcomes(self, values):
        seen.append(jnp.asarray(values).dtype.name)
        return {name: np.zeros((1, 2)) for name in self.objective.weights}, np.ones((1, 2), bool)

    monkeypatch.setattr(Problem, "outcomes", outcomes)
    evaluated = robust.evaluate_mean(fine, np.zeros(2), 0)
    assert seen == ["float64" if precise else "float32"]
    assert evaluated.ok == evaluated.starts == 2


@pytest.mark.slow
def test_a_checked_search_resumes_to_the_same_mean(tmp_path, monkeypatch):
    monkeypatch.setattr(robust, "EVERY", 2)
    searched = problem(trials=2, resample=True, seed=3)
    with jax.enable_x64(True):
        fine = problem(trials=4, seed=9)
    told = []
    search = dict(mean=np.zeros(2), sigma=0.3, population=4, seed=[0], success_rate=0.97)
    search["on_check"] = told.append

    def run(name, generations, resume):
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir(exist_ok=True)
        return robust_search(searched, fine, folder, generations, resume, **search)

    whole, start, kept = run("whole", 4, False)
    run("parts", 2, False)
    parts, begun, again = run("parts", 4, True)
    np.testing.assert_array_equal(whole.mean, parts.mean)
    assert start == begun and start.x == [0.0, 0.0] and start.starts == kept.starts
    assert kept == again and kept.ok == kept.starts == 4
    assert [c.generation for c in told] == [2, 4, 2, 4] and told[:2] == told[2:]
    assert (tmp_path / "whole" / CHECKS).read_text() == (tmp_path / "parts" / CHECKS).read_text()
    assert kept.x == min(told[:2], key=lambda c: c.total).x
