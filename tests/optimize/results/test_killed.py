"""Runs that are killed at any moment are resumed, or begun again, to the numbers of a whole run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.optimize.learning.test_ppo import BALL, CART

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
FEW = ["--option", "members=16", "--option", "length=10", "--option", "hidden=[8]"]
COMMANDS = {
    "learn": ["cart.toml", "--updates", "30", *FEW],
    "sweep": ["cart.toml", "--vary", "model.friction=0:1:40", "--chunk", "4", "--seconds", "0.2",
              "--measure", "distance", "--csv"],
    "tune": ["sit_to_stand_quick", "--objective", "quick-rise", "--generations", "6",
             "--population", "4", "--seconds", "0.02", "--judge-dt", "0.001"],
}  # fmt: skip
RESULTS = {"learn": "history.jsonl", "sweep": "sweep.csv", "tune": "history.jsonl"}


def jaxsim(folder, *arguments):
    command = [sys.executable, "-m", "optimize.cli.main", *arguments, "--quiet"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)


def result(path):
    """Of a history without times."""
    text = path.read_text()
    if path.suffix == ".csv":
        return text
    lines = map(json.loads, text.splitlines())
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_run_goes_on_or_begins_again(name, tmp_path):
    (tmp_path / "cart.xml").write_text(CART)
    (tmp_path / "cart.toml").write_text(BALL)
    began = time.monotonic()
    assert jaxsim(tmp_path, name, *COMMANDS[name], "--out", "whole").wait() == 0
    took = time.monotonic() - began
    # by chance over all of it, and often around the making of the folder
    moments = np.random.default_rng(0).uniform(0, 1, 2) * took
    for k, moment in enumerate([*moments, None, None]):
        run = jaxsim(tmp_path, name, *COMMANDS[name], "--out", f"run_{k}")
        folder = tmp_path / f"run_{k}"
        if moment is None:  # soon after the first file of the folder
            while run.poll() is None and not (folder / "versions.json").exists():
                time.sleep(0.0005)
            time.sleep(0.002 * (k - len(moments)))
        else:
            time.sleep(moment)
        run.send_signal(signal.SIGKILL)
        run.wait()
        again = jaxsim(tmp_path, name, "--out", f"run_{k}", "--resume")
        _, told = again.communicate()
        if again.returncode != 0:
            assert "begin the run again" in told or "no run folder" in told, told
            begun = jaxsim(tmp_path, name, *COMMANDS[name], "--out", f"run_{k}")
            assert begun.communicate()[1] is not None and begun.returncode == 0
        assert result(folder / RESULTS[name]) == result(tmp_path / "whole" / RESULTS[name])
