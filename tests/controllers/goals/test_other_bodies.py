"""Controllers on humanoids of model files, which nobody here wrote code for.

Directions: 0 is forward, 90 to the left. What falls is in docs/explanation/characters.md.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.one_foot import crane
from jaxsim import ModelError, articulated_human, load_model
from optimize import scenario, simulate

MODELS = Path(__file__).parents[2] / "models"
WORLD = """
[world]
scheme = "{scheme}"
seconds = 4.0
friction = 1.0
[character]
model = "{model}"
start = "standing"
[controller]
name = "{controller}"
[[push]]
link = "pelvis"
force = {force}
direction_deg = {direction}
start = 0.5
duration = 0.2
"""


@pytest.fixture
def world(tmp_path):
    """Writes a scenario of a body that is pushed, and gives its file."""

    def write(name, controller="balance", scheme="per_step_optimisation", force=0, direction=0):
        values = dict(controller=controller, scheme=scheme, force=force, direction=direction)
        path = tmp_path / "pushed.toml"
        path.write_text(WORLD.format(model=MODELS / name, **values))
        return path

    return write


@pytest.mark.slow
def test_balance_stands_on_another_body_when_pushed(world):
    path = world("other_humanoid.xml", force=60)
    found = simulate(path, set={"push.start": 0.1}, seconds=0.6, fps=20)
    summary = found.summary
    assert summary["standing"] and summary["unsolved_frames"] == 0
    assert summary["time_above_1.01"] == pytest.approx(0.6, abs=0.02)
    assert summary["steps_begun"] == 0 and set(found.motion.heights) == {"head", "pelvis", "com"}


@pytest.mark.slow
def test_pd_with_gains_of_its_size_holds_the_start_pose(world):
    found = simulate(world("other_humanoid.xml", "pd", "time_stepping"), seconds=0.5, dt=0.002)
    assert found.summary["standing"] and found.summary["finite"]
    np.testing.assert_allclose(found.motion.q[-1, 7:], 0, atol=0.01)
    assert any("gains of a human of this size" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("direction", [0, 90, 180, 270])
@pytest.mark.parametrize("name", ["humanoid.xml", "other_humanoid.xml"])
def test_balance_survives_pushes(world, name, direction):
    """120 N for 0.2 s."""
    found = simulate(world(name, force=120, direction=direction), fps=20).summary
    assert found["standing"] and found["unsolved_frames"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid.xml", "other_humanoid.xml"])
def test_pd_stands_when_pushed(world, name):
    found = simulate(world(name, "pd", "time_stepping", 40), fps=20).summary
    assert found["standing"] and found["finite"]


def test_a_body_without_feet_is_told():
    by_goals = {"world.scheme": "per_step_optimisation", "controller.name": "balance"}
    with pytest.raises(ModelError) as caught:
        scenario(MODELS / "arm.urdf", by_goals)
    for part in ("'balance' needs the roles", "arm.roles.toml", 'feet = ["", ""]', "upper, rail"):
        assert part in str(caught.value)


def test_the_crane_is_found_by_roles():
    assert crane(articulated_human()) == {
        "rightHipFlexion": 75.0,
        "rightKneeFlexion": 90.0,
        "leftShoulderAbduction": 80.0,
        "rightShoulderAbduction": 80.0,
        "leftElbowFlexion": 20.0,
        "rightElbowFlexion": 20.0,
    }
    other = crane(load_model(MODELS / "other_humanoid.xml").model)
    assert other == {
        **{"b_hip_pitch": -75.0, "b_knee": 90.0, "a_raise": 80.0, "b_raise": 80.0},
        **{"a_bend": -20.0, "b_bend": -20.0},
    }


def test_a_hinge_that_the_crane_lacks_is_told():
    model = load_model(MODELS / "humanoid.xml").model
    assert set(crane(model)) >= {"hip_y_right", "knee_right", "elbow_left"}
    elbow = model.topology.joint("elbow_left")
    twists = model.replace(joint_axis=model.joint_axis.at[elbow].set(jnp.array([1.0, 0.0, 0.0])))
    told = r"needs a hinge that turns 'lower_arm_left' \(leftForearm\) forward"
    with pytest.raises(ModelError, match=told):
        crane(twists)
