"""Numbers of controllers by label and by path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import (
    GoalController,
    PoseController,
    balance_machine,
    load_script,
    script_controller,
)
from controllers.numbers import read_numbers
from jaxsim import articulated_human, planar_human
from jaxsim.io.toml_table import WorldError
from optimize.scenarios.find import scenario

PUSHED = """
[character]
model = "articulated_human"

[world]
scheme = "per_step_optimisation"

[controller]
name = "balance"
numbers = "own.json"
"""


@pytest.fixture(scope="module")
def walk():
    human = planar_human()
    return script_controller(load_script("walk", human), human)


def test_a_script_has_its_labels(walk):
    label = walk.names[17]
    changed = walk.set(label, 123.0)
    assert float(changed.get(label)) == 123.0 and float(changed.values[17]) == 123.0
    assert float(walk.get(label)) != 123.0
    others = np.delete(np.arange(len(walk.values)), 17)
    np.testing.assert_array_equal(changed.values[others], walk.values[others])
    assert len(walk.labels) == len(walk.values)


def test_a_controller_by_goals_has_weights_and_gait():
    machine = balance_machine()
    control = GoalController.of(machine, articulated_human("adult"))
    state, goal = "takeStep", "damping"
    s = list(machine.states).index(state)
    g = [each.name for each in machine.goals].index(goal)
    assert float(control.get("takeStep.damping")) == machine.states[state].goals[goal]
    changed = control.set("takeStep.damping", 4.5).set("gait.time", 0.5)
    assert float(changed.weights[s, g]) == 4.5 and float(changed.variables.gait.time) == 0.5
    assert float(changed.get("weights[2,0]")) == float(control.weights[2, 0])


def test_paths_take_slices_and_gradients():
    control = PoseController(jnp.arange(6.0))
    np.testing.assert_array_equal(control.get("target[2:4]"), [2.0, 3.0])
    np.testing.assert_array_equal(control.set("target[4:]", 9.0).target, [0, 1, 2, 3, 9, 9])
    np.testing.assert_array_equal(control.set("target[::3]", jnp.array([7, 8])).target[::3], [7, 8])
    slope = jax.grad(lambda x: jnp.sum(control.set("target[1]", x).target ** 2))(3.0)
    assert float(slope) == 6.0
    both = jax.vmap(lambda x: control.set("target[-1]", x).target)(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(both[:, -1], [1.0, 2.0])


@pytest.mark.parametrize(
    "name, value, error, words",
    [
        ("targit", 1.0, KeyError, "nearest are: .*target"),
        ("target[6]", 1.0, IndexError, "out of range"),
        ("target[6:]", 1.0, IndexError, "nothing is selected"),
        ("target[1,2]", 1.0, IndexError, "2 indices"),
        ("target[::0]", 1.0, ValueError, "cannot read '::0'"),
        ("target[:2]", jnp.ones(3), ValueError, "has 2 numbers, the value shape"),
    ],
)
def test_mistakes_are_told(name, value, error, words):
    with pytest.raises(error, match=words):
        PoseController(jnp.arange(6.0)).set(name, value)


def test_the_nearest_label_is_told(walk):
    with pytest.raises(KeyError, match="nearest are: "):
        walk.set(walk.names[0][:-2], 1.0)


def test_a_scenario_names_the_numbers_of_a_file(tmp_path):
    """Shipped ones by name, one's own beside the scenario."""
    tuned = scenario("push", {"controller.numbers": "balance_within_limits"})
    kept = read_numbers("balance_within_limits")
    assert float(tuned.get("gait.time")) == pytest.approx(kept["gait.time"])
    assert kept["gait.time"] != float(scenario("push").get("gait.time"))
    (tmp_path / "own.json").write_text('{"numbers": {"gait.time": {"before": 1, "after": 0.5}}}')
    (tmp_path / "mine.toml").write_text(PUSHED)
    mine = scenario(tmp_path / "mine.toml")
    assert float(mine.get("gait.time")) == 0.5
    assert mine.files["own.json"] == (tmp_path / "own.json").read_text()  # kept with results
    with pytest.raises(WorldError, match=r"numbers.*no file.*lost\.json.*balance_within_limits"):
        scenario("push", {"controller.numbers": "lost.json"})
