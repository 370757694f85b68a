"""Sweeps of a small scenario: what they hold, what a bad member does, resuming, errors."""

import shutil
import signal
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jaxsim.simulation.measures import Measure, final
from jaxsim.simulation.rollout import rollout
from optimize.problems.problem import Problem
from optimize.results.digest import RunChanged
from optimize.results.folder import RESTORE, RunFolder
from optimize.running.objectives import Objective, Term
from optimize.sweeps import store
from optimize.sweeps.distributions import Normal, Uniform
from optimize.sweeps.member import member
from optimize.sweeps.sweep import kept_sweep, open_sweep, sweep
from optimize.sweeps.table import failed_members, summary, write_csv
from tests.damage import damages

SPEED, PULL = "state.qd[0]", "model.gravity[2]"
FAR = Term("far", "m", lambda model: final(lambda sample: sample.obs.com[0]))
BALL = """
[world]
title = "A ball in the air"
seconds = 0.02
dt = 0.001
gravity = [0.0, 0.0, 0.0]

[[body]]
name = "ball"
shape = "sphere"
radius = 0.05
mass = 1.0
pos = [0.0, 0.0, 1.0]
"""
VALUES = {SPEED: [0.0, 1.0, 2.0], PULL: [-9.81, -5.0, -2.0, 0.0, 1.0]}
ASKED = ("distance", "final_com_height")


def files(folder: Path) -> dict[str, bytes]:
    """All that a sweep computed."""
    kept = [folder / store.PROGRESS, *(folder / store.STORE).rglob("*")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in kept if p.is_file()}


