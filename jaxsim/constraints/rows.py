"""Constraint rows of a step: Jacobians and target velocities of contacts, limits and grips.

Velocity level, as in Stewart and Trinkle (1996): a gap may close within the step but not beyond,
``J v >= -gap / h``; penetration recovers with the time constant ``stabilization_time``.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts
from jaxsim.collision.nearest import Chosen
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.products import matmul
from jaxsim.math.rotation import cross, quat_log, rotate
from jaxsim.math.safe import safe_norm, safe_normalize
from jaxsim.math.spatial import wrench_at
from jaxsim.model.model import Model
from jaxsim.model.topology import Topology

ROUNDINGS = 16  # operations whose errors add up in an entry of a contact's Jacobian


@dataclass(frozen=True)
class RowLayout:
    """Static layout of a model's rows: their numbers, and their blocks."""

    contacts: int  # contact slots
    contact_block: int  # points in a block
    contact_rows: int  # rows a point: 2 in the plane, 3 in space
    limits: int
    limit_block: int
    grips: int

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
    def n_limit_rows(self) -> int:
        return self.limit_blocks * self.limit_block

    @property
    def n_rows(self) -> int:
        return self.n_contact_rows + self.n_limit_rows + self.grips * self.grip_rows

    @property
    def grip_rows(self) -> int:
        """Rows of a grip: 2 in the plane, 3 in space, as for contacts."""
        return self.contact_rows


def row_layout(top: Topology, contacts: int | None = None) -> RowLayout:
    """Layout with blocks of one contact (by default of all slots), three joint limits, one grip."""
    contacts = contact_slots(top).count if contacts is None else contacts
    limits = len(top.limited_joints)
    return RowLayout(
        contacts=contacts,
        contact_block=1,
        contact_rows=2 if top.planar else 3,
        limits=limits,
        limit_block=_even_block(limits, 3),
        grips=top.n_grips,
    )


