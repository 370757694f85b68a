"""Objective terms of motions whose terms are known: falling free, lying still, moving a joint."""

from types import SimpleNamespace

import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim.characters.planar_human import planar_human
from jaxsim.characters.registry import start
from jaxsim.dynamics.kinematics import plane_angles
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.running.objectives import (
    FALLEN,
    FLIGHT_CLEARANCE,
    OBJECTIVES,
    TERMS,
    Objective,
    objective,
)
from tests.compiling import quick_jit

DT, STEPS = 0.001, 300
# clip_error is of controllers with a clip: tests/controllers/goals/test_clip.py
MEASURED = [n for n, term in TERMS.items() if term.measure is not None and n != "clip_error"]
EVERY = Objective("every", STEPS * DT, dict.fromkeys(MEASURED, 1.0), "all terms")


@pytest.fixture(scope="module")
def human(x64_module):
    return planar_human()


@pytest.fixture(scope="module")
def terms_of(human):
    """Raw terms of 0.3 s from a state that the joints hold, and the samples behind them."""

    def record(sample):
        return (
            sample.state.qd,
            sample.control.torque,
            sample.obs.touching,
            plane_angles(human, sample.state.q),
        )

    @quick_jit
    def run(state):
        measures = EVERY.measures(human)
        controller = PoseController(state.q)
        config = TimeStepping(dt=DT)
        result = rollout(human, controller, state, config, STEPS, measures, record)
        return EVERY.parts(result.measures), result.record

    def terms(pose, height=0.0, elbow_speed=0.0):
        state = start(human, pose)
        q = state.q.at[human.topology.dof("rootZ")].add(height)
        qd = state.qd.at[human.topology.dof("leftElbow")].set(elbow_speed)
        parts, record = run(state.replace(q=q, qd=qd))
        return {name: float(part) for name, part in parts.items()}, record

    return terms


def fall_time(height):
    return np.sqrt(2 * height / 9.81)


def test_a_clip_error_needs_a_clip(human):
    without = SimpleNamespace(memory=None, dt=DT)
    with pytest.raises(ModelError, match=r'name = "balance" with a table \[controller.clip\]'):
        TERMS["clip_error"].measure(human).update(0.0, without)


def test_a_fall_from_a_small_height_is_a_flight(terms_of):
    still, _ = terms_of("standing")
    lifted, _ = terms_of("standing", height=0.05)
    assert lifted["airborne"] == pytest.approx(-fall_time(0.05 - FLIGHT_CLEARANCE), abs=2 * DT)
    assert lifted["contactless"] == pytest.approx(fall_time(0.05 - 0.001), abs=2 * DT)
    assert still["airborne"] == still["contactless"] == still["height"] == 0
    # the pelvis of a standing body is higher than a metre; the first instant is the highest
    assert -1.25 < lifted["height"] < -1.0


def test_a_stance_that_trembles_is_no_flight(terms_of):
    parts, _ = terms_of("standing", height=0.8 * FLIGHT_CLEARANCE)
    assert parts["airborne"] == parts["height"] == 0
    assert parts["contactless"] > 0.02


def test_standing_costs_nothing_and_lying_does(human, terms_of):
    standing, _ = terms_of("standing")
    assert standing["time"] == standing["shortfall"] == standing["final_state"] == 0
    assert standing["skid"] == standing["skid_standing"] == 0
    lying, (_, _, touching, angle) = terms_of("supine")
    assert lying["time"] == pytest.approx(STEPS * DT)
    head = 1.8 - lying["shortfall"] / (STEPS * DT)  # mean height [m]
    assert 0.05 < head < 0.15
    assert lying["final_state"] == pytest.approx(FALLEN * (2.8 - head), rel=0.01)
    feet = [human.topology.link(name) for name in ("leftFoot", "rightFoot")]
    tilt = np.abs(np.asarray(angle)[:, feet] - np.pi)  # of the soles, nearly upright
    assert 1.0 < tilt.min() and tilt.max() < 2.0
    skid = DT * np.sum(tilt**2 * np.asarray(touching)[:, feet])
    assert skid > 0.1
    assert lying["skid"] == pytest.approx(skid, rel=1e-9)
    assert lying["skid_standing"] == 0


def test_effort_and_unrest_are_sums_over_the_joints(human, terms_of):
    parts, (speed, torque, _, _) = terms_of("standing", height=1.0, elbow_speed=3.0)
    joints = human.topology.actuated_dofs
    assert parts["unrest"] == pytest.approx(DT * np.sum(np.square(speed[:, joints])), rel=1e-9)
    assert parts["energy"] == pytest.approx(DT * np.sum(np.square(torque)), rel=1e-9)
    assert parts["unrest"] > 0.01 and parts["energy"] > 1.0


def test_an_objective_weighs_its_terms():
    made = Objective("x", 1.0, {"time": 2.0, "airborne": 10.0}, "")
    assert made.total({"time": 3.0, "airborne": -0.5}) == 1.0


def test_unknown_names_are_told_the_known_ones():
    with pytest.raises(KeyError, match=r"no objective term 'hight'; the terms are: time, "):
        Objective("x", 1.0, {"hight": 1.0}, "")
    with pytest.raises(KeyError, match=r"no objective 'kip'; choose from: athletic-kip-up"):
        objective("kip")
    assert objective("stand") is OBJECTIVES["stand"]