@pytest.fixture(scope="module")
def whole(crate_file, tmp_path_factory):
    """A sweep in a folder, in chunks of which the last of a row is not full."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, sweep(crate_file, VALUES, measures=ASKED, starts=2, chunk=4, out=out)


def test_members_are_what_a_rollout_makes_of_them(whole):
    out, table = whole
    assert table["distance"].dims == (SPEED, PULL, "start")
    assert table["distance"].attrs["units"] == table[PULL].attrs["units"].partition("/")[0] == "m"
    assert not table["failed"].any() and table.attrs["scenario"].endswith("crate.toml")
    found = member(out, {"qd": 1.0, "gravity": -2.0, "start": 1})
    assert found.at == {SPEED: 1, PULL: 2, "start": 1}
    own = found.scenario
    place = {"x": final(lambda sample: sample.obs.com[0])}
    told = rollout(own.model, own.controller, own.state, own.scheme, 10, place)
    moved = float(told.measures["x"]) - float(own.state.q[0])
    assert found.told["distance"] == pytest.approx(moved, abs=1e-6) and moved > 0.01
    np.testing.assert_allclose(own.get(SPEED), 1.0)


def test_the_table_of_a_folder_is_pandas_and_csv(whole, tmp_path):
    out, table = whole
    frame = open_sweep(out).to_dataframe()
    assert len(frame) == 30 and list(frame.columns) == [*ASKED, "failed"]
    write_csv(tmp_path / "sweep.csv", table)
    lines = (tmp_path / "sweep.csv").read_text().splitlines()
    assert lines[0] == f"{SPEED},{PULL},start,distance,final_com_height,failed" and len(lines) == 31
    last = [float(x) for x in lines[-1].split(",")[:-1]]
    assert last[:3] == [2.0, 1.0, 1.0]
    assert last[3] == float(table["distance"][-1, -1, -1])
    assert "30 members: 3 state.qd[0] x 5 model.gravity[2] x 2 start" in summary(table)


def test_memory_holds_the_same_whatever_the_chunk(whole, crate_file):
    table = sweep(crate_file, VALUES, measures=ASKED, starts=2, chunk=1000)
    assert table.equals(whole[1].load())


def test_an_interrupted_sweep_goes_on_to_the_same_bytes(whole, crate_file, tmp_path, monkeypatch):
    out = tmp_path / "run"
    write = store.write_progress

    def interrupted(folder, boxes):
        write(folder, boxes)
        if boxes == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(store, "write_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(crate_file, VALUES, measures=ASKED, starts=2, chunk=4, out=out)
    monkeypatch.undo()
    so_far = open_sweep(out)
    assert RunFolder.open(out).read_json(store.PROGRESS) == {"boxes": 3}
    assert 0 < np.isfinite(so_far["distance"]).sum() < 30
    table = sweep(None, out=out, resume=True)
    assert table.equals(whole[1]) and files(out) == files(whole[0])


def test_a_bad_member_is_flagged_and_changes_no_other_bit(whole, crate_file):
    values = {**VALUES, SPEED: [0.0, 1e30, 2.0]}
    table = sweep(crate_file, values, measures=ASKED, starts=2, chunk=1000)
    failed = table["failed"].to_numpy()
    assert failed[1].all() and not failed[0].any() and not failed[2].any()
    assert np.isnan(table["distance"][1]).all()
    rest, good = table.isel({SPEED: [0, 2]}), whole[1].isel({SPEED: [0, 2]})
    for name in ASKED:
        assert rest[name].to_numpy().tobytes() == good[name].to_numpy().tobytes()
    told = failed_members(table)
    assert list(told.index) == list(range(10, 20)) and (told[SPEED] == 1e30).all()
    assert "10 failed" in summary(table)


def test_one_program_does_all_chunks(crate):
    traced = []

    def update(value, sample):
        traced.append(1)
        return sample.state.time

    counts = []
    for values in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0]):
        traced.clear()
        sweep(crate, {"model.mass[0]": values}, measures={"t": Measure(0.0, update)}, chunk=2)
        counts.append(len(traced))
    assert counts[0] == counts[1] > 0


def test_a_problem_is_swept_with_its_objective_and_goes_on(crate, tmp_path):
    def place(model):
        return final(lambda sample: sample.obs.com[0])

    terms = tuple(Term(name, "m", place) for name in ("far", "near"))
    judged = Objective("ways", 0.01, {"far": 2.0, "near": -0.5}, terms=terms)
    problem = Problem(crate, None, judged, trials=2)
    asked = {"mass": final(lambda sample: sample.model.mass[0])}
    out, values = tmp_path / "run", {SPEED: [0.0, 1.0]}
    table = sweep(problem, values, measures=asked, out=out)
    assert list(table.data_vars) == ["fitness", "far", "near", "mass", "failed"]
    far = table["far"].to_numpy()
    np.testing.assert_allclose(table["fitness"], 1.5 * far, rtol=1e-6)
    assert table.sizes["start"] == 2 and table.attrs["seconds"] == pytest.approx(0.01)
    found = problem.outcomes_at({SPEED: np.array([1.0])})[0]
    np.testing.assert_allclose(found["far"][0], far[1], rtol=1e-6)
    before = files(out)
    store.write_progress(RunFolder.open(out), 0)
    again = sweep(problem, measures=asked, out=out, resume=True)
    assert again.equals(table) and files(out) == before
    np.testing.assert_array_equal(member(out, {"qd": 1.0}, problem).scenario.get(SPEED), 1.0)
    with pytest.raises(ValueError, match=r"made in Python; give it again"):
        sweep(None, out=out, resume=True)


# Both back ends agree by tests/simulation/test_backends.py.
@pytest.mark.parametrize("backend", ["fused", pytest.param("xla", marks=pytest.mark.slow)])
def test_single_trials_are_those_of_their_members(crate, backend):
    judged = Objective("way", 0.01, {"far": 1.0}, terms=(FAR,))
    pulls = {"model.gravity[0]": [-20.0, 0.0, 20.0]}
    problem = Problem(crate, None, judged, trials=3, vary=pulls, backend=backend, chunk=2)
    speeds = np.array([0.0, 1.0])
    every, good = problem.outcomes_at({SPEED: speeds})
    assert good.all() and len(np.unique(every["far"])) == 6
    which, trial = np.array([1, 0, 1, 1, 0]), np.array([2, 0, 0, 1, 2])
    some, good = problem.outcomes_of({SPEED: speeds[which]}, trial)
    assert good.all()
    np.testing.assert_allclose(some["far"], every["far"][which, trial], rtol=1e-6)


def test_who_came_down_has_not_survived_though_it_came_up_again(tmp_path):
    path = tmp_path / "ball.toml"
    path.write_text(BALL)
    ways = {"state.qd[2]": [0.0, -30.0, -100.0], "model.gravity[2]": [0.0, 1e4]}
    table = sweep(path, ways, measures=["survived", "toppled", "fallen", "final_com_height"])
    assert not table["failed"].any()
    np.testing.assert_array_equal(table["survived"][:, :, 0], [[1, 1], [0, 1], [0, 0]])
    np.testing.assert_array_equal(table["toppled"], 1 - table["survived"])
    np.testing.assert_array_equal(table["fallen"] > 0, table["toppled"] > 0)


def test_several_numbers_move_together_and_samples_have_coordinates(crate):
    rows = [[0.0, 0.0], [1.0, 2.0]]
    values = {"state.qd[0:2]": rows, "model.friction": Uniform(0.1, 0.9)}
    seen = {f"v{k}": final(lambda sample, k=k: sample.state.qd[k]) for k in range(2)}
    seen["friction"] = final(lambda s: s.model.friction[0] + s.model.friction[1])
    table = sweep(crate, values, measures=seen, sample="sobol", count=4, seconds=0.002)
    assert table["v0"].dims == ("state.qd[0-2]", "sample", "start")
    first = np.stack([table[name][:, 0, 0] for name in ("v0", "v1")], axis=1)
    np.testing.assert_allclose(first, rows, atol=0.05)
    np.testing.assert_array_equal(table["state.qd[0-2] values"], rows)
    both = 2 * table["model.friction"].to_numpy()
    np.testing.assert_allclose(table["friction"][0, :, 0], both, rtol=1e-6)


OWN = """
from jaxsim.simulation.measures import final
from optimize import Term

