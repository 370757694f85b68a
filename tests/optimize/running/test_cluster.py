"""Sweeps and searches on two worker processes, one of which is killed on the way."""

import os
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from controllers.pose.registered import Limp
from jaxsim import TimeStepping
from jaxsim.model import ModelBuilder, neutral_state, slide
from jaxsim.simulation.measures import final
from optimize.problems.distributed import distribute
from optimize.problems.problem import Problem
from optimize.running import cluster
from optimize.running.cluster import Workers, each, workers
from optimize.running.objectives import Objective, Term
from optimize.scenarios.scenario import Scenario
from optimize.sweeps import store
from optimize.sweeps.sweep import sweep
from optimize.tuning.evaluators import run_evaluators
from optimize.tuning.evolution import evolve_runs
from optimize.tuning.tune import tune
from tests.optimize.tuning.test_evolution import assert_same
from tests.test_project import assert_ok, run_python

PULL = {"model.gravity[2]": np.linspace(-9.0, -4.0, 6)}


def height(model):
    return final(lambda sample: sample.state.q[0])


def dropped() -> Problem:
    """A weight on a rail: as little as there is to compile."""
    b = ModelBuilder()
    b.add_link("weight", "world", mass=1.0, inertia=[1.0] * 3, joints=[slide("rail", (0, 0, 1))])
    model = b.build()
    fallen = Term("height", "m", height, lambda folded: (folded + 0.01) ** 2)
    own = Scenario(model, Limp(), neutral_state(model), TimeStepping(dt=0.001))
    judge = Objective("height", 0.005, {"height": 1.0}, terms=(fallen,))
    numbers = {"model.gravity[2]": (-20.0, 0.0)}
    return Problem(own, numbers, judge, trials=2, backend="xla", chunk=2)


@pytest.fixture(scope="module")
def client():
    """Of two processes."""
    with workers("2") as pool:
        assert pool is not None and pool.count == 2
        yield pool.client


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What a sweep keeps, of one process and device."""
    out = tmp_path_factory.mktemp("alone") / "run"
    sweep(dropped(), PULL, out=out, chunk=2)
    return kept(out)


class Counted(NamedTuple):
    """Stands for workers: does all here, and keeps the sizes."""

    count: int
    sizes: list[int]

    def each(self, function, calls):
        for x, *rest in calls:
            self.sizes.append(len(x))
            yield function(x, *rest)


def kept(folder):
    paths = [folder / store.PROGRESS, *(folder / store.STORE).rglob("*")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths if p.is_file()}


def test_a_sweep_is_the_same_whoever_is_lost(alone, client, tmp_path, monkeypatch):
    write, before = store.write_progress, client.run(os.getpid)

    def lose_one(folder, boxes):
        write(folder, boxes)
        if boxes == 1:
            busy = max(client.processing().items(), key=lambda both: len(both[1]))[0]
            os.kill(before[busy], signal.SIGKILL)

    monkeypatch.setattr(store, "write_progress", lose_one)
    sweep(dropped(), PULL, out=tmp_path / "run", cluster=client, chunk=2)
    assert kept(tmp_path / "run") == alone and len(alone) > 6
    client.wait_for_workers(2)
    assert len(set(client.run(os.getpid).values()) & set(before.values())) == 1


def test_a_sweep_is_the_same_on_all_devices_of_a_machine(alone, tmp_path):
    """In a process of its own: JAX must be told of devices before it starts."""
    code = """
        import sys, jax
        from optimize.sweeps.sweep import sweep
        from tests.optimize.running.test_cluster import PULL, dropped

        assert len(jax.devices()) == 2
        sweep(dropped(), PULL, out=sys.argv[1], chunk=2)
    """
    done = run_python(code, str(tmp_path / "run"), JAX_NUM_CPU_DEVICES="2")
    assert_ok(done)
    assert kept(tmp_path / "run") == alone


def test_runs_of_a_search_are_the_same_on_workers(client, tmp_path):
    """Half of it here, the other half there."""
    problem = dropped()
    options: dict[str, Any] = dict(
        mean=np.zeros(1), sigma=0.3, population=4, seed=[0, 1, 2], progress=False
    )
    alone = evolve_runs(run_evaluators(problem, {}).evaluate, generations=2, **options)
    there = run_evaluators(distribute(problem, Workers(client, 2)), {}).evaluate
    evolve_runs(run_evaluators(problem, {}).evaluate, generations=1, folder=tmp_path, **options)
    several = evolve_runs(there, generations=2, folder=tmp_path, resume=True, **options)
    assert alone[0].best_fitness != alone[1].best_fitness
    for one, other in zip(alone, several):
        assert_same(one, other)


def test_parts_are_of_one_size_and_racing_is_of_all(monkeypatch):
    """The outcome of a member is its number."""

    def outcomes(self, x, generation, which=slice(None)):
        trials = len(range(self.trials)[which])
        return {"height": np.repeat(x, trials, axis=1)}, np.ones((len(x), trials), bool)

    monkeypatch.setattr(Problem, "outcomes", outcomes)
    problem, pool = replace(dropped(), halve_after=1), Counted(3, [])
    several = distribute(problem, pool)  # type: ignore
    x = np.random.default_rng(0).uniform(-20, 0, (7, 1))
    here, there = problem.evaluate_values(x), several.evaluate_values(x)
    np.testing.assert_array_equal(here.fitness, there.fitness)
    assert here.steps == there.steps and pool.sizes == [3, 3, 3, 2, 2]
    assert distribute(problem, None) is problem


# ---- bad input


def bad(number):
    raise KeyError(f"no number {number}")


def test_what_goes_wrong_on_a_worker_is_told(client, monkeypatch):
    pool = Workers(client, 2)
    with pytest.raises(KeyError, match="no number 3"):
        list(each(pool, bad, [(3,)]))
    with pytest.raises(ValueError, match="cannot be sent to a worker"):
        list(each(pool, threading.Lock().acquire, [()]))
    other = cluster._here()._replace(made_of=(("jaxsim", "of yesterday"),))
    monkeypatch.setattr(cluster, "_here", lambda: other)
    with pytest.raises(ValueError, match=r"has other code: jaxsim is .*, not of yesterday"):
        list(each(pool, bad, [(3,)]))


def test_a_call_that_costs_every_worker_is_told():
    from distributed.scheduler import KilledWorker

    def result():
        raise KilledWorker("task", SimpleNamespace(address="tcp://host:1"), 3)  # type: ignore

    with pytest.raises(
        RuntimeError, match=r"4 workers were lost .* tcp://host:1; .* smaller chunk"
    ):
        cluster._result(SimpleNamespace(result=result))


@pytest.mark.parametrize("where", ["0", "slurm", "slurm:0", "many", -2, 1.5])
def test_a_cluster_that_there_is_none_of(where, tmp_path):
    wanted = "give a number of workers, a scheduler's address"
    with pytest.raises(ValueError, match=wanted):
        sweep(dropped(), PULL, cluster=where, out=tmp_path / "run")
    with pytest.raises(ValueError, match=wanted):
        tune(dropped().scenario, "stand", cluster=where, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    with pytest.raises(OSError, match=r"no scheduler answers at tcp://127.0.0.1:9: start one"):
        with workers("tcp://127.0.0.1:9"):
            pass
