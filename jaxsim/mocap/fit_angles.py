"""Inverse kinematics of all links' orientations, for many frames at once.

A ball takes the orientation as it is. Hinges of a link start at the best place of a grid over their
limits; a few damped Gauss-Newton steps then fit all hinges of the body together, within limits:
minimise sum_k |W log(R_k^T R_k*)|^2, in the frame of role k (Nocedal, Wright 2006, chapter 10).
"""

from __future__ import annotations

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.math.rotation import (
    axis_angle_to_matrix,
    compose,
    matrix_to_quat,
    quat_log,
    quat_to_matrix,
    rotate,
)
from jaxsim.mocap.body import RoleLinks
from jaxsim.model import Model

__all__ = [
    "BLOCK",
    "continue_hinges",
    "fit_hinges",
    "hinge_places",
    "in_blocks",
    "initial_angles",
    "limit_change",
    "move_hips",
    "role_poses",
]

BLOCK = 256  # frames that one call of a compiled program takes
GRID = {1: 25, 2: 11, 3: 7}  # places a hinge is tried at, by how many a link has
STEPS, FEW = 16, 4  # from the grid, and from the frame before
BETTER = 0.1  # part of the error that a frame by itself may leave, to break with the one before
FAR = 0.5  # [rad] of a step at most
DAMPING = 1e-4
TWIST = 0.02  # weight of a limb's turn about its bone, beside 1 of where the bone points
FEET = (0.3, 0.3, 0.1)  # of their roll, pitch and yaw
LIGHT = 0.2  # weight of an abdomen, which has to give where a chest cannot be reached otherwise


def in_blocks(function, frames: int, *arrays: np.ndarray):
    """Apply ``function`` of (BLOCK, ...) arrays to (T, ...) arrays; results (T, ...) in numpy.

    The last piece is padded with its last frame, so that one compiled program serves all clips.
    """
    parts = []
    for start in range(0, frames, BLOCK):
        index = np.minimum(np.arange(start, start + BLOCK), frames - 1)
        parts.append(function(*(array[index] for array in arrays)))
    joined = jax.tree.map(lambda *x: np.concatenate([np.asarray(v) for v in x]), *parts)
    return jax.tree.map(lambda x: x[:frames], joined)


@partial(jax.jit, static_argnames="body")
def role_poses(model: Model, body: RoleLinks, q: Array) -> dict[str, Array]:
    """Role frames, joint positions and sole points of a character at q (N, nq).

    "frames" (N, K, 3, 3) of the roles, "points" (N, K, 3) of their joints [m], "soles" (N, ne, 3)
    of the feet [m].
    """

    def of(q: Array) -> dict[str, Array]:
        kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype))
        link = np.array(body.sole_links)
        points = jnp.asarray(np.array(body.sole_points), q.dtype)
        return {
            "frames": role_frames(body, kin),
            "points": role_points(body, kin),
            "soles": kin.link_pos[link] + rotate(kin.link_rot[link], points),
        }

    return jax.vmap(of)(q)


def role_frames(body: RoleLinks, kin: Kinematics) -> Array:
    """Orientations (K, 3, 3) of the roles in the world."""
    back = np.swapaxes(body.offsets, -1, -2)
    rot = kin.link_rot[np.array(body.links)]
    return compose(rot, jnp.asarray(back, rot.dtype))


def role_points(body: RoleLinks, kin: Kinematics) -> Array:
    """Positions (K, 3) [m] of the joints of the roles."""
    places = [
        kin.joint_anchor[np.array(own)].mean(0)
        if own
        else kin.link_pos[link] + rotate(kin.link_rot[link], jnp.asarray(pivot, kin.link_pos.dtype))
        for link, own, pivot in zip(body.links, body.joints, body.pivots)
    ]
    return jnp.stack(places)


@partial(jax.jit, static_argnames="body")
def initial_angles(model: Model, body: RoleLinks, targets: Array) -> Array:
    """Initial coordinates (N, nq), each link by itself as near to its target as its joints allow.

    targets (N, K, 3, 3): of the roles; joints of links without a role as in the standing pose.
    """
    offsets = jnp.asarray(body.offsets, targets.dtype)
    return jax.vmap(partial(_link_by_link, model, body))(compose(targets, offsets))


