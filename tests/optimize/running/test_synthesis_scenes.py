"""The behaviours do what they are for, and every frame of them is physical."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals import tasks as goals
from controllers.goals.balance import balance_machine
from controllers.goals.holds import Hold
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.senses import support_center
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.checks import SynthesisError
from optimize.running.synthesis_run import keep, synthesize_scene
from optimize.scenarios.synthesis_scenes import (
    SCENES,
    Push,
    Reach,
    SynthesisScene,
    changed,
    find_scene,
)
from optimize.scenarios.synthesis_setting import set_up

FRAMES = 320
BATCH = {  # scenes of one structure: one program
    "standing": replace(SCENES["push"], pushes=(Push(0.0),)),
    "pushed": SCENES["push"],
    "ice": replace(SCENES["ice"], pushes=(Push(60.0, start=0.3),)),
    "child": replace(SCENES["child"], pushes=(Push(30.0, start=0.3),)),
}


@pytest.fixture(scope="module")
def frames():
    """All of BATCH for FRAMES frames, in float64: name -> SceneFrame."""
    with jax.enable_x64(True):
        settings = [set_up(scene) for scene in BATCH.values()]
        controller = settings[0].controller
        machine = controller.machine
        many = [
            jax.tree.map(lambda *x: jnp.stack(x), *parts)
            for parts in zip(*((s.model, s.scheme, s.state, s.pushes) for s in settings))
        ]

        @jax.jit
        @jax.vmap
        def together(model, scheme, state, pushes):
            options = dict(record=keep, pushes=pushes, backend="xla")
            return rollout(model, controller, state, scheme, FRAMES, **options).record

        kept = jax.tree.map(np.asarray, together(*many))
    return {
        name: jax.tree.map(lambda x, k=k: x[k], kept) for k, name in enumerate(BATCH)
    }, machine.state_names


def entered(states, names) -> list[str]:
    """The states that a character went through."""
    return [names[k] for k in states[np.flatnonzero(np.diff(states, prepend=-1))]]


@pytest.mark.parametrize("name", BATCH)
def test_every_frame_is_physical(frames, name):
    kept = frames[0][name]
    assert kept.root_residual.max() < 1e-6
    assert kept.cone_excess.max() < 1e-6
    assert kept.penetration.max() < 1e-3
    assert not kept.leaving.any()
    assert kept.com[-1, 2] > 0.9 * kept.com[0, 2]


def test_a_push_makes_it_step_and_balance_again(frames):
    kept, names = frames[0]["pushed"], frames[1]
    states = entered(kept.state, names)
    assert states[:3] == ["balance", "relaxFoot", "takeStep"]
    assert states[-1] == "balance"
    assert kept.com[-1, 0] > kept.com[0, 0] + 0.1  # it went where it was pushed


def test_without_a_push_it_stands_still(frames):
    kept, names = frames[0]["standing"], frames[1]
    assert entered(kept.state, names) == ["balance"]
    assert np.abs(kept.qd).max() < 0.05
    assert np.allclose(kept.force[:, :, 2].sum(axis=1), 72 * 9.81, rtol=0.02)


def test_a_scene_can_be_changed():
    scene = changed(SCENES["push"], push=80.0, direction_deg=90.0, build="child", seconds=2.0)
    assert scene.pushes[0].force == 80.0
    assert scene.pushes[0].direction_deg == 90.0
    assert (scene.build, scene.seconds) == ("child", 2.0)
    assert not scene.torque_limits and changed(scene, torque_limits=True).torque_limits


def test_mistakes_are_told():
    with pytest.raises(ValueError, match=r"'pusch'; did you mean 'push'.*near_wall"):
        find_scene("pusch")
    with pytest.raises(ValueError, match="friction is -1"):
        changed(SCENES["push"], friction=-1.0)
    with pytest.raises(ValueError, match=r"'leftHand': \(nan, .* are not all finite"):
        Reach("leftHand", (np.nan, 0.0, 1.0), 1.0, 2.0)
    with pytest.raises(ValueError, match="the onset, is negative"):
        Reach("leftHand", (0.3, 0.0, 1.0), 1.0, 2.0, onset=-0.1)
    with pytest.raises(ValueError, match="it ends at 1 s, and begins at 2 s"):
        Reach("leftHand", (0.3, 0.0, 1.0), 2.0, 1.0)
    asked = changed(SCENES["push"], reaches=(Reach("leftHnd", (0.3, 0.0, 1.0), 1.0, 2.0),))
    with pytest.raises(ValueError, match=r"'leftHnd'; did you mean 'leftHand'.*rightHand"):
        set_up(asked)
    asked = changed(SCENES["push"], holds=(Hold("leftHnd", 1.0, 2.0),))
    with pytest.raises(ValueError, match=r"'leftHnd'; did you mean 'leftHand'.*rightHand"):
        set_up(asked)
    broken = replace(SCENES["push"], pose_deg={"hipFlexion": 0.0}, friction=0.0)
    with pytest.raises(SynthesisError, match="friction of shape"):
        set_up(broken)


def test_an_effector_cannot_be_in_two_places_at_once():
    """What contradicts itself is said before it runs, and nothing else is."""
    there, early, late = (0.3, 0.0, 1.0), Hold("leftHand", 0.5, 2.0), Hold("leftHand", 2.0, 4.0)
    reach = Reach("leftHand", there, 1.0, 3.0)
    changed(SCENES["push"], holds=(early, late), reaches=(replace(reach, effector="rightHand"),))
    changed(SCENES["push"], reaches=(reach, replace(reach, start=2.0)))
    with pytest.raises(ValueError, match="'leftHand' from 1 to 3 s: it is held from 2 to 4 s; let"):
        changed(SCENES["push"], holds=(late,), reaches=(reach,))
    with pytest.raises(ValueError, match="it is to reach for another point from 1 to 3 s"):
        changed(SCENES["push"], reaches=(reach, replace(reach, target=(0.0, 0.0, 1.0))))
    with pytest.raises(
        ValueError, match=r"two holds of 'leftHand': from 0\.5 to 2 s and from 1 to"
    ):
        replace(balance_machine(), holds=(early, replace(late, start=1.0)))


def test_a_run_keeps_its_frames_up_to_the_one_that_is_not_finite():
    def astray() -> GoalMachine:
        """A target that is no number after 0.8 s."""

        def where(senses, _):
            return jnp.where(senses.time < 0.795, support_center(senses, senses.touching), jnp.nan)

        only = GoalState({"com": 5.0, "damping": 0.5}, lambda senses, _: senses.time > -1.0)
        return GoalMachine((goals.com_over("com", where), goals.damping()), {"only": only}, {})

    scene = SynthesisScene("Astray", astray, seconds=2.0)
    simulation = synthesize_scene(scene)
    summary, motion = simulation.summary, simulation.motion
    assert not summary["finite"] and not summary["standing"]
    assert summary["failed_at"] == pytest.approx(0.81)
    assert len(motion.time) == 82  # to the first frame that is not finite, as evidence
    assert np.isfinite(motion.q[:81]).all() and np.isnan(motion.q[81:, 0]).all()
    assert any("0.81" in note for note in simulation.notes)


def expect_stand(summary, motion):
    assert summary["steps_taken"] == 0


def expect_one_foot(summary, motion):
    assert motion.phase_names[motion.phase[-1]] == "pose"
    right = motion.contact_force[-100:, 5:10]
    assert np.abs(right).max() == 0  # the right foot is in the air
    knee = motion.joint_names.index("rightKneeFlexion") + 7
    assert abs(np.rad2deg(motion.q[-1, knee]) - 90) < 15


def expect_steps(summary, motion):
    assert summary["steps_taken"] >= 1


def expect_slip(summary, motion):
    expect_steps(summary, motion)
    assert summary["sliding_time"] > 0.02


def expect_hand(summary, motion):
    assert summary["hand_support_time"] > 0.1


def expect_steps_then_hand(summary, motion):
    expect_steps(summary, motion)
    expect_hand(summary, motion)


def expect_miss(summary, motion):
    assert summary["ball_clearance"] > 0


def tilt_deg(motion, link="chest"):
    """(frames,) of a link's z axis from the vertical."""
    w, x, y, z = np.moveaxis(motion.link_quat[:, motion.link_names.index(link)], -1, 0)
    return np.rad2deg(np.arctan2(2 * np.hypot(w * y + x * z, y * z - w * x), 1 - 2 * (x**2 + y**2)))


