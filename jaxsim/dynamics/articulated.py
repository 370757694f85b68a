"""Articulated-body method: accelerations in O(n), and their changes by test forces.

Every vector is in world axes about its tree's root, so no transforms are needed between links: the
changes that a force on a link causes on the way to the root, and then outward, are plain sums. Each
degree of freedom is a node of the recursion; those in the middle of a link or of a ball joint carry
no inertia of their own. Sources: Featherstone, Rigid Body Dynamics Algorithms (2008), table 7.1;
Kokkevis, Practical Physics for Articulated Characters (2004), sections 3 (ABM) and 4.3 (deltas).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.dynamics.rigid import link_forces, link_inertias
from jaxsim.dynamics.tree import leaves_to_root, root_to_leaves
from jaxsim.math.products import matmul
from jaxsim.math.spatial import inertia_matrix, spatial
from jaxsim.model.model import Model
from jaxsim.model.topology import Topology


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Articulated:
    """Articulated-body inertias of a pose, reused for every force that acts in this pose."""

    axis: Array  # (nv, 6) S, the joint axes
    force: Array  # (nv, 6) U = I_A S: force for a unit acceleration of a degree of freedom
    inertia: Array  # (nv,) D = S^T U, armature included


def articulated_inertia(model: Model, kin: Kinematics) -> Articulated:
    """Compute the articulated-body inertias by the inbound pass."""
    top, axis = model.topology, kin.axis
    if top.nv == 0:
        return Articulated(axis, axis, axis[:, 0])
    flat = inertia_matrix(*link_inertias(model, kin)).reshape(-1, 36)
    inertias = mask_product(_links_of_freedoms(top), flat).reshape(-1, 6, 6)

    def up(node, children):
        inertia, S, armature = node
        inertia = inertia + children
        U = matmul(inertia, S[:, None])[:, 0]
        D = jnp.sum(S * U) + armature
        return inertia - U[:, None] * U[None, :] / D, (U, D)

    U, D = leaves_to_root(
        top.dof_levels,
        top.dof_parent,
        up,
        (inertias, axis, model.armature),
        jnp.zeros((6, 6), axis.dtype),
    )
    return Articulated(axis, U, D)


def articulated_body(
    model: Model,
    kin: Kinematics,
    tau: Array,
    link_force: Array | None = None,
    articulated: Articulated | None = None,
) -> Array:
    """ABM: accelerations qdd (nv,) under generalised forces tau (nv,) [N m or N].

    link_force (nl, 6): spatial forces on the links besides gravity, about their trees' roots (see
    ``wrench_at``). articulated: ``articulated_inertia(model, kin)``, if it is at hand.
    """
    # forces at the accelerations that follow from velocity and gravity alone: what remains for
    # the recursion is linear, with zero bias and zero base acceleration
    lift = spatial(jnp.zeros(3, tau.dtype), -model.gravity)
    needed = link_forces(model, kin, kin.bias + lift[None])
    if link_force is not None:
        needed = needed - link_force
    if articulated is None:
        articulated = articulated_inertia(model, kin)
    return acceleration_deltas(model.topology, articulated, -needed, tau)


def acceleration_deltas(
    top: Topology, articulated: Articulated, link_force: Array, torque: Array
) -> Array:
    """ABM deltas: change of qdd (nv,) if these forces act in addition.

    link_force (nl, 6) on the links, about their trees' roots; torque (nv,) on the dofs. Linear
    in both; ``jax.vmap`` over them fills a constraint matrix (``constraints.system``).
    """
    if top.nv == 0:
        return torque
    at_freedoms = mask_product(_links_of_freedoms(top), link_force)

    def up(node, children):
        S, U, D, force, torque = node
        force = force + children
        u = torque + jnp.sum(S * force)
        return force - U * u / D, u

    def down(node, parent_acceleration):
        S, U, D, u = node
        qdd = (u - jnp.sum(U * parent_acceleration)) / D
        return parent_acceleration + S * qdd, qdd

    S, U, D = articulated.axis, articulated.force, articulated.inertia
    zero = jnp.zeros(6, torque.dtype)
    levels, parent = top.dof_levels, top.dof_parent
    u = leaves_to_root(levels, parent, up, (S, U, D, at_freedoms, torque), zero)
    return root_to_leaves(levels, parent, down, (S, U, D, u), zero)


def _links_of_freedoms(top: Topology) -> np.ndarray:
    """(nv, nl) bool: last degree of freedom that moves each link."""
    mask = np.zeros((top.nv, top.n_links), bool)
    for link in range(top.n_links):
        moving = np.flatnonzero(top.link_dofs[link])
        if moving.size:
            mask[moving[-1], link] = True
    return mask
