"""Rigid placements in numpy, for readers and writers of model files."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxsim.math.rotation import quat_conjugate, quat_multiply, rotation_matrix


class Placement(NamedTuple):
    """A frame in another one: position (3,) [m] and unit quaternion (4,)."""

    pos: np.ndarray
    quat: np.ndarray

    def __matmul__(self, inner: "Placement") -> "Placement":
        """The frame ``inner`` of this one, in the outer one."""
        return Placement(self.place(inner.pos), quat_multiply(self.quat, inner.quat))

    def place(self, point: np.ndarray) -> np.ndarray:
        """Point (3,) of this frame, in the outer one."""
        return self.pos + rotation_matrix(self.quat) @ point

    def inverse(self) -> "Placement":
        back = quat_conjugate(self.quat)
        return Placement(-(rotation_matrix(back) @ self.pos), back)


IDENTITY = Placement(np.zeros(3), np.array([1.0, 0, 0, 0]))
# A capsule's segment is its x axis here, its z axis in MuJoCo: its frame here in the one there.
X_ALONG_Z = Placement(np.zeros(3), np.array([np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0]))


def turn(axis: np.ndarray, angle: float, anchor: np.ndarray) -> Placement:
    """Rotation [rad] about the unit ``axis`` (3,) through ``anchor`` (3,)."""
    quat = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis])
    return Placement(anchor - rotation_matrix(quat) @ anchor, quat)


def turn_quaternion(turn_deg: Sequence[float]) -> tuple[float, ...]:
    """Unit quaternion (4,) of a rotation vector (3,) [deg], an axis times an angle."""
    turn = np.deg2rad(turn_deg)
    angle = float(np.linalg.norm(turn))
    axis = turn / angle if angle > 0 else np.zeros(3)
    return (float(np.cos(angle / 2)), *(np.sin(angle / 2) * axis).tolist())


def quaternion_of(rotation_matrix: np.ndarray) -> np.ndarray:
    """Unit quaternion (4,) of a rotation matrix (3, 3), w >= 0.

    The eigenvector of the largest eigenvalue of a symmetric matrix, so that there is no singular
    case. Source: Bar-Itzhack (2000), New method for extracting the quaternion from a rotation
    matrix.
    """
    R = rotation_matrix
    K = np.zeros((4, 4))
    K[0, 0] = np.trace(R)
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[1:, 1:] = R + R.T - np.trace(R) * np.eye(3)
    quat = np.linalg.eigh(K)[1][:, -1]
    return -quat if quat[0] < 0 else quat
