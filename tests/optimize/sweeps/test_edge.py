"""How far a number may go: against all values tried, and of functions whose edges are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimize import Edge, member, open_sweep, sweep
from optimize.sweeps.edge import Edges

SPEED, PULL = "state.qd[0]", "model.gravity[0]"
OWN = """
import jax.numpy as jnp
from jaxsim.simulation.measures import final
from optimize import Term

place = final(lambda sample: sample.obs.com[0])
near = Term("near", "1", lambda model: place, lambda x: jnp.where(x < -0.845, 1.0, 0.0))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(OWN)
    return f"{path}:near"


def test_it_is_the_last_of_all_values_that_holds(crate_file, own, tmp_path):
    edge, pulls = Edge(SPEED, 0.0, 3.0, parts=120, holds=own), [-40.0, 10.0]
    out = tmp_path / "run"
    found = sweep(crate_file, {PULL: pulls}, edge=edge, starts=2, chunk=2, out=out)
    tried = sweep(crate_file, {PULL: pulls, SPEED: edge.grid}, measures=[own], starts=2)
    holds = tried["near"].transpose(PULL, "start", SPEED).values
    last = edge.grid[np.argmin(holds, axis=2) - 1]
    assert (np.diff(holds, axis=2) <= 0).all() and 0.0 < last.min() < last.max() < 3.0
    np.testing.assert_allclose(found["edge"], last)
    assert not found["holes"].any() and not found["beyond"].any() and not found["failed"].any()
    at = member(out, {PULL: 10.0, "start": 1})
    assert at.scenario.get(SPEED) == pytest.approx(last[1, 1])
    again = sweep(None, out=out, resume=True)
    np.testing.assert_array_equal(again["edge"], open_sweep(out)["edge"])


def edges(function, trials=1, **options) -> dict[str, np.ndarray]:
    """Of a function of y and the number -> holds, whole; with all that was tried (y, trial, x)."""
    edge = Edge("x", **options)
    tried, rounds = [], []

    def outcomes_of(numbers, trial):
        tried.extend(zip(numbers["y"], trial, numbers["x"], strict=True))
        rounds.append(len(trial))
        held, whole = function(numbers["y"], numbers["x"])
        x = numbers["x"]
        more = {"cost": 1.0 + x, "load": np.where(x > 3, np.nan, x)}
        return {edge.holds: held.astype(float), **more}, np.broadcast_to(whole, held.shape)

    problem: Any = SimpleNamespace(trials=trials, outcomes_of=outcomes_of)
    columns: Any = SimpleNamespace(
        of=lambda parts: parts, sound=lambda parts, good: dict.fromkeys(parts, good)
    )
    found, whole = Edges(problem, columns, "x", edge)({"y": np.array([1.0, 2.0, 3.0])})
    assert len(set(tried)) == len(tried)  # no member tries a value twice
    return {**found, "whole": whole, "rounds": np.array(len(rounds)), "tried": np.array(tried)}


