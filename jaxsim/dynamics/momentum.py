"""Momentum of all links with its Jacobian, and their energy."""

import jax.numpy as jnp
from jax import Array

from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.dynamics.rigid import link_inertias
from jaxsim.math.rotation import cross
from jaxsim.math.spatial import inertia_apply
from jaxsim.model.model import Model


def linear_momentum(model: Model, kin: Kinematics) -> Array:
    """(3,) linear momentum of all links [kg m/s]."""
    momentum = inertia_apply(*link_inertias(model, kin), kin.velocity)
    return momentum[:, 3:].sum(0)


def angular_momentum(model: Model, kin: Kinematics, about: Array | None = None) -> Array:
    """(3,) angular momentum about a point (3,), by default the centre of mass [N m s]."""
    momentum = inertia_apply(*link_inertias(model, kin), kin.velocity)
    point = center_of_mass(model, kin) if about is None else about
    return (momentum[:, :3] + cross(kin.reference - point, momentum[:, 3:])).sum(0)


def angular_momentum_jacobian(model: Model, kin: Kinematics) -> Array:
    """(3, nv): angular momentum about the centre of mass that each freedom's unit rate gives.

    The momentum itself is its product with qd. A freedom moves the links that it carries as one
    body, whose inertia is the sum of theirs; their momentum about the tree's root is then taken
    about the centre of mass. Source: Orin, Goswami (2008), "Centroidal momentum matrix".
    """
    top = model.topology
    mass, first, second = link_inertias(model, kin)
    carried = top.link_dofs.T
    turned = mask_product(carried, second.reshape(-1, 9)).reshape(-1, 3, 3)
    mass, first = mask_product(carried, mass), mask_product(carried, first)
    momentum = inertia_apply(mass, first, turned, kin.axis)  # (nv, 6)
    arm = kin.dof_reference(top) - center_of_mass(model, kin)
    return (momentum[:, :3] + cross(arm, momentum[:, 3:])).T


def kinetic_energy(model: Model, kin: Kinematics, qd: Array) -> Array:
    """() kinetic energy of the links and of the armature of their joints [J]."""
    momentum = inertia_apply(*link_inertias(model, kin), kin.velocity)
    return (jnp.sum(momentum * kin.velocity) + jnp.sum(model.armature * qd * qd)) / 2


def potential_energy(model: Model, kin: Kinematics) -> Array:
    """() potential energy of gravity, zero where all masses are at the world's origin [J]."""
    return -jnp.sum(model.mass[:, None] * kin.com * model.gravity)
