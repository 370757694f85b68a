"""Rows of the step's complementarity problem: Jacobians and target velocities.

Velocity level, as in Stewart and Trinkle (1996): a gap may close within the step but not beyond,
``J v >= -gap / h``; what has sunk in comes out with the time constant ``stabilization_time``.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics, matmul
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_normalize
from jaxsim.math.spatial import wrench_at
from jaxsim.model.model import Model
from jaxsim.model.topology import Topology


@dataclass(frozen=True)
class Layout:
    """How many rows a model has and how they fall into blocks; static."""

    contacts: int  # contact slots
    contact_block: int  # points in a block
    contact_rows: int  # rows a point: 2 in the plane, 3 in space
    limits: int
    limit_block: int

    @property
    def contact_blocks(self) -> int:
        return -(-self.contacts // self.contact_block)

    @property
    def limit_blocks(self) -> int:
        return -(-self.limits // self.limit_block)

    @property
    def n_contact_rows(self) -> int:
        return self.contact_blocks * self.contact_block * self.contact_rows

    @property
    def n_rows(self) -> int:
        return self.n_contact_rows + self.limit_blocks * self.limit_block


def row_layout(top: Topology) -> Layout:
    """Blocks of up to two contact points and of up to three joint limits."""
    contacts, limits = contact_slots(top).count, len(top.limited_joints)
    return Layout(
        contacts=contacts,
        contact_block=_even_block(contacts, 2),
        contact_rows=2 if top.planar else 3,
        limits=limits,
        limit_block=_even_block(limits, 3),
    )


def _even_block(count: int, most: int) -> int:
    """The block size up to ``most`` that pads the least in the fewest blocks."""
    blocks = max(1, -(-count // most))
    return max(1, -(-count // blocks))


def contact_frame(top: Topology, normal: Array) -> Array:
    """(nc, 2 or 3, 3): the normal, then one tangent in the x-z plane or two in space."""
    if top.planar:
        zero = jnp.zeros_like(normal[:, 0])
        tangent = jnp.stack([normal[:, 2], zero, -normal[:, 0]], axis=-1)
        return jnp.stack([normal, tangent], axis=1)
    # the world axis least along the normal is never parallel to it
    size = jnp.abs(normal)
    pick_x = ((size[:, 0] <= size[:, 1]) & (size[:, 0] <= size[:, 2]))[:, None]
    pick_y = (size[:, 1] <= size[:, 2])[:, None]
    aside = jnp.where(pick_x, np.eye(3)[0], jnp.where(pick_y, np.eye(3)[1], np.eye(3)[2]))
    aside = aside.astype(normal.dtype)
    first = safe_normalize(aside - normal * jnp.sum(aside * normal, axis=-1, keepdims=True))
    second = cross(normal, first)
    return jnp.stack([normal, first, second], axis=1)


def contact_jacobian(model: Model, kin: Kinematics, contacts: Contacts, frame: Array) -> Array:
    """(nc, K, nv): relative velocity of a against b at each contact, along its frame's axes."""
    top = model.topology
    slots = contact_slots(top)
    J = jnp.zeros((slots.count, frame.shape[1], top.nv), frame.dtype)
    for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
        if not (link >= 0).any():
            continue
        carried = sign * top.link_dofs[link] * (link >= 0)[:, None]
        reference = kin.reference[link][:, None]
        wrench = wrench_at(contacts.point[:, None], reference, frame)
        along = matmul(wrench.reshape(-1, 6), kin.axis.T).reshape(J.shape)
        J = J + jnp.asarray(carried, frame.dtype)[:, None] * along
    return J


def contact_targets(
    contacts: Contacts,
    approach: Array,
    dt: Array | float,
    stabilization_time: Array | float,
    bounce_speed: Array | float,
) -> Array:
    """(nc,) normal velocities to reach; approach (nc,) is the normal velocity before the step."""
    open_gap = jnp.maximum(contacts.gap, 0.0)
    depth = jnp.maximum(-contacts.gap, 0.0)
    target = jnp.where(contacts.gap > 0, -open_gap / dt, depth / stabilization_time)
    hits = (contacts.gap + dt * approach <= 0) & (approach < -bounce_speed)
    return jnp.where(hits, jnp.maximum(target, -contacts.restitution * approach), target)


def limit_rows(
    model: Model, q: Array, dt: Array | float, stabilization_time: Array | float
):
    """Signed unit rows of the nearer limit of each limited joint.

    Returns dof (nl,) static indices, sign (nl,), target (nl,) [rad/s or m/s], gap (nl,).
    """
    top = model.topology
    joints = np.array(top.limited_joints, int)
    dof = np.array(top.v_start, int)[joints]
    position = q[np.array(top.q_start, int)[joints]]
    below, above = position - model.joint_lower[joints], model.joint_upper[joints] - position
    at_lower = below <= above
    gap = jnp.where(at_lower, below, above)
    sign = jnp.where(at_lower, 1.0, -1.0).astype(q.dtype)
    target = jnp.where(gap > 0, -gap / dt, -gap / stabilization_time)
    return dof, sign, target, gap
