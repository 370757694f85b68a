"""The result folder: created once, read with clear errors, and its plot."""

import contextlib
import json
import os
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.io.files import write_bytes
from optimize.problems.fitness import Evaluation
from optimize.results.folder import RunFolder, command_line, reading, versions
from optimize.tuning.evolution import evolve
from optimize.tuning.history_plot import plot_history

CONFIG = {
    "seed": 0,
    "dt": 0.00025,
    "seconds": 5.0,
    "objective": "kip_up",
    "weights": {"time": 1.0, "height": 10.0},
    "command": ["jaxsim", "tune", "kip_up.scl"],
}
SCRIPT = "phase α { pd knee @90 }\n"


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run", CONFIG, SCRIPT)


def test_create_holds_what_a_rerun_needs(folder):
    assert folder.read_text(RunFolder.SCRIPT) == SCRIPT
    assert folder.read_json(RunFolder.CONFIG) == CONFIG
    kept = folder.read_json(RunFolder.VERSIONS)
    assert {"jax", "jaxlib", "evosax", "numpy", "python", "platform", "cpu_count"} <= set(kept)
    assert kept["jax"] and kept["evosax"]
    assert RunFolder.open(folder) == folder


def test_create_refuses_to_overwrite(folder, tmp_path):
    folder.write_text(RunFolder.HISTORY, "")
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(FileExistsError, match="not empty"):
        RunFolder.create(folder, CONFIG | {"seed": 1})
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        RunFolder.create(tmp_path / "file", CONFIG)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", CONFIG)
    assert not (tmp_path / "empty" / RunFolder.SCRIPT).exists()


@pytest.mark.parametrize("name", [RunFolder.SCRIPT, RunFolder.CONFIG, RunFolder.OBJECTIVE])
def test_files_of_the_user_are_no_new_folder(name, tmp_path):
    """Of these names, but without what a run writes first."""
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        RunFolder.create(tmp_path, CONFIG)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("done", range(11))
def test_create_stopped_anywhere_is_begun_again(done, tmp_path, monkeypatch):
    """Before or after each of its five files is in place: there is nothing that bars the way."""
    left = [done]

    def some(*names):
        left[0] -= 1
        if left[0] < 0:
            raise SystemExit
        replace(*names)
        left[0] -= 1
        if left[0] < 0:
            raise SystemExit

    replace = os.replace
    monkeypatch.setattr("os.replace", some)
    path, own = tmp_path / "run", {"digest": {"config": {}}, "objective": "def f(x): ..."}
    with contextlib.suppress(SystemExit):
        RunFolder.create(path, CONFIG, SCRIPT, **own)
    monkeypatch.undo()
    if done < 9:
        with pytest.raises(FileNotFoundError, match="begin the run again"):
            RunFolder.open(path)
    (path / f".{RunFolder.CONFIG}.{'0' * 32}.part").write_text("{")  # what a killed process leaves
    again = RunFolder.create(path, CONFIG | {"seed": 7})
    assert again.read_config()["seed"] == 7 and not (again / RunFolder.SCRIPT).exists()
    assert sorted(os.listdir(path)) == [RunFolder.CONFIG, RunFolder.VERSIONS]


WRONG = [("seed", "0"), ("seed", True), ("dt", []), ("command", "x"), ("weights", 3)]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_options_of_another_kind_are_named(name, value, folder):
    folder.write_json(RunFolder.CONFIG, CONFIG | {name: value})
    with pytest.raises(ValueError, match=rf"config\.json: {name} is .*, where a run writes"):
        folder.read_config()


def test_an_option_that_is_missing_is_named(folder):
    folder.write_json(RunFolder.CONFIG, {})
    with pytest.raises(ValueError, match=r"config\.json lacks 'seed'; restore"):
        folder.read_config()["seed"]
    with pytest.raises(ValueError, match=r"best\.json holds what no run writes \('terms' is miss"):
        with reading(folder / RunFolder.BEST):
            {}["terms"]


