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


FEW = ["--option", "members=16", "--option", "length=10", "--option", "hidden=[8]", "--quiet"]


def numbers(folder):
    lines = map(json.loads, (folder / "history.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in lines]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of two updates, in the folder of its scenario."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "cart.xml").write_text(CART)
    (folder / "cart.toml").write_text(BALL)
    cart = str(folder / "cart.toml")
    assert main(["learn", cart, "--updates", "2", "--out", str(folder / "run"), *FEW]) == 0
    return folder


@pytest.fixture
def run(learned, tmp_path):
    """A copy of its folder; the scenario is as it was."""
    (learned / "cart.toml").write_text(BALL)
    shutil.copytree(learned / "run", tmp_path / "run")
    return tmp_path / "run"


def resumed(run, *more):
    return main(["learn", "--out", str(run), "--resume", "--quiet", *more])


def test_a_resume_refuses_another_reward_and_remembers_the_updates(learned, run, capsys):
    """One without a state, as of a run that was killed before its first check, begins anew."""
    before = numbers(run)
    for name in ("state.msgpack", "history.jsonl", "policy.npz"):
        (run / name).unlink()
    held = {path.name: path.read_bytes() for path in run.iterdir()}
    (learned / "cart.toml").write_text(BALL.replace("pose = 1.0", "pose = 100.0"))
    assert resumed(run) == 2
    told = capsys.readouterr().err
    assert "config.json: environment: reward: pose was 1.0, is 100.0" in told
    assert {path.name: path.read_bytes() for path in run.iterdir()} == held
    (learned / "cart.toml").write_text(BALL)
    assert resumed(run) == 0 and "2 updates" in capsys.readouterr().out
    assert numbers(run) == before
    (learned / "cart.toml").write_text(BALL.replace("pose = 1.0", "pose = 100.0"))
    assert resumed(run, "--updates", "3", "--accept-changes") == 0
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [line.get("changes") for line in lines[:2]] == [None, None]
    assert "pose was 1.0, is 100.0" in lines[2]["changes"][0]
    assert json.loads((run / "config.json").read_text())["updates"] == 3


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("state.msgpack", b"", "state.msgpack is damaged"),
        ("state.msgpack", b"\x93\x01", "state.msgpack is damaged"),
        ("history.jsonl", b"", "has 0 lines, and state.msgpack is of 2 updates"),
        ("history.jsonl", b'{"update": 1}\n', "history.jsonl, line 1: it has no number 'actions'"),
        ("config.json", b"[]", "config.json holds a list"),
        ("config.json", b"{}", "holds another kind of run"),
        ("digest.json", b"[]", "digest.json is damaged"),
    ],
)
def test_a_folder_that_is_damaged_is_told(name, content, says, run, capsys):
    (run / name).write_bytes(content)
    assert resumed(run) == 2
    told = capsys.readouterr().err.strip()
    assert says in told and len(told.splitlines()) == 1 and str(run) in told


def test_the_list_has_policies_and_hides_none(learned, run, capsys):
    top = run.parent
    for seed in (4, 5):
        shutil.copytree(learned / "run", top / "seeds" / f"seed_{seed}")
    config = {"scenario": "cart", "runs": 2, "seed": 4, "options": {}, "updates": 2}
    config |= {"dt": 0.01, "seconds": 2.0, "command": []}
    (top / "seeds" / "config.json").write_text(json.dumps(config))
    (top / "seeds" / "versions.json").write_text("{}")
    (top / "seeds" / "seed_4" / "history.jsonl").write_text("[]\n")
    assert main(["runs", str(top)]) == 0
    lines = capsys.readouterr().out.splitlines()
    worth = f"{numbers(run)[-1]['worth']:.6g}"[:5]
    assert "run" in lines[1] and "done" in lines[1] and "2/2" in lines[1] and worth in lines[1]
    assert "seeds" in lines[2] and "interrupted" in lines[2] and "2/4" in lines[2]
    assert "seed_4" in lines[3] and "history.jsonl, line 1" in lines[3]
    assert main(["runs", str(top), "--compare", "run", "run"]) == 0
    assert "they began with the same" in capsys.readouterr().out
    (run / "digest.json").write_text("[]")
    assert main(["runs", str(top), "--compare", "run", "run"]) == 2
    assert "digest.json is damaged" in capsys.readouterr().err


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
