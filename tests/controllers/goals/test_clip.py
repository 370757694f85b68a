"""Goals of a clip ask for the motion of the reference, and what cannot be followed is told."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.account import clip_errors
from controllers.goals.balance import Gait, balance_machine, no_step
from controllers.goals.clip import (
    ClipWeights,
    FollowedClip,
    clip_com,
    clip_effectors,
    clip_pose,
    following,
    following_error,
)
from controllers.goals.controller import GoalController
from controllers.goals.machine import GoalMachine
from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from jaxsim import articulated_human
from jaxsim.characters.standing import effectors_of, standing_q
from jaxsim.dynamics.kinematics import integrate
from jaxsim.io.toml_table import WorldError
from jaxsim.mocap.from_motion import clip_of_motion
from jaxsim.mocap.write_bvh import write_bvh
from jaxsim.synthesis.config import units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from optimize import Problem, objective, scenario, simulate
from tests.compiling import quick_jit
from tests.mocap.clips import FOLDER, figure, needs_clips

RATE, TIME = 50.0, 0.4
IDLE, WAVE = "snu_wd2_idle_65__stand_idle.bvh", "fair1_wave_hello__wave_zup.bvh"


@pytest.fixture(scope="module")
def moving():
    """A human, and the clip of a motion in which every joint sways."""
    model = articulated_human()
    top, still = model.topology, np.asarray(standing_q(model), float)
    time = np.arange(51)[:, None] / RATE
    way = np.random.default_rng(0).normal(size=top.nv)
    way[:6] *= 0.1
    q = quick_jit(jax.vmap(lambda v: integrate(model, jnp.asarray(still), v, 1.0)))(
        jnp.asarray(0.1 * np.sin(2 * np.pi * time) * way)
    )
    made = reference(model, np.asarray(q), RATE, np.ones((51, 2), bool), parts(model))
    return model, FollowedClip.of(model, made, time=TIME)


@pytest.fixture(scope="module")
def now(moving):
    """The instant of the clip at ``TIME``."""
    model, clip = moving
    return quick_jit(clip.at)(model, TIME)


@pytest.fixture(scope="module")
def asked(moving):
    """rows(q, v, inside) of each goal at ``TIME``, and the error of following; by default any
    capture point is supported."""
    model, clip = moving
    kinds = {make.__name__: make() for make in (clip_pose, clip_effectors, clip_com)}

    @quick_jit
    def rows(q, v, inside):
        points, unit = effectors_of(model), units(model)
        conf = configuration_at(model, points, q, v)
        none = jnp.zeros(points.count, bool)
        obs = EffectorObservation(
            conf=conf, touching=none, force=0 * conf.position, weight=unit.force,
            height=unit.shift, time=jnp.asarray(TIME), unit=unit,
            clip=replace(clip, inside=inside),
        )  # fmt: skip
        step = no_step(Gait())
        return {name: kind.rows(obs, step) for name, kind in kinds.items()}, following_error(obs)

    return lambda q, v, inside=-10.0: rows(q, v, inside)


def test_on_the_clip_goals_ask_for_its_velocity(now, asked):
    """So their Jacobians and their targets agree."""
    rows, error = asked(now.q, now.qd)
    for target, J in rows.values():
        assert np.asarray(J @ now.qd) == pytest.approx(-np.asarray(target), abs=2e-4)
    assert np.abs(now.qd).max() > 0.2 and error < 1e-6


def test_off_the_clip_goals_lead_back(moving, now, asked):
    """As the joints go back at what they ask for, so do effectors and centre of mass."""
    model, _ = moving
    way = np.random.default_rng(1).normal(size=model.topology.nv)
    way[:6] = 0.0
    off = jnp.asarray(0.01 * way, now.q.dtype)
    rows, error = asked(quick_jit(integrate)(model, now.q, off, 1.0), now.qd)
    back = now.qd - off / TIME
    for name, (target, J) in rows.items():
        asks, gives = -np.asarray(target), np.asarray(J @ back)
        assert asks == pytest.approx(gives, abs=float(0.15 * np.abs(asks).max() + 1e-4)), name
    assert 1e-3 < error < 0.1


def test_places_are_relative_to_the_feet(now, asked):
    here, _ = asked(now.q, now.qd)
    there, error = asked(now.q.at[:3].add(jnp.array([1.0, -2.0, 0.5])), now.qd)
    for name, (target, _) in there.items():
        assert np.asarray(target) == pytest.approx(np.asarray(here[name][0]), abs=1e-3), name
    assert error < 1e-5


def test_the_capture_point_stays_in_the_support(moving, asked):
    """So no velocity is asked for that would carry the body over its feet."""
    model, _ = moving
    top, q = model.topology, jnp.asarray(standing_q(model), model.mass.dtype)
    still = jnp.zeros(top.nv)
    free, kept = (-asked(q, still, x)[0]["clip_com"][0] for x in (-10.0, 0.08))
    assert np.asarray(kept[2]) == pytest.approx(float(free[2]))
    most = 0.2 * np.sqrt(9.81 / 1.0)  # of a sole half as long [m/s]
    assert np.linalg.norm(kept[:2]) < min(most, np.linalg.norm(free[:2]) + 1e-6)


def test_goals_of_a_clip_replace_those_of_balance():
    machine = following(balance_machine(), ClipWeights(pose=7.0, effectors=0.0, com=3.0))
    stands, steps = (machine.states[name].goals for name in ("balance", "takeStep"))
    assert stands["com"] == stands["spine"] == 0.0
    assert stands["clip_pose"] == 7.0 and stands["clip_com"] == 3.0
    assert steps["clip_pose"] == steps["clip_com"] == 0.0 and steps["spine"] == 20.0
    assert "clip_effectors" not in [goal.name for goal in machine.goals]
    unchanged = following(balance_machine(), ClipWeights(0.0, 0.0, 0.0))
    assert unchanged.states["balance"].goals == balance_machine().states["balance"].goals


def test_only_a_machine_that_balances_follows():
    with pytest.raises(ValueError, match='choose the controller name = "balance"'):
        following(GoalMachine((), {}, {}))


def written(folder, clip="", world="", model="articulated_human", more=""):
    """A scenario that follows a clip by goals."""
    (folder / "clip.bvh").write_text(figure(frames=40, step=0.0))
    (folder / "follow.toml").write_text(
        f'[world]\nscheme = "per_step_optimisation"\n{world}\n[character]\nmodel = "{model}"\n'
        f'[controller]\nname = "balance"\n[controller.clip]\n{clip}\n{more}\n'
    )
    return folder / "follow.toml"


COMPANION = """[[companion]]
name = "other"
model = "articulated_human"
[companion.controller]
name = "balance"
"""


@pytest.mark.parametrize(
    ("clip", "more", "message"),
    [
        ("", "", r"key 'file': is missing"),
        ('file = "none.bvh"', "", r"key 'file': .*none.bvh: there is no such file; give the path"),
        ('file = "clip.bvh"\npose = -1.0', "", r"key 'pose': is -1"),
        ('file = "clip.bvh"\ntime = 0.0', "", r"key 'time': is 0"),
        ('file = "clip.bvh"\nweight = 1.0', "", r"key 'weight'"),
        ('file = "clip.bvh"\njoints = "map.toml"', "", r"key 'file': .*map.toml: there is no such"),
        ('file = "clip.bvh"\nbegin = 9.0', "", r"key 'begin': begin is 9 s, the clip is 1.30 s"),
        ('file = "clip.bvh"', COMPANION, r"one character alone follows a clip; leave out its"),
    ],
)
def test_clips_that_cannot_be_followed(clip, more, message, tmp_path):
    with pytest.raises(WorldError, match=rf"follow.toml: \[controller\], \[clip\].*{message}"):
        scenario(written(tmp_path, clip, more=more))


def test_a_scenario_begins_in_the_first_pose(tmp_path):
    scene = scenario(written(tmp_path, 'file = "clip.bvh"\ncom = 2.5'))
    assert isinstance(scene.controller, GoalController) and scene.controller.clip is not None
    first = scene.controller.clip.reference.q[0]
    moved = np.asarray(scene.state.q - first)
    assert np.delete(moved, 2) == pytest.approx(0.0, abs=1e-5) and abs(moved[2]) < 0.05
    assert scene.get("balance.clip_com") == 2.5
    assert scene.get("controller.clip.time") == pytest.approx(0.5)


@pytest.mark.slow
@needs_clips
@pytest.mark.parametrize(
    ("file", "force", "late"), [(IDLE, 0.0, 0.03), (WAVE, 0.0, 0.03), (WAVE, 150.0, 0.12)]
)
def test_real_clips_are_followed(file, force, late, tmp_path):
    push = f'[[push]]\nlink = "chest"\nforce = {force}\nstart = 1.0\nduration = 0.2\n'
    scene = scenario(written(tmp_path, f'file = "{FOLDER / file}"', more=push))
    run = simulate(scene, seconds=6.0)
    assert run.summary["standing"] and (run.summary["steps_begun"] > 0) == (force > 0)
    assert isinstance(scene.controller, GoalController)
    errors = clip_errors(scene.controller.clip, scene.model, run.motion, run.motion.time)
    assert errors is not None and errors[run.motion.time > 5.0].mean() < late


@pytest.mark.slow
def test_the_objective_is_least_at_the_weights_that_made_the_motion(tmp_path):
    """Of a reach, whose clip has weights of 0: it only measures."""
    hand = '[[controller.reach]]\neffector = "rightHand"\ntarget = [0.45, -0.3, 1.35]\n'
    hand += "start = 0.0\nend = 9.0\n"
    none = "pose = 0.0\neffectors = 0.0\ncom = 0.0\n"
    made = {"balance.reach_1": 6.0, "balance.spine": 7.0, "balance.damping": 2.0}
    scene = scenario(written(tmp_path, f'file = "clip.bvh"\n{none}', more=hand))
    for name, weight in made.items():
        scene = scene.set(name, weight)
    hidden = simulate(scene, seconds=1.0)
    clip = clip_of_motion(hidden.motion, scene.model.topology.link_parent, 50.0)
    write_bvh(tmp_path / "made.bvh", clip)
    file = written(tmp_path, f'file = "made.bvh"\n{none}', more=hand)
    bounds = {name: (0.1, 100.0, "log") for name in made}
    problem = Problem(scenario(file), bounds, objective("follow-clip"), seconds=1.0, backend="xla")
    first = problem.tunables.decode(np.zeros(len(made)))
    found = problem.evaluate_values(np.stack([first, list(made.values())]))
    assert found.parts["clip_error"][1] < 0.3 * found.parts["clip_error"][0]
