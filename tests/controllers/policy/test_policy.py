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
from controllers.policy.view import PolicyInput, stance
from jaxsim.characters.planar_human import planar_human
from jaxsim.characters.registry import start
from jaxsim.io.archive import ArchiveError
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


def with_about(arrays, **changes):
    about = {**json.loads(str(arrays["about"])), **changes}
    return {**arrays, "about": json.dumps({k: v for k, v in about.items() if v is not None})}


def first(arrays, name, value):
    """With another first number."""
    changed = arrays[name].copy()
    changed.flat[0] = value
    return {**arrays, name: changed}


NO_POLICY = {
    "transposed": (lambda a: {**a, "kernel_0": a["kernel_0"].T}, "kernel_0 has shape"),
    "short bias": (lambda a: {**a, "bias_0": a["bias_0"][:-1]}, "has shape"),
    "short mean": (lambda a: {**a, "mean": a["mean"][:-1]}, "has shape"),
    "short last": (lambda a: {**a, "bias_1": a["bias_1"][:-1]}, "bias_1 has shape"),
    "flat": (lambda a: {**a, "kernel_1": a["kernel_1"].ravel()}, "kernel_1 has shape"),
    "a layer less": (lambda a: {k: v for k, v in a.items() if k != "kernel_0"}, "lacks kernel_0"),
    "a bias less": (lambda a: {k: v for k, v in a.items() if k != "bias_1"}, "lacks bias_1"),
    "no pose": (lambda a: {k: v for k, v in a.items() if k != "pose"}, "lacks pose"),
    "no deviation": (lambda a: first(a, "deviation", 0.0), "deviation is 0 somewhere"),
    "negative": (lambda a: first(a, "deviation", -1.0), "deviation is -1 somewhere"),
    "infinite": (lambda a: first(a, "kernel_0", np.inf), "kernel_0 is not finite"),
    "complex": (lambda a: {**a, "kernel_0": a["kernel_0"] + 1j}, "kernel_0 holds complex128"),
    "whole": (lambda a: {**a, "pose": a["pose"].astype(int)}, "pose holds int64"),
    "texts": (lambda a: {**a, "mean": a["mean"].astype(str)}, "mean holds <U"),
    "rate 0": (lambda a: with_about(a, rate=0), "rate is 0; a policy has above 0"),
    "rate 1e9": (lambda a: with_about(a, rate=1e9), "at most 1e[+]06 a second"),
    "rate text": (lambda a: with_about(a, rate="50"), "rate is '50'"),
    "scale": (lambda a: with_about(a, scale=-1.0), "scale is -1.0; a policy has a positive"),
    "scale nan": (lambda a: with_about(a, scale=float("nan")), "scale is nan"),
    "action": (lambda a: with_about(a, action="levitate"), "does not know, or lacks, levitate"),
    "actions": (lambda a: with_about(a, action=["offsets"]), "action is .'offsets'."),
    "observation": (lambda a: with_about(a, observation=[["root"]]), "observation is"),
    "nothing": (lambda a: with_about(a, observation=[]), "lacks, what is observed"),
    "command": (lambda a: with_about(a, command=["speed"]), "command is"),
    "commands": (lambda a: with_about(a, command={"speed": "fast"}), "command is"),
    "motors": (lambda a: with_about(a, motors=15), "motors is 15"),
    "fewer motors": (lambda a: with_about(a, motors=["leftKnee"]), "kernel_1 has shape"),
    "scenario": (lambda a: with_about(a, scenario=5), "scenario is 5"),
    "lacks": (lambda a: with_about(a, motors=None), "it lacks motors"),
    "list": (lambda a: {**a, "about": "[1, 2]"}, "is no policy file"),
    "number": (lambda a: {**a, "about": "5"}, "is no policy file"),
    "deep": (lambda a: {**a, "about": "[" * 100_000}, "is no policy file"),
    "format": (lambda a: with_about(a, format=[1]), "has format .1."),
    "a clip's rate": (lambda a: {**a, "track_q": a["pose"][None]}, "lacks track_rate"),
    "a frame": (lambda a: {**a, "track_q": a["pose"][None], "track_rate": 9.0}, "has one frame"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_POLICY)
def test_what_no_policy_is_is_refused(name, policy, tmp_path):
    change, says = NO_POLICY[name]
    policy.write(tmp_path / "p.npz")
    np.savez(tmp_path / "p.npz", **change(dict(np.load(tmp_path / "p.npz"))))
    with pytest.raises(PolicyError, match=says) as caught:
        read_policy(tmp_path / "p.npz")
    assert "p.npz" in str(caught.value) and len(str(caught.value)) < 400


def test_a_policy_that_does_not_fit_the_scene_is_refused(env, policy, tmp_path):
    from dataclasses import replace

    state = env.problem.scenario.state
    blind = replace(policy, about={**policy.about, "observation": ["joint_angles"]})
    with pytest.raises(PolicyError, match=r"what it observes here \(joint_angles\) has 15"):
        blind.controller(env.model, state)
    clip = replace(policy, about={**policy.about, "observation": ["clip_error"]})
    with pytest.raises(PolicyError, match="there is no clip to compare with"):
        clip.controller(env.model, state)
    short = replace(policy, pose=policy.pose[:5])
    with pytest.raises(PolicyError, match="the policy's pose has 5 numbers, and the character"):
        short.controller(env.model, state)


def test_a_policy_of_another_scenario_is_told(policy, tmp_path):
    from dataclasses import replace

    changes = {"controller.name": "policy", "controller.file": str(tmp_path / "p.npz")}
    policy.write(tmp_path / "p.npz")
    assert scenario("planar_human", changes).notes == ()
    replace(policy, about={**policy.about, "scenario": "hops/hop.toml"}).write(tmp_path / "p.npz")
    (note,) = scenario("planar_human", changes).notes
    assert note == "the policy was learned in 'hops/hop.toml', and this is 'planar_human'"
    with pytest.raises(WorldError, match=r"decides 50 times a second, and a step of 0\.05 s"):
        scenario("planar_human", {**changes, "world.dt": 0.05})


def test_arrays_that_are_no_part_of_it_are_not_read(policy, tmp_path):
    policy.write(tmp_path / "p.npz")
    arrays = dict(np.load(tmp_path / "p.npz"))
    objects = np.array([print], object)
    np.savez_compressed(tmp_path / "p.npz", **arrays, more=np.zeros(2**22), objects=objects)
    assert read_policy(tmp_path / "p.npz").about["rate"] == 50.0
    np.savez_compressed(tmp_path / "p.npz", **{**arrays, "mean": np.zeros(2**18)})
    with pytest.raises(ArchiveError, match="mean claims 2097152 bytes, over 1048576"):
        read_policy(tmp_path / "p.npz")


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
    from controllers.policy.observations import observation_vector

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
        view = PolicyInput(model, state, obs, human.state.q, upright, height, {}, jnp.zeros(0))
        return observation_vector(("root", "feet", "contacts"), view)

    np.testing.assert_allclose(seen(state), seen(state.replace(q=q, qd=qd)), atol=2e-5)
