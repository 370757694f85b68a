"""Evolution: it converges, survives failures, and goes on after any interrupt as if unbroken."""

import dataclasses
import json
import logging
import math
import os
import signal

import jax
import numpy as np
import pytest

from optimize.problems.fitness import Evaluation
from optimize.problems.tunables import Tunables
from optimize.results.folder import RunFolder
from optimize.tuning import evolution, methods
from optimize.tuning.checkpoint import Checkpoint, CheckpointError
from optimize.tuning.evolution import evolve

N, POPULATION = 5, 10
SCALES = np.geomspace(1.0, 30.0, N)


def ellipsoid(x):
    parts = {"axis_0": x[:, 0] ** 2, "rest": ((SCALES * x)[:, 1:] ** 2).sum(axis=1)}
    return Evaluation(parts["axis_0"] + parts["rest"], parts, np.zeros(len(x), bool), 7 * len(x))


def run(evaluate=ellipsoid, generations=8, **changes):
    options = dict(mean=np.ones(N), sigma=0.5, population=POPULATION, seed=3, progress=False)
    return evolve(evaluate, generations=generations, **(options | changes))


def timeless(history):
    times = {"seconds", "steps_per_second"}
    return [
        {k: v for k, v in dataclasses.asdict(record).items() if k not in times}
        for record in history
    ]


def assert_same(left, right):
    assert timeless(left.history) == timeless(right.history)
    np.testing.assert_array_equal(left.mean, right.mean)
    np.testing.assert_array_equal(left.best_x, right.best_x)
    assert left.best_fitness == right.best_fitness
    assert left.best_parts == right.best_parts
    assert left.sigma == right.sigma


class Break:
    """Runs `action` at the n-th evaluation, then evaluates as ever (if it still can)."""

    def __init__(self, at, action):
        self.left, self.action = at, action

    def __call__(self, x):
        self.left -= 1
        if self.left == 0:
            self.action()
        return ellipsoid(x)


def ctrl_c():
    raise KeyboardInterrupt


def fail_hard(*_):
    raise RuntimeError("power cut")


# ---- optimising


def test_converges_on_an_ellipsoid():
    result = run(generations=150)
    start = result.history[0]
    assert start.generation == -1
    assert start.best == pytest.approx(1.0 + (SCALES[1:] ** 2).sum())
    assert result.best_fitness < 1e-6
    assert result.best_fitness == ellipsoid(np.asarray(result.best_x[None], float)).fitness[0]
    assert result.best_parts["axis_0"] == result.best_x[0] ** 2
    assert result.generations == 150 and not result.interrupted
    best = [record.best_ever for record in result.history]
    assert best == sorted(best, reverse=True)
    record = result.history[-1]
    assert record.best <= record.median <= record.worst and record.steps == 7 * POPULATION


def test_a_converged_run_idles_without_breaking_down():
    result = run(lambda x: Evaluation((x**2).sum(axis=1)), generations=400, mean=np.ones(2))
    assert np.isfinite(result.mean).all() and result.sigma > 0.0
    assert result.best_fitness < 1e-10


def test_an_optimum_on_the_bounds_is_found_through_tunables():
    tree = {"x": np.array([0.5, 0.5, 0.5])}
    tunables = Tunables.select(tree, {"x": (0.0, 1.0)})
    target = np.array([2.0, -1.0, 0.7])  # two of the three lie outside

    def evaluate(z):
        return Evaluation(((tunables.decode(z) - target) ** 2).sum(axis=1))

    result = run(evaluate, mean=np.zeros(3), sigma=0.2, generations=60)
    np.testing.assert_allclose(tunables.decode(result.best_x), [1.0, 0.0, 0.7], atol=1e-3)
    assert np.abs(result.mean).max() < 1.0  # the distribution has not wandered off


