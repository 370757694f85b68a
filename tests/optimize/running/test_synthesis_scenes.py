"""The behaviours do what they are for, and every frame of them is physical."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from controllers.goals import tasks as goals
from controllers.goals.balance import balance_machine
from controllers.goals.controller import GoalController
from controllers.goals.effector_constraints import EffectorConstraint
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.sensors import support_center
from jaxsim.io.toml_table import WorldError
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.checks import SynthesisError
from optimize.running.simulate import simulate
from optimize.scenarios.find import scenario
from tests.compiling import quick_map

FRAMES = 320
BATCH = {  # scenarios of one structure: one program
    "standing": ("push", {"push.force": 0.0}),
    "pushed": ("push", {}),
    "ice": ("ice", {"push.force": 60.0, "push.start": 0.3}),
    "child": ("child", {"push.force": 30.0, "push.start": 0.3}),
}


def keep(sample):
    """What the tests look at."""
    return sample.obs.com, sample.state.qd, sample.memory.state, sample.info


@pytest.fixture(scope="module")
def frames():
    """All of BATCH for FRAMES frames, in float64: name -> (com, qd, state, info) by frame."""
    with jax.enable_x64(True):
        settings = [scenario(*each) for each in BATCH.values()]
        controller = settings[0].controller
        many = [
            jax.tree.map(lambda *x: jnp.stack(x), *parts)
            for parts in zip(*((s.model, s.scheme, s.state, s.forces) for s in settings))
        ]

        @quick_map
        def together(model, scheme, state, pushes):
            options = dict(record=keep, pushes=pushes, backend="xla")
            return rollout(model, controller, state, scheme, FRAMES, **options).record

        kept = jax.tree.map(np.asarray, together(*many))
    return {
        name: jax.tree.map(lambda x, k=k: x[k], kept) for k, name in enumerate(BATCH)
    }, controller.machine.state_names


def entered(states, names) -> list[str]:
    """The states that a character went through."""
    return [names[k] for k in states[np.flatnonzero(np.diff(states, prepend=-1))]]


@pytest.mark.parametrize("name", BATCH)
def test_every_frame_is_physical(frames, name):
    com, _, _, info = frames[0][name]
    assert info.root_residual.max() < 1e-6
    assert info.cone_excess.max() < 1e-6
    assert info.penetration.max() < 1e-3
    assert not info.leaving.any()
    assert com[-1, 2] > 0.9 * com[0, 2]


def test_a_push_makes_it_step_and_balance_again(frames):
    (com, _, state, _), names = frames[0]["pushed"], frames[1]
    states = entered(state, names)
    assert states[:3] == ["balance", "relaxFoot", "takeStep"]
    assert states[-1] == "balance"
    assert com[-1, 0] > com[0, 0] + 0.1  # it went where it was pushed


def test_without_a_push_it_stands_still(frames):
    (_, qd, state, info), names = frames[0]["standing"], frames[1]
    assert entered(state, names) == ["balance"]
    assert np.abs(qd).max() < 0.05
    assert np.allclose(info.force[:, :, 2].sum(axis=1), 72 * 9.81, rtol=0.02)


REACH = {"effector": "leftHand", "target": [0.3, 0.0, 1.0], "start": 1.0, "end": 3.0}


def asking(reach=(), hold=(), **more):
    """The scenario "push" with goals and constraints added."""
    return scenario(
        "push", {"controller.reach": list(reach), "controller.hold": list(hold), **more}
    )


def test_a_scenario_can_be_changed():
    changes = {"push.force": 80.0, "push.direction_deg": 90.0, "world.seconds": 2.0}
    changes |= {"character.build": "child", "controller.gait.time": 0.6, "scheme.dt": 0.02}
    changed = scenario("push", changes)
    assert np.asarray(changed.forces.force) == pytest.approx(np.array([[0.0, 80.0, 0.0]]), abs=1e-4)
    assert changed.seconds == 2.0 and changed.model.mass.sum() < 40
    assert changed.get("controller.gait.time") == pytest.approx(0.6)
    assert changed.get("gait.time") == changed.get("controller.variables.gait.time")
    assert float(changed.scheme.dt) == 0.02
    assert changed.scheme.torque_limits
    assert not scenario("push", {"world.torque_limits": False}).scheme.torque_limits
    again = scenario(changed, {"balance.damping": 0.7})
    assert again.get("controller.balance.damping") == pytest.approx(0.7)


def test_a_reach_may_have_a_time_and_a_priority():
    given = asking([{**REACH, "time": 0.3, "priority": 5.0}])
    assert given.get("balance.reach_1.time") == pytest.approx(0.3)
    assert given.get("controller.takeStep.reach_1.priority") == pytest.approx(5.0)
    assert asking([REACH]).get("balance.reach_1") == pytest.approx(2.0)


def test_mistakes_are_told():
    with pytest.raises(WorldError, match=r"'push'\?.*near_wall"):
        scenario("pusch")
    with pytest.raises(WorldError, match="key 'friction': is -1"):
        scenario("push", {"character.friction": -1.0})
    with pytest.raises(WorldError, match="'target'"):
        asking([{**REACH, "target": [np.nan, 0.0, 1.0]}])
    with pytest.raises(WorldError, match="'onset'"):
        asking([{**REACH, "onset": -0.1}])
    with pytest.raises(WorldError, match=r"'weight'.*goes with no time and priority"):
        asking([{**REACH, "weight": 1.0, "time": 0.3}])
    with pytest.raises(WorldError, match=r"'onset'.*goes with no time and priority"):
        asking([{**REACH, "onset": 0.1, "time": 0.3}])
    with pytest.raises(WorldError, match=r"'time'.*is missing"):
        asking([{**REACH, "priority": 1.0}])
    with pytest.raises(WorldError, match=r"'time'.*is 0; give a finite number above 0"):
        asking([{**REACH, "time": 0}])
    for past in ({"start": -0.5}, {"end": 0.0}):  # the motion begins at 0
        key = next(iter(past))
        with pytest.raises(WorldError, match=rf"\[\[reach\]\] 1, key '{key}'"):
            asking([{**REACH, **past}])
        with pytest.raises(WorldError, match=rf"\[\[hold\]\] 1, key '{key}'"):
            asking(hold=[{"effector": "leftHand", "start": 1.0, "end": 2.0, **past}])
    with pytest.raises(WorldError, match=r"from 2 to 1 s is no interval"):
        asking([{**REACH, "start": 2.0, "end": 1.0}])
    with pytest.raises(WorldError, match=r"'leftHnd'; did you mean 'leftHand'.*rightHand"):
        asking([{**REACH, "effector": "leftHnd"}])
    with pytest.raises(WorldError, match=r"'leftHnd'; did you mean 'leftHand'.*rightHand"):
        asking(hold=[{"effector": "leftHnd", "start": 1.0, "end": 2.0}])
    with pytest.raises(SynthesisError, match="friction of shape"):
        scenario("push", {"character.friction": 0.0})
    with pytest.raises(WorldError, match=r"numbers.*no number 'gait.tme'"):
        scenario("push", {"controller.numbers": {"gait.tme": 1.0}})
    with pytest.raises(KeyError, match=r"no number 'controller.gait.tme'.*controller.gait.time"):
        scenario("push", {"controller.gait.tme": 1.0})
    with pytest.raises(KeyError, match=r"there are 8 .* tables; name one of"):
        scenario("stand", {"push.force": 1.0})
    with pytest.raises(WorldError, match="a controller by goals"):
        scenario("push", {"controller.name": "pd"})
    with pytest.raises(WorldError, match=r"'balence'; did you mean 'balance'.*ragdoll"):
        scenario("push", {"controller.name": "balence"})


def test_an_effector_cannot_be_in_two_places_at_once():
    """What contradicts itself is said before it runs, and nothing else is."""
    early = {"effector": "leftHand", "start": 0.5, "end": 2.0}
    late = {**early, "start": 2.0, "end": 4.0}
    asking([{**REACH, "effector": "rightHand"}], [early, late])
    asking([REACH, {**REACH, "start": 2.0}])
    with pytest.raises(WorldError, match="'leftHand' is to be elsewhere from 2 to 4 s; let one"):
        asking([REACH], [late])
    with pytest.raises(WorldError, match="'leftHand' is to be elsewhere from 1 to 3 s"):
        asking([REACH, {**REACH, "target": [0.0, 0.0, 1.0]}])
    with pytest.raises(
        ValueError, match=r"two holds of 'leftHand': from 0\.5 to 2 s and from 1 to"
    ):
        replace(
            balance_machine(),
            constraints=(
                EffectorConstraint("leftHand", 0.5, 2.0),
                EffectorConstraint("leftHand", 1.0, 4.0),
            ),
        )


@pytest.mark.slow
def test_a_run_keeps_its_frames_up_to_the_one_that_is_not_finite():
    def astray() -> GoalMachine:
        """A target that is no number after 0.8 s."""

        def where(obs, _):
            return jnp.where(obs.time < 0.795, support_center(obs, obs.touching), jnp.nan)

        only = GoalState({"com": 5.0, "damping": 0.5}, lambda obs, _: obs.time > -1.0)
        return GoalMachine((goals.com_over("com", where), goals.damping()), {"only": only}, {})

    push = scenario("push", {"push.force": 0.0})
    simulation = simulate(push, GoalController.of(astray(), push.model), seconds=2.0)
    summary, motion = simulation.summary, simulation.motion
    assert not summary["finite"] and not summary["standing"]
    assert summary["failed_at"] == pytest.approx(0.81)
    assert len(motion.time) == 82  # to the first frame that is not finite, as evidence
    assert np.isfinite(motion.q[:81]).all() and np.isnan(motion.q[81:, 0]).all()
    assert any("0.81" in note for note in simulation.notes)


def expect_stand(summary, motion):
    assert summary["steps_begun"] == summary["steps_taken"] == 0


def expect_one_foot(summary, motion):
    assert motion.phase_names[motion.phase[-1]] == "pose"
    foot = motion.link_names.index("rightFoot")
    assert motion.link_pos[-100:, foot, 2].min() > 0.1  # the right foot is in the air
    knee = motion.joint_names.index("rightKneeFlexion") + 7
    assert abs(np.rad2deg(motion.q[-1, knee]) - 90) < 15


def expect_steps(summary, motion):
    assert summary["steps_begun"] >= 1 and summary["steps_taken"] >= 1


def expect_slip(summary, motion):
    """It shuffles: feet go on with an end on the ice, so ``steps_taken`` tells nothing of them."""
    assert summary["steps_begun"] >= 2
    assert summary["longest_step"] > 0.15
    assert summary["sliding_time"] > 0.3
    assert summary["slip_distance"] > 0.01


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


def expect_aside_and_upright(summary, motion):
    """It goes out of the way of what would hit the chest, and is upright again in the end."""
    expect_miss(summary, motion)
    chest = motion.link_pos[:, motion.link_names.index("chest"), :2]
    assert np.linalg.norm(chest - chest[0], axis=1).max() > 0.15
    assert tilt_deg(motion)[-100:].max() < 10


EXPECTED = {
    "stand": expect_stand,
    "one_foot": expect_one_foot,
    "push": expect_steps,
    "ice": expect_slip,
    "near_wall": expect_hand,
    "far_wall": expect_steps_then_hand,
    "two_walls": expect_hand,
    "dodge_tennis_ball": expect_miss,
    "dodge_harmful_ball": expect_aside_and_upright,
    "child": expect_steps,
}


@cache
def played(name):
    with jax.enable_x64(True):
        return simulate(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_scene_does_what_it_is_for(name):
    simulation = played(name)
    summary = simulation.summary
    assert summary["standing"]
    assert summary["finite"]
    assert summary["largest_root_residual"] < 1e-6
    assert summary["largest_cone_excess"] < 1e-6
    assert summary["effector_penetration"] < 2e-3
    EXPECTED[name](summary, simulation.motion)


@pytest.mark.slow
def test_a_child_that_is_pushed_is_held_by_an_adults_hand():
    summary = played("holding_hands").summary
    assert summary["standing"] and summary["finite"]
    assert summary["companions_standing"] == ["child"]
    assert summary["clasped_steps"] > 100
    assert 20 < summary["largest_clasp_force"] < 400  # [N]
    assert summary["unsolved_frames"] == 0
    assert summary["largest_root_residual"] < 1e-6


def to_the_head(simulation):
    """(frames,) from the head to the other's right hand, centres of mass [m]."""
    motion, com = simulation.motion, simulation.scenario.model.com

    def middle(name):
        link = motion.link_names.index(name)
        turned = Rotation.from_quat(np.roll(motion.link_quat[:, link], -1, axis=1))
        return motion.link_pos[:, link] + turned.apply(np.array(com[link]))

    return np.linalg.norm(middle("head") - middle("other.rightHand"), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.05, -0.05), (-0.05, 0.06)])
