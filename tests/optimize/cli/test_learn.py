"""jaxsim env and jaxsim learn, from the command line."""

import json
import shutil

import pytest

from optimize.cli.main import main
from optimize.learning.learn import Learned
from optimize.learning.runs import Runs
from tests.optimize.learning.test_ppo import BALL, CART


@pytest.fixture(scope="module")
def cart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cart")
    (folder / "cart.xml").write_text(CART)
    (folder / "cart.toml").write_text(BALL)
    return str(folder / "cart.toml")


def test_learn_and_look(cart, tmp_path, capsys):
    out = str(tmp_path / "run")
    few = ["--option", "members=16", "--option", "length=10", "--option", "hidden=[8]", "--quiet"]
    assert main(["learn", cart, "--updates", "2", "--out", out, *few]) == 0
    assert "2 updates" in capsys.readouterr().out
    agent = ["--agent", f"{out}/policy.npz", "--seconds", "1", "--json", "--quiet"]
    assert main(["env", cart, *agent]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["observed"] == 2 and told["actions"] == 1 and told["steps a second"] > 0
    assert main(["learn", "--out", out, "--resume", "--updates", "3", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["env", "walk_policy", *agent]) == 2
    assert "was learned in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["env", "push"], "give the file an [environment]"),
        (["env", "walk_policy", "--agent", "none"], "choose zero, random, or a policy's file"),
        (["env", "walk_policy", "--set", "environment.action=torque"], "nearest are: torques"),
        (["env", "walk_policy", "--set", 'environment.observation=["rut"]'], "there is no 'rut'"),
        (["env", "walk_policy", "--set", "environment.rats=3"], "did you mean 'rate'"),
    ],
)
def test_bad_input_is_named(arguments, text, capsys):
    assert main([*arguments, "--quiet"]) == 2
    assert text in capsys.readouterr().err


def test_runs_of_several_seeds_go_on_where_they_were(cart, tmp_path, capsys):
    out = tmp_path / "runs"
    few = ["--option", "members=16", "--option", "length=10", "--option", "hidden=[8]", "--quiet"]
    seeds = ["--runs", "2", "--seed", "3"]
    assert main(["learn", cart, "--updates", "2", "--out", str(out), *seeds, *few]) == 0
    told = json.loads((out / "runs.json").read_text())
    assert told["seeds"] == [3, 4] and len(set(told["returns"])) == 2
    assert told["interval"][0] <= told["mean"] <= told["interval"][1]
    assert told["best"] == told["seeds"][told["returns"].index(max(told["returns"]))]
    best = (out / f"seed_{told['best']}" / "policy.npz").read_bytes()
    assert (out / "policy.npz").read_bytes() == best
    assert "mean over seeds" in capsys.readouterr().out
    shutil.rmtree(out / "seed_4")  # as if it had been killed before the second one
    assert main(["learn", "--out", str(out), "--resume", "--updates", "2", "--quiet"]) == 0
    assert json.loads((out / "runs.json").read_text())["returns"] == told["returns"]
    assert main(["learn", "--out", str(out), "--resume", "--runs", "3", "--quiet"]) == 2
    assert "goes on with the options of the run" in capsys.readouterr().err
    assert main(["learn", "--out", str(tmp_path / "none"), "--resume", "--quiet"]) == 2


def test_runs_that_were_not_judged_yet_are_told_as_such(tmp_path):
    done = Learned(tmp_path / "seed_0", 25, 3.0, False, [])
    begun = Learned(tmp_path / "seed_1", 2, -float("inf"), True, [])
    runs = Runs(tmp_path, (0, 1, 2), (done, begun))
    assert runs.interrupted
    told = runs.told()
    assert told["seeds"] == [0] and told["mean"] == 3.0 and told["interval"] == [3.0, 3.0]
    assert Runs(tmp_path, (1,), (begun,)).told() == {}
