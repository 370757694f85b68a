"""Forward kinematics: all quantities that follow from (q, qd) without forces.

All spatial vectors are in world axes about the root of their tree (the origin of the tree's root
link at this instant), so that no transforms are needed between links and a character far from the
world's origin loses little precision in float32. Only the poses need a pass down the tree;
velocities are products with constant ancestor masks.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.fine_heights import fine_heights
from jaxsim.math.products import matmul
from jaxsim.math.rotation import (
    axis_angle_to_matrix,
    compose,
    cross,
    quat_conjugate,
    quat_integrate,
    quat_log,
    quat_multiply,
    quat_to_matrix,
    rotate,
)
from jaxsim.math.spatial import motion_cross, spatial
from jaxsim.model.joints import Q_SIZE, V_SIZE
from jaxsim.model.model import Model
from jaxsim.model.topology import WORLD, Topology


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kinematics:
    """Poses, joint axes and velocities of one configuration, in the world's frame."""

    joint_pos: Array  # (nj, 3) origins of the joint nodes' frames after the joint's motion [m]
    joint_rot: Array  # (nj, 3, 3)
    joint_anchor: Array  # (nj, 3) points about which the joints turn [m]
    link_pos: Array  # (nl, 3) origins of the links' frames [m]
    link_rot: Array  # (nl, 3, 3)
    com: Array  # (nl, 3) centres of mass of the links [m]
    reference: Array  # (nl, 3) root of each link's tree [m]
    axis: Array  # (nv, 6) joint axes S about the root of their tree
    velocity: Array  # (nl, 6) link velocities about the root of their tree
    bias: Array  # (nl, 6) spatial accelerations of the links where qdd = 0, without gravity

    def dof_reference(self, topology: Topology) -> Array:
        """(nv, 3) reference point of each joint axis [m]."""
        return self.reference[topology.dof_link]


def mask_product(mask: np.ndarray, x: Array) -> Array:
    """Sum the rows of x (n, ...) that each row of the constant 0/1 mask (m, n) picks."""
    return matmul(jnp.asarray(mask, x.dtype), x)


def forward_kinematics(model: Model, q: Array, qd: Array, rest: Array | None = None) -> Kinematics:
    """Kinematics of q (nq,), qd (nv,). Source: Featherstone (2008), chapter 4.4, in world axes.

    rest (nq,): rounding remainder of q; with it heights are more accurate than float32, see
    ``fine_heights``.
    """
    top = model.topology
    offset_rot = quat_to_matrix(model.joint_quat)
    motion_rot, motion_pos = _joint_motion(model, q)
    local_rot = compose(offset_rot, motion_rot)
    local_pos = model.joint_pos + rotate(offset_rot, motion_pos)

    rot, pos = _compose(top, local_rot, local_pos)
    if rest is not None:
        rot, pos = fine_heights(model, q, rest, (local_rot, local_pos), (rot, pos))
    parent = np.array(top.joint_parent)
    rooted = (parent == WORLD)[:, None]
    parent_rot = jnp.where(rooted[..., None], jnp.eye(3, dtype=q.dtype), rot[parent])
    parent_pos = jnp.where(rooted, 0.0, pos[parent])
    zero_rot = compose(parent_rot, offset_rot)  # frame of the zero pose of each joint
    zero_pos = parent_pos + rotate(parent_rot, model.joint_pos)
    anchor = zero_pos + rotate(zero_rot, model.joint_anchor)
    axis = rotate(zero_rot, model.joint_axis)
    # a ball turns about its anchor; a free joint about the link's origin
    anchor = jnp.where(np.array([k == "free" for k in top.joint_kinds])[:, None], pos, anchor)

    last = np.array(top.link_joint)
    link_rot, link_pos = rot[last], pos[last]
    com = link_pos + rotate(link_rot, model.com)
    reference = link_pos[top.link_root]
    S = _axes(top, rot, axis, anchor, reference)

    velocity, bias = _link_velocities(top, S, qd)
    return Kinematics(
        joint_pos=pos,
        joint_rot=rot,
        joint_anchor=anchor,
        link_pos=link_pos,
        link_rot=link_rot,
        com=com,
        reference=reference,
        axis=S,
        velocity=velocity,
        bias=bias,
    )


def with_velocity(top: Topology, kin: Kinematics, qd: Array) -> Kinematics:
    """Kinematics of the same pose at another velocity qd (nv,)."""
    velocity, bias = _link_velocities(top, kin.axis, qd)
    return replace(kin, velocity=velocity, bias=bias)