def test_the_population_is_always_seen_whole_and_the_first_is_the_mean():
    seen = []

    def evaluate(x):
        seen.append(x.copy())
        x[:] = np.nan  # what evaluate does to its input is its own affair
        return ellipsoid(seen[-1])

    run(evaluate, generations=2)
    assert [x.shape for x in seen] == [(POPULATION, N)] * 3
    np.testing.assert_array_equal(seen[0], 1.0)


def test_same_seed_same_run_and_other_seed_other_run():
    assert_same(run(), run())
    assert run(seed=4).best_fitness != run().best_fitness


def test_runs_in_both_precisions():
    with jax.enable_x64(True):
        wide = run()
    with jax.enable_x64(False):
        narrow = run()
    assert (wide.mean.dtype, narrow.mean.dtype) == (np.float64, np.float32)


def test_fitness_of_any_size_is_ranked():
    shifted = run(lambda x: Evaluation(1e300 * ellipsoid(x).fitness, ellipsoid(x).parts))
    np.testing.assert_array_equal(shifted.mean, run().mean)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("restarts", [None, "ipop"])
def test_fitness_with_a_large_offset_is_ranked_in_float64(wide, restarts):
    def offset_by(offset):
        def evaluate(x):
            fitness = offset + (x**2).sum(axis=1)
            if (x != x[0]).any():
                fitness[1], fitness[2], fitness[3] = np.nan, np.inf, -np.inf
            return Evaluation(fitness)

        return evaluate

    with jax.enable_x64(wide):
        for offset in (0.0, 1e4, 1e8):
            found = run(offset_by(offset), generations=110, population=12, restarts=restarts)
            assert np.linalg.norm(found.best_x) < 1e-3, offset
            assert found.history[-1].failures == 3


# ---- failures


def test_failed_and_non_finite_members_are_last_and_counted():
    def evaluate(x):
        result = ellipsoid(x)
        fitness, failed = result.fitness.copy(), np.zeros(len(x), bool)
        if (x != x[0]).any():
            fitness[1], fitness[2], fitness[3] = np.nan, np.inf, -np.inf
            fitness[4], failed[4] = -1e9, True
        return dataclasses.replace(result, fitness=fitness, failed=failed)

    result = run(evaluate, generations=60)
    assert [record.failures for record in result.history[:3]] == [0, 4, 4]
    assert 0.0 <= result.best_fitness < 1.0
    assert np.isfinite(result.mean).all()
    assert all(math.isfinite(record.worst) for record in result.history)


def test_a_generation_of_failures_leaves_the_distribution_alone():
    seen = []

    def evaluate(x):
        seen.append(x)
        return dataclasses.replace(ellipsoid(x), failed=len(seen) in (1, 2, 3))

    result = run(evaluate, generations=2)
    np.testing.assert_array_equal(result.mean, np.ones(N, result.mean.dtype))
    assert result.sigma == 0.5 and result.best_fitness == math.inf
    assert not np.array_equal(seen[1], seen[2])
    record = result.history[-1]
    assert record.failures == POPULATION
    assert (record.best, record.median, record.best_ever) == (None, None, None)

    seen.clear()
    recovered = run(evaluate, generations=40)
    assert recovered.best_fitness < 1.0


def test_a_broken_distribution_is_an_error(monkeypatch):
    def broken_tell(self, key, population, fitness, state, params):
        return state.replace(std=state.std * np.nan), {}

    monkeypatch.setattr(methods.CMA_ES, "tell", broken_tell)
    with pytest.raises(FloatingPointError, match="std of the search distribution"):
        run(population=11)  # a size that nothing was compiled for