def test_anothers_hand_does_not_reach_the_head_that_leaves_its_way(place):
    """The same strike, where the head stays, comes to it."""
    at = {"state.q[0]": place[0], "state.q[1]": place[1]}
    with jax.enable_x64(True):
        simulation = simulate("dodge_hand", set=at)
    summary = simulation.summary
    assert summary["standing"] and summary["companions_standing"] == ["other"]
    assert summary["unsolved_frames"] == 0
    assert summary["largest_root_residual"] < 1e-6
    assert to_the_head(simulation).min() > 0.3
    with jax.enable_x64(True):
        still = simulate("dodge_hand", set={**at, "controller.dodge.weight": 1e-9}, seconds=2.5)
    assert still.summary["standing"] and to_the_head(still).min() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("start_deg", [-25.0, -18.0, -31.0])
def test_who_lets_go_of_the_bar_lands_on_the_feet_and_stands(start_deg):
    """From a swing that he is given, at once: he does not brake."""
    given = {"start_deg": start_deg, "least_deg": 7.0, "most_deg": 45.0}
    given = {f"controller.{key}": value for key, value in given.items()}
    with jax.enable_x64(True):
        simulation = simulate("swing_dismount", set=given, seconds=6.0)
    assert 0.3 < lands_and_stands(simulation) < 0.8


