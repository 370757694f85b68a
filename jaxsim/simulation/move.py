"""Velocities after the move to a new pose, by the momentum of the links.

A step solves for velocities at one pose and moves to another. Where an impact whips a light link
round by a quarter turn in a step, the same joint velocities are other link velocities there, and
kinetic energy may be half as much again. With the links' momentum, projected on the joints of the
new pose, energy falls instead. ``momentum_change`` goes towards that only as far as needed to
remove the excess energy, for the projection at every step would brake all turning.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics, mask_product, with_velocity
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.dynamics.rigid import link_inertias
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_divide, safe_sqrt
from jaxsim.math.spatial import inertia_apply, spatial
from jaxsim.model.model import Model
from jaxsim.model.topology import Topology

TURN = 0.03  # harmless turn of a joint in a step; from twice that on it counts in full [rad]


def momentum_change(
    model: Model,
    kin: Kinematics,
    carried: Array,
    after: Kinematics,
    qd: Array,
    excess: Array,
    solve: Callable[[Array], Array],
) -> Array:
    """(nv,) smallest change of qd (nv,) at the pose ``after`` that removes ``excess`` [J].

    The change is along the difference to the velocities with the links' momentum. kin, carried
    (nv,): pose and velocities that have this momentum. solve: velocities (nv,) of a momentum (nv,),
    by the factors of the step's mass matrix, zeros where prescribed; as a direction they serve at
    the new pose too. Zeros where the excess is not positive; the full difference where it removes
    less.
    """
    there = joint_momentum(model, after, after, qd)
    full = solve(joint_momentum(model, kin, after, carried) - there)
    curve = 2 * kinetic_energy(model, with_velocity(model.topology, after, full), full)
    return share(excess, jnp.sum(full * there), curve) * full


def whip_weight(top: Topology, turn: Array) -> Array:
    """() weight from 0 to 1 of a step that whips a joint round; turn (nv,) in the step [rad]."""
    joint = top.dof_joint
    kinds = [top.joint_kinds[j] for j in joint]
    place = np.arange(top.nv) - np.array(top.v_start, int)[joint]
    turning = [k in ("hinge", "ball") or (k == "free" and i >= 3) for k, i in zip(kinds, place)]
    most = jnp.max(jnp.abs(turn[np.flatnonzero(turning)]), initial=0.0)
    return jnp.clip(most / TURN - 1, 0, 1)


def joint_momentum(model: Model, kin: Kinematics, after: Kinematics, qd: Array) -> Array:
    """(nv,) momentum of the links, projected on the joint axes of another pose [N m s or N s].

    kin, qd (nv,): pose and velocities that have the momentum; after: pose of the axes.
    """
    top = model.topology
    moving = with_velocity(top, kin, qd)
    spun = inertia_apply(*link_inertias(model, kin), moving.velocity)
    linear = spun[:, 3:]  # of the angular part what the link has about its centre of mass
    spin = spun[:, :3] - cross(kin.com - kin.reference, linear)
    wrench = spatial(spin + cross(after.com - after.reference, linear), linear)
    carried = mask_product(top.link_dofs.T, wrench)
    return jnp.sum(after.axis * carried, axis=-1) + model.armature * qd


def share(excess: Array, slope: Array, curve: Array) -> Array:
    """() least s in [0, 1] with excess + slope s + curve s^2 / 2 <= 0, else the minimum.

    curve > 0. Zero where excess is not positive, or nothing falls.
    """
    falls = (excess > 0) & (slope < 0)
    root = safe_sqrt(slope * slope - 2 * curve * excess)
    # without a root it is 0, and twice -excess / slope is no solution: the bottom, -slope / curve
    least = jnp.where(root > 0, safe_divide(2 * excess, root - slope), safe_divide(-slope, curve))
    return jnp.where(falls, jnp.minimum(least, 1.0), 0.0)
