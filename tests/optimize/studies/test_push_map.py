"""The push-tolerance map: bisection, what is reported, resume; and once for real."""

import csv
import json
from dataclasses import replace
from importlib.resources import files

import jax
import numpy as np
import pytest

from controllers.numbers import read_numbers
from optimize.cli.main import main
from optimize.problems.problem import Problem
from optimize.results.digest import RunChanged
from optimize.results.folder import RunFolder
from optimize.studies import push_map as module
from optimize.studies.push_map import map_request, push_map
from optimize.studies.push_options import MapOptions
from optimize.studies.push_report import ARRAYS, CSV, PLOT, TABLE, table, title
from optimize.studies.run_list import run_entry
from optimize.sweeps.bisection import UNTRIED
from optimize.sweeps.member import member
from optimize.sweeps.store import PROGRESS
from optimize.sweeps.sweep import open_sweep, sweep

OPTIONS = MapOptions(
    directions=4, durations=(0.1, 0.2), starts=3, resolution=20.0, strongest=300.0, seed=3
)
TUNED, WITHIN_LIMITS = (
    str(files("controllers") / "goals" / "tuned" / f"balance{name}.json")
    for name in ("", "_within_limits")
)
CELLS = int(np.prod(OPTIONS.shape))
# Falls without a push, tolerates less than a step, ..., more than the strongest push.
LIMITS = np.linspace(-20.0, 320.0, CELLS)


@pytest.fixture
def survive_by(monkeypatch):
    """survive_by(survive, options): cells (m,) and forces (m,) [N] -> stood, finite, and if it
    tells what the solver said, unsolved and residual, in the place of what is simulated."""

    def by(survive, options=OPTIONS):
        axes = {
            **(options.vary or {}),
            module.DURATION: options.durations,
            module.DIRECTION: np.deg2rad(options.directions_deg),
        }

        def outcomes_of(self, numbers, trial):
            forces = numbers[module.FORCE]
            told = {self.scenario.path(name): np.array(v) for name, v in axes.items()}
            at = [np.argmin(abs(numbers[p][:, None] - v), axis=1) for p, v in told.items()]
            cells = np.ravel_multi_index((*at, trial), options.shape)
            stood, finite, *told = survive(cells, forces)
            unsolved, residual = told or (np.zeros(len(cells)), np.zeros(len(cells)))
            parts = {"survived": stood * 1.0, module.UNSOLVED: unsolved, module.RESIDUAL: residual}
            return parts, finite

        def starts(self, generation=0):
            alike = lambda x: np.repeat(np.asarray(x)[None], self.trials, axis=0)  # noqa: E731
            return jax.tree.map(alike, self.scenario.state)

        monkeypatch.setattr(Problem, "outcomes_of", outcomes_of)
        monkeypatch.setattr(Problem, "starts", starts)

    return by


def below(limits, calls=None):
    """Survives what is not above the cell's limit."""

    def survive(cells, forces):
        if calls is not None:
            calls.append((cells, forces))
        return forces <= limits[cells], np.ones(len(cells), bool)

    return survive


