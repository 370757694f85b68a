"""Many runs as one program: each as it would be alone; settings that differ; restarts."""

import dataclasses
import itertools
import logging
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.evolution import CASES, ours
from controllers.pose.pd import PoseController
from jaxsim import TimeStepping, planar_human, start
from optimize.problems.fitness import Evaluation
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.running.objectives import Objective
from optimize.scenarios.scenario import Scenario
from optimize.tuning.evaluators import run_evaluators
from optimize.tuning.evolution import evolve, evolve_runs
from optimize.tuning.names import of_runs
from tests.optimize.tuning.test_evolution import assert_same, timeless

N = 20
SCALES = np.geomspace(1.0, 10.0, N)


class Counted:
    """An ellipsoid of 20 numbers, and the sizes it was called with."""

    def __init__(self):
        self.sizes = []

    def __call__(self, x, run=None):
        self.sizes.append(len(x))
        return Evaluation(((SCALES * x) ** 2).sum(axis=1), {"first": x[:, 0] ** 2}, False, len(x))


def together(evaluate, seeds, generations=4, **changes):
    options = dict(mean=np.ones(N), sigma=0.5, population=8, progress=False)
    return evolve_runs(evaluate, seed=seeds, generations=generations, **(options | changes))


def test_256_runs_in_one_call_are_as_each_alone(tmp_path):
    evaluate = Counted()
    runs = together(evaluate, list(range(256)), folder=tmp_path)
    assert evaluate.sizes == [256 * 8] * 5  # the start, and one call a generation
    assert len({run.best_fitness for run in runs}) == 256
    for seed in (0, 1, 77, 255):
        alone = evolve(
            Counted(), np.ones(N), sigma=0.5, population=8, generations=4, seed=seed,
            progress=False,
        )  # fmt: skip
        own = [replace(record, run=0) for record in runs[seed].history]
        assert_same(dataclasses.replace(runs[seed], history=tuple(own)), alone)
    lines = RunFolder(tmp_path).read_history()
    assert len(lines) == 256 * 5
    assert [line["run"] for line in lines[256:512]] == list(range(256))


def test_many_runs_go_on_exactly(tmp_path):
    whole = together(Counted(), [3, 4, 5])
    together(Counted(), [3, 4, 5], generations=2, folder=tmp_path)
    resumed = together(Counted(), [3, 4, 5], folder=tmp_path, resume=True)
    for one, other in zip(whole, resumed):
        assert_same(one, other)
    with pytest.raises(ValueError, match=r"runs 3 \(now 2\)"):
        together(Counted(), [3, 4], folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"seed\[2\] 5 \(now 6\)"):
        together(Counted(), [3, 4, 6], folder=tmp_path, resume=True)


def test_populations_and_steps_by_run():
    evaluate = Counted()
    options = dict(population=[8, 12, 5], sigma=[0.5, 0.1, 0.3])
    runs = together(evaluate, [0, 0, 0], **options)
    assert evaluate.sizes == [25] * 5
    assert [run.history[-1].members for run in runs] == [8, 12, 5]
    alone = together(Counted(), [0, 0], population=[12, 5], sigma=[0.1, 0.3])
    assert timeless(alone[0].history)[2]["best"] == timeless(runs[1].history)[2]["best"]
    with pytest.raises(ValueError, match="population has 2 values for 3 runs"):
        together(Counted(), [0, 0, 0], population=[8, 12])


def test_a_run_that_breaks_down_leaves_the_others_alone():
    def evaluate(x, run):
        bad = run == 1
        return Evaluation((x**2).sum(axis=1), {}, bad)

    runs = together(evaluate, [0, 1, 2])
    assert [run.history[-1].failures for run in runs] == [0, 8, 0]
    assert runs[1].best_fitness == np.inf
    good = together(lambda x, run: Evaluation((x**2).sum(axis=1)), [0, 1, 2])
    for k in (0, 2):
        assert_same(runs[k], good[k])


