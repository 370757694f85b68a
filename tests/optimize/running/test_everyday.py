"""The small examples do what they are for: a wave, a gaze, a step to a mark, a seat."""

import jax
import numpy as np
import pytest

from controllers import (
    FIRM,
    GoalController,
    Response,
    balance_machine,
    look_at,
    sit,
    step_to,
    wave,
)
from controllers.goals.sitting import SEAT, seated_effectors
from controllers.goals.step_to import NEAR
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from optimize import scenario
from tests.compiling import quick_jit

pytestmark = pytest.mark.slow

PLACE = (2.0, 1.0, 1.6)  # [m]
CHAIR = """
[world]
scheme = "per_step_optimisation"
ground = true

[character]
model = "articulated_human"

[controller]
name = "balance"

[[fixed]]
name = "chair"
shape = "box"
half_extents = [0.25, 0.3, 0.24]
pos = [-0.35, 0.0, 0.24]
"""
SEAT_GOAL = """
[[controller.goal]]
kind = "sit"
place = [-0.24, 0.0, 0.48]
start = 0.3
"""


def keep(sample):
    """What the tests look at."""
    obs = sample.obs
    head = obs.conf.link("head")
    axis, eye = obs.kin.link_rot[head][:, 0], obs.kin.com[head]
    return obs.conf.position, obs.com, sample.memory.state, sample.info, axis, eye


def run(scene, machine, seconds, scheme=None):
    """All frames."""
    controller, scheme = GoalController.of(machine, scene.model), scheme or scene.scheme

    @quick_jit
    def frames(controller, state):
        steps = round(100 * seconds)
        given = scene.model, controller, state, scheme, steps
        return rollout(*given, record=keep, backend="xla").record

    return jax.tree.map(np.asarray, frames(controller, scene.state))


@pytest.fixture(scope="module")
def standing():
    return scenario("push", {"push.force": 0.0})


def test_a_hand_waves_as_often_as_asked_and_the_head_looks(standing):
    frequency = 1.0
    machine = balance_machine().weighing(FIRM)
    machine = machine.adding(wave("rightHand", frequency), Response(0.1, 3.0))
    machine = machine.adding(look_at(PLACE), Response(0.3))
    position, com, state, info, axis, eye = run(standing, machine, 4.0)
    hand = position[200:, standing.scheme.effectors.names.index("rightHand")]
    shares = np.abs(np.fft.rfft(hand[:, 1] - hand[:, 1].mean())) / (len(hand) / 2)
    often = np.fft.rfftfreq(len(hand), 0.01)[shares.argmax()]
    assert often == pytest.approx(frequency, abs=1e-6)
    assert shares.max() > 0.5 * 0.12 * float(standing.scheme.unit.shift)
    assert (hand[:, 2] > com[200:, 2] + 0.4).all()  # beside the head
    to = np.array(PLACE) - eye[-1]
    assert np.rad2deg(np.arccos(axis[-1] @ to / np.linalg.norm(to))) < 3
    assert not state.any() and com[-1, 2] > 0.95 * com[0, 2]  # no step
    assert info.root_residual.max() < 0.1  # [N]


@pytest.mark.parametrize(
    ("foot", "mark"), [("rightFoot", (0.35, -0.15)), ("leftFoot", (-0.1, 0.2))]
)
def test_a_foot_steps_to_its_mark_and_both_stand(standing, foot, mark):
    machine = step_to(foot, mark, 0.3)
    position, com, state, info, *_ = run(standing, machine, 5.0)
    names = standing.scheme.effectors.names
    sole = [name.startswith((f"{foot}Heel", f"{foot}Ball")) for name in names]
    assert np.linalg.norm(position[-1, sole, :2].mean(axis=0) - mark) < NEAR
    entered = [machine.state_names[k] for k in state[np.flatnonzero(np.diff(state, prepend=-1))]]
    assert entered[:4] == ["balance", "shift", "lift", "toMark"] and entered[-1] == "balance"
    assert not {"relaxFoot", "takeStep"} & set(entered)
    weight = info.force[-1, :, 2].sum()
    for name in ("leftFoot", "rightFoot"):
        own = standing.scheme.effectors.of(name)
        assert info.force[-1, own, 2].sum() > 0.1 * weight
    assert np.abs(com[-1] - com[-50]).max() < 0.02


def test_a_body_sits_down_and_stays(tmp_path):
    (tmp_path / "chair.toml").write_text(CHAIR)
    scene = scenario(tmp_path / "chair.toml")
    points = seated_effectors(scene.model)
    scheme = PerStepOptimisation.of(scene.model, points, SynthesisConfig(torque_limits=True))
    place = np.array([-0.24, 0.0, 0.48])
    machine = sit(place, 0.3)
    position, com, state, info, *_ = run(scene, machine, 7.0, scheme)
    seat = points.of(SEAT)
    assert machine.state_names[state[-1]] == "sit"
    assert np.linalg.norm(position[-1, seat].mean(axis=0) - place) < 0.05
    assert info.force[-1, seat, 2].sum() > 0.5 * info.force[-1, :, 2].sum()
    assert np.abs(com[-1] - com[-100]).max() < 0.02 and com[-1, 2] > 0.6
    assert info.root_residual.max() < 5  # [N], as the seat comes to bear


def test_a_file_asks_for_a_step_and_a_seat(tmp_path):
    """The goals of a file do what the machines of Python do; the gaze goes on meanwhile."""
    (tmp_path / "chair.toml").write_text(CHAIR + SEAT_GOAL)
    scene = scenario(tmp_path / "chair.toml")
    position, com, state, info, axis, _ = run(scene, scene.controller.machine, 7.0)
    seat = scene.scheme.effectors.of(SEAT)
    assert scene.controller.phase_names[state[-1]] == "sit"
    assert np.linalg.norm(position[-1, seat].mean(axis=0) - (-0.24, 0.0, 0.48)) < 0.05
    assert info.force[-1, seat, 2].sum() > 0.5 * info.force[-1, :, 2].sum()
    assert np.abs(com[-1] - com[-100]).max() < 0.02

    step = {"kind": "step_to", "foot": "rightFoot", "place": [0.35, -0.15], "start": 0.3}
    gaze = {"kind": "look_at", "place": [2.0, 1.0, 1.6], "time": 0.3}
    made = scenario("push", {"push.force": 0.0, "controller.goal": [gaze, step]})
    position, com, state, info, axis, eye = run(made, made.controller.machine, 5.0)
    names = made.scheme.effectors.names
    sole = [name.startswith(("rightFootHeel", "rightFootBall")) for name in names]
    assert np.linalg.norm(position[-1, sole, :2].mean(axis=0) - (0.35, -0.15)) < NEAR
    assert made.controller.phase_names[state[-1]] == "balance"
    to = np.array(PLACE) - eye[-1]
    assert np.rad2deg(np.arccos(axis[-1] @ to / np.linalg.norm(to))) < 5