@pytest.mark.parametrize(
    ("evaluate", "error", "match"),
    [
        (lambda x: x.sum(axis=1), TypeError, "not an Evaluation"),
        (lambda x: Evaluation(x), ValueError, r"fitness of shape \(10, 5\)"),
        (lambda x: Evaluation(x[:, 0], {"a": x}), ValueError, "gave a of shape"),
        (lambda x: Evaluation(x[:, 0], failed=x > 0), ValueError, "failed of shape"),
    ],
)
def test_what_evaluate_returns_is_checked(evaluate, error, match):
    with pytest.raises(error, match=match):
        run(evaluate)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"mean": np.ones((2, 2))}, "mean"),
        ({"mean": np.array([0.0, np.nan])}, "mean"),
        ({"sigma": 0.0}, "sigma"),
        ({"population": 3}, "population"),
        ({"generations": 0}, "generations"),
        ({"seed": -1}, "seed"),
        ({"resume": True}, "needs the folder"),
    ],
)
def test_arguments_are_checked(changes, match):
    with pytest.raises(ValueError, match=match):
        run(**changes)


# ---- interrupt and resume


@pytest.mark.parametrize("at", [1, 2, 6])
def test_interrupted_in_evaluate_and_resumed_equals_unbroken(tmp_path, capfd, at):
    part = run(Break(at, ctrl_c), folder=tmp_path)
    assert part.interrupted and part.generations == max(at - 2, 0)
    assert len(part.history) == at - 1
    assert "resume=True" in capfd.readouterr().err
    whole = run(folder=tmp_path, resume=True)
    assert not whole.interrupted
    assert_same(whole, run())
    lines = RunFolder(tmp_path).read_history()
    assert lines == [dataclasses.asdict(record) for record in whole.history]


