"""Rotations: group laws over batch shapes, agreement of the representations, derivatives."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxsim.math import rotation
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64")

batches = st.sampled_from([(), (1,), (4,), (2, 3)])
seeds = st.integers(0, 2**32 - 1)
FUNCTIONS = (
    "axis_angle_to_matrix",
    "compose",
    "cross",
    "matrix_to_quat",
    "quat_conjugate",
    "quat_exp",
    "quat_integrate",
    "quat_log",
    "quat_multiply",
    "quat_normalize",
    "quat_rotate",
    "quat_to_matrix",
    "rotate",
    "skew",
)
rot = SimpleNamespace(**{name: quick_jit(getattr(rotation, name)) for name in FUNCTIONS})
ONE = np.array([1.0, 0, 0, 0])


def close(got, wanted, atol: float = 1e-12):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)


def close_rotations(p, q, atol: float = 1e-12):
    """p and -p are one rotation."""
    p, q = np.asarray(p), np.asarray(q)
    sign = np.sign(np.sum(p * q, axis=-1, keepdims=True))
    close(sign * p, q, atol)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def quaternions(rng, *shape):
    return unit(rng.normal(size=(*shape, 4)))


def times(R, x):
    return (np.asarray(R) @ np.asarray(x)[..., None])[..., 0]


@settings(max_examples=40)
@given(batches, seeds)
def test_unit_quaternions_form_a_group(batch, seed):
    a, b, c = quaternions(np.random.default_rng(seed), 3, *batch)
    one = np.broadcast_to(ONE, (*batch, 4))
    ab_c = rot.quat_multiply(rot.quat_multiply(a, b), c)
    close(ab_c, rot.quat_multiply(a, rot.quat_multiply(b, c)))
    close(rot.quat_multiply(a, one), a)
    close(rot.quat_multiply(one, a), a)
    close(rot.quat_multiply(a, rot.quat_conjugate(a)), one)
    close(rot.quat_multiply(rot.quat_conjugate(a), a), one)
    close(np.linalg.norm(ab_c, axis=-1), np.ones(batch))


@settings(max_examples=40)
@given(batches, seeds)
def test_matrices_are_rotations_and_multiply_alike(batch, seed):
    rng = np.random.default_rng(seed)
    a, b = quaternions(rng, 2, *batch)
    x = rng.normal(size=(*batch, 3))
    A, B = np.asarray(rot.quat_to_matrix(a)), np.asarray(rot.quat_to_matrix(b))
    close(A @ np.swapaxes(A, -1, -2), np.broadcast_to(np.eye(3), (*batch, 3, 3)))
    close(np.linalg.det(A), np.ones(batch))
    close(rot.quat_to_matrix(rot.quat_multiply(a, b)), A @ B)
    close(rot.quat_to_matrix(rot.quat_conjugate(a)), np.swapaxes(A, -1, -2))
    close(rot.quat_rotate(a, x), times(A, x))
    close(rot.rotate(A, x), times(A, x))
    close(rot.compose(A, B), A @ B)
    close(rot.quat_to_matrix(-a), A)


@settings(max_examples=40)
@given(batches, seeds)
def test_matrix_to_quat_inverts(batch, seed):
    a = quaternions(np.random.default_rng(seed), *batch)
    close_rotations(rot.matrix_to_quat(rot.quat_to_matrix(a)), a)


BRANCHES = {
    "w": [1, 0.1, -0.2, 0.3],
    "x": [0.1, 1, -0.2, 0.3],
    "y": [-0.1, 0.2, 1, 0.3],
    "z": [0.1, 0.2, -0.3, 1],
    "identity": [1, 0, 0, 0],
    "half turn about x": [0, 1, 0, 0],
    "half turn about y": [0, 0, 1, 0],
    "half turn about z": [0, 0, 0, 1],
    "half turn about a diagonal": [0, 1, 1, 1],
    "all equal": [1, 1, -1, 1],
}


@pytest.mark.parametrize("q", BRANCHES.values(), ids=BRANCHES)
def test_matrix_to_quat_on_every_branch(q):
    """Value, and derivative along the group: d q = q (0, w) / 2."""
    q = unit(np.array(q, float))
    w = np.array([0.3, -0.5, 0.7])
    value, slope = there_and_back(q, w)
    close_rotations(value, q)
    close_rotations(slope, rot.quat_multiply(q, np.append(0, w / 2)))


@quick_jit
def there_and_back(q, w):
    def back(t):
        turned = rotation.quat_multiply(q, rotation.quat_exp(t * w))
        return rotation.matrix_to_quat(rotation.quat_to_matrix(turned))

    return jax.jvp(back, (0.0,), (1.0,))


@settings(max_examples=40)
@given(batches, seeds)
def test_axis_angle_and_exponential_agree(batch, seed):
    rng = np.random.default_rng(seed)
    axis, angle = unit(rng.normal(size=(*batch, 3))), rng.uniform(-4, 4, size=batch)
    R = rot.axis_angle_to_matrix(axis, angle)
    close(R, rot.quat_to_matrix(rot.quat_exp(axis * angle[..., None])))
    close(times(R, axis), axis)
    close(np.trace(R, axis1=-2, axis2=-1), 1 + 2 * np.cos(angle))


@settings(max_examples=40)
@given(batches, seeds, st.sampled_from([1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 0.1, 1.0, 3.0, 3.1415926]))
def test_log_inverts_exp(batch, seed, angle):
    """To a relative 1e-12 of the angle, on both sides of the switch to a series."""
    axis = unit(np.random.default_rng(seed).normal(size=(*batch, 3)))
    q = rot.quat_exp(angle * axis)
    close(q[..., 1:], np.sin(angle / 2) * axis, atol=1e-12 * angle)
    close(q[..., 0], np.full(batch, np.cos(angle / 2)))
    close(rot.quat_log(q), angle * axis, atol=1e-12 * angle)
    close(rot.quat_log(-q), angle * axis, atol=1e-12 * angle)


@settings(max_examples=40)
@given(seeds)
def test_log_takes_the_short_way_round(seed):
    q = quaternions(np.random.default_rng(seed), 20)
    w = rot.quat_log(q)
    close_rotations(rot.quat_exp(w), q)
    assert np.linalg.norm(w, axis=-1).max() <= np.pi


@settings(max_examples=40)
@given(batches, seeds)
def test_cross_and_skew(batch, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, *batch, 3))
    close(rot.cross(a, b), np.cross(a, b))
    close(times(rot.skew(a), b), np.cross(a, b))


@settings(max_examples=40)
@given(seeds)
@example(0)
def test_exp_and_integrate_agree_with_mujoco(seed):
    rng = np.random.default_rng(seed)
    q, w = quaternions(rng), rng.normal(size=3)
    wanted = q.copy()
    mujoco.mju_quatIntegrate(wanted, w, 0.7)
    close(rot.quat_integrate(q, w, 0.7), wanted)
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, q)
    close(rot.quat_to_matrix(q), R.reshape(3, 3))


def test_normalize():
    close(rot.quat_normalize(np.array([[2.0, 0, 0, 0], [0, 0, 0, 0]])), np.stack([ONE, ONE]))
    q = np.random.default_rng(0).normal(size=(3, 4))
    close(rot.quat_normalize(q), unit(q))
    slope = jax.jacfwd(rot.quat_normalize)(jnp.zeros(4))
    assert np.isfinite(slope).all()


# Derivatives where angles vanish: exact ones at the identity, and differences around it.


def log_of_exp(w):
    return rotation.quat_log(rotation.quat_exp(w))


def step_from_rest(w):
    return rotation.quat_integrate(jnp.array(ONE), w, 0.1)


def test_derivatives_at_the_identity():
    half = np.concatenate([np.zeros((1, 3)), np.eye(3) / 2])
    rest = np.zeros(3)
    for jacobian in (jax.jacfwd, jax.jacrev):
        close(quick_jit(jacobian(rotation.quat_exp))(rest), half)
        close(quick_jit(jacobian(rotation.quat_log))(ONE)[:, 1:], 2 * np.eye(3))
        close(quick_jit(jacobian(log_of_exp))(rest), np.eye(3))
        close(quick_jit(jacobian(step_from_rest))(rest), 0.1 * half)
    second = quick_jit(jax.hessian(lambda w: rotation.quat_exp(w)[0]))(rest)
    close(second, -np.eye(3) / 4)  # cos(|w| / 2) = 1 - |w|^2 / 8 + ...


@pytest.mark.parametrize("function", [rotation.quat_exp, log_of_exp], ids=["exp", "log of exp"])
def test_derivatives_on_both_sides_of_the_series(function):
    """The switch from series to closed form shows in no derivative."""
    forward, reverse = quick_jit(jax.jacfwd(function)), quick_jit(jax.jacrev(function))
    value = quick_jit(jax.vmap(function))
    for angle in (1.9e-6, 2.1e-6, 1.9e-4, 2.1e-4, 1e-3, 1.0, 3.0):
        w = angle * unit(np.array([1.0, -2, 3]))
        h = min(1e-5, 0.01 * angle)
        close(forward(w), reverse(w))
        differences = (value(w + h * np.eye(3)) - value(w - h * np.eye(3))) / (2 * h)
        close(forward(w), np.transpose(differences), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(dtype):
    """No function widens float32 or narrows float64."""
    q, w, t = ONE.astype(dtype), np.ones(3, dtype), dtype(0.3)
    results = [
        rot.quat_multiply(q, q),
        rot.quat_conjugate(q),
        rot.quat_normalize(q),
        rot.quat_rotate(q, w),
        rot.quat_to_matrix(q),
        rot.matrix_to_quat(np.eye(3, dtype=dtype)),
        rot.axis_angle_to_matrix(w, t),
        rot.quat_exp(w),
        rot.quat_log(q),
        rot.quat_integrate(q, w, t),
        rot.cross(w, w),
        rot.rotate(np.eye(3, dtype=dtype), w),
        rot.compose(np.eye(3, dtype=dtype), np.eye(3, dtype=dtype)),
        rot.skew(w),
    ]
    assert {x.dtype for x in results} == {np.dtype(dtype)}
