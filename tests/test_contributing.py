"""The worked examples of CONTRIBUTING.md do what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

from controllers.scl.load import script_controller
from controllers.scl.primitives.registry import PRIMITIVES
from jaxsim import CHARACTERS
from jaxsim.characters.planar_human import planar_human, posed
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.step import TimeStepping
from optimize import Problem, scenario, simulate
from optimize.running.objectives import user_objective

TEXT = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text("utf-8")
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", TEXT, re.S)
SWING, SCENARIO, GENTLE, GOAL, CHARACTER, PRIMITIVE = (text for _, text in BLOCKS)


@pytest.fixture
def folder(tmp_path):
    """The files of the examples."""
    (tmp_path / "swing.py").write_text(SWING)
    (tmp_path / "swing.toml").write_text(SCENARIO)
    (tmp_path / "gentle.py").write_text(GENTLE)
    return tmp_path


def test_there_are_these_examples():
    assert [kind for kind, _ in BLOCKS] == ["python", "toml", *["python"] * 4]


def test_a_controller_and_a_scenario_of_ones_own(folder):
    run = simulate(folder / "swing.toml", set={"controller.rate": 3.0})
    assert run.motion.title.startswith("A planar human swings its limbs")
    assert run.summary["finite"] and run.summary["controller"] == "swing.py:build"
    assert run.scenario.get("controller.size") == 2.0
    np.testing.assert_allclose(np.abs(run.motion.torque).max(), 2 * np.sin(3 * 0.05), rtol=0.05)


def test_an_objective_of_ones_own_judges_it(folder):
    gentle, text = user_objective(f"{folder / 'gentle.py'}:gentle")
    assert text == GENTLE and gentle.weights == {"gentle": 1.0}
    made = scenario(folder / "swing.toml")
    problem = Problem(made, {"controller.size": (0.0, 4.0)}, gentle, seconds=0.02, backend="xla")
    found = problem.evaluate_values(np.array([[1.0], [2.0]]))
    assert not found.failed.any()
    np.testing.assert_allclose(found.fitness[1], 4 * found.fitness[0], rtol=1e-4)


def test_a_goal_of_ones_own(folder):
    names: dict = {}
    exec(GOAL, names)
    machine = names["ducking"].machine
    assert machine.goals[-1].name == "head"
    assert names["ducking"].get("balance.head") == pytest.approx(0.5)


def test_a_primitive_of_ones_own():
    names: dict = {}
    exec(PRIMITIVE, names)
    model = planar_human()
    PRIMITIVES.append(names["Spring"])
    try:
        text = "{ [relax knees strength 0] [spring leftKnee stiffness 40 rest -30] [symm] }"
        made = script_controller(text, model)
    finally:
        PRIMITIVES.remove(names["Spring"])
    state = posed(model, {"leftKnee": -10.0, "rightKnee": -40.0})
    obs = observe(model, state, TimeStepping())
    _, control = made.update(made.init(model, state, obs), model, state, obs, 0.001)
    torque = [control.torque[model.topology.dof(name)] for name in ("leftKnee", "rightKnee")]
    np.testing.assert_allclose(torque, 40 * np.deg2rad([-20.0, 10.0]), rtol=1e-5)


def test_a_character_of_ones_own():
    exec(CHARACTER, {})
    try:
        run = simulate("tumbler", seconds=0.05)
    finally:
        del CHARACTERS["tumbler"]
    assert run.summary["final_head_height"] == pytest.approx(0.6, abs=0.01)
    assert set(run.motion.heights) == {"head", "pelvis", "com"}