def test_bisection_finds_the_largest_force_of_the_grid_in_every_cell(survive_by):
    calls = []
    survive_by(below(LIMITS, calls))
    found = push_map(OPTIONS)
    wanted = np.where(LIMITS < 0, np.nan, np.minimum(LIMITS // 20 * 20, 300))
    np.testing.assert_array_equal(found.tolerated.ravel(), wanted)
    assert np.isnan(wanted).sum() == 2 and (wanted == 300).sum() >= 2
    falls = np.where(LIMITS < 0, 0, np.where(wanted == 300, np.inf, wanted + 20))
    np.testing.assert_array_equal(found.first_fall.ravel(), falls)
    tried = found.below.reshape(2, -1)
    for k in range(2):
        np.testing.assert_array_equal(tried[k] == 1, wanted >= 20 * (k + 1))
        np.testing.assert_array_equal(tried[k] == UNTRIED, ~(wanted >= 20 * (k + 1)))
    assert len(calls) <= 5 + 2  # 17 places between 18 ends, and the checks
    assert all((forces >= 0).all() and (forces <= 300).all() for _, forces in calls)
    cells, forces = (np.concatenate(x) for x in zip(*calls))
    assert len({*zip(cells, forces)}) == len(cells)  # nothing is tried twice
    assert np.bincount(cells).max() <= 5 + 2 and (np.bincount(cells) >= 4).all()


def test_a_hole_below_the_tolerance_is_told(survive_by):
    limits = np.full(CELLS, 200.0)

    def survive(cells, forces):
        stood = (forces <= 200) & ~((forces == 160) & (cells == 5))
        return stood, np.ones(len(cells), bool)

    survive_by(survive)
    found = push_map(OPTIONS)
    np.testing.assert_array_equal(found.tolerated, limits.reshape(OPTIONS.shape))
    holes = (found.below == 0).any(axis=0)
    assert np.argwhere(holes).tolist() == [[0, 1, 2]]
    assert found.first_fall[0, 1, 2] == 160 and found.first_fall[0, 1, 1] == 220
    rows = [line.split() for line in table(found).splitlines() if "left 90 deg" in line]
    assert [row[-1] for row in rows] == ["1", "0"]


def test_a_member_that_is_not_finite_is_a_fall_and_is_named(survive_by):
    def survive(cells, forces):
        finite = (cells != 7) | (forces < 100)
        return np.ones(len(cells), bool), finite

    survive_by(survive)
    found = push_map(OPTIONS)
    others = np.delete(found.tolerated.ravel(), 7)
    assert (others == 300).all() and found.tolerated.ravel()[7] == 80
    assert np.argwhere(found.failed > 0).tolist() == [[0, 2, 1]]
    assert "1 cells (duration, direction, start) were not finite" in table(found)
    assert "(0, 2, 1)" in table(found)


def test_what_the_solver_says_is_counted_under_the_table(survive_by):
    def survive(cells, forces):
        stood, finite = below(LIMITS)(cells, forces)
        return stood, finite, np.where(cells == 5, 2, 0), np.where(cells == 4, 7.5, 1e-9)

    survive_by(survive)
    found = push_map(OPTIONS)
    runs = int((found.unsolved > 0).sum()), int(found.unsolved.sum())
    assert runs[0] == 1 and runs[1] >= 4 and runs[1] % 2 == 0
    assert found.residual.max() == 7.5 and (found.residual > 1).sum() == 1
    said = (
        f"{runs[1]} frames of all runs were not solved by the optimisation, in 1 of {CELLS} cells"
    )
    assert said in table(found) and "at the root was 7.5 N" in table(found)
    survive_by(below(LIMITS))
    clean = push_map(OPTIONS)
    assert "0 frames of all runs" in table(clean) and clean.unsolved.sum() == 0


def test_quantiles_are_forces_of_the_grid_and_count_falls_as_nothing(survive_by):
    survive_by(below(LIMITS))
    found = push_map(OPTIONS)
    quantiles = found.quantiles()
    assert quantiles.shape == (5, 2, 4) and np.isin(quantiles, np.arange(0, 301, 20)).all()
    np.testing.assert_array_equal(quantiles[0], np.nan_to_num(found.tolerated).min(axis=2))
    np.testing.assert_array_equal(quantiles[2], np.median(np.nan_to_num(found.tolerated), axis=2))
    assert found.least == 0 and quantiles[0, 0, 0] == 0


def contents(folder):
    """Of a run, but for where and when it ran."""
    varying = "config.json", "versions.json"  # the chunk; the commit
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in varying
    }


def test_an_interrupted_run_goes_on_to_the_same_bytes(survive_by, tmp_path):
    options = replace(OPTIONS, chunk=12)  # a duration at a time
    calls = []
    survive_by(below(LIMITS, calls))
    whole = push_map(options, tmp_path / "whole")
    first = sum(cells.max() < 12 for cells, _ in calls)
    assert 4 <= first < len(calls)
    kept, more = list(calls), []

    def until_the_second(cells, forces):
        if cells.min() >= 12:
            raise KeyboardInterrupt
        return below(LIMITS)(cells, forces)

    survive_by(until_the_second)
    out = tmp_path / "map"
    with pytest.raises(KeyboardInterrupt):
        push_map(options, out)
    assert json.loads((out / PROGRESS).read_text()) == {"boxes": 1}
    assert not (out / TABLE).exists()
    survive_by(below(LIMITS, more))
    resumed = push_map(out=out, resume=True)
    assert len(more) == len(kept) - first and resumed.options == options
    assert contents(out) == contents(tmp_path / "whole")
    np.testing.assert_array_equal(resumed.tolerated, whole.tolerated)
    np.testing.assert_array_equal(resumed.below, whole.below)
    one = push_map(OPTIONS)  # all cells at once
    np.testing.assert_array_equal(one.tolerated, whole.tolerated)
    more.clear()
    again = push_map(out=out, resume=True)
    assert not more  # nothing is left to do
    np.testing.assert_array_equal(again.tolerated, whole.tolerated)
    with pytest.raises(ValueError, match="no options"):
        push_map(OPTIONS, out, resume=True)
    with pytest.raises(FileExistsError, match="not empty"):
        push_map(OPTIONS, out)


def test_a_folder_that_holds_no_such_map_is_told(survive_by, tmp_path):
    survive_by(below(LIMITS))
    out = tmp_path / "map"
    push_map(OPTIONS, out)
    config = json.loads((out / "config.json").read_text())
    for key, says in (("sweep", "of an earlier version"), ("push_map", "no push map")):
        own = {name: value for name, value in config.items() if name != key}
        (out / "config.json").write_text(json.dumps(own))
        with pytest.raises(ValueError, match=says):
            push_map(out=out, resume=True)
    wrong = {**config["push_map"], "durations": "soon"}
    (out / "config.json").write_text(json.dumps({**config, "push_map": wrong}))
    with pytest.raises(ValueError, match=r"config\.json holds options that no run writes"):
        push_map(out=out, resume=True)


def test_a_map_whose_options_changed_is_told(survive_by, tmp_path):
    options = MapOptions(directions=2, durations=(0.1,), starts=2, resolution=50.0)
    survive_by(below(np.full(4, 299.0)), options)
    push_map(options, tmp_path / "map")
    path = tmp_path / "map" / "config.json"
    path.write_text(path.read_text().replace('"seconds": 4.0', '"seconds": 3.0'))
    with pytest.raises(RunChanged, match=r"push_map: seconds was 4\.0, is 3\.0"):
        push_map(out=tmp_path / "map", resume=True)
    push_map(out=tmp_path / "map", resume=True, accept_changes=True)
    push_map(out=tmp_path / "map", resume=True)
    accepted = json.loads((tmp_path / "map" / "digest.json").read_text())["accepted"]
    assert "config.json: push_map: seconds was 4.0, is 3.0" in accepted[0]["changes"]


def test_it_is_a_sweep_whose_edge_is_the_force(survive_by, tmp_path):
    survive_by(below(LIMITS))
    found = push_map(OPTIONS, tmp_path / "map")
    listing = run_entry(tmp_path / "map")
    assert (listing.kind, listing.state, listing.scenario) == ("push map", "done", "push")
    held = open_sweep(tmp_path / "map")
    assert held["edge"].dims == (module.DURATION, module.DIRECTION, "start")
    np.testing.assert_array_equal(held["edge"].where(held["edge"] >= 0), found.tolerated)
    at = {"duration": 0.2, "direction": np.pi / 2, "start": 1}
    one = member(tmp_path / "map", at, map_request(OPTIONS).what).scenario
    assert one.get(module.FORCE) == pytest.approx(found.tolerated[1, 1, 1])
    assert one.get("forces.direction[0]") == pytest.approx(np.pi / 2)
    with pytest.raises(ValueError, match="made in Python; give it again"):
        sweep(None, out=tmp_path / "map", resume=True)


def test_the_folder_holds_table_cells_arrays_and_plot(survive_by, tmp_path):
    pytest.importorskip("matplotlib")
    survive_by(below(LIMITS))
    found = push_map(OPTIONS, tmp_path / "map")
    assert found.missing == ()
    rows = list(csv.DictReader((tmp_path / "map" / CSV).open()))
    assert len(rows) == CELLS and rows[0]["tolerated_N"] == "" and rows[-1]["start"] == "2"
    values = [float(row["tolerated_N"]) for row in rows[2:]]
    np.testing.assert_array_equal(values, found.tolerated.ravel()[2:])
    with np.load(tmp_path / "map" / ARRAYS) as held:
        np.testing.assert_array_equal(held["tolerated"], found.tolerated)
        np.testing.assert_array_equal(held["quantiles"], found.quantiles())
    text = (tmp_path / "map" / TABLE).read_text()
    assert "2 cells (duration, direction, start) fell without a push" in text
    assert "survived the strongest push" in text
    picture = (tmp_path / "map" / PLOT).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    config = RunFolder.open(tmp_path / "map").read_json(RunFolder.CONFIG)
    assert config["seed"] == 3 and config["push_map"]["durations"] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"starts": 0}, "starts is 0"),
        ({"durations": ()}, "durations"),
        ({"durations": (0.1, float("nan"))}, "durations"),
        ({"resolution": -1.0}, "resolution is -1"),
        ({"strongest": 10.0}, "weaker than the resolution"),
        ({"chunk": 0}, "chunk is 0"),
    ],
)
def test_bad_options_are_told(options, says):
    with pytest.raises(ValueError, match=says):
        MapOptions(**options)