def _even_block(count: int, most: int) -> int:
    """Block size up to ``most`` with the fewest blocks, and then the least padding."""
    blocks = max(1, -(-count // most))
    return max(1, -(-count // blocks))


def contact_frame(top: Topology, normal: Array) -> Array:
    """(nc, 2 or 3, 3) contact frames: normal, then one tangent in the x-z plane or two in space."""
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


def contact_jacobian(
    model: Model,
    kin: Kinematics,
    contacts: Contacts,
    frame: Array,
    chosen: Chosen | None = None,
) -> Array:
    """(nc, K, nv) Jacobian of the velocity of a relative to b at each contact, in its frame.

    chosen: slots of the contacts, if not all.
    """
    top = model.topology
    slots = contact_slots(top)
    J = jnp.zeros((contacts.gap.shape[0], frame.shape[1], top.nv), frame.dtype)
    for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
        if not (link >= 0).any():
            continue
        carried = sign * top.link_dofs[link] * (link >= 0)[:, None]
        if chosen is not None:
            link, carried = jnp.asarray(link)[chosen.slot], chosen.gather(jnp.asarray(carried))
        reference = kin.reference[link][:, None]
        wrench = wrench_at(contacts.point[:, None], reference, frame)
        along = matmul(wrench.reshape(-1, 6), kin.axis.T).reshape(J.shape)
        J = J + jnp.asarray(carried, frame.dtype)[:, None] * along
    return _without_rounding(J, kin, contacts.point)


def _without_rounding(J: Array, kin: Kinematics, point: Array) -> Array:
    """Replace rows of J that are only rounding by zeros.

    Where a force's line passes through all axes that could yield, as at a link that is hinged at
    its own support, nothing moves along it; solved for as a row, rounding would be a lever of a
    thousandth of a millimetre. A lever arm is a difference of positions in the world, and has the
    rounding error of these, as often as they are added and multiplied.
    """
    far = jnp.max(jnp.abs(kin.reference)) + jnp.max(jnp.abs(kin.axis[:, 3:]), initial=0.0)
    error = ROUNDINGS * jnp.finfo(J.dtype).eps * (far + jnp.max(jnp.abs(point), axis=1))
    moves = jnp.sum(J * J, axis=-1) > (error * error)[:, None]
    return jnp.where(moves[..., None], J, 0.0)


def contact_targets(
    contacts: Contacts,
    approach: Array,
    dt: Array | float,
    stabilization_time: Array | float,
    recovery_speed: Array | float,
    bounce_speed: Array | float,
) -> Array:
    """(nc,) target normal velocities; approach (nc,) is the normal velocity before the step."""
    open_gap = jnp.maximum(contacts.gap, 0.0)
    depth = jnp.maximum(-contacts.gap, 0.0)
    recovery = jnp.minimum(depth / stabilization_time, recovery_speed)
    target = jnp.where(contacts.gap > 0, -open_gap / dt, recovery)
    hits = (contacts.gap + dt * approach <= 0) & (approach < -bounce_speed)
    bounces = hits & (contacts.restitution > 0)  # others continue to the surface
    return jnp.where(bounces, jnp.maximum(target, -contacts.restitution * approach), target)


def limit_rows(
    model: Model,
    q: Array,
    qd: Array,
    dt: Array | float,
    stabilization_time: Array | float,
) -> tuple[Array, Array, Array]:
    """Rows of one limit of each limited joint: J (nl, nv), target (nl,) [rad/s or m/s], gap (nl,).

    It is the limit that the joint will be nearer to, or further beyond, after ``dt`` at the
    velocity qd: a whipped hand goes through half its range in 4 ms.

    A limited ball joint may turn by ``joint_upper`` from the zero pose, about any axis.
    """
    top = model.topology
    joints = np.array(top.limited_joints, int)
    is_ball = np.array([top.joint_kinds[j] == "ball" for j in joints], bool)
    first_q, first_v = np.array(top.q_start, int)[joints], np.array(top.v_start, int)[joints]
    position = q[first_q]
    below, above = position - model.joint_lower[joints], model.joint_upper[joints] - position
    at_lower = below - above + 2 * dt * qd[first_v] <= 0
    gap = jnp.where(at_lower, below, above)
    sign = jnp.where(at_lower, 1.0, -1.0).astype(q.dtype)
    J = jnp.zeros((len(joints), top.nv), q.dtype).at[np.arange(len(joints)), first_v].set(sign)
    if is_ball.any():
        turned = quat_log(q[first_q[is_ball][:, None] + np.arange(4)])
        rows, dofs = np.flatnonzero(is_ball)[:, None], first_v[is_ball][:, None] + np.arange(3)
        J = J.at[rows, dofs].set(-safe_normalize(turned))
        gap = gap.at[is_ball].set(model.joint_upper[joints[is_ball]] - safe_norm(turned))
    target = jnp.where(gap > 0, -gap / dt, -gap / stabilization_time)
    return J, target, gap


def limit_sign(top: Topology, J: Array) -> Array:
    """(nl,) sign of each limit's row: 1 for a lower limit, -1 for an upper one or a ball's."""
    is_ball = np.array([top.joint_kinds[j] == "ball" for j in top.limited_joints], bool)
    return jnp.where(is_ball, -1.0, jnp.sum(J, axis=1)).astype(J.dtype)


def grip_axes(top: Topology, dtype) -> Array:
    """(K, 3) directions that a grip constrains: in the plane x and z."""
    return jnp.asarray(np.eye(3)[[0, 2]] if top.planar else np.eye(3), dtype)


def grip_points(model: Model, kin: Kinematics) -> tuple[Array, Array]:
    """World positions of the two points of each grip, (ng, 3) each [m]."""
    points = []
    for link, local in (
        (model.topology.grip_link, model.grip_point),
        (model.topology.grip_other, model.grip_other_point),
    ):
        link = np.array(link, int)
        carried = kin.link_pos[link] + rotate(kin.link_rot[link], local)
        points.append(jnp.where((link >= 0)[:, None], carried, local))
    return points[0], points[1]


def grip_rows(
    model: Model,
    kin: Kinematics,
    closed: Array,
    stabilization_time: Array | float,
) -> tuple[Array, Array]:
    """Rows that keep the grips' points together: J (ng, K, nv), target (ng, K) [m/s].

    closed (ng,) bool: the others are rows of zeros. K is 3, in the plane 2 (x and z). A distance of
    the points closes with the time constant, as for contacts.
    """
    top = model.topology
    axes = grip_axes(top, kin.axis.dtype)
    along_axes = jnp.broadcast_to(axes, (top.n_grips, *axes.shape))
    J = jnp.zeros((top.n_grips, len(axes), top.nv), kin.axis.dtype)
    points = grip_points(model, kin)
    for link, at, sign in zip((top.grip_link, top.grip_other), points, (1.0, -1.0)):
        link = np.array(link, int)
        wrench = wrench_at(at[:, None], kin.reference[link][:, None], along_axes)
        along = matmul(wrench.reshape(-1, 6), kin.axis.T).reshape(J.shape)
        carried = sign * top.link_dofs[link] * (link >= 0)[:, None]
        J = J + jnp.asarray(carried, J.dtype)[:, None] * along
    J = jnp.where(closed[:, None, None], J, 0.0)
    closing = matmul(points[1] - points[0], axes.T) / stabilization_time
    return J, jnp.where(closed[:, None], closing, 0.0)
