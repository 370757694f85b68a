"""Strict priorities of a step: goals of a later level never disturb those of an earlier one."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from controllers import GoalController, GoalMachine, GoalState
from controllers.goals import tasks as goals
from jaxsim.model import State
from jaxsim.solvers import qp
from jaxsim.solvers.qp_levels import solve_levels
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.levels import row_levels
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.synthesizer import first_problem
from jaxsim.synthesis.tasks import plain_tasks
from tests.compiling import quick_jit
from tests.synthesis.hopper import crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

ASKS = {"com": 5.0, "up": 50.0, "damping": 0.5}  # the second pulls the trunk to where it cannot go


def asking():
    """Machine with goals that contradict each other."""
    only = GoalState(ASKS, lambda obs, _: obs.time >= 0)
    return GoalMachine(
        (
            goals.com_over("com", lambda *_: jnp.array([0.0, 0.0])),
            goals.reach("up", "handle", lambda *_: jnp.array([0.5, 0.0, 2.0])),
            goals.damping(),
        ),
        {"only": only},
        {},
    )


@pytest.fixture(scope="module")
def steps(x64_module):
    """Achieved velocities of the rows of the first level and status, by the priorities."""
    model = hopper()
    config = SynthesisConfig(passes=1, torque_limits=True)
    scheme = PerStepOptimisation.of(model, hopper_effectors(model), config)
    state = scheme.init(model, crouched(model))
    obs = scheme.observe(model, state)

    def step(priorities):
        machine = asking()
        controller = GoalController.of(machine, model, priorities=priorities)

        @quick_jit
        def run(state: State):
            memory = controller.init(model, state, obs)
            _, command = controller.update(memory, model, state, obs, jnp.asarray(0.01))
            tasks = command(obs.conf, jnp.zeros_like(obs.conf.v))
            problem = first_problem(obs.conf, state, command, obs.unit, scheme)
            first = row_levels(tasks, len(problem.r)) == 0 if tasks.levels else slice(0)
            _, info = scheme.step(model, state, obs, command)
            J = problem.J[first][:, : model.topology.nv]
            return J @ info.velocity, obs.conf.com_jacobian[:2] @ info.velocity, info

        return run(state)

    return {
        "alone": step({"com": 1}),
        "before": step({"com": 1, "up": 2}),
        "weighted": step(None),
    }


def test_a_level_is_not_disturbed_by_those_after_it(steps):
    alone, before = steps["alone"], steps["before"]
    np.testing.assert_allclose(before[0], alone[0], rtol=0, atol=1e-8)
    assert before[2].iterations > alone[2].iterations
    np.testing.assert_allclose(before[1], alone[1], rtol=0, atol=1e-8)
    assert np.abs(steps["weighted"][1] - alone[1]).max() > 1e-3
    for _, _, info in steps.values():
        assert info.root_residual < 1e-4 and info.effort < 1 + 1e-6 and not info.lost


def test_a_level_that_is_not_solved_leaves_the_ones_before():
    """The second level of three has no solution, for its rows are no numbers."""
    none, row, eye = jnp.zeros((0, 3)), jnp.zeros(0), jnp.eye(3)
    bounds = jnp.full(3, -jnp.inf), jnp.full(3, jnp.inf)
    p = qp.QuadraticProgram(eye, jnp.ones(3), none, row, none, row, *bounds)
    lost = jnp.array([[0.0, jnp.nan, 0.0]])
    levels = (eye[:1], jnp.ones(1)), (lost, jnp.ones(1)), (eye[2:], jnp.ones(1))
    given = p.A, p.b, p.G, p.h, p.lower, p.upper
    first, second, _ = quick_jit(lambda *x: solve_levels(levels, *x))(*given)
    assert first.status == qp.SOLVED and second.status == qp.NOT_FINITE
    np.testing.assert_allclose(second.x, first.x, atol=1e-12)
    np.testing.assert_allclose(first.x[0], 1, atol=1e-7)


def test_rows_of_contacts_are_of_the_first_level_and_torques_of_the_last():
    model = hopper()
    obs = PerStepOptimisation.of(model, hopper_effectors(model))
    state = obs.init(model, crouched(model))
    tasks = plain_tasks(obs.observe(model, state).conf, 1.0)
    tasks = replace(tasks, levels=(0, 1, 2, 1, 0, 0, 0, 1, 1))
    rows = row_levels(tasks, 3 + 9 + 15 + 20)
    np.testing.assert_array_equal(rows, [2] * 3 + list(tasks.levels) + [0] * 15 + [2] * 20)


@pytest.mark.parametrize(
    ("priorities", "message"),
    [
        ({"feet": 1}, "priority of a goal 'feet': goals of the machine are com, up, damping"),
        ({"com": 0}, "priority of 'com' is 0; give 1 for the first"),
        ({"com": 1.5}, "priority of 'com' is 1.5; give 1"),
    ],
)
def test_a_wrong_priority_is_named(priorities, message):
    with pytest.raises(ValueError, match=message):
        GoalController.of(asking(), hopper(), priorities=priorities)
