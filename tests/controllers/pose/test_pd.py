"""PD control of hinges and balls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController, pose_error
from jaxsim.dynamics.kinematics import integrate
from jaxsim.math.rotation import quat_conjugate, quat_log, quat_multiply, quat_rotate
from jaxsim.model import ModelBuilder, ball, free, hinge, neutral_state
from jaxsim.model.state import neutral_q
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

KP, KD, INERTIA = 30.0, 6.0, 0.3


@pytest.fixture(scope="module")
def model(x64_module):
    """A body that flies, one on a ball joint, one on a hinge of that."""
    b = ModelBuilder((0, 0, 0))
    rod = dict(com=(0.1, 0, -0.2), inertia=(0.05, 0.04, 0.02))
    drive = dict(kp=KP, kd=KD, max_torque=12.0)
    b.add_link("root", "world", mass=2.0, joints=[free("free")], **rod)
    b.add_link("arm", "root", pos=(0, 0.2, 0), mass=1.0, joints=[ball("ball", **drive)], **rod)
    joints = [hinge("hinge", (0, 1, 0), **drive)]
    b.add_link("hand", "arm", pos=(0, 0, -0.5), mass=1.0, joints=joints, **rod)
    return b.build()


@pytest.fixture(scope="module")
def pendulum(x64_module):
    """One body on a ball joint through its centre of mass, alike about all axes."""
    b = ModelBuilder((0, 0, 0))
    joints = [ball("ball", kp=KP, kd=KD, max_torque=1e3)]
    b.add_link("body", "world", mass=1.0, inertia=(INERTIA,) * 3, joints=joints)
    return b.build()


def test_error_is_the_rotation_from_here_to_the_target(model):
    """q moved by the error is the target; the paper's form is the same vector in other axes."""
    rng = np.random.default_rng(0)
    zero = jnp.asarray(neutral_q(model))
    moves = jnp.asarray(rng.normal(size=(2, 20, model.topology.nv)))

    def one(a, b):
        q, target = integrate(model, zero, a, 1.0), integrate(model, zero, b, 1.0)
        error = pose_error(model, target, q)
        now, wanted = q[7:11], target[7:11]
        parent = quat_log(quat_multiply(wanted, quat_conjugate(now)))  # L(q_r q^-1)
        return target, integrate(model, q, error, 1.0), error, quat_rotate(now, error[6:9]), parent

    target, reached, error, turned, parent = quick_jit(jax.vmap(one))(*moves)
    sign = np.sign(np.sum(target[:, 7:11] * reached[:, 7:11], axis=1, keepdims=True))
    np.testing.assert_allclose(reached[:, 7:11] * sign, target[:, 7:11], atol=1e-12)
    np.testing.assert_allclose(reached[:, 11], target[:, 11], atol=1e-12)
    np.testing.assert_allclose(turned, parent, atol=1e-12)
    np.testing.assert_array_equal(error[:, :6], 0)
    assert (np.linalg.norm(error[:, 6:9], axis=1) <= np.pi + 1e-12).all()


def test_torque_is_clipped_and_the_root_is_free(model):
    q = jnp.asarray(neutral_q(model))
    move = jnp.asarray(np.r_[np.zeros(6), 0.1, -2.0, 0.2, 0.3])
    qd = jnp.asarray(np.r_[np.ones(6), 0.0, 0.0, 0.1, 0.2])
    state = neutral_state(model).replace(q=q, qd=qd)

    def one(move):
        target = integrate(model, q, move, 1.0)
        _, control = PoseController(target).update(None, model, state, None, 0.001)
        return control, pose_error(model, target, q)

    control, error = quick_jit(one)(move)
    error = np.asarray(error)
    wanted = KP * error[6:] - KD * np.asarray(qd)[6:]
    assert abs(wanted[1]) > 12.0
    np.testing.assert_array_equal(control.torque[:6], 0)
    np.testing.assert_allclose(control.torque[6:], np.clip(wanted, -12, 12), rtol=1e-12)
    np.testing.assert_array_equal(control.damping, [0] * 6 + [KD, 0, KD, KD])


@pytest.mark.parametrize("backend", ["xla", "fused"])
def test_ball_turns_to_its_target_like_a_damped_oscillator(pendulum, backend):
    """Critically damped: the angle left is theta (1 + w t) exp(-w t), about one axis."""
    axis, angle, steps = np.array([1.0, 2.0, -2.0]) / 3, 2.5, 400
    target = jnp.asarray(np.r_[np.cos(angle / 2), np.sin(angle / 2) * axis])
    controller, config = PoseController(target), TimeStepping(dt=0.0005)

    def go(state):
        return rollout(pendulum, controller, state, config, steps, backend=backend).state.q

    q = (jax.jit if backend == "fused" else quick_jit)(go)(neutral_state(pendulum))
    left = np.asarray(pose_error(pendulum, target, q))
    rate = np.sqrt(KP / INERTIA)
    assert KD == pytest.approx(2 * np.sqrt(KP * INERTIA))
    wt = rate * steps * 0.0005
    np.testing.assert_allclose(left, angle * (1 + wt) * np.exp(-wt) * axis, atol=5e-3 * angle)
    assert np.linalg.norm(left) > 0.5  # on the way, not there


def test_gradients_are_finite_at_the_target(model):
    """Forward and reverse against central differences, at the target and away from it."""
    zero = jnp.asarray(neutral_q(model))

    def error(b, a):
        q = integrate(model, zero, a, 1.0)
        return pose_error(model, integrate(model, zero, b, 1.0), q)

    at = jnp.asarray(np.linspace(-0.5, 0.5, model.topology.nv))
    step = 1e-5 * jnp.eye(at.size)

    def both(b):
        difference = jax.vmap(lambda d: (error(b + d, at) - error(b - d, at)) / 2e-5)(step).T
        return jax.jacfwd(error)(b, at), jax.jacrev(error)(b, at), difference

    for J, again, difference in zip(*quick_jit(jax.vmap(both))(jnp.stack([at, 0.5 * at]))):
        np.testing.assert_allclose(J, difference, atol=1e-8)
        np.testing.assert_allclose(J, again, atol=1e-12)