def test_each_member_has_its_own():
    found = edges(lambda y, x: (x <= y, True), trials=2, start=0.0, end=4.0, parts=16)
    np.testing.assert_array_equal(found["edge"], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    assert found["rounds"] <= 5 + 2 and found["whole"].all()
    members, count = np.unique(found["tried"][:, :2], axis=0, return_counts=True)
    assert len(members) == 6 and count.max() <= 5 + 2


def test_it_may_go_down():
    found = edges(lambda y, x: (x >= y, True), start=4.0, end=0.0, parts=16)
    np.testing.assert_array_equal(found["edge"][:, 0], [1.0, 2.0, 3.0])


def test_beyond_and_before_the_ends():
    found = edges(
        lambda y, x: ((y > 2.5) | ((y > 1.5) & (x < 0)), True), start=0.0, end=4.0, parts=8
    )
    np.testing.assert_array_equal(found["edge"][:, 0], [-0.5, -0.5, 4.0])
    np.testing.assert_array_equal(found["beyond"][:, 0], [0.0, 0.0, 1.0])


def test_holes_below_are_told():
    """3 holds and 2.5 does not."""
    found = edges(lambda y, x: ((x <= 3.0) & (x != 2.5), True), start=0.0, end=4.0, parts=8)
    np.testing.assert_array_equal(found["edge"], 3.0)
    np.testing.assert_array_equal(found["holes"], 1.0)
    np.testing.assert_array_equal(found["before_1"], 0.0)
    np.testing.assert_array_equal(found["before_2"], 1.0)


def test_values_before_the_start_are_not_tried():
    found = edges(lambda y, x: (x <= y - 1.0, True), start=0.0, end=4.0, parts=4, checks=2)
    np.testing.assert_array_equal(found["edge"][:, 0], [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(found["before_1"][:, 0], [np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(found["before_2"][:, 0], [np.nan, np.nan, 1.0])
    assert not found["holes"].any() and found["whole"].all()


def test_sums_and_the_largest_of_all_values_tried_are_told():
    options: dict[str, Any] = dict(start=0.0, end=4.0, parts=16, checks=1)
    found = edges(lambda y, x: (x <= y, True), total=("cost",), largest=["load"], **options)
    for row, y in enumerate((1.0, 2.0, 3.0)):
        own = found["tried"][found["tried"][:, 0] == y][:, 2]
        assert found["cost"][row, 0] == pytest.approx(np.sum(1.0 + own))
        assert found["load"][row, 0] == own[own <= 3].max()
    never = edges(lambda y, x: (x < 9, x < 0), start=3.5, end=4.0, parts=2, largest=("load",))
    assert np.isnan(never["load"]).all() and not never["whole"].any()
    np.testing.assert_array_equal(never["not_finite"][:, 0], 2.0)


def test_what_is_not_finite_does_not_hold_and_a_member_that_never_is_failed():
    found = edges(lambda y, x: (x <= 9.0, (y < 2.5) & (x < 2.0)), start=0.0, end=4.0, parts=8)
    np.testing.assert_array_equal(found["edge"][:, 0], [1.5, 1.5, np.nan])
    y, _, x = found["tried"].T
    lost = [((y == own) & ((y > 2.5) | (x >= 2.0))).sum() for own in (1.0, 2.0, 3.0)]
    np.testing.assert_array_equal(found["not_finite"][:, 0], lost)
    assert min(lost) > 0 and lost[2] == (y == 3.0).sum()
    np.testing.assert_array_equal(found["whole"][:, 0], [True, True, False])


UP, END = "upright", {"holds": "final_com_height"}
BAD = {
    "no ends": (ValueError, "goes from 0.0 to 0.0", lambda: Edge(SPEED, 0.0, 0.0)),
    "no parts": (ValueError, "give at least 1 and 0", lambda: Edge(SPEED, 0.0, 1.0, parts=0)),
    "no such number": (KeyError, "nearest are", lambda: Edge("model.frictoin", 0.0, 1.0, **END)),
    "told twice": (ValueError, "edge: holes would be", lambda: Edge(SPEED, 0, 1, total=["holes"])),
    "out of bounds": (
        ValueError,
        "outside of its bounds",
        lambda: Edge("model.mass", 1.0, -1.0, **END),
    ),
    "varied too": (ValueError, "share a number", lambda: Edge("model.gravity", -9.0, 0.0, **END)),
    "no such measure": (
        KeyError,
        "no measure 'upright'",
        lambda: Edge(SPEED, 0.0, 1.0, holds=UP),
    ),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name)
def test_bad_input_is_told_before_anything_is_written(case, crate, tmp_path):
    kind, message, make = BAD[case]
    with pytest.raises(kind, match=message):
        sweep(crate, {PULL: [-9.81]}, edge=make(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_measures_beside_an_edge_are_refused(crate):
    with pytest.raises(ValueError, match="leave the measures out"):
        sweep(crate, {PULL: [-9.81]}, edge=Edge(SPEED, 0.0, 1.0), measures=["distance"])
