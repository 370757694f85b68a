"""A policy's file as a controller: it does what it did where it learned, and refuses others."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.policy.actions import Offsets, Targets, Torques
from controllers.policy.file import PolicyError, PolicyFile, read_policy
from controllers.policy.network import Network
from controllers.policy.view import View, stance
from jaxsim.characters.planar_human import planar_human
from jaxsim.characters.registry import start
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import rollout
from optimize.environments.draws import member_keys
from optimize.environments.environment import as_env
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario

pytestmark = pytest.mark.usefixtures("x64_module")
OBSERVATION = ("joint_angles", "joint_rates", "root", "command", "phase", "last_action")


@pytest.fixture(scope="module")
def env(x64_module):
    human = scenario("planar_human", {"world.dt": 0.002})
    problem = Problem(human, {}, OBJECTIVES["stand"])
    return as_env(
        problem, OBSERVATION, reward={"alive": 1.0}, command={"speed": (1.0, 1.0)}, rate=50.0
    )


@pytest.fixture(scope="module")
def policy(env):
    random, sizes = np.random.default_rng(0), (env.observation_size, 16, env.action_size)
    layers = tuple(
        (random.normal(size=(n, m)) / n**0.5, np.zeros(m)) for n, m in itertools.pairwise(sizes)
    )
    network = Network(layers, np.zeros(sizes[0]), np.ones(sizes[0]))
    about = {
        "observation": list(OBSERVATION),
        "action": "offsets",
        "scale": 0.5,
        "rate": 50.0,
        "command": {"speed": 1.0},
        "motors": list(env.model.topology.actuated_dof_names),
        "scenario": "planar_human",
    }
    return PolicyFile(network, env.pose, about)


def test_the_controller_does_what_the_environment_does(env, policy, tmp_path):
    policy.write(tmp_path / "p.npz")
    human = env.problem.scenario
    controller = read_policy(tmp_path / "p.npz").controller(env.model, human.state)
    found = rollout(env.model, controller, human.state, human.scheme, 40, backend="xla")
    at, step = jax.jit(env.reset)(member_keys(0, 1)[0]), jax.jit(env.step)
    for _ in range(4):
        at, _ = step(at, policy.network(at.observation))
    np.testing.assert_allclose(found.state.q, at.state.q, atol=1e-6)
    assert np.abs(np.asarray(at.state.q) - np.asarray(human.state.q)).max() > 0.01
    fused = rollout(env.model, controller, human.state, human.scheme, 40)
    np.testing.assert_allclose(fused.state.q, found.state.q, atol=1e-6)
    assert controller.labels == {"command.speed": "command.speed"}


def test_actions_may_count_from_another_pose(env, policy, tmp_path):
    """A network of zeros holds the pose that actions count from, whatever angles count from."""
    from dataclasses import replace

    from controllers.pose.pd import PoseController

    human = env.problem.scenario
    bent = np.array(env.pose)
    bent[-1] += 0.3
    still = jax.tree.map(np.zeros_like, policy.network.layers)
    network = replace(policy.network, layers=still)
    replace(policy, network=network, rest=bent).write(tmp_path / "p.npz")
    controller = read_policy(tmp_path / "p.npz").controller(env.model, human.state)
    found = rollout(env.model, controller, human.state, human.scheme, 40, backend="xla")
    held = PoseController(jnp.asarray(bent))
    alone = rollout(env.model, held, human.state, human.scheme, 40, backend="xla")
    np.testing.assert_allclose(found.state.q, alone.state.q, atol=1e-9)
    assert abs(float(found.state.q[-1] - human.state.q[-1])) > 0.01
    np.testing.assert_allclose(controller.pose, env.pose)


def test_a_scenario_file_may_name_it(policy, tmp_path):
    policy.write(tmp_path / "p.npz")
    changes = {"controller.name": "policy", "controller.file": str(tmp_path / "p.npz")}
    found = scenario("planar_human", changes)
    assert float(found.get("controller.command.speed")) == 1.0
    with pytest.raises(WorldError, match="one of another character: it was learned in 'planar_hum"):
        scenario("articulated_human", changes)
    with pytest.raises(WorldError, match="there is no file"):
        scenario("planar_human", {**changes, "controller.file": "none.npz"})


def test_files_of_other_versions_are_refused(policy, tmp_path):
    path = tmp_path / "p.npz"
    policy.write(path)
    arrays = dict(np.load(path))

    def written(**changes):
        about = {**json.loads(str(arrays["about"])), **changes}
        np.savez(path, **{**arrays, "about": json.dumps(about)})
        return path

    with pytest.raises(PolicyError, match="has format 99, this version reads 1"):
        read_policy(written(format=99))
    with pytest.raises(PolicyError, match="does not know, or lacks, smells"):
        read_policy(written(observation=["smells"]))
    np.savez(path, x=np.zeros(3))
    with pytest.raises(PolicyError, match="is no policy file"):
        read_policy(path)


def test_a_file_with_numbers_that_are_none_is_refused(policy, tmp_path):
    path = tmp_path / "p.npz"
    policy.write(path)
    arrays = dict(np.load(path))
    arrays["bias_1"][2] = np.nan
    np.savez(path, **arrays)
    with pytest.raises(PolicyError, match="bias_1 is not finite"):
        read_policy(path)


def test_actions_mean_what_they_say():
    model = planar_human()
    state = start(model, "standing")
    dof, size = model.topology.dof("leftKnee"), 15
    at = list(model.topology.actuated_dofs).index(dof)
    one = jnp.zeros(size).at[at].set(0.5)
    torque = Torques().control(model, state, state.q, one).torque
    assert float(torque[dof]) == pytest.approx(0.5 * float(model.torque_limit[dof]))
    assert np.count_nonzero(torque) == 1
    offset = Offsets(0.2).control(model, state, state.q, one).torque
    assert float(offset[dof]) == pytest.approx(float(model.gain_p[dof]) * 0.1, rel=1e-4)
    middle = Targets().control(model, state, state.q, jnp.zeros(size)).torque
    joint = model.topology.joint("leftKnee")
    wanted = (model.joint_lower[joint] + model.joint_upper[joint]) / 2 - state.q[dof]
    limit = float(model.torque_limit[dof])
    assert float(middle[dof]) == pytest.approx(
        np.clip(float(model.gain_p[dof] * wanted), -limit, limit), rel=1e-4
    )


def test_torques_need_limits():
    model = planar_human()
    with pytest.raises(ModelError, match="in parts of the greatest torques"):
        Torques().size(model.replace(torque_limit=jnp.full(model.topology.nv, jnp.inf)))


def test_what_is_seen_turns_with_the_heading():
    """A human in space seen from the east is one seen from the north."""
    from controllers.policy.observations import observed

    human = scenario("articulated_human")
    from jaxsim.math.rotation import quat_exp, quat_multiply

    model, state = human.model, human.state.replace(qd=human.state.qd.at[0].set(0.7))
    turn = quat_exp(jnp.array([0.0, 0.0, 1.1]))
    q = state.q.at[3:7].set(quat_multiply(turn, state.q[3:7]))
    cos, sin = np.cos(1.1), np.sin(1.1)
    qd = state.qd.at[0:2].set(jnp.array([0.7 * cos, 0.7 * sin]))
    upright, height = jax.jit(stance)(model, human.state)

    @jax.jit
    def seen(state):
        obs = human.scheme.observe(model, state)
        view = View(model, state, obs, human.state.q, upright, height, {}, jnp.zeros(0))
        return observed(("root", "feet", "contacts"), view)

    np.testing.assert_allclose(seen(state), seen(state.replace(q=q, qd=qd)), atol=2e-5)
