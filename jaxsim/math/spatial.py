"""Spatial (6-D) vectors, angular part first, about one reference point.

Motion vectors hold (angular velocity, linear velocity of the body point at the reference), force
vectors (moment about the reference, force). All act on (..., 6) arrays. Notation of Featherstone,
Rigid Body Dynamics Algorithms (2008), chapter 2.
"""

import jax.numpy as jnp
from jax import Array

from jaxsim.math.rotation import cross, rotate


def spatial(angular: Array, linear: Array) -> Array:
    """Stack (..., 3) angular and linear parts to (..., 6)."""
    return jnp.concatenate([angular, linear], axis=-1)


def motion_cross(v: Array, m: Array) -> Array:
    """Spatial cross product v x m: rate of change of a motion vector m that moves with v."""
    w, u = v[..., :3], v[..., 3:]
    return spatial(cross(w, m[..., :3]), cross(w, m[..., 3:]) + cross(u, m[..., :3]))


def force_cross(v: Array, f: Array) -> Array:
    """Spatial cross product v x* f: rate of change of a force vector f that moves with v."""
    w, u = v[..., :3], v[..., 3:]
    return spatial(cross(w, f[..., :3]) + cross(u, f[..., 3:]), cross(w, f[..., 3:]))


def inertia_apply(mass: Array, first: Array, second: Array, m: Array) -> Array:
    """Spatial inertia times motion vector.

    mass (...) [kg]; first (..., 3) = mass * (centre of mass - reference) [kg m]; second
    (..., 3, 3), the inertia about the reference [kg m^2]; m (..., 6). Returns (..., 6).
    """
    w, u = m[..., :3], m[..., 3:]
    moment = rotate(second, w) + cross(first, u)
    return spatial(moment, mass[..., None] * u - cross(first, w))


def inertia_matrix(mass: Array, first: Array, second: Array) -> Array:
    """Spatial inertia as a (..., 6, 6) matrix; arguments as of ``inertia_apply``."""
    eye = jnp.eye(6, dtype=second.dtype)
    columns = [
        inertia_apply(mass, first, second, jnp.broadcast_to(eye[i], (*mass.shape, 6)))
        for i in range(6)
    ]
    return jnp.stack(columns, axis=-1)


def wrench_at(point: Array, reference: Array, force: Array) -> Array:
    """Force (..., 3) [N] acting at ``point``, as a force vector about ``reference``."""
    return spatial(cross(point - reference, force), force)