@pytest.mark.slow
def test_who_has_swung_up_from_rest_beyond_60_degrees_brakes_lands_on_the_feet_and_stands():
    simulation = played("swing_dismount")
    motion, flies = simulation.motion, lands_and_stands(simulation)
    hangs = motion.time < flies
    pelvis = motion.link_pos[hangs, motion.link_names.index("pelvis")] - [0.0, 0.0, 2.25]
    swung = np.rad2deg(np.arctan2(pelvis[:, 0], -pelvis[:, 2]))
    assert abs(swung[0]) < 5 and swung.min() < -60
    assert "brake" in {motion.phase_names[k] for k in motion.phase}
    assert swung[motion.time[hangs] > flies - 1.0].min() > -35  # of the last swing back


def lands_and_stands(simulation):
    """Lets go, flies and stands for 4 s, with hands that are empty and without a step; when [s]."""
    summary, motion = simulation.summary, simulation.motion
    assert summary["standing"] and summary["finite"]
    assert summary["unsolved_frames"] == 0 and summary["largest_root_residual"] < 1e-6
    assert summary["airborne_time"] > 0.05 and summary["steps_begun"] == 0
    names = [motion.phase_names[k] for k in motion.phase]
    flies = names.index("fly")
    assert names[-1] == "stand.balance" and motion.time[-1] - motion.time[flies] > 4.5
    hands = [motion.link_names.index(name) for name in ("leftHand", "rightHand")]
    assert motion.link_pos[flies, hands, 2].min() > 2.0 > motion.link_pos[-1, hands, 2].max()
    moved = np.ptp(motion.link_pos[-200:, motion.link_names.index("pelvis")], axis=0)
    assert moved.max() < 0.05  # it stands still
    return motion.time[flies]


