"""Virtual forces: joint torques that act like a force, by a transposed Jacobian.

A virtual force on a link, seen from a base link, is a pair of opposite forces at one point, one on
each; the dofs that move both (the root's) cancel. Source: Shen's thesis, sections 3.2 to 3.4.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.jacobians import motion_jacobian
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.dynamics.rigid import gravity_force
from jaxsim.model import Model
from jaxsim.model.topology import WORLD, Topology


def base_link(top: Topology, on: str, by: str) -> int:
    """Base of a virtual force on link ``on`` whose chain begins with joint ``by``.

    Of the two links that the joint connects, the one beyond it. Raises ValueError if ``by`` does
    not connect two links or ``on`` is not across it.
    """
    joint = top.joint(by)
    child = top.joint_link[joint]
    parent = top.link_parent[child]
    if parent == WORLD:
        raise ValueError(f"joint {by!r} joins {top.link_names[child]!r} to the world")
    carried_by_joint = top.link_dofs[:, top.v_start[joint]]
    return parent if carried_by_joint[top.link(on)] else child


def chain(top: Topology, on: int, base: int) -> np.ndarray:
    """Sign (nv,) +1, -1 or 0 with which each dof moves link ``on`` relative to link ``base``."""
    return top.link_dofs[on].astype(float) - top.link_dofs[base].astype(float)


def virtual_force(model: Model, kin: Kinematics, chain: Array, point: Array, force: Array) -> Array:
    """Torques (nv,) along a chain (nv,) that act like ``force`` (3,) [N] at ``point`` (3,) [m]."""
    return chain * jnp.sum(motion_jacobian(model, kin, point) * force, axis=-1)


def balance_force(kp: Array, kd: Array, target: Array, com: Array, velocity: Array) -> Array:
    """Horizontal force (3,) [N] that keeps the centre of mass over ``target`` x [m].

    com (3,), velocity (3,) of the whole body; kp [N/m], kd [N s/m]. Source: equation 3.4.
    """
    fx = kp * (target - com[0]) - kd * velocity[0]
    return jnp.stack([fx, jnp.zeros_like(fx), jnp.zeros_like(fx)])


def gravity_compensation(
    model: Model, kin: Kinematics, com: Array, base: Array | np.ndarray
) -> Array:
    """Torques (nv,) that hold every link against gravity while the base link stands.

    base (nv,): the ``link_dofs`` row of the foot (or a weighted mean of two feet's rows); the
    weight of all links goes to it. Source: section 3.3.
    """
    weight = -model.gravity * model.mass.sum()
    support = base * jnp.sum(motion_jacobian(model, kin, com) * weight, axis=-1)
    return gravity_force(model, kin) - support
