"""Inverse and forward dynamics: M(q) qdd + h(q, qd) = tau + J^T f.

In world axes about the tree's root every quantity of a subtree is a plain sum, so RNEA and CRBA
are products with constant ancestor masks; only ABA recurses (``articulated``). Source:
Featherstone, Rigid Body Dynamics Algorithms (2008), tables 5.1 (RNEA) and 6.2 (CRBA).
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.math.products import matmul
from jaxsim.math.rotation import compose, cross
from jaxsim.math.spatial import force_cross, inertia_apply, spatial
from jaxsim.model.model import Model


def link_inertias(model: Model, kin: Kinematics) -> tuple[Array, Array, Array]:
    """Spatial inertias of the links about their tree's root, in world axes.

    Returns mass (nl,), first moment (nl, 3) [kg m] and second moment (nl, 3, 3) [kg m^2], the
    arguments of ``inertia_apply``.
    """
    arm, mass = kin.com - kin.reference, model.mass
    turned = compose(compose(kin.link_rot, model.inertia), jnp.swapaxes(kin.link_rot, -1, -2))
    squared = jnp.sum(arm * arm, axis=-1)[:, None, None] * np.eye(3, dtype=arm.dtype)[None]
    parallel = squared - arm[:, :, None] * arm[:, None, :]  # -[arm]x^2
    return mass, mass[:, None] * arm, turned + mass[:, None, None] * parallel


def link_forces(model: Model, kin: Kinematics, acceleration: Array) -> Array:
    """Spatial forces (nl, 6) that give the links the spatial accelerations (nl, 6)."""
    mass, first, second = link_inertias(model, kin)
    momentum = inertia_apply(mass, first, second, kin.velocity)
    return inertia_apply(mass, first, second, acceleration) + force_cross(kin.velocity, momentum)


def inverse_dynamics(model: Model, kin: Kinematics, qdd: Array) -> Array:
    """RNEA: generalised forces (nv,) [N m or N] that give qdd (nv,) under gravity."""
    top = model.topology
    lift = spatial(jnp.zeros(3, qdd.dtype), -model.gravity)
    acceleration = mask_product(top.link_dofs, kin.axis * qdd[:, None]) + kin.bias + lift[None]
    force = mask_product(top.link_dofs.T, link_forces(model, kin, acceleration))
    return jnp.sum(kin.axis * force, axis=-1) + model.armature * qdd


def bias_force(model: Model, kin: Kinematics) -> Array:
    """Bias force h(q, qd) (nv,): generalised force of RNEA at qdd = 0."""
    return inverse_dynamics(model, kin, jnp.zeros(model.topology.nv, kin.axis.dtype))


def gravity_force(model: Model, kin: Kinematics) -> Array:
    """Generalised force (nv,) that supports the links against gravity at rest."""
    top = model.topology
    weight = -model.mass[:, None] * model.gravity[None]
    arm = kin.com - kin.reference
    wrench = spatial(cross(arm, weight), weight)
    return jnp.sum(kin.axis * mask_product(top.link_dofs.T, wrench), axis=-1)


def mass_matrix(model: Model, kin: Kinematics) -> Array:
    """CRBA: joint-space inertia M (nv, nv), armature included."""
    top = model.topology
    mass, first, second = link_inertias(model, kin)
    flat = jnp.concatenate([mass[:, None], first, second.reshape(-1, 9)], axis=-1)
    composite = mask_product(top.link_dofs.T, flat)  # of all that each joint carries
    force = inertia_apply(
        composite[:, 0], composite[:, 1:4], composite[:, 4:].reshape(-1, 3, 3), kin.axis
    )
    lower = jnp.where(top.dof_ancestors, matmul(force, kin.axis.T), 0.0)
    strictly = jnp.where(np.tri(top.nv, k=-1, dtype=bool), lower, 0.0)
    return lower + strictly.T + jnp.diag(model.armature)
