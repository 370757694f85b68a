"""Environments with a clip to follow, a pose that is not the start, and places to reach for."""

import itertools
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.policy.file import PolicyFile, read_policy
from controllers.policy.network import Network
from controllers.policy.observations import clip_error, heading, to_reach
from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from jaxsim.dynamics.kinematics import integrate
from jaxsim.io.toml_table import WorldError
from jaxsim.simulation.rollout import rollout
from optimize.environments.draws import member_keys
from optimize.environments.environment import as_env
from optimize.environments.rewards import (
    Moment,
    clip_ends,
    clip_joints,
    clip_place,
    clip_rates,
    facing,
    raised,
    reached,
    risen,
    straight,
)
from optimize.environments.table import environment_of
from optimize.environments.terminations import astray
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario

pytestmark = pytest.mark.usefixtures("x64_module")
OBSERVATION = ("joint_angles", "joint_rates", "root", "clip_error", "phase")
FRAMES, RATE, ADVANCE = 9, 10.0, 0.4


@pytest.fixture(scope="module")
def human(x64_module):
    return scenario("articulated_human", {"world.dt": 0.004})


@pytest.fixture(scope="module")
def clip(human):
    """Knees that bend and stretch on a way forward; its last pose is its first one, moved on."""
    model, top = human.model, human.model.topology
    poses = []
    for k in range(FRAMES):
        bend = 0.3 * (1 - np.cos(2 * np.pi * k / (FRAMES - 1)))
        q = np.array(human.state.q)
        q[0] += ADVANCE * k / (FRAMES - 1)
        for side in ("left", "right"):
            for joint, share in (("Hip", -1.0), ("Knee", 2.0), ("Ankle", -1.0)):
                name = next(n for n in top.joint_names if n.startswith(f"{side}{joint}"))
                q[top.q_start[top.joint_names.index(name)]] += share * bend
        poses.append(q)
    made = reference(model, np.array(poses), RATE, np.ones((FRAMES, 2), bool), parts(model))
    return replace(made, moves=jnp.array([ADVANCE, 0.0, 0.0]))


@pytest.fixture(scope="module")
def env(human, clip):
    problem = Problem(human, {}, OBJECTIVES["stand"], trials=4, spread=(0.0, 0.0))
    return as_env(
        problem,
        OBSERVATION,
        action="clip_offsets",
        reward={"clip_joints": 0.65, "clip_rates": 0.1, "clip_ends": 0.15, "clip_place": 0.1},
        done=("fallen", "astray"),
        rate=25.0,
        clip=clip,
    )


@cache
def moments(env):
    """A program: the moment of a state, as an action led to it."""

    @jax.jit
    def moment(state):
        at = replace(env.reset(member_keys(0, 1)[0]), state=state)
        scene = env.problem.scenario
        view = env._view(scene, at, scene.scheme.observe(scene.model, state))
        zero = jnp.zeros(())
        now = None if env.clip is None else env.clip.at(scene.model, state.time)
        return Moment(view, at.action, zero, jnp.zeros(3), jnp.asarray(env.dt), now)

    return moment


def moment(env, state):
    """As an action led to a state."""
    return moments(env)(state)


@jax.jit
def judged(now):
    """Of a moment: rewards by name, how far it is from the clip, and whether that ends it."""
    rewards = (clip_joints, clip_rates, clip_ends, clip_place)
    return {f.__name__: f(now) for f in rewards}, clip_error(now.view), astray(now.view)


@pytest.fixture(scope="module")
def on_clip(env):
    """The body as the clip has it at 0.3 s."""
    state, time = env.problem.scenario.state, jnp.asarray(0.3)
    now = jax.jit(env.clip.at)(env.model, time)
    return state.replace(q=now.q, qd=now.qd, time=time)


