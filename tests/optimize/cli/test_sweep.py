"""jaxsim sweep, and a member of it in jaxsim view."""

import json
import webbrowser
from argparse import ArgumentTypeError

import pytest

from optimize.cli.main import main
from optimize.cli.values import coordinates, spread
from optimize.sweeps.distributions import LogUniform, Normal, Uniform
from optimize.sweeps.sweep import open_sweep

WORLD = """
[world]
title = "A ball"
seconds = 0.01
dt = 0.001

[[body]]
name = "ball"
shape = "sphere"
radius = 0.1
mass = 1.0
pos = [0.0, 0.0, 1.0]
velocity = [1.0, 0.0, 0.0]
"""


@pytest.fixture
def ball(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)
    (tmp_path / "ball.toml").write_text(WORLD)
    return tmp_path


def test_a_sweep_and_the_page_of_a_member(ball, capsys):
    vary = ["--vary", "state.qd[0]=0:2:3", "--vary", "model.gravity[2]=-9.81,0"]
    asked = ["--measure", "distance,largest_penetration", "--plot", "--csv", "--quiet"]
    assert main(["sweep", "ball.toml", *vary, *asked, "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert "6 members: 3 state.qd[0] x 2 model.gravity[2] x 1 start" in told
    run = ball / "run"
    assert {"distance.png", "sweep.csv", "sweep.zarr"} <= {p.name for p in run.iterdir()}
    table = open_sweep(run)
    assert table["distance"].shape == (3, 2, 1)

    assert main(["sweep", "--out", "run", "--resume", "--quiet"]) == 0  # there is no more to do
    assert main(["view", "run", "--at", "qd=2,gravity=0", "--quiet"]) == 0
    summary = json.loads((run / "members" / "2_1_0" / "summary.json").read_text())
    moved = float(table["distance"].sel({"state.qd[0]": 2.0, "model.gravity[2]": 0.0}).squeeze())
    assert moved == pytest.approx(2.0 * 0.009, rel=1e-5)  # to the last step's beginning
    assert summary["precision"] == table.attrs["precision"]
    assert (run / "members" / "2_1_0" / "motion.html").is_file()


def test_sensitivity_names_what_counts(ball, capsys):
    vary = ["--vary", "state.qd[0]=0.5:2", "--vary", "model.friction=0.1:1"]
    asked = ["--measure", "distance", "--sensitivity", "--count", "16", "--plot", "--quiet"]
    assert main(["sweep", "ball.toml", *vary, *asked, "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert "distance: 16 of 16 groups" in told
    first = [line for line in told.splitlines() if line.startswith("  state.qd[0]")]
    assert float(first[0].split()[1]) > 0.8  # the way is the speed times the time
    assert (ball / "run" / "distance_indices.png").is_file()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ball.toml", "--vary", "model.mas=1,2"], "nearest are"),
        (["ball.toml", "--vary", "model.mass=1,2", "--measure", "speed"], "no measure 'speed'"),
        (["ball.toml", "--vary", "model.mass=-1,2"], "outside of its bounds"),
        (["ball.toml", "--vary", "model.mass=1,2", "--vary", "model.mass=3"], "more than once"),
        (["ball.toml", "--vary", "model.mass=1,2", "--sample", "sobol"], "nothing to draw"),
        (["ball.toml"], "at least one number"),
        (["--resume", "--starts", "3"], "leave out starts"),
    ],
)
def test_bad_input_ends_with_2_and_no_folder(ball, capsys, arguments, message):
    assert main(["sweep", *arguments, "--out", "run"]) == 2
    assert message in capsys.readouterr().err
    assert not (ball / "run").exists()


@pytest.mark.parametrize(
    "text, values",
    [
        ("a=1,2.5", [1.0, 2.5]),
        ("a=0:1:3", [0.0, 0.5, 1.0]),
        ("a=1:100:3:log", pytest.approx([1.0, 10.0, 100.0])),
        ("a=0.4:1.2", Uniform(0.4, 1.2)),
        ("a=0.1:10:log", LogUniform(0.1, 10.0)),
        ("a=-1~0.1", Normal(-1.0, 0.1)),
    ],
)
def test_what_vary_takes(text, values):
    assert spread(text) == ("a", values)


@pytest.mark.parametrize("text", ["a", "=1", "a=", "a=1:2:1", "a=2:1", "a=0:1:3:log", "a=1~-1"])
def test_what_vary_does_not_take(text, ball, capsys):
    with pytest.raises(SystemExit):
        main(["sweep", "ball.toml", "--vary", text, "--out", "run"])
    assert "expected PATH=V,V" in capsys.readouterr().err


def test_coordinates_keep_their_commas():
    assert coordinates("w[0,1]=2,start=3") == {"w[0,1]": 2.0, "start": 3.0}
    for text in ("a", "a=", "a=x", "a=1,b", "a=1,"):
        with pytest.raises(ArgumentTypeError, match="expected NAME=X"):
            coordinates(text)