@pytest.mark.slow
def test_in_a_cable_car_it_balances_takes_hold_hangs_and_swings():
    """Section 6.4: each when the cabin's events make it, none of which the controller knows."""
    simulation = played("cable_car")
    summary, motion = simulation.summary, simulation.motion
    names = [motion.phase_names[k].partition(".")[0] for k in motion.phase]
    first = {name: motion.time[names.index(name)] for name in ("stand", "grab", "hang", "swing")}
    assert first["stand"] == 0.0
    assert 4.5 < first["grab"] < 6.0  # it is shaken from 4.5 s on, not by what was before
    assert 9.0 < first["hang"] < 9.6 < first["swing"]  # the floor falls away at 9 s
    assert names[-1] in ("hang", "swing")
    assert "grab.takeStep" in {motion.phase_names[k] for k in motion.phase}
    assert np.ptp(motion.link_pos[-100:, motion.link_names.index("pelvis"), 0]) > 0.1
    floor = motion.link_pos[:, motion.link_names.index("floor"), 2]
    chest = motion.link_pos[:, motion.link_names.index("chest"), 2]
    assert floor[-1] < -10 and chest[-100:].min() > 0.2
    assert summary["finite"] and summary["unsolved_frames"] <= 5
    assert summary["largest_cone_excess"] < 1e-6


