"""The front of a search's members, and the best of runs with weights of their own."""

import json

import numpy as np
import pytest

from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.tuning.build import front_member
from optimize.tuning.front import empty_front, extend_front, load_front, save_front
from optimize.tuning.names import FRONT
from tests.optimize.tuning.toy import (
    NUMBERS,
    OBJECTIVE,
    WEIGHTED,
    WEIGHTS,
    scenario,
    terms,
    toy_run,
    unsimulated,
)

pytest.importorskip("moocore")
BOTH = ["energy", "time"]


@pytest.fixture(scope="module")
def empty():
    return empty_front(Problem(scenario(), NUMBERS, OBJECTIVE), BOTH)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run over three weights, and the numbers of all its members."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        unsimulated(patch, seen)
        found = toy_run(
            tmp_path_factory.mktemp("front") / "run", runs=3, by_run=WEIGHTED, front=BOTH
        )
    rows = sum(6 * len(run.history) for run in found.runs)  # those of the judgement come after
    return found, np.concatenate(seen)[:rows]


def excelled(values):
    """(k,) bool, by the definition: another is at least as good in all, and better in one."""
    return np.array([((values <= v).all(axis=1) & (values < v).any(axis=1)).any() for v in values])


def test_a_front_is_what_no_other_excels(empty):
    random = np.random.default_rng(0)
    values, numbers = random.random((200, 2)), random.random((200, 2))
    run = random.integers(0, 3, 200)
    values[7] = np.nan
    front = empty
    for k in range(4):
        own = slice(50 * k, 50 * k + 50)
        front = extend_front(front, values[own], numbers[own], run[own], k)
    good = np.isfinite(values).all(axis=1)
    wanted = np.flatnonzero(good)[~excelled(values[good])]
    wanted = wanted[np.argsort(values[wanted, 0])]
    np.testing.assert_array_equal(front.values, values[wanted])
    np.testing.assert_array_equal(front.numbers, numbers[wanted])
    np.testing.assert_array_equal(front.run, run[wanted])
    np.testing.assert_array_equal(front.generation, wanted // 50)
    np.testing.assert_array_equal(front.reference, np.nanmax(values[:50], axis=0))
    again = extend_front(front, values[150:], numbers[150:], run[150:], 3)
    np.testing.assert_array_equal(again.values, front.values)
    assert again.hypervolume == front.hypervolume


def test_the_hypervolume_is_an_area(empty):
    """Of steps below the reference (3, 3), counted by hand."""
    none = np.zeros(3, int)
    first = extend_front(
        empty, np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]]), np.ones((3, 2)), none, 0
    )
    assert first.hypervolume == ((0, 1.0),)
    one = np.zeros(1, int)
    second = extend_front(first, np.array([[1.0, 2.0]]), np.ones((1, 2)), one, 1)
    assert second.hypervolume == ((0, 1.0), (1, 2.0))


def test_a_front_in_a_folder(empty, tmp_path):
    values = np.array([[0.1, 0.3], [0.2, 1 / 3 - 0.2]])
    front = extend_front(empty, values, np.full((2, 2), 0.7), np.array([1, 0]), 0)
    save_front(RunFolder(tmp_path), front)
    kept = load_front(tmp_path)
    np.testing.assert_array_equal(kept.values, values)
    assert (kept.terms, kept.names, kept.hypervolume) == (
        front.terms, front.names, front.hypervolume,
    )  # fmt: skip
    held = json.loads((tmp_path / FRONT).read_text())
    (tmp_path / FRONT).write_text(json.dumps({**held, "run": [1]}))
    with pytest.raises(ValueError, match=r"front\.json holds no front"):
        load_front(tmp_path)


def test_a_run_keeps_the_front_of_all_its_members(done):
    found, seen = done
    front = load_front(found.folder)
    every = np.stack([*terms(seen).values()], axis=1)
    wanted = np.unique(every[~excelled(every)], axis=0)
    np.testing.assert_array_equal(front.values, wanted)
    told = np.stack([*terms(front.numbers).values()], axis=1)
    np.testing.assert_allclose(told, front.values, rtol=1e-5)  # in the search's precision
    assert front.units == ("(N m)^2 s", "s") and set(front.run) == {0, 1, 2}
    generations, volumes = zip(*front.hypervolume)
    assert generations == tuple(range(6)) and (np.diff(volumes) >= 0).all()
    member = front_member(found.folder, -1, scenario(), OBJECTIVE)
    assert float(member.get("model.gain_p[4]")) == pytest.approx(front.numbers[-1, 0])


def test_the_front_of_a_resumed_run_is_the_same(done, tmp_path, monkeypatch):
    found, _ = done
    unsimulated(monkeypatch)
    options = dict(runs=3, by_run=WEIGHTED, front=BOTH)
    toy_run(tmp_path / "run", generations=3, **options)
    early = (tmp_path / "run" / FRONT).read_text()
    toy_run(tmp_path / "run", resume=True, **options)
    unbroken = (found.folder / FRONT).read_text()
    assert early != (tmp_path / "run" / FRONT).read_text() == unbroken


def test_the_best_of_runs_is_by_the_weights_of_all(done):
    """By its own weights the first run always wins: it counts energy a hundredth."""
    found, _ = done
    totals = [sum(WEIGHTS[n] * run.best_parts[n] for n in WEIGHTS) for run in found.runs]
    own = [run.best_fitness for run in found.runs]
    assert np.argmin(totals) != np.argmin(own)
    best = RunFolder(found.folder).read_json("best.json")
    assert best["fitness"]["after"] == pytest.approx(found.after["total"])
    assert found.after["total"] <= min(totals) + 1e-6
    energy, time = (term["before"] for term in best["terms"])
    assert best["fitness"]["before"] == pytest.approx(0.5 * energy + time)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"front": ["energy"]}, "two or more"),
        ({"front": ["energy", "speed"]}, "terms: energy, time"),
        ({"front": BOTH, "method": "adam"}, "leave out"),
        ({"front": BOTH, "by_run": {"model.gain_p[3]": [1.0]}}, "leave out"),
    ],
)
def test_what_makes_no_front_is_told(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        toy_run(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