@partial(jax.jit, static_argnames="body")
def fit_hinges(
    model: Model, body: RoleLinks, q: Array, start: Array, targets: Array, hips: Array
) -> tuple[Array, Array]:
    """Coordinates (N, nq) with the hinges of all roles fitted together, and remaining errors (N,).

    targets (N, K, 3, 3): of the roles; hips (N, 3): of the middle between the thighs' joints [m]. q
    (N, nq): balls and root; start (N, nq): hinges, from where their fit begins.
    """
    hinges = hinge_places(model, body)
    if hinges.size:
        q, left = jax.vmap(partial(_together, model, body))(
            q.at[:, hinges].set(start[:, hinges]), targets
        )
    else:
        left = jnp.zeros(len(q), q.dtype)
    return move_hips(model, body, q, hips), left


@partial(jax.jit, static_argnames="body")
def continue_hinges(
    model: Model, body: RoleLinks, before: Array, q: Array, left: Array, targets: Array
) -> Array:
    """Coordinates (N, nq) of frames in order, with hinges that continue from frame to frame.

    The fit of a frame by itself is taken only where it is clearly better, so that hinges do not
    jump between two solutions. before (nq,): the frame before the first; q (N, nq), left (N,): as
    ``fit_hinges`` gives them; targets (N, K, 3, 3).
    """
    places = hinge_places(model, body)

    def step(last: Array, frame: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        q, left, target = frame
        on, on_left = _together(model, body, q.at[places].set(last[places]), target, FEW)
        q = jnp.where(left < BETTER * on_left - 1e-4, q, on)
        return q, q

    return jax.lax.scan(step, before, (q, left, targets))[1]


@partial(jax.jit, static_argnames="body")
def move_hips(model: Model, body: RoleLinks, q: Array, hips: Array) -> Array:
    """Move the root so that the middle between the thighs' joints is at ``hips`` (N, 3) [m]."""
    return jax.vmap(partial(_hips_at, model, body))(q, hips)


def limit_change(q: np.ndarray, places: np.ndarray, most: float) -> np.ndarray:
    """Limit the change of angles at ``places`` from frame to frame to ``most`` [rad].

    A jump becomes a ramp around it, slow changes are unchanged.
    """
    ways = []
    for order in (1, -1):
        way = q[::order, places].copy()
        for t in range(1, len(way)):
            way[t] = way[t - 1] + np.clip(way[t] - way[t - 1], -most, most)
        ways.append(way[::order])
    out = q.copy()
    out[:, places] = (ways[0] + ways[1]) / 2
    return out


def hinge_places(model: Model, body: RoleLinks) -> np.ndarray:
    """Indices in q of the hinges of the roles' links."""
    top = model.topology
    own = [j for joints in body.joints for j in joints if top.joint_kinds[j] == "hinge"]
    return np.array([top.q_start[j] for j in own], int)


def _hips_at(model: Model, body: RoleLinks, q: Array, hips: Array) -> Array:
    kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype))
    thighs = [body.index("leftThigh"), body.index("rightThigh")]
    shift = hips - role_points(body, kin)[np.array(thighs)].mean(0)
    height = model.topology.root_height
    assert height is not None
    return q.at[height - 2 : height + 1].add(shift)


def _link_by_link(model: Model, body: RoleLinks, targets: Array) -> Array:
    """Coordinates (nq,) with each link turned as well as its own joints can; targets (K, 3, 3)."""
    top, dtype = model.topology, targets.dtype
    q = jnp.asarray(body.standing, dtype)
    offset = quat_to_matrix(model.joint_quat)
    rot: list[Array] = []
    turned: dict[int, Array] = {}  # by where its quaternion is in q
    for link in range(top.n_links):
        above = top.link_parent[link]
        R = rot[above] if above >= 0 else jnp.eye(3, dtype=dtype)
        joints = [j for j in range(top.n_joints) if top.joint_link[j] == link]
        free = [j for j in joints if top.joint_kinds[j] in ("free", "ball")]
        if link in body.links and free:
            target = targets[body.links.index(link)]
            start = top.q_start[free[0]] + (3 if top.joint_kinds[free[0]] == "free" else 0)
            turned[start] = compose(compose(R, offset[free[0]]).T, target)
            rot.append(target)
            continue
        hinges = [j for j in joints if top.joint_kinds[j] == "hinge"]
        places = np.array([top.q_start[j] for j in hinges], int)
        if link in body.links and hinges and len(hinges) in GRID:
            wanted = compose(R.T, targets[body.links.index(link)])
            q = q.at[places].set(_best_of_grid(model, joints, hinges, wanted))
        rot.append(compose(R, _chain(model, joints, hinges, q[places])))
    index = np.array(list(turned))[:, None] + np.arange(4)
    return q.at[index].set(matrix_to_quat(jnp.stack(list(turned.values()))))


