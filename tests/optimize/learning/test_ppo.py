"""PPO: advantages by hand, a task that it solves, a run that goes on to the same numbers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from optimize.environments.draws import member_keys
from optimize.environments.environment import as_env
from optimize.environments.table import environment_of
from optimize.learning.agent import Statistics
from optimize.learning.kept import StateError, read_state, write_state
from optimize.learning.learn import learn
from optimize.learning.methods import learner_of
from optimize.learning.ppo import PPO, advantages
from optimize.learning.rollout import begin_all, rollouts
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario

ROOT = Path(__file__).resolve().parents[3]
BALL = """
[world]
title = "A cart on a rail"
dt = 0.01
ground = false

[character]
model = "cart.xml"

[environment]
observation = ["joint_angles", "joint_rates"]
action = "torques"
reward = { change = -0.01, pose = 1.0 }
done = []
rate = 25
seconds = 2.0
trials = 64
spread = [0.4, 0.2]
"""
CART = """
<mujoco><option gravity="0 0 -9.81"/><worldbody><body name="cart">
<joint name="rail" type="slide" axis="1 0 0"/><geom type="sphere" size="0.1" mass="1"/>
</body></worldbody><actuator><motor joint="rail" forcelimited="true" forcerange="-4 4"/></actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def cart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cart")
    (folder / "cart.xml").write_text(CART)
    (folder / "cart.toml").write_text(BALL)
    return folder / "cart.toml"


def test_advantages_are_those_of_sums_of_rewards():
    """With lambda 1 an advantage is the discounted rewards and what follows, less the value."""
    rng = np.random.default_rng(0)
    reward, now, then = rng.normal(size=(3, 2, 6))
    done, late = np.zeros((2, 2, 6), bool)
    done[0, 2] = late[1, 3] = True
    found = advantages(*map(jnp.asarray, (reward, now, then, done, late)), 0.9, 1.0)
    for member, last, tail in ((0, 2, 0.0), (1, 3, then[1, 3]), (0, 5, then[0, 5])):
        first = 3 if last == 5 else 0
        for t in range(first, last + 1):
            total = sum(0.9 ** (k - t) * reward[member, k] for k in range(t, last + 1))
            # of an inner action the critic's own successor is the next action's value
            inner = sum(
                0.9 ** (k + 1 - t) * (then[member, k] - now[member, k + 1]) for k in range(t, last)
            )
            wanted = total + 0.9 ** (last + 1 - t) * tail - now[member, t] + inner
            assert found[member, t] == pytest.approx(wanted, rel=1e-4)


def test_statistics_are_those_of_all():
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 3))
    seen = Statistics.none(3)
    for part in np.split(x, 4):
        seen = seen.with_more(jnp.asarray(part))
    np.testing.assert_allclose(seen.mean, x.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(seen.deviation, x.std(axis=0), rtol=0.05)


OPTIONS = {"members": 64, "length": 25, "hidden": (16,)}


def numbers(history):
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in history]


@pytest.fixture(scope="module")
def whole(cart, tmp_path_factory):
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return learn(str(cart), out, updates=50, options=OPTIONS, progress=False)


def test_it_learns(whole):
    """The cart is brought to the middle of its rail better than without force."""
    first, last = whole.history[0], whole.history[-1]
    assert last["reward"] > first["reward"] + 0.1
    assert whole.worth > 1.2 * 50 * first["reward"]
    names = {path.name for path in whole.folder.iterdir()}
    assert names >= {"history.jsonl", "policy.npz", "state.msgpack", "motion.html", "config.json"}
    lines = (whole.folder / "history.jsonl").read_text().splitlines()
    assert len(lines) == 50 and json.loads(lines[-1])["update"] == 49


@pytest.mark.slow  # the next one is harsher: it is killed between two checks
def test_a_run_that_stopped_goes_on_to_the_same_numbers(cart, whole, tmp_path):
    learn(str(cart), tmp_path / "b", updates=25, options=OPTIONS, progress=False)
    again = learn(out=tmp_path / "b", updates=50, resume=True, progress=False)
    assert numbers(whole.history) == numbers(again.history)


KILLED = """
import os, signal, sys
from optimize.learning.learn import learn
from optimize.learning.ppo import PPO

update = PPO.update

def until_killed(self, state):
    if int(state.updates) == 31:  # between the checks after 25 and after 50 updates
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, state)

PPO.update = until_killed
learn(sys.argv[1], sys.argv[2], updates=50, options=OPTIONS, progress=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(cart, whole, tmp_path):
    script = KILLED.replace("OPTIONS", repr(OPTIONS))
    command = [sys.executable, "-c", script, str(cart), str(tmp_path / "run")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    kept = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    assert len(kept) == 25 and not (tmp_path / "run" / "motion.html").exists()
    again = learn(out=tmp_path / "run", updates=50, resume=True, progress=False)
    assert numbers(again.history) == numbers(whole.history) and again.worth == whole.worth
    for name, array in np.load(whole.folder / "policy.npz").items():
        if name != "about":
            assert np.array_equal(array, np.load(tmp_path / "run" / "policy.npz")[name]), name


def test_a_state_that_is_damaged_or_of_another_is_refused(tmp_path):
    write_state(tmp_path / "s", {"x": np.arange(3.0)}, lines=1)
    kept, more = read_state(tmp_path / "s", {"x": np.zeros(3)})
    assert np.array_equal(kept["x"], np.arange(3.0)) and more["lines"] == 1
    with pytest.raises(StateError, match="of another learner"):
        read_state(tmp_path / "s", {"x": np.zeros(4)})
    data = bytearray((tmp_path / "s").read_bytes())
    data[-1] ^= 1
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(StateError, match="damaged"):
        read_state(tmp_path / "s", {"x": np.zeros(3)})


def test_methods_and_options_are_checked(planar_env):
    with pytest.raises(KeyError, match="nearest are: ppo"):
        learner_of("ppoo", planar_env, {})
    with pytest.raises(KeyError, match="nearest are: members"):
        learner_of("ppo", planar_env, {"member": 3})
    with pytest.raises(ValueError, match="do not part into 7"):
        PPO(planar_env, members=8, length=4, parts=7)


@pytest.fixture(scope="module")
def planar_env():
    human = scenario("planar_human", {"world.dt": 0.002})
    return as_env(Problem(human, {}, OBJECTIVES["stand"]), reward={"alive": 1.0}, seconds=0.1)


def test_a_policy_rollout_in_one_kernel_is_that_of_xla(x64_module_env):
    env = x64_module_env
    learner = PPO(env, members=4, length=3)
    state = learner.init(0)
    network, noise = learner.network(state), learner.log_deviation(state)
    at = begin_all(env, member_keys(0, 4))
    (_, fused), (_, by_xla) = (rollouts(env, 3, b)(network, noise, at) for b in ("fused", "xla"))
    for name in ("observation", "reward", "noise", "seen"):
        np.testing.assert_allclose(getattr(fused, name), getattr(by_xla, name), atol=1e-5)


@pytest.fixture(scope="module")
def x64_module_env(cart, x64_module):
    """The cart; tests/optimize/environments compares the kernel of a human with XLA."""
    return environment_of(scenario(str(cart)))