def test_sigterm_ends_the_run_cleanly(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    part = run(Break(4, lambda: os.kill(os.getpid(), signal.SIGTERM)), folder=tmp_path)
    assert part.interrupted and part.generations == 3  # that under way was finished, and is kept
    assert signal.getsignal(signal.SIGTERM) is before
    assert_same(run(folder=tmp_path, resume=True), run())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_broken_off_between_history_and_checkpoint(tmp_path, monkeypatch, error):
    saves = []
    save = Checkpoint.save

    def breaking_save(self, path):
        saves.append(path)
        if len(saves) == 6:
            raise error
        save(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", breaking_save)
        if error is KeyboardInterrupt:
            assert run(folder=tmp_path).interrupted
        else:
            with pytest.raises(error):
                run(folder=tmp_path)
    history = RunFolder(tmp_path).read_history()
    checkpoint = Checkpoint.load(tmp_path / "checkpoint.msgpack")
    assert len(history) == checkpoint.history + 1
    with open(tmp_path / "history.jsonl", "a") as file:
        file.write('{"generation": 99, "be')  # and a line cut off in the middle
    assert_same(run(folder=tmp_path, resume=True), run())
    assert [line["generation"] for line in RunFolder(tmp_path).read_history()] == [*range(-1, 8)]


def test_broken_off_before_the_checkpoint_replaces_the_old_one(tmp_path, monkeypatch):
    run(folder=tmp_path, generations=3)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail_hard)
        with pytest.raises(RuntimeError, match="power cut"):
            Checkpoint.load(tmp_path / "checkpoint.msgpack").save(tmp_path / "checkpoint.msgpack")
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.msgpack", "history.jsonl"]
    assert_same(run(folder=tmp_path, resume=True), run())


def test_a_finished_run_goes_on_with_more_generations(tmp_path):
    run(folder=tmp_path, generations=3)
    assert_same(run(folder=tmp_path, resume=True), run())
    again = run(fail_hard, folder=tmp_path, resume=True)  # nothing left to evaluate
    assert_same(again, run())


def test_resume_in_another_precision_or_with_other_settings_names_the_difference(tmp_path):
    run(folder=tmp_path, generations=1)
    other = {"seed": 4, "sigma": 0.25, "population": 12}
    for name, value in other.items():
        with pytest.raises(ValueError, match=rf"{name} \S+ \(now {value}\)"):
            run(folder=tmp_path, resume=True, **{name: value})
    with pytest.raises(ValueError, match=r"dimensions 5 \(now 4\)"):
        run(folder=tmp_path, resume=True, mean=np.ones(4))
    with pytest.raises(ValueError, match=r"mean\[2\] 1.0 \(now 2.0\)"):
        run(folder=tmp_path, resume=True, mean=np.array([1.0, 1.0, 2.0, 1.0, 1.0]))
    first = Checkpoint.load(tmp_path / "checkpoint.msgpack").settings.precision
    with jax.enable_x64(first == "float32"), pytest.raises(ValueError, match="jax_enable_x64"):
        run(folder=tmp_path, resume=True)
    assert len(RunFolder(tmp_path).read_history()) == 2


def test_a_run_is_never_overwritten_and_never_resumed_from_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        run(folder=tmp_path / "new", resume=True)
    run(folder=tmp_path, generations=1)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(FileExistsError, match="resume=True"):
        run(folder=tmp_path)
    (tmp_path / "checkpoint.msgpack").unlink()
    with pytest.raises(FileExistsError, match=r"history\.jsonl"):
        run(folder=tmp_path)
    assert (tmp_path / "history.jsonl").read_bytes() == files[tmp_path / "history.jsonl"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    run(folder=tmp_path, generations=1)
    path = tmp_path / "checkpoint.msgpack"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    contents = {"cut": data[:-40], "flip": data, "empty": b"", "text": b"hello"}
    path.write_bytes(contents[damage])
    with pytest.raises(CheckpointError, match=r"checkpoint\.msgpack is damaged.*new folder"):
        run(folder=tmp_path, resume=True)


def test_a_damaged_or_short_history_is_named(tmp_path):
    run(folder=tmp_path, generations=2)
    path = tmp_path / "history.jsonl"
    lines = path.read_text().splitlines(True)
    path.write_text("".join(lines[:2]))
    with pytest.raises(CheckpointError, match=r"has 2 lines.* counts 3"):
        run(folder=tmp_path, resume=True)
    path.write_text(lines[0] + "nonsense\n" + lines[2])
    with pytest.raises(CheckpointError, match=r"history\.jsonl, line 2"):
        run(folder=tmp_path, resume=True)
    path.write_text(lines[0] + '{"generation": 0}\n' + lines[2])
    with pytest.raises(CheckpointError, match="damaged"):
        run(folder=tmp_path, resume=True)


def test_on_generation_sees_what_is_saved_and_may_stop_the_run(tmp_path):
    seen = []

    def on_generation(record, best_x):
        assert RunFolder(tmp_path).read_history()[-1] == dataclasses.asdict(record)
        seen.append((record.generation, best_x))
        if record.generation == 2:
            raise KeyboardInterrupt

    part = run(folder=tmp_path, on_generation=on_generation)
    assert part.interrupted and [number for number, _ in seen] == [-1, 0, 1, 2]
    np.testing.assert_array_equal(seen[-1][1], part.best_x)
    assert_same(run(folder=tmp_path, resume=True), run())


def test_history_is_strict_json_even_when_terms_are_not_finite(tmp_path):
    def evaluate(x):
        return Evaluation(ellipsoid(x).fitness, {"odd": np.full(len(x), np.inf)}, False, 0)

    result = run(evaluate, folder=tmp_path, generations=1)
    assert result.best_parts == {"odd": None}
    for line in (tmp_path / "history.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=fail_hard)


# ---- cost


def test_ask_and_tell_compile_once(tmp_path, caplog):
    size = {"population": 6, "mean": np.ones(7), "folder": tmp_path}  # used by no other test

    def square(x):
        return Evaluation((x**2).sum(axis=1))

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run(square, generations=4, **size)
        run(square, generations=8, resume=True, **size)
        run(square, generations=2, **(size | {"sigma": 0.1, "seed": 9, "folder": None}))
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA comp" in r.getMessage()]
    for name in ("ask", "tell", "init"):
        assert sum(f"jit({name})" in message for message in compiled) == 1, compiled


def test_progress_bar_tells_where_the_run_is(capfd):
    run(generations=2, progress=True)
    shown = capfd.readouterr().err
    assert "2/2" in shown and "best" in shown and "members/s" in shown


def test_public_names():
    assert all(hasattr(evolution, name) for name in evolution.__all__)