def test_episodes_begin_anywhere_on_the_clip(env, clip):
    starts, _ = env.beginnings
    duration = (FRAMES - 1) / RATE
    np.testing.assert_allclose(starts.time, np.arange(4) / 4 * duration)
    at = jax.jit(clip.at)
    for k, time in enumerate(starts.time):
        now = at(env.model, jnp.asarray(time))
        np.testing.assert_allclose(starts.q[k], now.q, atol=1e-12)
        np.testing.assert_allclose(starts.qd[k], now.qd, atol=1e-12)
    assert env.command == {"period": pytest.approx((duration, duration))}


def test_a_track_goes_on_for_ever(env, clip):
    track, model = clip.track, env.model
    at = jax.jit(track.at)
    for time in (0.0, 0.13, 0.55):
        later = at(model, jnp.asarray(time + 3 * float(track.duration())))
        now = at(model, jnp.asarray(time)).at[0].add(3 * ADVANCE)
        np.testing.assert_allclose(later, now, atol=1e-9)
    between = at(model, jnp.asarray(0.25))
    np.testing.assert_allclose(between[7:], (clip.q[2] + clip.q[3])[7:] / 2, atol=1e-12)


def test_who_is_on_the_clip_is_paid_in_full(env, on_clip):
    rewards, error, ended = judged(moment(env, on_clip))
    for name, reward in rewards.items():
        assert float(reward) == pytest.approx(1.0, abs=1e-9), name
    np.testing.assert_allclose(error, 0.0, atol=1e-9)
    assert not ended


def test_what_is_off_costs_as_published(env, on_clip):
    """One joint by 0.2 rad; the body by (0.3, 0.4, 0) m; rates by one of 2 rad/s."""
    top = env.model.topology
    dof = top.actuated_dofs[-1]
    turn = jnp.zeros(top.nv).at[dof].set(0.2)
    bent = on_clip.replace(q=jax.jit(integrate)(env.model, on_clip.q, turn, 1.0))
    rewards, error, _ = judged(moment(env, bent))
    assert float(rewards["clip_joints"]) == pytest.approx(np.exp(-2 * 0.04))
    assert float(error[-1]) == pytest.approx(0.2)
    moved = on_clip.replace(q=on_clip.q.at[:2].add(jnp.array([0.3, 0.4])))
    rewards, error, ended = judged(moment(env, moved))
    assert float(rewards["clip_place"]) == pytest.approx(np.exp(-10 * 0.25))
    assert float(rewards["clip_ends"]) == pytest.approx(1.0)
    np.testing.assert_allclose(error[:3], (0.3, 0.4, 0.0), atol=1e-9)
    assert not ended
    lost = on_clip.replace(q=on_clip.q.at[:2].add(jnp.array([0.31, 0.4])))
    assert judged(moment(env, lost))[2]
    faster = on_clip.replace(qd=on_clip.qd.at[dof].add(2.0))
    rewards, *_ = judged(moment(env, faster))
    assert float(rewards["clip_rates"]) == pytest.approx(np.exp(-0.4))


@pytest.mark.slow
def test_a_policy_file_follows_as_the_environment_does(env, human, tmp_path):
    random, sizes = np.random.default_rng(0), (env.observation_size, 8, env.action_size)
    layers = tuple(
        (random.normal(size=(n, m)) / n, np.zeros(m)) for n, m in itertools.pairwise(sizes)
    )
    network = Network(layers, np.zeros(sizes[0]), np.ones(sizes[0]))
    about = {
        "observation": list(OBSERVATION), "action": "clip_offsets", "scale": env.action.scale,
        "rate": 25.0, "command": {"period": float(env.clip.duration())},
        "motors": list(env.model.topology.actuated_dof_names), "scenario": "articulated_human",
    }  # fmt: skip
    track = jax.tree.map(np.asarray, env.track)
    PolicyFile(network, env.pose, about, track).write(tmp_path / "p.npz")
    controller = read_policy(tmp_path / "p.npz").controller(env.model, human.state)

    key = next(k for k in member_keys(0, 40) if int(env.reset(k).trial) == 0)
    at, step = env.reset(key), jax.jit(env.step)
    begun = at.state
    for _ in range(3):
        at, _ = step(at, network(at.observation))
    found = rollout(env.model, controller, begun, human.scheme, 3 * env.every, backend="xla")
    np.testing.assert_allclose(found.state.q, at.state.q, atol=1e-7)
    ghost = controller.reference_poses(env.model, np.array([0.0, 0.8]))
    assert ghost is not None
    pos, _ = ghost
    np.testing.assert_allclose(pos[1] - pos[0], [[ADVANCE, 0, 0]] * pos.shape[1], atol=1e-9)

    changes = {"controller.name": "policy", "controller.file": str(tmp_path / "p.npz")}
    named = scenario("articulated_human", changes)
    np.testing.assert_allclose(named.state.q, env.clip.q[0], atol=1e-9)
    assert named.state.qd[0] == pytest.approx(ADVANCE / 0.8)