def test_the_title_says_what_the_pushes_happen_in(survive_by):
    changes = {"character.build": "child", "world.torque_limits": True}
    options = replace(OPTIONS, set=changes)
    survive_by(below(LIMITS), options)
    found = push_map(options)
    assert title(found) == "scenario push, character.build = child, world.torque_limits = True"
    own = module.map_scenario(options)
    assert own.scheme.torque_limits and own.model.mass.sum() < 40
    assert own.get("forces.start").shape == (1,) and own.get("forces.start") == 0.5
    with pytest.raises(ValueError, match="forward and backward"):
        push_map(MapOptions(scenario="walk", directions=8))


VARIED = replace(
    OPTIONS,
    scenario="stand_pushed",
    vary={"controller.help_from": (5.0, 20.0, 80.0), "model.friction": (0.5, 1.0)},
)


def test_numbers_that_vary_are_the_first_axes_of_the_map_and_of_its_files(survive_by, tmp_path):
    limits = np.linspace(20.0, 300.0, int(np.prod(VARIED.shape)))
    survive_by(below(limits), VARIED)
    found = push_map(VARIED, tmp_path / "map")
    assert found.tolerated.shape == (3, 2, 2, 4, 3)
    np.testing.assert_array_equal(found.tolerated.ravel(), limits // 20 * 20)
    rows = list(csv.DictReader((tmp_path / "map" / CSV).open()))
    assert [rows[0]["controller.help_from"], rows[0]["model.friction"]] == ["5", "0.5"]
    assert [rows[-1]["controller.help_from"], rows[-1]["model.friction"]] == ["80", "1"]
    lines = (tmp_path / "map" / TABLE).read_text().splitlines()
    assert sum("left 90 deg" in line for line in lines) == 3 * 2 * 2
    assert (tmp_path / "map" / PLOT).stat().st_size > 10000
    held = np.load(tmp_path / "map" / ARRAYS)
    assert held["quantiles"].shape == (5, 3, 2, 2, 4)
    np.testing.assert_array_equal(held["controller.help_from"], [5.0, 20.0, 80.0])
    again = push_map(out=tmp_path / "map", resume=True)
    assert again.options == VARIED


def test_what_cannot_vary_is_named():
    own = replace(OPTIONS, scenario="stand_pushed", vary={"controller.help_fro": (1.0,)})
    with pytest.raises(KeyError, match="help_from"):
        push_map(own)
    for name, says in {
        "scheme.dt": "how many steps",
        "forces.duration[0]": "share a number",
        "forces.force": "share a number",
    }.items():
        with pytest.raises(ValueError, match=says):
            push_map(replace(own, vary={name: (1.0,)}))
    with pytest.raises(ValueError, match="finite"):
        replace(own, vary={"model.friction": ()})


@pytest.mark.slow
def test_help_at_the_feet_makes_stronger_pushes_survived():
    options = MapOptions(
        scenario="stand_pushed", vary={"controller.help_to": (25.0, 200.0)}, link="chest",
        directions=2, durations=(0.2,), starts=2, resolution=30.0, strongest=240.0, seconds=1.5,
        checks=0,
    )  # fmt: skip
    found = push_map(options)
    assert not found.failed.any()
    little, much = found.tolerated
    assert (much > little + 30).all(), found.tolerated


@pytest.mark.parametrize("path", [TUNED, WITHIN_LIMITS])
def test_the_tuned_controllers_that_ship_fit_the_machine(path):
    scenario, numbers = module.map_scenario(OPTIONS), read_numbers(path)
    own = module.set_numbers(scenario, numbers)
    before, after = (np.asarray(s.controller.weights) for s in (scenario, own))
    np.testing.assert_array_equal(after > 0, before > 0)  # the same goals, otherwise weighted
    assert set(numbers) == set(scenario.controller.labels)
    assert own.get("gait.time") == pytest.approx(numbers["gait.time"])


def test_numbers_of_a_file_are_checked(tmp_path):
    scenario = module.map_scenario(OPTIONS)
    assert module.set_numbers(scenario, {"gait.time": 0.3}).get("gait.time") == pytest.approx(0.3)
    with pytest.raises(KeyError, match=r"no number 'gait.tempo'; nearest are: .*gait.time"):
        module.set_numbers(scenario, {"gait.tempo": 1.0})
    with pytest.raises(ValueError, match=r"gait.time: nan is not finite"):
        module.set_numbers(scenario, {"gait.time": float("nan")})
    for text in ('{"numbers": {"gait.time": "fast"}}', '{"x": 1}', "{"):
        (tmp_path / "numbers.json").write_text(text)
        with pytest.raises(ValueError, match=r"numbers\.json"):
            read_numbers(str(tmp_path / "numbers.json"))


def test_the_command_line(survive_by, tmp_path, capsys):
    survive_by(below(np.full(CELLS, 100.0)))
    weights = tmp_path / "best.json"
    weights.write_text(json.dumps({"numbers": {"gait.time": {"after": 0.3}}}))
    out = str(tmp_path / "map")
    given = ["--directions", "4", "--starts", "3", "--durations", "0.1,0.2", "--set"]
    given += ["character.build=child", "--numbers", str(weights), "--backend", "xla", "--quiet"]
    jax.devices()
    assert main(["pushmap", "--out", out, *given]) == 0
    assert capsys.readouterr().out == (tmp_path / "map" / TABLE).read_text()
    kept = json.loads((tmp_path / "map" / "config.json").read_text())
    options = kept["push_map"]
    assert (options["set"], options["durations"]) == ({"character.build": "child"}, [0.1, 0.2])
    assert options["numbers"] == {"gait.time": 0.3} and kept["backend"] == "xla"
    assert kept["command"][:2] == ["jaxsim", "pushmap"]
    assert main(["pushmap", "--out", out, "--resume", "--starts", "4", "--backend", "fused"]) == 2
    assert "leave out backend, starts" in capsys.readouterr().err
    assert main(["pushmap", "--out", out, "--resume", "--quiet"]) == 0
    with pytest.raises(SystemExit):
        main(["pushmap", "--out", out, "--durations", "0.1,never"])


def test_back_ends_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="backend 'gpu': there are fused, xla"):
        MapOptions(backend="gpu")