def expect_bow_and_rise(summary, motion):
    """It bows deeply out of the way, and is upright again in the end."""
    expect_miss(summary, motion)
    tilt = tilt_deg(motion)
    assert tilt.max() > 50
    assert tilt[-100:].max() < 10


EXPECTED = {
    "stand": expect_stand,
    "one_foot": expect_one_foot,
    "push": expect_steps,
    "ice": expect_slip,
    "near_wall": expect_hand,
    "far_wall": expect_steps_then_hand,
    "two_walls": expect_hand,
    "dodge_tennis_ball": expect_miss,
    "dodge_harmful_ball": expect_bow_and_rise,
    "child": expect_steps,
}


@cache
def played(name):
    with jax.enable_x64(True):
        return synthesize_scene(SCENES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_does_what_it_is_for(name):
    simulation = played(name)
    summary = simulation.summary
    assert summary["standing"]
    assert summary["finite"]
    assert summary["largest_root_residual"] < 1e-6
    assert summary["largest_cone_excess"] < 1e-6
    assert summary["largest_penetration"] < 2e-3
    EXPECTED[name](summary, simulation.motion)


@pytest.mark.slow
def test_on_ice_feet_slip_and_steps_are_smaller():
    """Section 6.1.3: the same controller, weights and push."""
    firm, ice = played("push").summary, played("ice").summary
    assert SCENES["push"].pushes == SCENES["ice"].pushes
    assert ice["longest_step"] < 0.8 * firm["longest_step"]
    assert ice["sliding_time"] > 0.1  # of one step, which hardly slips under load


@pytest.mark.slow
def test_the_same_push_is_survived_within_torque_limits():
    with jax.enable_x64(True):
        summary = synthesize_scene(changed(SCENES["push"], torque_limits=True)).summary
    assert played("push").summary["max_torque_ratio"] > 2
    assert summary["max_torque_ratio"] < 1 + 1e-6
    assert summary["steps_taken"] > 0
    assert summary["standing"]
    assert summary["largest_root_residual"] < 1e-6


@pytest.mark.slow
def test_a_hand_that_holds_on_makes_steps_needless():
    """What takes steps without it (``push``, and here more) takes none; then it lets go."""
    asked = Hold("leftHand", 0.5, 4.0)
    with jax.enable_x64(True):
        summary = synthesize_scene(changed(SCENES["push"], push=450.0, holds=(asked,))).summary
    assert played("push").summary["steps_taken"] > 0
    assert summary["steps_taken"] == 0
    assert summary["standing"]
    assert summary["hold_drift"] < 1e-4
    assert summary["largest_hold_force"] > 450.0
    assert summary["largest_root_residual"] < 1e-6


@pytest.mark.slow
def test_a_hand_reaches_for_a_point_for_a_while():
    """Once it need not, nothing holds it there, and nobody falls."""
    asked = Reach("rightHand", (0.4, -0.3, 1.4), 0.5, 2.5)
    simulation = synthesize_scene(changed(SCENES["push"], push=0.0, seconds=4.0, reaches=(asked,)))
    assert simulation.summary["reach_distance"] < 0.02
    assert simulation.summary["standing"]
    hand = simulation.motion.contact_pos[:, -1]
    assert np.linalg.norm(hand[20] - asked.target) > 0.3
    assert np.linalg.norm(hand[-1] - asked.target) > 0.02