def test_what_needs_a_clip_says_so(env):
    for options in (
        {"observation": ("clip_error",)},
        {"reward": {"clip_ends": 1.0}},
        {"done": ("astray",)},
        {"action": "clip_offsets"},
    ):
        with pytest.raises(ValueError, match="needs a clip to follow; name one in"):
            as_env(env.problem, **{"observation": ("root",), **options})


def test_a_clip_that_is_not_there_is_told_by_key(tmp_path):
    path = tmp_path / "follow.toml"
    path.write_text(
        '[character]\nmodel = "articulated_human"\n[environment]\n'
        '[environment.clip]\nfile = "none.bvh"\n'
    )
    with pytest.raises(WorldError, match=r"follow.toml: \[environment\], key 'clip.file'.*none"):
        environment_of(scenario(path))


def test_heights_and_angles_count_from_a_pose_by_name(tmp_path):
    path = tmp_path / "rise.toml"
    text = (
        '[character]\nmodel = "planar_human"\nstart = "prone"\n'
        '[environment]\npose = "POSE"\ndone = []\nreward = { risen = 1.0 }\n'
    )
    path.write_text(text.replace("POSE", "standing"))
    env = environment_of(scenario(path))
    standing = scenario("planar_human").state.q
    np.testing.assert_allclose(env.pose, standing, atol=1e-9)
    lies, stands = (
        moment(env, env.problem.scenario.state.replace(q=q)) for q in (env.rest, env.pose)
    )
    heights = [float(one.view.obs.com[2]) for one in (lies, stands)]
    assert float(risen(lies)) == pytest.approx(heights[0] / heights[1])
    assert 0.05 < float(raised(lies)) < 0.2
    assert float(risen(stands)) == pytest.approx(1.0) == float(raised(stands))
    path.write_text(text.replace("POSE", "hovering"))
    with pytest.raises(WorldError, match="key 'pose': no start named 'hovering'"):
        environment_of(scenario(path))


def test_places_to_reach_for_and_directions_to_face(human):
    problem = Problem(human, {}, OBJECTIVES["stand"])
    command = {"reach_x": (0.4, 0.4), "reach_y": (-0.2, -0.2), "heading": (0.5, 0.5)}
    env = as_env(problem, ("to_reach", "heading"), reward={"reached": 1.0}, command=command)
    now = moment(env, human.state)
    kin, top = now.view.obs.kin, env.model.topology
    wanted = kin.com[top.part("pelvis")] + jnp.array([0.4, -0.2, 0.0])
    apart = wanted - kin.com[top.part("rightHand")]
    np.testing.assert_allclose(to_reach(now.view), apart, atol=1e-9)
    assert float(reached(now)) == pytest.approx(np.exp(-np.linalg.norm(apart) / 0.2))
    np.testing.assert_allclose(heading(now.view), (np.cos(0.5), np.sin(0.5)), atol=1e-9)
    assert float(facing(now)) == pytest.approx(np.cos(0.5))
    aside = replace(now, moved=jnp.array([0.0, 0.02, 0.0]))  # in 0.02 s
    assert float(straight(now)) == pytest.approx(1.0)
    assert float(straight(aside)) == pytest.approx(np.exp(-4.0))
