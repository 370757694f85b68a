"""Jacobians of points and of the centre of mass: columns are degrees of freedom."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.products import matmul
from jaxsim.math.rotation import cross
from jaxsim.model.model import Model


def motion_jacobian(model: Model, kin: Kinematics, point: Array) -> Array:
    """(nv, 3) velocity that each degree of freedom alone gives to a point (3,) that it moves."""
    reference = kin.dof_reference(model.topology)
    return kin.axis[:, 3:] + cross(kin.axis[:, :3], point - reference)


def point_jacobian(model: Model, kin: Kinematics, link: Array | int, point: Array) -> Array:
    """(3, nv): d(velocity of the point of ``link`` now at ``point`` (3,)) / d qd."""
    carried = jnp.asarray(model.topology.link_dofs, kin.axis.dtype)[link]
    return (carried[:, None] * motion_jacobian(model, kin, point)).T


def angular_jacobian(model: Model, kin: Kinematics, link: Array | int) -> Array:
    """(3, nv): d(angular velocity of ``link``) / d qd, world axes."""
    carried = jnp.asarray(model.topology.link_dofs, kin.axis.dtype)[link]
    return (carried[:, None] * kin.axis[:, :3]).T


def center_of_mass(model: Model, kin: Kinematics) -> Array:
    """(3,) centre of mass of all links [m]."""
    return matmul(model.mass, kin.com) / model.mass.sum()


def com_jacobian(model: Model, kin: Kinematics) -> Array:
    """(3, nv): d(velocity of the centre of mass of all links) / d qd."""
    carried = jnp.asarray(model.topology.link_dofs.T, kin.axis.dtype)  # (nv, nl)
    mass = matmul(carried, model.mass)  # what each freedom carries
    first = matmul(carried, model.mass[:, None] * (kin.com - kin.reference))
    momentum = mass[:, None] * kin.axis[:, 3:] + cross(kin.axis[:, :3], first)
    return momentum.T / model.mass.sum()


def com_velocity(model: Model, kin: Kinematics) -> Array:
    """(3,) velocity of the centre of mass of all links [m/s]."""
    v = kin.velocity
    point = v[:, 3:] + cross(v[:, :3], kin.com - kin.reference)
    return matmul(model.mass, point) / model.mass.sum()


def relative_torque(model: Model, kin: Kinematics, carried: np.ndarray | Array, point, force):
    """Generalised forces (nv,) of a force pair: +force on one link, -force on another.

    carried (nv,) is the difference of their ``link_dofs`` rows: +1 where a freedom moves only the
    first, -1 only the second; point (3,) [m], force (3,) [N] in the world's frame.
    """
    return carried * jnp.sum(motion_jacobian(model, kin, point) * force, axis=-1)
