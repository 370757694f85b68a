"""A policy is a controller: what runs a controller runs it, from the command line."""

import json
import webbrowser

import numpy as np
import pytest

from optimize.cli.main import main
from optimize.sweeps.sweep import open_sweep

SPEED = "controller.command.speed"


@pytest.fixture(autouse=True)
def no_browser(monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)


def test_simulate_with_another_command_and_view(tmp_path, capsys):
    out = str(tmp_path / "run")
    told = ["--seconds", "0.2", "--json", "--quiet"]
    assert main(["simulate", "walk_policy", "--set", f"{SPEED}=0.6", "--out", out, *told]) == 0
    assert json.loads(capsys.readouterr().out)["finite"]
    assert main(["view", out]) == 0
    assert capsys.readouterr().out.strip().endswith("motion.html")


def test_sweep_over_its_command_and_the_ground(tmp_path, capsys):
    out = tmp_path / "sweep"
    vary = ["--vary", f"{SPEED}=0.5,1.0", "--vary", "model.friction=0.4,0.8"]
    short = ["--seconds", "0.3", "--measure", "distance,energy", "--quiet"]
    assert main(["sweep", "walk_policy", *vary, *short, "--out", str(out)]) == 0
    table = open_sweep(out)
    assert np.isfinite(table["energy"]).all() and not table["failed"].any()
    by_speed = table["energy"].values.reshape(2, 2)
    assert (by_speed[0] != by_speed[1]).all()  # the policy hears what it is told


def test_pushmap(tmp_path, capsys):
    few = ["--starts", "1", "--directions", "2", "--durations", "0.1", "--checks", "0"]
    weak = ["--resolution", "100", "--strongest", "200", "--seconds", "0.3", "--quiet"]
    out = tmp_path / "map"
    assert main(["pushmap", "--scenario", "walk_policy", *few, *weak, "--out", str(out)]) == 0
    found = np.load(out / "push_map.npz")
    assert (found["tolerated"] >= 100).all() and not found["failed"].any()


def test_verdict(capsys):
    one = ["--scheme", "time_stepping", "--backend", "fused", "--precision", "float32"]
    few = ["--starts", "3", "--dts", "0.002", "--seconds", "2", "--still", "1", "--quiet"]
    assert main(["verdict", "walk_policy", *one, *few]) == 0
    assert "3/3" in capsys.readouterr().out
