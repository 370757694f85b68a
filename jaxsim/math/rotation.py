"""Rotations: unit quaternions (w, x, y, z) and 3x3 matrices.

``R_a_b`` and ``q_a_b`` take vectors of frame b to frame a. Every function accepts leading batch
dimensions and has finite forward and reverse gradients at the identity. Products, inverses,
rotations and matrices of quaternions give numpy arrays for numpy arrays, so that files are read in
float64 whatever the precision of JAX.
"""

from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from jaxsim.math.safe import safe_norm

A = TypeVar("A", np.ndarray, Array)
IDENTITY_QUATERNION = np.array([1.0, 0.0, 0.0, 0.0])


def _namespace(*arrays: Any) -> Any:
    """Module of numpy where all arrays are of numpy, else that of JAX."""
    return np if all(isinstance(array, np.ndarray) for array in arrays) else jnp


def cross(a: A, b: A) -> A:
    """Cross product of (..., 3) arrays, written out (no gather, no moveaxis)."""
    xp = _namespace(a, b)
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def rotate(R: Array, x: Array) -> Array:
    """Rotate vectors: R x for (..., 3, 3) and (..., 3), as plain products that XLA can fuse."""
    return R[..., 0] * x[..., 0:1] + R[..., 1] * x[..., 1:2] + R[..., 2] * x[..., 2:3]


def compose(A: Array, B: Array) -> Array:
    """Matrix product of (..., 3, 3) matrices, as plain products that XLA can fuse."""
    return (
        A[..., :, 0:1] * B[..., 0:1, :]
        + A[..., :, 1:2] * B[..., 1:2, :]
        + A[..., :, 2:3] * B[..., 2:3, :]
    )


def skew(a: Array) -> Array:
    """Matrix [a]x of (..., 3) with [a]x b = a x b."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    zero = jnp.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def quat_multiply(p: A, q: A) -> A:
    """Hamilton product p q of (..., 4) quaternions."""
    xp = _namespace(p, q)
    w = p[..., :1] * q[..., :1] - xp.sum(p[..., 1:] * q[..., 1:], axis=-1, keepdims=True)
    v = p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + cross(p[..., 1:], q[..., 1:])
    return xp.concatenate([w, v], axis=-1)


def quat_conjugate(q: A) -> A:
    """Inverse of a unit quaternion (..., 4)."""
    return _namespace(q).concatenate([q[..., :1], -q[..., 1:]], axis=-1)


def quat_normalize(q: Array) -> Array:
    """Normalise a quaternion, q / |q|; the zero quaternion becomes the identity."""
    norm = safe_norm(q, keepdims=True)
    ok = norm > 0
    return jnp.where(ok, q / jnp.where(ok, norm, 1), jnp.asarray(IDENTITY_QUATERNION, q.dtype))


def quat_rotate(q: A, x: A) -> A:
    """Rotate a vector x (..., 3) by the unit quaternion q (..., 4)."""
    t = 2 * cross(q[..., 1:], x)
    return x + q[..., :1] * t + cross(q[..., 1:], t)


def quat_to_matrix(q: A) -> A:
    """Rotation matrix (..., 3, 3) of a unit quaternion (..., 4)."""
    w, x, y, z = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    xp = _namespace(q)
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def rotation_matrix(quat: ArrayLike) -> np.ndarray:
    """Rotation matrix (..., 3, 3) of a unit quaternion of numbers (..., 4), in float64."""
    return quat_to_matrix(np.asarray(quat, float))


def matrix_to_quat(R: Array) -> Array:
    """Unit quaternion (..., 4) of a rotation matrix (..., 3, 3), w >= 0 where w leads.

    Among four formulas the one with the largest pivot is used, so that the argument of the square
    root is never small (Shepperd 1978).
    """
    m00, m11, m22 = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    pivots = jnp.stack(
        [1 + m00 + m11 + m22, 1 + m00 - m11 - m22, 1 - m00 + m11 - m22, 1 - m00 - m11 + m22], -1
    )
    a, b, c = (
        R[..., 2, 1] - R[..., 1, 2],
        R[..., 0, 2] - R[..., 2, 0],
        R[..., 1, 0] - R[..., 0, 1],
    )
    d, e, f = (
        R[..., 1, 0] + R[..., 0, 1],
        R[..., 0, 2] + R[..., 2, 0],
        R[..., 2, 1] + R[..., 1, 2],
    )
    t0, t1, t2, t3 = (pivots[..., i] for i in range(4))
    table = jnp.stack(
        [
            jnp.stack([t0, a, b, c], -1),
            jnp.stack([a, t1, d, e], -1),
            jnp.stack([b, d, t2, f], -1),
            jnp.stack([c, e, f, t3], -1),
        ],
        axis=-2,
    )
    best = jnp.argmax(pivots, axis=-1)
    q = jnp.take_along_axis(table, best[..., None, None], axis=-2)[..., 0, :]
    pivot = jnp.take_along_axis(pivots, best[..., None], axis=-1)
    return q / (2 * jnp.sqrt(pivot))


def axis_angle_to_matrix(axis: Array, angle: Array) -> Array:
    """Rodrigues' formula: rotation by ``angle`` [rad] (...) about the unit ``axis`` (..., 3)."""
    s, c = jnp.sin(angle)[..., None, None], jnp.cos(angle)[..., None, None]
    outer = axis[..., :, None] * axis[..., None, :]
    eye = jnp.broadcast_to(jnp.eye(3, dtype=axis.dtype), outer.shape)
    return c * eye + s * skew(axis) + (1 - c) * outer


def quat_exp(w: Array) -> Array:
    """Unit quaternion of the rotation vector w (..., 3) [rad]."""
    half2 = jnp.sum(w * w, axis=-1, keepdims=True) / 4
    small = half2 < 1e-8
    half = jnp.sqrt(jnp.where(small, 1.0, half2))
    sinc = jnp.where(small, 1 - half2 / 6, jnp.sin(half) / half)
    cos = jnp.where(small, 1 - half2 / 2, jnp.cos(half))
    return jnp.concatenate([cos, sinc * w / 2], axis=-1)


def quat_log(q: Array) -> Array:
    """Rotation vector (..., 3) [rad] of a unit quaternion, the short way round (|w| <= pi)."""
    q = jnp.where(q[..., :1] < 0, -q, q)
    v = q[..., 1:]
    n2 = jnp.sum(v * v, axis=-1, keepdims=True)
    small = n2 < 1e-12
    n = jnp.sqrt(jnp.where(small, 1.0, n2))
    scale = jnp.where(small, 2.0 + n2 / 3, 2 * jnp.arctan2(n, q[..., :1]) / n)
    return scale * v


def quat_integrate(q: Array, w_local: Array, dt: Array | float) -> Array:
    """Integrate a quaternion: q after dt [s] at a constant body-frame velocity w_local [rad/s]."""
    return quat_normalize(quat_multiply(q, quat_exp(w_local * dt)))
