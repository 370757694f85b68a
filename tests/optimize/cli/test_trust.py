"""Python files that scenarios name: run below the working folder, asked about elsewhere."""

import io
import json
import sys

import pytest

from jaxsim.io.user_code import UntrustedCode, below, deciding, run_file
from optimize.cli.main import main
from optimize.scenarios.find import scenario

OWN = """
from pathlib import Path

Path(__file__).with_name("ran").write_text("")

from controllers.pose.registered import Limp


def build(table, setup):
    return Limp()
"""
WORLD = """
[world]
title = "A box falls"
seconds = 0.01

[[body]]
name = "box"
shape = "box"
half_extents = [0.1, 0.1, 0.1]
mass = 1.0
pos = [0, 0, 0.5]

[controller]
name = "own.py:build"
"""


@pytest.fixture
def stranger(tmp_path):
    """A folder that is not the working one."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    (folder / "world.toml").write_text(WORLD)
    return folder


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_file_from_elsewhere_runs_only_with_trust(stranger, capsys, monkeypatch):
    command = ["simulate", str(stranger / "world.toml"), "--quiet"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "own.py is a Python file outside of the working folder" in error
    assert "--trust" in error and not (stranger / "ran").exists()
    with monkeypatch.context() as at, pytest.MonkeyPatch.context() as ends:
        at.setattr(sys, "stdin", Terminal("n\n"))
        ends.setattr(sys, "stderr", Terminal())
        assert main(command) == 2 and not (stranger / "ran").exists()
        at.setattr(sys, "stdin", Terminal("y\n"))
        assert main(command) == 0 and (stranger / "ran").exists()
        assert sys.stderr.getvalue().count("Run it? [y/N]") == 2  # once a command
    (stranger / "ran").unlink()
    assert main([*command, "--trust"]) == 0 and (stranger / "ran").exists()


def test_below_the_working_folder_nobody_is_asked(stranger, monkeypatch, capsys):
    monkeypatch.chdir(stranger.parent)
    assert main(["simulate", "stranger/world.toml", "--quiet"]) == 0
    assert (stranger / "ran").exists()
    (stranger / "inner").mkdir()
    (stranger / "inner" / "own.py").symlink_to(stranger / "own.py")
    monkeypatch.chdir(stranger / "inner")  # a link from here leads out
    (stranger / "inner" / "world.toml").write_text(WORLD)
    assert main(["simulate", "world.toml", "--quiet"]) == 2
    assert "--trust" in capsys.readouterr().err


def test_list_and_runs_run_none(stranger, monkeypatch, capsys):
    monkeypatch.chdir(stranger)
    assert main(["list", "world.toml"]) == 0
    out = capsys.readouterr().out
    assert "A box falls" in out and "own.py is a Python file, and jaxsim list runs none" in out
    run = stranger / "run"
    run.mkdir()
    config = {"seed": 0, "dt": 0.1, "seconds": 1.0, "command": [], "generations": 2}
    config |= {"objective": "objective.py:f", "scenario": "world.toml", "weights": {}}
    (run / "config.json").write_text(json.dumps(config))
    (run / "versions.json").write_text("{}")
    (run / "objective.py").write_text(OWN)
    assert main(["runs", "."]) == 0
    assert "world.toml" in capsys.readouterr().out
    assert not (stranger / "ran").exists() and not (run / "ran").exists()
    for command in (["list"], ["runs", "."]):
        with pytest.raises(SystemExit):
            main([*command, "--trust"])


def test_python_runs_what_it_names(stranger):
    """Nobody is asked without a block; in one, each file once."""
    assert scenario(str(stranger / "world.toml")).title == "A box falls"
    asked = []
    with deciding(below(stranger / "none", lambda path: asked.append(path) or True, "")):
        run_file(stranger / "own.py")
        run_file(stranger / "own.py")
    assert asked == [stranger / "own.py"]
    with deciding(below(stranger / "none", lambda path: False, "read it")):
        with pytest.raises(UntrustedCode, match="with all your rights"):
            run_file(stranger / "own.py")


def test_a_file_that_cannot_be_run_is_named(stranger, capsys):
    (stranger / "own.py").write_text("def build(:")
    assert main(["simulate", str(stranger / "world.toml"), "--quiet", "--trust"]) == 2
    error = capsys.readouterr().err
    assert "own.py cannot be run: SyntaxError" in error and "key 'name'" in error