def _link_velocities(top: Topology, S: Array, qd: Array) -> tuple[Array, Array]:
    """Velocities (nl, 6) of the links, and their accelerations (nl, 6) where qdd = 0."""
    moved = S * qd[:, None]
    before = mask_product(top.dof_before, moved)
    bias = mask_product(top.link_dofs, motion_cross(before, moved))
    return mask_product(top.link_dofs, moved), bias


def _joint_motion(model: Model, q: Array) -> tuple[Array, Array]:
    """Rotation (nj, 3, 3) and translation (nj, 3) of each joint, in its own frame."""
    top = model.topology
    n = top.n_joints
    start = np.array(top.q_start)
    rot = jnp.broadcast_to(jnp.eye(3, dtype=q.dtype), (n, 3, 3))
    pos = jnp.zeros((n, 3), q.dtype)
    hinges, slides = top.joints_of("hinge"), top.joints_of("slide")
    if hinges.size:
        turn = axis_angle_to_matrix(model.joint_axis[hinges], q[start[hinges]])
        rot = rot.at[hinges].set(turn)
    if slides.size:
        pos = pos.at[slides].set(model.joint_axis[slides] * q[start[slides]][:, None])
    for kind in ("ball", "free"):
        joints = top.joints_of(kind)
        if joints.size:
            first = start[joints] + Q_SIZE[kind] - 4
            rot = rot.at[joints].set(quat_to_matrix(q[first[:, None] + np.arange(4)]))
            if kind == "free":
                pos = pos.at[joints].set(q[start[joints][:, None] + np.arange(3)])
    turning = np.concatenate([hinges, top.joints_of("ball")]).astype(int)
    if turning.size:
        anchor = model.joint_anchor[turning]
        shift = anchor - rotate(rot[turning], anchor)
        pos = pos.at[turning].add(shift)
    return rot, pos


def _compose(top: Topology, local_rot: Array, local_pos: Array) -> tuple[Array, Array]:
    """World poses of all nodes, one level of the tree at a time."""
    rots: list[Array] = []
    poses: list[Array] = []
    above: tuple[int, ...] = ()
    for level in top.joint_levels:
        rot, pos = local_rot[np.array(level)], local_pos[np.array(level)]
        if above:
            slot = np.array([above.index(top.joint_parent[j]) for j in level])
            pos = poses[-1][slot] + rotate(rots[-1][slot], pos)
            rot = compose(rots[-1][slot], rot)
        rots.append(rot)
        poses.append(pos)
        above = level
    inverse = np.argsort(np.concatenate([np.array(level) for level in top.joint_levels]))
    return jnp.concatenate(rots)[inverse], jnp.concatenate(poses)[inverse]


def _axes(top: Topology, rot: Array, axis: Array, anchor: Array, reference: Array) -> Array:
    """Joint axes (nv, 6) about the tree's root."""
    joint, link = top.dof_joint, top.dof_link
    # direction of each degree of freedom: the joint's axis, a column of the link's rotation (ball,
    # free's angular part) or a world axis (free's linear part)
    kinds = [top.joint_kinds[j] for j in joint]
    within = np.arange(top.nv) - np.array(top.v_start)[joint] if top.nv else np.zeros(0, int)
    column = within % 3
    frame = np.array([k in ("ball", "free") for k in kinds])
    linear = np.array(
        [k == "slide" or (k == "free" and i < 3) for k, i in zip(kinds, within, strict=True)]
    )
    world = np.array([k == "free" and i < 3 for k, i in zip(kinds, within, strict=True)])
    direction = axis[joint]
    if frame.any():
        columns = rot[joint, :, column]
        direction = jnp.where(frame[:, None], columns, direction)
        direction = jnp.where(world[:, None], np.eye(3)[column], direction)
    moment_arm = cross(anchor[joint] - reference[link], direction)
    return spatial(
        jnp.where(linear[:, None], 0.0, direction),
        jnp.where(linear[:, None], direction, moment_arm),
    )


