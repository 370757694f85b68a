"""Episodes: as the simulation by itself, begun as trials are, ended when they should be."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim.fused import fuse
from jaxsim.simulation.rollout import rollout
from optimize.environments.draws import member_keys
from optimize.environments.environment import as_env
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario

pytestmark = pytest.mark.usefixtures("x64_module")

MEMBERS, ACTIONS = 8, 10


@pytest.fixture(scope="module")
def run(planar64):
    """Of one member: where its actions end, what is told of each, and steps and pose after each."""

    def one(at, action):
        at, told = planar64.step_on(at, action)
        return at, (told, at.steps, at.state.q)

    return lambda at, actions: jax.lax.scan(one, at, actions)


@pytest.fixture(scope="module")
def by_xla(run):
    return jax.jit(jax.vmap(run))


@pytest.fixture(scope="module")
def begun(planar64):
    return jax.jit(jax.vmap(planar64.reset))(member_keys(0, MEMBERS))


@pytest.fixture(scope="module")
def episodes(planar64, begun, run, by_xla):
    """The same actions under XLA and as one kernel: ended, and told by both."""
    size = MEMBERS, ACTIONS, planar64.action_size
    actions = 0.1 * np.random.default_rng(0).normal(size=size)  # none falls, or lands
    (end, (told, *_)), (_, (fused, *_)) = by_xla(begun, actions), fuse(run)(begun, actions)
    return end, told, fused


def test_a_kernel_does_as_xla(episodes):
    _, by_xla, fused = episodes
    for name in ("observation", "reward"):
        one, other = getattr(by_xla, name), getattr(fused, name)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=name)
    assert np.array_equal(by_xla.truncated, fused.truncated)
    assert np.array_equal(by_xla.done, fused.done)


def test_time_ends_an_episode_and_the_next_one_begins(episodes, planar64):
    end, told, _ = episodes
    first = np.argmax(np.asarray(told.done | told.truncated), axis=1)
    assert planar64.limit == 6
    assert (first <= 5).all() and (first == 5).any()
    late = ~np.asarray(told.done)[:, :6].any(axis=1)
    assert np.asarray(told.truncated)[late][:, 5].all()
    assert (np.asarray(end.steps)[late] <= ACTIONS - 6).all()
    assert (np.asarray(end.count) >= 2).all()


def test_commands_and_trials_are_drawn(begun, planar64):
    speed = np.asarray(begun.command["speed"])
    assert (speed >= 0.8).all() and (speed <= 1.2).all() and len(set(speed.tolist())) == MEMBERS
    trials = np.asarray(begun.trial)
    assert set(trials) <= set(range(planar64.problem.trials)) and len(set(trials)) > 1


def test_an_action_is_held_as_the_pose_controller_would(planar64, begun, by_xla):
    """No offset is the pose: the state after an action is that of a rollout of as many steps."""
    _, (told, _, q) = by_xla(begun, jnp.zeros((MEMBERS, ACTIONS, planar64.action_size)))
    told, q = jax.tree.map(lambda x: x[2, 0], (told, q))  # of a member, after one action
    starts, varied = planar64.beginnings
    k = int(begun.trial[2])
    own = planar64.problem.trial(np.zeros(0), *jax.tree.map(lambda x: x[k], (starts, varied)))
    pose = PoseController(planar64.problem.scenario.state.q)
    alone = rollout(
        own.model, pose, own.state, own.scheme, planar64.every, backend="xla", pushes=own.forces
    )
    np.testing.assert_allclose(q, alone.state.q, atol=1e-9)
    assert told.reward == pytest.approx(sum(float(p) for p in told.parts.values()), rel=1e-5)
    assert not told.done and not told.failed


def test_a_state_that_is_not_finite_ends_alone_and_goes_on(planar64, begun, by_xla):
    q = begun.state.q.at[1, 4].set(jnp.nan)
    at = replace(begun, state=begun.state.replace(q=q))
    end, (told, steps, _) = by_xla(at, jnp.zeros((MEMBERS, ACTIONS, planar64.action_size)))
    alone = np.arange(MEMBERS) == 1
    assert np.array_equal(told.failed[:, 0], alone) and not told.failed[:, 1:].any()
    assert np.array_equal(told.done[:, 0], alone)
    assert np.isfinite(told.reward).all() and np.isfinite(end.observation).all()
    assert np.array_equal(steps[:, 0], np.where(alone, 0, 1))


def test_the_objective_as_a_reward_adds_up_to_its_fall(planar64):
    problem = Problem(planar64.problem.scenario, {}, OBJECTIVES["stand"])
    env = as_env(problem, observation=("root",), done=())
    at = jax.jit(env.reset)(member_keys(0, 1)[0])
    step, total = jax.jit(env.step), 0.0
    for _ in range(3):
        at, told = step(at, jnp.zeros(env.action_size))
        total += float(told.reward)
    objective = problem.objective
    begun = objective.total(objective.parts(env._unmeasured()))
    assert total == pytest.approx(
        float(begun - objective.total(objective.parts(at.measured))), rel=1e-3
    )


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"observation": ("joint_angels",)}, KeyError, "nearest are: joint_angles"),
        ({"reward": {"alife": 1.0}}, KeyError, "nearest are: alive"),
        ({"done": ("falen",)}, KeyError, "nearest are: fallen"),
        ({"action": "offset"}, KeyError, "nearest are: offsets"),
        ({"rate": 0.0}, ValueError, "rate is 0"),
        ({"command": {"speed": (2.0, 1.0)}}, ValueError, "no range from 2.0 to 1.0"),
        ({"reward": {"alive": np.nan}}, ValueError, "reward 'alive' has the weight nan"),
    ],
)
def test_bad_input_is_named(planar64, options, kind, text):
    with pytest.raises(kind, match=text):
        as_env(planar64.problem, **options)


def test_an_action_of_another_size_is_named(planar64):
    at = jax.eval_shape(planar64.reset, jax.ShapeDtypeStruct((), jnp.uint32))
    with pytest.raises(ValueError, match=r"shape \(3,\); of this environment it has \(15,\)"):
        jax.eval_shape(planar64.step, at, jnp.zeros(3))


def moved(moment):
    return moment.moved


def joints(view):
    return view.state.q[3:5] > 0


def test_a_reward_or_an_end_that_is_no_number_is_named(planar64):
    key = jax.ShapeDtypeStruct((), jnp.uint32)
    for options, text in (
        ({"reward": {moved: 1.0}}, r"the reward 'moved' has shape \(3,\); give one number"),
        ({"done": (joints,)}, r"the termination 'joints' has shape \(2,\)"),
        ({"observation": (lambda view: view.state.time,)}, r"has shape \(\); give a vector"),
    ):
        env = as_env(planar64.problem, **{"reward": {"alive": 1.0}, **options})
        with pytest.raises(ValueError, match=text):
            jax.eval_shape(env.step, jax.eval_shape(env.reset, key), jnp.zeros(env.action_size))


def test_what_is_not_finite_is_named(planar64):
    """A reward, an observation or a state; and an observation that no statistics could bear."""

    def odd(moment):
        return jnp.log(moment.view.command["odd"])

    def wide(view):
        return jnp.stack([view.command["wide"]])

    env = as_env(
        planar64.problem, ("root", wide), reward={"alive": 1.0, odd: 1.0}, done=(),
        command={"odd": (1.0, 1.0), "wide": (0.0, 0.0)},
    )  # fmt: skip
    at = jax.tree.map(lambda x: jnp.stack([x] * 4), jax.jit(env.reset)(member_keys(0, 1)[0]))
    command = {"odd": jnp.array([1.0, -1.0, 1.0, 1.0]), "wide": jnp.array([0.0, 0.0, 1e7, 0.0])}
    q = at.state.q.at[3, 4].set(jnp.nan)
    at = replace(at, command=command, state=at.state.replace(q=q))
    held = jnp.zeros((4, env.action_size))
    _, told, faults = jax.jit(jax.vmap(env.step_with_faults))(at, held)
    named = [{name for name, wrong in faults.items() if wrong[k]} for k in range(4)]
    assert named[:3] == [set(), {"reward odd"}, {"observation"}]
    assert named[3] >= {"state", "observation"}
    assert np.asarray(told.failed).tolist() == [False, True, True, True]
    assert np.isfinite(told.reward).all() and float(told.reward[1]) == 0.0


@pytest.mark.slow
def test_goals_take_numbers_and_no_torques():
    problem = Problem(scenario("push"), {"controller.gait.time": (0.3, 1.5)}, OBJECTIVES["capture"])
    with pytest.raises(ValueError, match='choose action="numbers"'):
        as_env(problem)
    env = as_env(problem, observation=("root", "contacts"), action="numbers", done=())
    at = jax.jit(env.reset)(member_keys(0, 1)[0])
    after, told = jax.jit(env.step)(at, jnp.full(1, 0.1))
    assert np.isfinite(told.reward) and float(after.state.time) == pytest.approx(env.dt, rel=1e-3)


@pytest.mark.slow
def test_the_human_in_space(tmp_path):
    problem = Problem(scenario("articulated_human"), {}, OBJECTIVES["stand"], trials=2)
    env = as_env(problem, reward={"alive": 1.0, "pose": 1.0, "effort": -1.0})
    at = jax.jit(jax.vmap(env.reset))(member_keys(0, 4))
    actions = np.random.default_rng(0).normal(size=(4, 3, env.action_size))

    def run(at, actions):
        return jax.lax.scan(env.step_on, at, 0.3 * actions)

    (_, by_xla), (_, fused) = jax.jit(jax.vmap(run))(at, actions), fuse(run)(at, actions)
    assert np.isfinite(by_xla.observation).all()
    assert np.abs(by_xla.observation - fused.observation).max() < 0.05
    assert np.array_equal(by_xla.done, fused.done)