def test_the_kernel_is_the_default_where_it_compiles_fast():
    assert module.map_problem(OPTIONS)._fused == (jax.default_backend() == "cpu")


@pytest.mark.slow
def test_a_weak_push_is_survived_and_a_very_strong_one_is_not():
    options = MapOptions(
        directions=2, durations=(0.2,), starts=2, resolution=150.0, strongest=3000.0, seconds=2.0,
        checks=1,
    )  # fmt: skip
    found = push_map(options)
    assert not found.failed.any()
    assert (found.tolerated >= 150).all() and (found.tolerated < 3000).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("control", "force", "limits"),
    [(None, 350.0, False), (TUNED, 550.0, False), (WITHIN_LIMITS, 200.0, True)],
)
def test_nearly_all_starts_survive_a_push_from_every_direction(control, force, limits):
    """350 N is the goal for the adult on firm ground; docs/results/push_maps.md has the maps,
    whose least within torque limits is 200 N."""
    numbers = control and read_numbers(control)
    limited = {"world.torque_limits": limits}
    options = MapOptions(durations=(0.2,), starts=4, numbers=numbers, set=limited)
    values = {module.DURATION: [0.2], module.DIRECTION: np.deg2rad(options.directions_deg)}
    problem = module.map_problem(options)
    table = sweep(problem, {module.FORCE: [force], **values}, measures=["survived"])
    assert not table["failed"].any()
    assert table["survived"].sum() >= table["survived"].size - 1, table["survived"].values