def test_create_checks_the_config_before_it_writes(tmp_path):
    lacking = {key: value for key, value in CONFIG.items() if key not in ("dt", "weights")}
    with pytest.raises(ValueError, match="lacks dt"):
        RunFolder.create(tmp_path / "run", lacking)
    with pytest.raises(ValueError, match="config cannot be written as JSON"):
        RunFolder.create(tmp_path / "run", CONFIG | {"dt": float("nan")})
    assert not (tmp_path / "run").exists()


def test_open_says_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run folder"):
        RunFolder.open(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing \(it holds notes\.txt\)"):
        RunFolder.open(tmp_path)


def test_reading_says_what_is_wrong(folder):
    with pytest.raises(FileNotFoundError, match=r"no best\.json; it holds config\.json"):
        folder.read_json(RunFolder.BEST)
    folder.write_text(RunFolder.BEST, '{"a": 1,\n "b" 2}')
    with pytest.raises(ValueError, match=r"best\.json, line 2"):
        folder.read_json(RunFolder.BEST)
    folder.write_text(RunFolder.HISTORY, "{}\n[1]\n")
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2: expected an object"):
        folder.read_history()


def test_json_takes_arrays_and_refuses_nan(folder):
    value = {"x": np.array([0.1, 2.0]), "y": jnp.ones(2), "n": np.int64(3), "p": Path("a.scl")}
    folder.write_json(RunFolder.BEST, value)
    assert folder.read_json(RunFolder.BEST) == {"x": [0.1, 2.0], "y": [1, 1], "n": 3, "p": "a.scl"}
    with pytest.raises(ValueError, match=r"best\.json cannot be written"):
        folder.write_json(RunFolder.BEST, {"x": np.nan})
    with pytest.raises(ValueError, match="object is no number"):
        folder.write_json(RunFolder.BEST, {"x": object()})
    assert folder.read_json(RunFolder.BEST)["n"] == 3


def test_a_write_that_breaks_off_leaves_the_old_file(folder, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(folder / RunFolder.SCRIPT, b"new")
    monkeypatch.undo()
    assert folder.read_text(RunFolder.SCRIPT) == SCRIPT
    assert not list(folder.path.glob(".*"))


def test_command_line_says_nothing_of_where_the_program_lies():
    assert command_line([os.path.join("some", "where", "jaxsim"), "tune"]) == ["jaxsim", "tune"]
    assert command_line([]) == []


def test_versions_without_git(monkeypatch):
    def no_git(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr("subprocess.run", no_git)
    kept = versions()
    assert kept["commit"] is None and kept["uncommitted_changes"] is None
    json.dumps(kept, allow_nan=False)


# ---- the plot


def tune(folder, evaluate, generations=6):
    evolve(
        evaluate,
        np.ones(3),
        sigma=0.5,
        population=6,
        generations=generations,
        seed=0,
        folder=folder,
        progress=False,
    )


def sphere(x):
    parts = {name: x[:, i] ** 2 for i, name in enumerate(("time", "height", "skid"))}
    return Evaluation((x**2).sum(axis=1), parts, failed=x[:, 0] > 1.5)


def test_plot_history(folder):
    pytest.importorskip("matplotlib")
    tune(folder, sphere)
    path = plot_history(folder)
    assert path == folder / RunFolder.HISTORY_PLOT
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
    assert not list(folder.path.glob(".*"))


def test_plot_history_where_every_member_failed(folder):
    pytest.importorskip("matplotlib")
    tune(folder, lambda x: Evaluation(x[:, 0], failed=True), generations=2)
    assert plot_history(folder).is_file()


def test_plot_history_without_a_history(folder):
    pytest.importorskip("matplotlib")
    with pytest.raises(FileNotFoundError, match=r"no history\.jsonl"):
        plot_history(folder)
    folder.write_text(RunFolder.HISTORY, "")
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_history(folder)


def test_plot_history_without_matplotlib(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "jaxsim-characters\[viewer\]"'):
        plot_history(folder)