def _chain(model: Model, joints: list[int], hinges: list[int], angles: Array) -> Array:
    """Rotation (..., 3, 3) of a link in its parent; angles (..., n) of its hinges."""
    R = jnp.broadcast_to(jnp.eye(3, dtype=angles.dtype), (*angles.shape[:-1], 3, 3))
    for j in joints:
        R = compose(R, quat_to_matrix(model.joint_quat[j]))
        if j in hinges:
            angle = angles[..., hinges.index(j)]
            R = compose(R, axis_angle_to_matrix(model.joint_axis[j], angle))
    return R


def _limits(model: Model, joints: list[int]) -> tuple[Array, Array]:
    limited = np.array([model.topology.joint_limited[j] for j in joints])
    index = np.array(joints)
    lower = jnp.where(limited, model.joint_lower[index], -np.pi)
    return lower, jnp.where(limited, model.joint_upper[index], np.pi)


def _best_of_grid(model: Model, joints: list[int], hinges: list[int], wanted: Array) -> Array:
    """Angles (n,) on a grid over the limits that turn a link nearest to ``wanted`` (3, 3)."""
    lower, upper = _limits(model, hinges)
    steps = np.linspace(0.0, 1.0, GRID[len(hinges)])
    shares = jnp.asarray(np.array(list(product(steps, repeat=len(hinges)))), wanted.dtype)
    angles = lower + (upper - lower) * shares
    R = _chain(model, joints, hinges, angles)
    return angles[jnp.argmax(jnp.sum(R * wanted, axis=(-2, -1)))]


def _together(
    model: Model, body: RoleLinks, q: Array, targets: Array, steps: int = STEPS
) -> tuple[Array, Array]:
    """Coordinates (nq,) after Gauss-Newton steps of all hinges, and the squared error ().

    Hinges of the roles' links; the error is the sum of squared weighted ones; targets (K, 3, 3).
    """
    top = model.topology
    hinges = [j for own in body.joints for j in own if top.joint_kinds[j] == "hinge"]
    places = hinge_places(model, body)
    dofs = np.array([top.v_start[j] for j in hinges])
    carried = top.link_dofs[np.array(body.links)][:, dofs]  # (K, n)
    lower, upper = _limits(model, hinges)
    weights = jnp.asarray(_weights(body), q.dtype)

    def errors(q: Array) -> tuple[Kinematics, Array, Array]:
        kin = forward_kinematics(model, q, jnp.zeros(top.nv, q.dtype))
        back = jnp.swapaxes(role_frames(body, kin), -1, -2)
        return kin, back, weights * quat_log(matrix_to_quat(compose(back, targets)))  # (K, 3)

    def step(q: Array, _) -> tuple[Array, None]:
        kin, back, error = errors(q)
        axes = kin.axis[dofs, :3]  # (n, 3)
        J = rotate(back[:, None], axes[None]) * carried[..., None] * weights[:, None]
        J = jnp.swapaxes(J, 1, 2).reshape(-1, len(hinges))
        angles = q[places]
        pull = J.T @ error.reshape(-1)
        blocked = ((angles <= lower) & (pull < 0)) | ((angles >= upper) & (pull > 0))
        J = jnp.where(blocked, 0.0, J)
        H = J.T @ J + DAMPING * jnp.eye(len(hinges), dtype=q.dtype)
        move = jnp.clip(jnp.linalg.solve(H, J.T @ error.reshape(-1)), -FAR, FAR)
        return q.at[places].set(jnp.clip(angles + move, lower, upper)), None

    q = jax.lax.scan(step, q, None, length=steps)[0]
    return q, jnp.sum(errors(q)[2] ** 2)


def _weights(body: RoleLinks) -> np.ndarray:
    """Weights (K, 3) of the axes of each role's frame."""
    rows = np.ones((len(body.roles), 3))
    for k, role in enumerate(body.roles):
        if role == "abdomen":
            rows[k] = LIGHT
        elif role.endswith(("Arm", "arm", "Thigh", "Shank")):
            rows[k, 2] = TWIST
        elif role.endswith("Foot"):
            rows[k] = FEET
    return rows