def test_a_population_that_doubles_compiles_nothing(caplog):
    """A plain is flat: a search ends at once, and begins anew with more members."""
    sizes = []

    @jax.jit
    def flat(x):
        sizes.append(x.shape)  # as it is traced
        return 0.0 * x.sum(axis=1)

    seen = []

    def evaluate(x, run):
        return Evaluation(np.asarray(flat(x)))

    def note(records, best_x):
        if records[0].generation == 1:
            seen.append(len(caplog.records))

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        runs = evolve_runs(
            evaluate, np.ones(3), sigma=0.5, population=4, seed=[0, 1], generations=60,
            restarts="ipop", on_generation=note, progress=False,
        )  # fmt: skip
    members = [record.members for record in runs[0].history[1:]]
    assert {4, 8, 16} <= set(members) and members == sorted(members)
    assert len(sizes) == 1 and len(seen) == 1
    later = [r.getMessage() for r in caplog.records[seen[0] :]]
    assert not [m for m in later if "Finished XLA comp" in m]


def test_bipop_has_large_and_small_populations():
    def flat(x, run):
        return Evaluation(np.zeros(len(x)))

    runs = evolve_runs(
        flat, np.ones(3), sigma=0.5, population=4, seed=[0], generations=250, restarts="bipop",
        progress=False,
    )  # fmt: skip
    by_restart = {record.restarts: record for record in runs[0].history}
    sizes = [by_restart[k].members for k in sorted(by_restart)]
    assert any(b < a for a, b in itertools.pairwise(sizes)) and max(sizes) >= 16
    assert all(4 <= size <= 4 * 2**6 for size in sizes[1:])


# ---- a scenario


@pytest.fixture(scope="module")
def held():
    """A planar human held in its pose."""
    model = planar_human()
    state = start(model, "standing")
    scenario = Scenario(model, PoseController(state.q), state, TimeStepping(dt=0.002))
    objective = Objective("effort", 0.01, {"energy": 1e-3, "time": 1.0}, "for these tests")
    numbers = {"model.gain_p[4]": (1.0, 5000.0, "log"), "model.gain_p[5]": (1.0, 5000.0, "log")}
    return Problem(scenario, numbers, objective, backend="xla", chunk=8)


SEARCH = dict(mean=np.zeros(2), sigma=0.1, population=4, generations=2, progress=False)


def test_runs_of_a_scenario_are_as_each_alone(held):
    runs = evolve_runs(run_evaluators(held, {}).evaluate, seed=[0, 1], **SEARCH)
    assert not any(record.failures for run in runs for record in run.history)
    assert_same(runs[0], evolve(held.evaluate, seed=0, **SEARCH))


def test_weights_and_numbers_of_a_scenario_by_run(held, monkeypatch):
    """A member is worth the mass of its run, and what it tunes."""

    def outcomes(self, x, generation):
        mass = x[:, self.tunables.names.index("model.mass[1]")]
        tuned = np.log(x[:, :2]) @ [1.0, -1.0]
        return {"energy": mass[:, None], "time": tuned[:, None] ** 2}, np.ones((len(x), 1), bool)

    monkeypatch.setattr(Problem, "outcomes", outcomes)
    values = of_runs({"model.mass[1]": [1.0, 4.0, 1.0], "weights.energy": [1.0, 1.0, 10.0]}, 3)
    runs = evolve_runs(run_evaluators(held, values).evaluate, seed=[0, 0, 0], **SEARCH)
    energies = [run.best_parts["energy"] for run in runs]
    np.testing.assert_allclose(energies, [1.0, 4.0, 1.0])
    for run, weight in zip(runs, (1.0, 1.0, 10.0)):
        parts = run.best_parts
        assert run.best_fitness == pytest.approx(weight * parts["energy"] + parts["time"])


def test_settings_of_runs_are_checked(held):
    with pytest.raises(ValueError, match="has no weight 'speed'; nearest are"):
        run_evaluators(held, {"weights.speed": np.ones(2)})
    with pytest.raises(ValueError, match="is tuned already"):
        run_evaluators(held, {"model.gain_p[4]": np.ones(2)})
    with pytest.raises(ValueError, match=r"numbers; name one"):
        run_evaluators(held, {"model.mass": np.ones(2)})
    with pytest.raises(ValueError, match="finite numbers"):
        of_runs({"sigma": [np.nan]}, 2)


# ---- as many evaluations as elsewhere

TABLE = Path(__file__).resolve().parents[3] / "docs" / "results" / "tuning.md"


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["sphere", "Rosenbrock, masked"])
def test_evaluations_to_the_target_are_near_those_of_pycma(name):
    """Its median over 25 seeds is recorded in the results."""
    (line,) = [row for row in TABLE.read_text().splitlines() if row.startswith(f"| {name} ")]
    recorded = float(line.split("|")[5])
    found = ours(CASES[name], range(25))
    assert 0.8 < np.median(found) / recorded < 1.2
