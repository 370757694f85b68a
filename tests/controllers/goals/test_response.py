"""A response does what its time and priority say, whatever the goal, its unit and the time step."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals import tasks as goals
from controllers.goals.controller import GoalController
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import TO_63, Response, ease, response_rows
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.scheme import PerStepOptimisation
from tests.compiling import quick_jit
from tests.synthesis.hopper import HANDLE, JOINTS, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

STEPS = 600


@pytest.fixture(scope="module")
def body(x64_module):
    """The hopper in the air, where no contact holds it."""
    model = hopper()
    state = crouched(model, height=1.0)
    return quick_jit(configuration_at)(model, hopper_effectors(model), state.q, state.qd)


@partial(quick_jit, static_argnames="level")
def stepped(conf, J, error, time, priority, damping, dt, level="position"):
    """(n, m) how an error, or of a velocity goal J v, goes under the rows and damping alone."""
    unit, nv = units(conf.model), conf.v.shape[0]
    factor = ease(conf, jnp.zeros(conf.effectors.count, bool), unit, dt)
    calm = jnp.sqrt(damping) / unit.rate * jnp.eye(nv)

    def step(carry, _):
        v, e = carry
        now, none = replace(conf, v=v), jnp.zeros(nv)
        rows = response_rows(now, (e, J), level, none, time, priority, factor, dt)
        A, b = jnp.concatenate([rows.J, calm]), jnp.append(rows.r, none)
        v = jnp.linalg.solve(A.T @ A + 1e-12 * jnp.eye(nv), A.T @ b)
        e = e + dt * J @ v if level == "position" else e
        return (v, e), e if level == "position" else J @ v

    begun = jnp.zeros(nv), error
    return jax.lax.scan(step, begun, None, STEPS)[1]


def spring(time, asks, damping):
    """(n,) an error of 1 as a spring of the damping ratio 1 + d / priority brings it to nothing."""
    ratio, rate = 1 + damping / asks.priority, TO_63 / asks.time
    fast, slow = (rate * (ratio + s * np.sqrt(ratio**2 - 1)) for s in (1, -1))
    if fast == slow:
        return (1 + rate * time) * np.exp(-rate * time)
    return (fast * np.exp(-slow * time) - slow * np.exp(-fast * time)) / (fast - slow)


@pytest.mark.parametrize("asks", [Response(0.3, 3.0), Response(1.0, 1.0), Response(0.3, 30.0)])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_an_error_goes_as_that_of_a_spring(body, asks, damping):
    """Of any direction and unit, to the first order in the time step."""
    rows, apart = np.random.default_rng(1).normal(size=(2, 1, body.v.shape[0])), []
    for J, scale in zip(rows, (1.0, 100.0)):
        for dt in (0.01, 0.005):
            numbers = asks.time, asks.priority, damping, dt
            error = np.asarray(stepped(body, scale * J, jnp.array([scale]), *numbers))[:, 0] / scale
            at = dt * np.arange(1, STEPS + 1)
            apart.append(np.abs(error - spring(at, asks, damping)).max())
    coarse, fine = np.array(apart).reshape(2, 2).T
    assert coarse.max() < 0.06 and (fine < 0.6 * coarse).all()
    if damping == 0:
        late = at[np.flatnonzero(error <= 1 / np.e)[0]]
        assert late == pytest.approx(asks.time, rel=0.05)


def test_a_velocity_comes_to_its_target_in_its_time(body):
    J, dt = np.ones((1, body.v.shape[0])), 0.005
    speed = stepped(body, J, jnp.array([-2.0]), 0.3, 1e6, 0.5, dt, level="velocity")[:, 0]
    at = dt * np.arange(1, STEPS + 1)
    np.testing.assert_allclose(speed, 2 * (1 - np.exp(-at / 0.3)), atol=0.02)


def test_what_contacts_keep_is_not_counted_as_easy(body):
    """A sole that stays is hundreds of times harder to move than in the air, a handle is not."""

    @quick_jit
    def moves(stays, at):
        J, none = body.jacobian[at], jnp.zeros_like(body.v)
        factor = ease(body, stays, units(body.model), 0.01)
        found = response_rows(body, (jnp.zeros(3), J), "position", none, 0.3, 1.0, factor, 0.01)
        return jnp.sum(J**2) / jnp.sum(found.J**2)

    corners = np.arange(body.effectors.count) < HANDLE
    sole, handle = (moves(corners, at) / moves(corners & False, at) for at in (0, HANDLE))
    assert sole < 0.003 and 0.05 < handle < 1


def machine(asks, **more):
    """Joints of the hopper to other angles; the sole stays where it is."""
    angles = jnp.array([0.5, -1.0, 0.5])
    return GoalMachine(
        goals=(goals.pose("pose", JOINTS, lambda *_: angles), goals.damping()),
        states={"only": GoalState({"pose": asks, "damping": 0.5}, lambda *_: jnp.asarray(True))},
        transitions={},
        **more,
    )


@pytest.mark.slow
def test_a_body_on_its_foot_comes_to_a_pose_in_the_time(x64_module):
    """Of a batch of times and priorities, whose numbers have labels."""
    model = hopper()
    state, points = crouched(model), hopper_effectors(model)
    scheme = PerStepOptimisation.of(model, points, SynthesisConfig())
    controller = GoalController.of(machine(Response(0.4, 10.0)), model)
    assert controller.get("only.pose.time") == 0.4 and controller.get("only.pose.priority") == 10
    goal = controller.machine.goals[0]

    @quick_jit
    @jax.vmap
    def run(time, priority):
        own = controller.set("only.pose.time", time).set("only.pose.priority", priority)
        record = lambda sample: jnp.linalg.norm(goal.rows(sample.obs, None)[0])  # noqa: E731
        return rollout(model, own, state, scheme, 200, record=record, backend="xla").record

    times = np.array([0.2, 0.4, 0.4])
    error = np.asarray(run(times, np.array([10.0, 10.0, 1.0])))
    late = 0.01 * np.argmax(error <= error[:, :1] / np.e, axis=1)
    np.testing.assert_allclose(late[:2] / times[:2], 1.0, atol=0.3)
    assert late[2] > 1.1 * late[1]
    assert (error[:, -1] < 0.05 * error[:, 0]).all()


def test_mistakes_are_told():
    for time in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="a time constant is positive"):
            Response(time)
    with pytest.raises(ValueError, match="priority is -1"):
        Response(0.3, -1.0)
    with pytest.raises(ValueError, match="'pose' has a weight in one state and a response in"):
        both = machine(Response(0.3))
        replace(
            both, states={**both.states, "more": replace(both.states["only"], goals={"pose": 1.0})}
        )
    with pytest.raises(ValueError, match="'relax' asks contact forces to vanish"):
        machine(1.0).adding(goals.relax("relax", lambda *_: None), Response(0.3))
    with pytest.raises(ValueError, match="'effort' asks torques to vanish, which takes no time"):
        machine(1.0).adding(goals.effort(), Response(0.3))
    model = hopper()
    controller = GoalController.of(machine(Response(0.4)), model)
    with pytest.raises(ModelError, match="times: a time constant is positive"):
        controller.set("only.pose.time", 0.0).check(model)
    assert GoalController.of(machine(1.0), model).times is None
