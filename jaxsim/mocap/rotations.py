"""Quaternions (w, x, y, z) of clips, and the angles of their files.

Products and matrices are in ``jaxsim.math.rotation``. Angles are in radians; an order such as "ZYX"
is the product R = Rz Ry Rx, as a BVH file lists it.
"""

from __future__ import annotations

import numpy as np

from jaxsim.math.rotation import quat_conjugate, quat_multiply, quat_to_matrix

AXES = "XYZ"
# Below this distance [rad] from the middle angle at which two axes fall together, the third angle
# is set to zero: what it would be is noise.
SINGULAR = 1e-7


def from_angles(order: str, angles: np.ndarray) -> np.ndarray:
    """Quaternion (..., 4), the product of the rotations about the axes of ``order``.

    angles (..., len(order)) [rad]; the identity for an empty order.
    """
    parts = [np.ones(angles.shape[:-1]), *np.zeros((3, *angles.shape[:-1]))]
    for n, axis in enumerate(order):  # times (cos, sin on one axis), written out
        k = 1 + AXES.index(axis)
        i, j = 1 + k % 3, 1 + (k + 1) % 3
        half = 0.5 * angles[..., n]
        c, s = np.cos(half), np.sin(half)
        w, a, b, along = parts[0], parts[i], parts[j], parts[k]
        parts[0], parts[k] = w * c - along * s, along * c + w * s
        parts[i], parts[j] = a * c + b * s, b * c - a * s
    return np.stack(parts, axis=-1)


def to_angles(order: str, q: np.ndarray) -> np.ndarray:
    """Angles (..., 3) [rad] of quaternions q (..., 4), the inverse of ``from_angles``.

    order: three different axes. The middle angle is within a quarter turn; where it is one, the
    third angle is zero. Shoemake, Euler angle conversion, Graphics Gems IV, 1994.
    """
    i, j, k = (AXES.index(axis) for axis in order)
    even = (j - i) % 3 == 1
    sign = 1.0 if even else -1.0
    R = quat_to_matrix(q)
    sine = sign * R[..., i, k]
    cosine = np.hypot(R[..., i, i], R[..., i, j])
    middle = np.arctan2(sine, cosine)
    plain = cosine > SINGULAR
    first = np.where(
        plain,
        np.arctan2(-sign * R[..., j, k], R[..., k, k]),
        np.arctan2(sign * R[..., k, j], R[..., j, j]),
    )
    third = np.where(plain, np.arctan2(-sign * R[..., i, j], R[..., i, i]), 0.0)
    return np.stack([first, middle, third], axis=-1)


def continuous(q: np.ndarray) -> np.ndarray:
    """Quaternions (T, ..., 4) with signs such that each is near the one before it."""
    flips = np.sum(q[1:] * q[:-1], axis=-1) < 0
    sign = np.where(np.cumsum(flips, axis=0) % 2 == 1, -1.0, 1.0)
    return np.concatenate([q[:1], q[1:] * sign[..., None]])


def angle_between(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Angle (...) [rad] of the rotation from p to q, both (..., 4)."""
    d = quat_multiply(quat_conjugate(p), q)
    return 2.0 * np.arctan2(np.linalg.norm(d[..., 1:], axis=-1), np.abs(d[..., 0]))


def turning(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Shortest rotation (..., 4) from ``start`` to ``end``, both (..., 3) and not zero."""
    a = start / np.linalg.norm(start, axis=-1, keepdims=True)
    b = end / np.linalg.norm(end, axis=-1, keepdims=True)
    a, b = np.broadcast_arrays(a, b)
    q = np.concatenate([1.0 + np.sum(a * b, -1, keepdims=True), np.cross(a, b)], axis=-1)
    size = np.linalg.norm(q, axis=-1, keepdims=True)
    aside = np.cross(a, np.eye(3)[np.argmin(np.abs(a), axis=-1)])  # for opposite directions
    half_turn = np.concatenate([np.zeros_like(size), aside], axis=-1)
    q = np.where(size > 1e-9, q, half_turn)
    return q / np.linalg.norm(q, axis=-1, keepdims=True)
