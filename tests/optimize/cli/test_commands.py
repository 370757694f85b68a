"""The list of commands: a file each, help for each, and nothing of them anywhere else."""

import argparse
import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from optimize import cli
from optimize.cli import main as module
from optimize.cli import tune as tune_command
from optimize.cli.main import COMMANDS, main, parser
from optimize.cli.shared import as_text, defaults, general_options, run_options
from optimize.learning.learn import learn
from optimize.learning.runs import learn_runs
from optimize.running.simulate import simulate
from optimize.studies.push_options import MapOptions
from optimize.sweeps.sweep import sweep
from optimize.tuning.config import DEFAULTS

ROOT = Path(__file__).resolve().parents[3]
NAMES = [each.name for each in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_every_command_has_a_help_in_which_all_is_filled(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command.name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxsim {command.name} ")
    assert f"jaxsim {command.name}" in text.partition("example")[2]
    assert not re.search(r"\{\w*\}|%\(", text)


def test_the_help_of_all_names_each(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^    {command.name}\s+{re.escape(command.about)}$", text, re.MULTILINE)
        assert command.overview is None or command.overview[0] in text


def test_every_file_with_a_command_is_in_the_list():
    modules = (
        importlib.import_module(f"{cli.__name__}.{each.name}")
        for each in pkgutil.iter_modules(cli.__path__)
    )
    commands = {each.COMMAND.name for each in modules if hasattr(each, "COMMAND")}
    assert commands == set(NAMES) and len(NAMES) == len(commands)


def test_main_names_no_command_outside_of_the_list():
    assert module.__file__ is not None
    tree = ast.walk(ast.parse(Path(module.__file__).read_text("utf-8")))
    texts, names = [], []
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
        elif isinstance(node, ast.Name):
            names.append(node.id)
    for each in COMMANDS:
        assert each.name not in texts and not any(f"jaxsim {each.name}" in text for text in texts)
        assert names.count(each.run.__module__.rpartition(".")[2]) == 1


@pytest.mark.parametrize(
    "name, taken, own",
    [
        ("simulate", defaults(simulate), {"what", "numbers", "json"}),
        ("tune", DEFAULTS, {"scenario", "objective", "cluster"}),
        ("pushmap", defaults(MapOptions), {"cluster"}),
        ("learn", {**defaults(learn), **defaults(learn_runs)}, {"option"}),
        ("sweep", defaults(sweep), {"what", "holds", "sensitivity", "plot", "csv"}),
    ],
)
def test_every_option_is_handed_on_by_its_name_or_is_of_the_command(name, taken, own):
    """Else it would be taken from the user and lost."""
    every = _options_of(general_options) | _options_of(run_options)
    assert _options(name) - every - taken.keys() == own


def _options(name):
    command = next(each for each in COMMANDS if each.name == name)
    return _options_of(command.add_options)


def _options_of(declare):
    empty = parser()
    declare(empty)
    return {action.dest for action in empty._actions} - {"help", "version", "name"}


def test_defaults_are_shown_as_a_user_would_type_them():
    values = {"force": 750.0, "step": 0.00025, "times": (0.1, 0.2), "count": 8, "free": "all"}
    words = {"force": "750", "step": "0.00025", "times": "0.1,0.2", "count": "8", "free": "all"}
    assert as_text(values) == words


def test_the_cpu_is_split_before_anything_starts_jax(tmp_path):
    """evosax starts it when it is imported."""
    arguments = ["tune", "--out", str(tmp_path / "run"), "--resume"]
    done = subprocess.run(
        [sys.executable, "-m", "optimize.cli.main", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2 and "no run folder" in done.stderr
    assert "already started" not in done.stderr


@pytest.mark.parametrize(
    ("earlier", "name", "value", "kept"),
    [
        ("--score", "--aggregate", ["worst"], ("aggregate", "worst")),
        ("--sure", "--success-rate", ["0.9"], ("success_rate", 0.9)),
        ("--fresh", "--resample", [], ("resample", True)),
        ("--also", "--variant", ["a.b=1"], ("variant", [["a.b=1"]])),
    ],
)
def test_an_earlier_option_does_as_its_new_name_and_says_so(earlier, name, value, kept, capsys):
    options_of_tune = argparse.ArgumentParser()
    tune_command.add_options(options_of_tune)
    for option in (earlier, name):
        options = options_of_tune.parse_args(["walk", "--out", "d", option, *value])
        assert getattr(options, kept[0]) == kept[1]
        said = capsys.readouterr().err
        assert (f"{earlier} is now {name}" in said) == (option == earlier)
