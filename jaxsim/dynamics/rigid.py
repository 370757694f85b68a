"""Inverse and forward dynamics: M(q) qdd + h(q, qd) = tau + J^T f.

In world axes about the tree's root every quantity of a subtree is a plain sum, so RNEA and CRBA
are products with constant ancestor masks; only ABA recurses. Source: Featherstone, Rigid Body
Dynamics Algorithms (2008), tables 5.1 (RNEA), 6.2 (CRBA), 7.1 (ABA).
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics, mask_product, matmul
from jaxsim.dynamics.tree import leaves_to_root, root_to_leaves
from jaxsim.math.rotation import compose, cross
from jaxsim.math.spatial import force_cross, inertia_apply, inertia_matrix, spatial
from jaxsim.model.model import Model


def link_inertias(model: Model, kin: Kinematics) -> tuple[Array, Array, Array]:
    """Spatial inertias of the links about their tree's root, in world axes.

    Returns mass (nl,), first moment (nl, 3) [kg m] and second moment (nl, 3, 3) [kg m^2], the
    arguments of ``inertia_apply``.
    """
    arm, mass = kin.com - kin.reference, model.mass
    turned = compose(compose(kin.link_rot, model.inertia), jnp.swapaxes(kin.link_rot, -1, -2))
    squared = jnp.sum(arm * arm, axis=-1)[:, None, None] * np.eye(3, dtype=arm.dtype)
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
    acceleration = mask_product(top.link_dofs, kin.axis * qdd[:, None]) + kin.bias + lift
    force = mask_product(top.link_dofs.T, link_forces(model, kin, acceleration))
    return jnp.sum(kin.axis * force, axis=-1) + model.armature * qdd


def bias_force(model: Model, kin: Kinematics) -> Array:
    """h(q, qd) (nv,): the generalised force of RNEA at qdd = 0."""
    return inverse_dynamics(model, kin, jnp.zeros(model.topology.nv, kin.axis.dtype))


def gravity_force(model: Model, kin: Kinematics) -> Array:
    """Generalised force (nv,) that holds the links against gravity at rest."""
    top = model.topology
    weight = -model.mass[:, None] * model.gravity
    arm = kin.com - kin.reference
    wrench = spatial(cross(arm, weight), weight)
    return jnp.sum(kin.axis * mask_product(top.link_dofs.T, wrench), axis=-1)


def mass_matrix(model: Model, kin: Kinematics) -> Array:
    """CRBA: the joint-space inertia M (nv, nv), armature included."""
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


def articulated_body(model: Model, kin: Kinematics, tau: Array) -> Array:
    """ABA: accelerations qdd (nv,) under generalised forces tau (nv,), in O(n).

    Each degree of freedom is a node of the recursion; those in the middle of a link or of a ball
    joint carry no inertia of their own.
    """
    top = model.topology
    if top.nv == 0:
        return tau
    mass, first, second = link_inertias(model, kin)
    own = np.zeros((top.nv, top.n_links), bool)  # a link hangs on the last freedom that moves it
    for link in range(top.n_links):
        moving = np.flatnonzero(top.link_dofs[link])
        if moving.size:
            own[moving[-1], link] = True
    inertia = matmul(
        jnp.asarray(own, tau.dtype), inertia_matrix(mass, first, second).reshape(-1, 36)
    ).reshape(-1, 6, 6)
    # forces at the accelerations that follow from velocity and gravity alone: what remains for
    # the recursion is linear, with zero bias and zero base acceleration
    lift = spatial(jnp.zeros(3, tau.dtype), -model.gravity)
    force = mask_product(own, link_forces(model, kin, kin.bias + lift))

    def up(node, children):
        inertia, force, S, tau, armature = node
        IA, pA = inertia + children[0], force + children[1]
        U = matmul(IA, S[:, None])[:, 0]
        D = jnp.sum(S * U) + armature
        u = tau - jnp.sum(S * pA)
        return (IA - U[:, None] * U[None, :] / D, pA + U * u / D), (U, D, u)

    def down(node, parent_acceleration):
        S, (U, D, u) = node
        qdd = (u - jnp.sum(U * parent_acceleration)) / D
        return parent_acceleration + S * qdd, qdd

    zero = (jnp.zeros((6, 6), tau.dtype), jnp.zeros(6, tau.dtype))
    kept = leaves_to_root(
        top.dof_levels, top.dof_parent, up, (inertia, force, kin.axis, tau, model.armature), zero
    )
    return root_to_leaves(
        top.dof_levels, top.dof_parent, down, (kin.axis, kept), jnp.zeros(6, tau.dtype)
    )
