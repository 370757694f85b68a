"""Trajectories, and the two ways to follow them; float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.motion import MotionController, TrackingController, Trajectory, inner_freedoms
from controllers.pose.pd import pose_error
from jaxsim.model import ModelBuilder, ball, hinge, neutral_state, plane
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

DT, STEPS = 1e-3, 400


@pytest.fixture(scope="module")
def arm(x64_module):
    """A shoulder that is a ball, an elbow, under gravity, with weak motors."""
    b = ModelBuilder()
    rod = dict(mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.001))
    motor = dict(kp=80.0, kd=8.0, max_torque=200.0)
    b.add_link("upper", "world", joints=[ball("shoulder", **motor)], **rod)
    b.add_link(
        "lower", "upper", pos=(0, 0, -0.4), joints=[hinge("elbow", (0, 1, 0), **motor)], **rod
    )
    b.add_shape("world", plane(pos=(0, 0, -5)))
    return b.build()


def turned(angle, axis, elbow):
    axis = np.array(axis, float) / np.linalg.norm(axis)
    return [np.cos(angle / 2), *(np.sin(angle / 2) * axis), elbow]


@partial(quick_jit, static_argnames="steps")
def follow(model, controller, steps=STEPS):
    state = neutral_state(model)
    config = TimeStepping(dt=DT)

    def record(sample):
        return sample.state.q, sample.info.motion_force

    return rollout(model, controller, state, config, steps, record=record, backend="xla").record


def test_a_trajectory_passes_through_its_poses_with_straight_lines_between(arm):
    q = jnp.array(
        [turned(0, (1, 0, 0), 0.0), turned(1.2, (1, 2, 0), 0.8), turned(0.5, (0, 1, 0), 0)]
    )
    trajectory = Trajectory(jnp.array([0.1, 0.3, 0.7]), q)
    at = jax.jit(jax.vmap(lambda t: trajectory.at(arm, t)))
    pose, rate = at(jnp.array([0.0, 0.1, 0.2, 0.3, 0.69999, 0.9]))
    np.testing.assert_allclose(pose[0], q[0], atol=1e-15)
    np.testing.assert_allclose(pose[2], turned(0.6, (1, 2, 0), 0.4), atol=1e-12)
    np.testing.assert_allclose(pose[3], q[1], atol=1e-12)
    np.testing.assert_allclose(pose[5], q[2], atol=1e-12)
    axis = np.array([1, 2, 0]) / np.sqrt(5)
    np.testing.assert_allclose(rate[2], [*(1.2 / 0.2 * axis), 4.0], atol=1e-12)
    np.testing.assert_allclose(rate[0], 0, atol=0)
    np.testing.assert_allclose(rate[5], 0, atol=0)
    # the velocity is that of the positions
    ahead, _ = at(jnp.array([0.2 + 1e-6] * 6))
    np.testing.assert_allclose(pose_error(arm, ahead[0], pose[2]) / 1e-6, rate[2], atol=1e-5)


@pytest.mark.parametrize("payload", [1.0, 30.0])
def test_constraints_settle_as_asked_whatever_is_carried(arm, payload):
    """A tenth of the error is left after the settling time; a hundredth after about 1.7 of it."""
    model = arm.replace(mass=arm.mass.at[1].set(payload))
    goal = jnp.array([turned(0.8, (0, 1, 0), 0.5)])
    controller = MotionController(Trajectory(jnp.zeros(1), goal), settling_time=0.2)
    q, force = follow(model, controller)
    error = np.abs(jax.vmap(lambda q: pose_error(model, goal[0], q))(q)).max(axis=1)
    np.testing.assert_allclose(error[200] / error[0], 0.1, rtol=0.05)
    assert error[-1] < 0.005 * error[0]
    assert np.abs(force[0]).max() > 0
    if payload > 1:  # torques of the model's gains do not manage it
        q, force = follow(model, TrackingController(controller.trajectory))
        off = np.abs(jax.vmap(lambda q: pose_error(model, goal[0], q))(q)).max(axis=1)
        assert off[-1] > 0.2 * off[0]
        assert (force == 0).all()


def test_free_and_driven_joints_are_not_led(arm):
    assert inner_freedoms(arm).all()
