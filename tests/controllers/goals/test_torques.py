"""A controller by goals gives torques to worlds that are simulated forward."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.torques import GoalTorques
from jaxsim.model import ModelError
from jaxsim.simulation.pushes import push
from jaxsim.simulation.rollout import rollout
from optimize.running.simulate import simulate
from optimize.scenarios.find import scenario


@pytest.fixture(scope="module")
def hit():
    """Until shortly after the box has hit it."""
    return simulate("thrown_box", seconds=2.4, backend="xla")


@pytest.mark.slow
def test_a_thrown_box_hits_a_human_that_balances(hit):
    motion, summary = hit.motion, hit.summary
    assert isinstance(hit.scenario.controller.inner, GoalTorques)
    box, chest = (motion.link_names.index(name) for name in ("box", "chest"))
    before, after = (np.argmin(np.abs(motion.time - t)) for t in (1.2, 1.9))
    assert motion.link_pos[before, box, 0] < -0.5
    speed = (motion.link_pos[after, box, 0] - motion.link_pos[before, box, 0]) / 0.7
    assert speed < 3.0  # thrown with 5 m/s
    moved = motion.link_pos[:, chest, 0] - motion.link_pos[0, chest, 0]
    assert moved.max() > 0.05
    assert summary["standing"] and summary["finite"]
    assert motion.link_roles[box] == "prop"
    assert motion.phase_names[0] == "balance"


def test_its_numbers_go_by_label():
    made = scenario("thrown_box", {"controller.gait.time": 0.6})
    assert made.get("gait.time") == pytest.approx(0.6)
    assert made.get("controller.balance.damping") == pytest.approx(0.5)


def test_a_model_of_another_character_is_told():
    made = scenario("thrown_box")
    with pytest.raises(ModelError, match="those of the character are needed, pelvis"):
        made.controller.inner.check(scenario("planar_human").model)


@pytest.mark.slow
@pytest.mark.parametrize("deg", [0.0, 45.0, 90.0, 135.0, 180.0, 225.0, 270.0, 315.0])
def test_it_survives_pushes_from_all_sides(deg):
    """150 N for 0.2 s at the pelvis, simulated forward; at 250 N to the left it falls."""
    made = scenario("push", {"world.scheme": "time_stepping", "world.dt": 0.002})
    angle = np.deg2rad(deg)
    force = push(made.model, "pelvis", (150 * np.cos(angle), 150 * np.sin(angle), 0.0), 1.0, 0.2)
    run = simulate(dataclasses.replace(made, forces=force), seconds=5.0, backend="xla")
    assert run.summary["standing"]


@pytest.mark.slow
def test_members_of_a_batch_are_as_alone():
    made = scenario("push", {"world.scheme": "time_stepping", "world.dt": 0.002})
    pushes = jnp.array([0.0, 150.0])

    def end(force):
        forces = dataclasses.replace(made.forces, force=jnp.array([[1.0, 0.0, 0.0]]) * force)
        parts = made.model, made.controller, made.state, made.scheme, 600
        return rollout(*parts, backend="xla", pushes=forces).state.q

    together = jax.jit(jax.vmap(end))(pushes)
    alone = jax.jit(end)(pushes[1])
    np.testing.assert_allclose(together[1], alone, atol=1e-3)
    assert np.abs(together[0] - together[1]).max() > 1e-2