last = final(lambda sample: sample.obs.com[0])
further = Term("further", "m", lambda model: last, lambda x: x + 100.0)


def moving(sample):
    return sample.state.qd[0]


nothing = 3.0
"""


def test_measures_of_a_file(crate_file, tmp_path):
    path, out = tmp_path / "own.py", tmp_path / "run"
    path.write_text(OWN)
    asked = [f"{path}:{name}" for name in ("last", "further", "moving")]
    table = sweep(crate_file, {SPEED: [0.0, 1.0]}, measures=[*asked, "distance"], out=out)
    assert table["further"].attrs["units"] == "m"
    np.testing.assert_allclose(table["further"], table["last"] + 100.0, rtol=1e-6)
    np.testing.assert_allclose(table["moving"], table["distance"], atol=2.1e-3)
    path.write_text(OWN.replace("100.0", "200.0"))
    with pytest.raises(RunChanged, match=r"measured by.*own\.py:further"):
        sweep(None, out=out, resume=True)
    with pytest.raises(ValueError, match="has no 'first'; it has final, Term, last"):
        sweep(crate_file, {SPEED: [0.0]}, measures=[f"{path}:first"])
    with pytest.raises(TypeError, match=r"measure nothing is 3.0; a file gives a Measure"):
        sweep(crate_file, {SPEED: [0.0]}, measures=[f"{path}:nothing"])


# ---- bad input

own_mass = {"measures": {"model.mass": final(lambda sample: sample.model.mass[0])}}
BAD = {
    "unknown path": (KeyError, "nearest are.*'model.friction'", {"model.frictoin": [0.5]}, {}),
    "unknown measure": (KeyError, "there are: distance", {PULL: [1.0]}, {"measures": ["far"]}),
    "a measure it has no head for": (ValueError, "head", {PULL: [1.0]}, {"measures": ["time"]}),
    "time step": (ValueError, "how many steps", {"scheme.dt": [0.001]}, {}),
    "shared": (ValueError, "share a number", {"model.gravity": [1.0], PULL: [1.0]}, {}),
    "too wide": (ValueError, "has 3 numbers", {"model.gravity": [[1.0, 2.0]]}, {}),
    "negative friction": (ValueError, r"bounds \[0, 1000\]", {"model.friction": [-0.1]}, {}),
    "out of bounds": (ValueError, "a Normal with", {"model.restitution": Normal(1.0, 0.5)}, {}),
    "a measure's name": (ValueError, "name the number by its path", {"model.mass": [1]}, own_mass),
    "no seconds": (ValueError, "seconds is 0", {PULL: [1.0]}, {"seconds": 0.0}),
    "no such backend": (ValueError, "there are fused, xla", {PULL: [1.0]}, {"backend": "tpu"}),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name)
def test_bad_input_is_told_before_anything_is_written(case, crate, tmp_path):
    kind, message, values, options = BAD[case]
    with pytest.raises(kind, match=message):
        sweep(crate, values, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_disk_that_is_too_small_is_told(crate, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10**9, 10**9 - 10, 10))
    with pytest.raises(ValueError, match=r"GB of disk.* free; give fewer values"):
        sweep(crate, VALUES, out=tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    grid = {PULL: np.linspace(-10, 0, 10**5), SPEED: np.linspace(0, 1, 10**5)}
    with pytest.raises(ValueError, match=r"of memory; give out="):
        sweep(crate, grid)


def test_bounds_of_a_problem_count(crate):
    still = Term("still", "m", lambda model: final(lambda sample: sample.obs.com[0]))
    judged = Objective("still", 0.02, {"still": 1.0}, terms=(still,))
    problem = Problem(crate, {"model.mass[0]": (1.0, 10.0)}, judged)
    with pytest.raises(ValueError, match=r"model.mass from|outside of its bounds \[1, 10\]"):
        sweep(problem, {"model.mass": [2.0, 20.0]})


def test_a_sweep_of_something_else_does_not_go_on(whole, crate_file, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(whole[0], out)
    text = crate_file.read_text()
    before = files(out)
    try:
        crate_file.write_text(text.replace("mass = 6.0", "mass = 7.0"))
        with pytest.raises(RunChanged, match="mass differs"):
            sweep(None, out=out, resume=True)
    finally:
        crate_file.write_text(text)
    with pytest.raises(RunChanged, match="measures was"):
        options = dict(starts=2, chunk=4, out=out, resume=True)
        sweep(crate_file, VALUES, measures=("distance",), **options)
    assert files(out) == before
    with pytest.raises(FileExistsError, match="not empty"):
        sweep(crate_file, VALUES, out=out)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(damage=damages())
def test_a_damaged_progress_is_refused_or_says_how_many_boxes(damage, tmp_path):
    folder = RunFolder(tmp_path)
    store.write_progress(folder, 3)
    path = tmp_path / store.PROGRESS
    path.write_bytes(damage(path.read_bytes()))
    try:
        assert store.read_progress(folder, 8) in range(9)
    except ValueError as error:
        assert str(path) in str(error) and RESTORE in str(error)


@pytest.mark.parametrize("text", ['{"boxes": 9}', '{"boxes": -1}', '{"boxes": "3"}', "[]", "{}"])
def test_a_progress_that_fits_no_sweep_is_refused(text, tmp_path):
    (tmp_path / store.PROGRESS).write_text(text)
    with pytest.raises(ValueError, match="holds no number of boxes up to 8"):
        store.read_progress(RunFolder(tmp_path), 8)


def test_members_that_there_are_none_of_are_told(whole):
    out = whole[0]
    with pytest.raises(KeyError, match=r"no coordinate 'waist'; the coordinates are: state.qd"):
        member(out, {"waist": 1.0})
    with pytest.raises(ValueError, match=r"gravity\[2\] is 5; the sweep goes from -9.81 to 1"):
        member(out, {"qd": 1.0, "gravity": 5.0})
    with pytest.raises(ValueError, match=r"say where along model.gravity"):
        member(out, {"qd": 1.0})


def test_a_sweep_of_python_needs_its_scenario_again(whole, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(whole[0], out)
    folder = RunFolder.open(out)
    folder.write_json(folder.CONFIG, {**folder.read_config(), "scenario": None})
    with pytest.raises(ValueError, match=r"made in Python; give it again"):
        kept_sweep(folder)
