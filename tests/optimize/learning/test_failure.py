"""A member whose numbers go wrong: its file plays it again, and the others do not notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimize.environments.draws import member_keys
from optimize.environments.environment import as_env
from optimize.environments.rewards import REWARDS
from optimize.environments.table import environment_of
from optimize.learning.failure import replay_failure, write_failure
from optimize.learning.learn import learn
from optimize.learning.ppo import PPO
from optimize.learning.rollout import begin_all, rollouts
from optimize.scenarios.find import scenario
from tests.optimize.learning.test_ppo import BALL, CART

MEMBERS, LENGTH, LATE = 16, 25, 0.5
TRAPPED = BALL.replace("pose = 1.0", "pose = 1.0, trap = 1.0") + "command = { risk = [0.0, 1.0] }\n"


def trap(level):
    """A reward that is none for members with a greater risk, from ``LATE`` on."""

    def trap(moment):
        view = moment.view
        caught = (view.command["risk"] > level) & (view.state.time > LATE)
        return jnp.where(caught, jnp.nan, 0.0)

    return trap


@pytest.fixture
def trapped(tmp_path, monkeypatch):
    monkeypatch.setitem(REWARDS, "trap", trap(0.9))
    (tmp_path / "cart.xml").write_text(CART)
    (tmp_path / "trapped.toml").write_text(TRAPPED)
    return str(tmp_path / "trapped.toml")


def test_the_file_plays_the_failure_again(trapped, tmp_path):
    options = {"members": MEMBERS, "length": LENGTH, "hidden": (8,)}
    found = learn(trapped, tmp_path / "run", seed=3, updates=2, options=options, progress=False)
    env = environment_of(scenario(trapped), 3)
    risk = np.asarray(begin_all(env, member_keys(3, MEMBERS)).command["risk"])
    first, line = int(np.argmax(risk > 0.9)), found.history[0]
    assert risk[first] > 0.9 and line["failed"] == (risk > 0.9).sum()
    # actions of 0.04 s: the 13th ends at 0.52 s
    told = f"member {first}, action 12: failure_0.npz; not finite: reward trap"
    assert line["failure"] == told
    assert all(each["reward"] is not None for each in found.history)

    held = np.load(found.folder / "failure_0.npz")
    assert (held["seed"], held["member"], held["step"]) == (3, first, 12)
    assert held["q"].shape == (13, 1) and held["action"].shape == (13, 1)
    assert held["begun.command.risk"] == risk[first]
    np.testing.assert_array_equal(held["model.mass"], env.model.mass)
    states, steps = replay_failure(env, found.folder / "failure_0.npz")
    assert [bool(step.failed) for step in steps] == [False] * 12 + [True]
    np.testing.assert_array_equal(np.stack([at.state.q for at in states]), held["q"])
    # and it is what happened, to the last bit: the rollout of the run, done again
    learner = PPO(env, **options)
    state = learner.init(3)
    after, what = learner.run(learner.network(state), learner.log_deviation(state), state.members)
    np.testing.assert_array_equal(what.seen[first, :13], [step.observation for step in steps])
    assert float(what.reward[first, 12]) == 0.0 and int(after.steps[first]) == LENGTH - 13


@pytest.mark.slow
def test_a_motion_that_amplifies_rounding_is_played_again_to_the_last_bit(tmp_path):
    """A limp fall: an action that differs in its last bit leads elsewhere within a few actions."""
    env = environment_of(scenario("get_up_policy"), 0)
    learner = PPO(env, members=8, length=10, noise=1.0, hidden=(8,), parts=1)
    state = learner.init(0)
    network, deviation = learner.network(state), learner.log_deviation(state)
    _, what = learner.run(network, deviation, state.members)
    failed = np.zeros((8, 10), bool)
    failed[3, 9] = True  # as if it had
    path, about = write_failure(tmp_path, env, network, deviation, state.members, failed, 0, 5)
    assert about["member"] == 3 and about["faults"] == []
    _, steps = replay_failure(env, path)
    np.testing.assert_array_equal(what.seen[3], [step.observation for step in steps])
    np.testing.assert_array_equal(what.reward[3], [step.reward for step in steps])


def test_the_others_do_not_notice(trapped):
    """Bit by bit they do what they do where there is no trap."""
    plain = environment_of(scenario(trapped))

    def run(level):
        env = as_env(
            plain.problem, plain.observation, plain.action, {"pose": 1.0, trap(level): 1.0},
            (), plain.command, 25.0, 2.0,
        )  # fmt: skip
        learner = PPO(env, members=MEMBERS, length=LENGTH, hidden=(8,))
        state = learner.init(0)
        network, noise = learner.network(state), learner.log_deviation(state)
        return rollouts(env, LENGTH)(network, noise, begin_all(env, member_keys(0, MEMBERS)))

    (after, found), (after_none, none) = run(0.8), run(2.0)
    failed = np.asarray(found.failed).any(axis=1)
    assert 0 < failed.sum() < MEMBERS and not np.asarray(none.failed).any()
    for one, other in zip(jax.tree.leaves((after, found)), jax.tree.leaves((after_none, none))):
        np.testing.assert_array_equal(np.asarray(one)[~failed], np.asarray(other)[~failed])
        assert np.isfinite(one).all()


def test_a_file_of_another_environment_is_refused(trapped, tmp_path):
    np.savez(tmp_path / "failure_0.npz", action=np.zeros((3, 1)))
    with pytest.raises(ValueError, match="is of another environment"):
        replay_failure(environment_of(scenario(trapped)), tmp_path / "failure_0.npz")