def integrate(model: Model, q: Array, qd: Array, dt: Array | float) -> Array:
    """Integrate positions: q (+) qd dt (nq,) after dt [s] at a constant velocity qd (nv,)."""
    top = model.topology
    q_start, v_start = np.array(top.q_start), np.array(top.v_start)
    simple = np.concatenate([top.joints_of("hinge"), top.joints_of("slide")]).astype(int)
    if len(simple) == top.nv and top.nq == top.nv:
        return q + qd * dt
    out = q.at[q_start[simple]].add(qd[v_start[simple]] * dt) if simple.size else q
    turning = np.concatenate([top.joints_of("ball"), top.joints_of("free")]).astype(int)
    if turning.size:
        sizes = np.array([[Q_SIZE[k], V_SIZE[k]] for k in top.joint_kinds])[turning]
        i = (q_start[turning] + sizes[:, 0] - 4)[:, None] + np.arange(4)
        k = (v_start[turning] + sizes[:, 1] - 3)[:, None] + np.arange(3)
        out = out.at[i].set(quat_integrate(q[i], qd[k], dt))
    flying = top.joints_of("free")
    if flying.size:
        i = q_start[flying][:, None] + np.arange(3)
        out = out.at[i].add(qd[v_start[flying][:, None] + np.arange(3)] * dt)
    return out


def integrate_finely(
    model: Model, q: Array, qd: Array, dt: Array | float, rest: Array
) -> tuple[Array, Array]:
    """Integrate positions with compensated sums: q (nq,) and the new rounding remainder (nq,).

    rest (nq,): remainder of the last step. Source: Knuth (1998), The Art of Computer Programming 2,
    4.2.2, theorem B. Quaternions have no remainder. It has no derivative.
    """
    at, dofs = _linear(model.topology)
    begin, step = q[at], qd[dofs] * dt + rest[at]
    end = begin + step
    moved = end - begin
    missed = jax.lax.stop_gradient((begin - (end - moved)) + (step - moved))
    q = integrate(model, q, qd, dt).at[at].set(end)
    return q, jnp.zeros_like(rest).at[at].set(missed)


def _linear(top: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Indices in q and in qd of positions that change by velocity times time."""
    q_start, v_start = np.array(top.q_start, int), np.array(top.v_start, int)
    simple = np.concatenate([top.joints_of("hinge"), top.joints_of("slide")]).astype(int)
    flying = top.joints_of("free").astype(int)
    place = [
        np.concatenate([start[simple], (start[flying][:, None] + np.arange(3)).reshape(-1)])
        for start in (q_start, v_start)
    ]
    order = np.argsort(place[0])
    return place[0][order], place[1][order]


def difference(model: Model, target: Array, q: Array, free: bool = True) -> Array:
    """(nv,) velocity that brings q (nq,) to the target (nq,) in a second, see ``integrate``.

    For a rotation it is the rotation vector from one to the other, the short way round, in the
    link's axes [rad]. free: False gives zeros for free joints.
    """
    top = model.topology
    error = jnp.zeros(top.nv, q.dtype)
    simple = np.concatenate([top.joints_of("hinge"), top.joints_of("slide")])
    at, dofs = np.array(top.q_start)[simple], np.array(top.v_start)[simple]
    error = error.at[dofs].set(target[at] - q[at])
    for joint in (*top.joints_of("ball"), *(top.joints_of("free") if free else ())):
        at, dof = top.q_start[joint], top.v_start[joint]
        if top.joint_kinds[joint] == "free":
            error = error.at[dof : dof + 3].set(target[at : at + 3] - q[at : at + 3])
            at, dof = at + 3, dof + 3
        now, wanted = q[at : at + 4], target[at : at + 4]
        turn = quat_log(quat_multiply(quat_conjugate(now), wanted))
        error = error.at[dof : dof + 3].set(turn)
    return error


def plane_angles(model: Model, q: Array) -> Array:
    """(nl,) orientations of a planar model's links, counter-clockwise seen with x to the right.

    Sums of the hinge angles on the way to the world, so whole turns are kept [rad].
    """
    top = model.topology
    angular = np.array([top.joint_kinds[j] == "hinge" for j in top.dof_joint])
    counter_clockwise = -model.joint_axis[top.dof_joint, 1]
    return mask_product(top.link_dofs & angular, counter_clockwise * q)


def point_velocity(kin: Kinematics, link: Array | np.ndarray | int, point: Array) -> Array:
    """Velocity (..., 3) [m/s] of the material point of ``link`` now at ``point`` (..., 3) [m]."""
    v = kin.velocity[link]
    return v[..., 3:] + cross(v[..., :3], point - kin.reference[link])