@pytest.mark.slow
def test_on_ice_feet_slip_and_steps_are_smaller():
    """Section 6.1.3: the same controller, weights and push."""
    firm, ice = played("push").summary, played("ice").summary
    assert ice["longest_step"] < 0.8 * firm["longest_step"]
    assert ice["sliding_time"] > 0.1 and ice["sliding_time"] > 2 * firm["sliding_time"]
    assert firm["slip_distance"] < 0.005 and ice["slip_distance"] > 0.01  # under a load


@pytest.mark.slow
def test_the_push_is_survived_within_torque_limits_and_takes_more_without():
    with jax.enable_x64(True):
        unlimited = simulate("push", set={"world.torque_limits": False}).summary
    summary = played("push").summary
    assert unlimited["max_torque_ratio"] > 2
    assert summary["max_torque_ratio"] < 1 + 1e-6
    assert summary["steps_begun"] > 0
    assert summary["standing"]
    assert summary["largest_root_residual"] < 1e-6


@pytest.mark.slow
def test_a_hand_that_holds_on_makes_steps_needless():
    """What takes steps without it (``push``, and here more) takes none; then it lets go."""
    hold = {"effector": "leftHand", "start": 0.5, "end": 4.0}
    with jax.enable_x64(True):
        summary = simulate(asking(hold=[hold], **{"push.force": 450.0})).summary
    assert played("push").summary["steps_begun"] > 0
    assert summary["steps_begun"] == 0
    assert summary["standing"]
    assert summary["hold_drift"] < 1e-4
    assert summary["largest_hold_force"] > 450.0
    assert summary["largest_root_residual"] < 1e-6


@pytest.mark.slow
def test_a_hand_reaches_for_a_point_for_a_while():
    """Once it need not, nothing holds it there, and nobody falls."""
    asked = {**REACH, "effector": "rightHand", "target": [0.4, -0.3, 1.4], "start": 0.5, "end": 2.5}
    still = {"push.force": 0.0, "controller.firm": True}
    simulation = simulate(asking([asked], **still), seconds=4.0)
    assert simulation.summary["reach_distance"] < 0.02
    assert simulation.summary["standing"] and simulation.summary["steps_begun"] == 0
    at = simulation.motion.link_names.index("rightHand")
    hand = simulation.motion.link_pos[:, at]
    assert np.linalg.norm(hand[20] - asked["target"]) > 0.3
    assert np.linalg.norm(hand[-1] - asked["target"]) > 0.1
