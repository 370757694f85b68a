"""A controller by goals gives torques to worlds that are simulated forward."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import GoalController, GoalMachine, GoalState
from controllers.goals.tasks import damping, reach
from controllers.goals.torques import GoalTorques
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.pushes import push
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from optimize.running.simulate import simulate
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit
from tests.synthesis.hopper import crouched, hopper, hopper_effectors

WEAK = 60.0  # [N m]: the crouched hopper needs 50 in its knee


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


def commands(limited):
    """Controls and memory of a weak hopper that reaches for a point out of its reach: of the first
    step, and of a second one in which it moves."""
    model = hopper()
    weak = jnp.minimum(model.torque_limit, WEAK)
    model = model.replace(torque_limit=weak, gain_d=jnp.where(weak > 0, 5.0, 0.0))
    up = reach("up", "handle", lambda *_: jnp.array([0.0, 0.0, 3.0]))
    weights = GoalState({"damping": 0.5, "up": 1.0}, lambda obs, _: obs.time >= 0)
    machine = GoalMachine((damping(), up), {"only": weights}, {})
    config = SynthesisConfig(dt=0.01, torque_limits=limited, passes=1)
    scheme = PerStepOptimisation.of(model, hopper_effectors(model), config)
    controller = GoalTorques(GoalController.of(machine, model), scheme, model)

    @quick_jit
    def run(state):
        def step(memory, qd):
            now = state.replace(qd=qd)
            memory, control = controller.update(memory, model, now, None, 0.002)
            return memory, (memory, control)

        still = jnp.zeros((2, model.topology.nv), state.qd.dtype)
        memory = controller.init(model, state, None)
        return jax.lax.scan(step, memory, still.at[1, 6:].set(jnp.array([5.0, -5.0, 5.0])))[1]

    return run(crouched(model))


def test_a_controller_by_goals_keeps_to_the_limits_of_torques():
    memory, control = commands(True)
    share = np.abs(control.torque) / WEAK
    assert (share[:, :6] == 0).all() and (memory.unsolved == 0).all()
    assert 0.99 < np.abs(memory.torque[0]).max() / WEAK < 1 + 1e-4
    assert share.max() == 1 and (control.damping[share == 1] == 0).all()
    assert 1 <= memory.asked[0] < memory.asked[1]


@pytest.mark.slow
def test_without_limits_it_asks_for_what_a_goal_takes():
    memory, control = commands(False)
    assert memory.asked[0] == pytest.approx(np.abs(control.torque[0]).max() / WEAK, rel=1e-5)
    assert memory.asked[0] > 2


def test_torque_limits_are_a_key_of_forward_simulation_by_goals():
    forward = {"world.scheme": "time_stepping", "world.dt": 0.002}
    made = scenario("push", forward)
    assert made.controller.scheme.torque_limits and made.scheme.dt == 0.002
    made = scenario("push", {**forward, "world.torque_limits": False})
    assert not made.controller.scheme.torque_limits
    with pytest.raises(WorldError, match=r"key 'torque_limits'.*\"balance\"; leave it out"):
        scenario("walk", {"world.torque_limits": True})
