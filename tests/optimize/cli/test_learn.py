"""jaxsim env and jaxsim learn, from the command line."""

import json

import pytest

from optimize.cli.main import main
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
