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
    """Of a function of the number (P, trials) -> holds, whole."""
    edge = Edge("x", **options)
    calls = []

    def outcomes_at(numbers, by_trial):
        calls.append(by_trial["x"])
        held, whole = function(numbers["y"][:, None], by_trial["x"])
        return {edge.holds: held.astype(float)}, np.broadcast_to(whole, held.shape)

    problem: Any = SimpleNamespace(trials=trials, outcomes_at=outcomes_at)
    columns: Any = SimpleNamespace(of=lambda parts: parts)
    found, whole = Edges(problem, columns, "x", edge)({"y": np.array([1.0, 2.0, 3.0])})
    return {**found, "whole": whole, "calls": np.array(len(calls))}


def test_each_member_has_its_own():
    found = edges(lambda y, x: (x <= y, True), trials=2, start=0.0, end=4.0, parts=16)
    np.testing.assert_array_equal(found["edge"], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    assert found["calls"] <= 5 + 2 and found["whole"].all()


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


def test_what_is_not_finite_does_not_hold_and_a_member_that_never_is_failed():
    found = edges(lambda y, x: (x <= 9.0, (y < 2.5) & (x < 2.0)), start=0.0, end=4.0, parts=8)
    np.testing.assert_array_equal(found["edge"][:, 0], [1.5, 1.5, -0.5])
    np.testing.assert_array_equal(found["whole"][:, 0], [True, True, False])


UP = "upright"
BAD = {
    "no ends": (ValueError, "goes from 0.0 to 0.0", lambda: Edge(SPEED, 0.0, 0.0)),
    "no parts": (ValueError, "give at least 1 and 0", lambda: Edge(SPEED, 0.0, 1.0, parts=0)),
    "no such number": (KeyError, "nearest are", lambda: Edge("model.frictoin", 0.0, 1.0)),
    "out of bounds": (
        ValueError,
        "outside of its bounds",
        lambda: Edge("model.mass", 1.0, -1.0),
    ),
    "varied too": (ValueError, "share a number", lambda: Edge("model.gravity", -9.0, 0.0)),
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
