"""Heights of a tree's joints, more accurate than float32 rounding.

A foot is 1 to 2 m below its root, so that its height has 1e-7 m of rounding. A gap closes within a
step, and in a millisecond that is 1e-4 m/s. The rounding errors of the heights, and of the last
rows of the rotations that they follow from, are computed to first order and added: products are
repeated with factors of 11 bits, which float32 multiplies exactly.

The corrections have no derivative, as they are below its own rounding.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.math.rotation import quat_to_matrix, rotate
from jaxsim.model.joints import Q_SIZE
from jaxsim.model.model import Model
from jaxsim.model.topology import WORLD, Topology

FACTOR = 2.0**11  # factors are whole multiples of 1 / FACTOR, or of that in metres
UP = np.array([0.0, 0.0, 1.0])


def fine_heights(
    model: Model, q: Array, rest: Array, local: tuple[Array, Array], world: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Rotations (nj, 3, 3) and positions (nj, 3) of the joints in the world, with finer last rows.

    rest (nq,): rounding remainder of q, see ``kinematics.integrate_finely``. local, world:
    rotations and positions of the joints in their parents' frames and in the world, of float32.
    A turn dR of a joint's frame R has the same last row of dR R^T for all that the joint carries.
    """
    top = model.topology
    model, q, rest, (turn, offset), (R, p) = jax.lax.stop_gradient((model, q, rest, local, world))
    parent = np.array(top.joint_parent)
    rooted = (parent == WORLD)[:, None]
    row = jnp.where(rooted, jnp.asarray(UP, q.dtype), R[parent, 2])  # of the parents
    begin = jnp.where(rooted, 0.0, p[parent])
    of_axes, slid = _of_axes(model, q, rest, R)
    missed = _product(row, turn, R[:, 2]) + _of_quaternions(model, q, row)
    turned = rotate(R, missed) + of_axes
    risen = _rise(row, offset, begin[:, 2], p[:, 2]) + slid
    ancestors = jnp.asarray(_ancestors(top), q.dtype)
    whole = matmul(ancestors, turned)
    risen = matmul(ancestors, risen + jnp.sum((whole - turned) * (p - begin), axis=-1))
    rot, pos = world
    return rot.at[:, 2].add(_times(whole, R)), pos.at[:, 2].add(risen)


def _ancestors(top: Topology) -> np.ndarray:
    """(nj, nj) bool: [i, j] is true if joint j is an ancestor of joint i, or i itself."""
    mask = np.eye(top.n_joints, dtype=bool)
    for joint in (j for level in top.joint_levels for j in level):
        if top.joint_parent[joint] != WORLD:
            mask[joint] |= mask[top.joint_parent[joint]]
    return mask


def _parts(x: Array, grid: float = FACTOR) -> tuple[Array, Array]:
    """Split x exactly into a multiple of 1 / grid and the remainder."""
    whole = jnp.round(x * grid) / grid
    return whole, x - whole


def _times(row: Array, matrix: Array) -> Array:
    """Multiply rows (n, 3) by matrices (n, 3, 3)."""
    return jnp.sum(row[:, :, None] * matrix, axis=1)


def _product(row: Array, matrix: Array, rounded: Array) -> Array:
    """Rounding error of a product: row (n, 3) times matrix (n, 3, 3) less ``rounded`` (n, 3)."""
    (a, da), (m, dm) = _parts(row), _parts(matrix)
    return (_times(a, m) - rounded) + (_times(a, dm) + _times(da, matrix))


def _rise(row: Array, offset: Array, begin: Array, end: Array) -> Array:
    """Rounding error begin + row . offset - end, (n,) from (n, 3) and (n,)."""
    (a, da), (x, dx) = _parts(row), _parts(offset)
    (low, more_low), (high, more_high) = (_parts(z, FACTOR**2) for z in (begin, end))
    whole = jnp.sum(a * x, axis=-1) + (low - high)
    return whole + ((more_low - more_high) + jnp.sum(a * dx + da * offset, axis=-1))


def _of_axes(model: Model, q: Array, rest: Array, R: Array) -> tuple[Array, Array]:
    """Corrections by the joints' axes: the rest of q, and sines and cosines off the unit circle.

    Returns last rows (nj, 3) of dR R^T and heights (nj,) [m].
    """
    top = model.topology
    start, axis = np.array(top.q_start), rotate(R, model.joint_axis)
    turned, risen = jnp.zeros_like(axis), jnp.zeros_like(axis[:, 0])
    hinges, slides, flying = (top.joints_of(kind) for kind in ("hinge", "slide", "free"))
    if hinges.size:
        a, at = axis[hinges], start[hinges]
        sine, cosine = jnp.sin(q[at]), jnp.cos(q[at])
        (s, ds), (c, dc) = _parts(sine), _parts(cosine)
        beyond = (s * s + c * c - 1) + (ds * (sine + s) + dc * (cosine + c))
        about = jnp.stack([-a[:, 1], a[:, 0], jnp.zeros_like(a[:, 0])], axis=-1)
        across = jnp.asarray(UP, q.dtype)[None] - a[:, 2:] * a
        turned = turned.at[hinges].set(rest[at][:, None] * about - 0.5 * beyond[:, None] * across)
    if slides.size:
        risen = risen.at[slides].set(rest[start[slides]] * axis[slides, 2])
    if flying.size:
        risen = risen.at[flying].set(rest[start[flying] + 2])
    return turned, risen


def _of_quaternions(model: Model, q: Array, row: Array) -> Array:
    """Corrections of the matrices of balls and free joints, as if quaternions had unit length.

    row (nj, 3) of the parents; the result (nj, 3) is in the joints' axes.
    """
    top = model.topology
    missed = jnp.zeros_like(row)
    for kind in ("ball", "free"):
        joints = top.joints_of(kind)
        if not joints.size:
            continue
        quat = q[(np.array(top.q_start)[joints] + Q_SIZE[kind] - 4)[:, None] + np.arange(4)]
        a, da = _parts(quat)
        whole = a[:, :, None] * a[:, None, :]
        more = a[:, :, None] * da[:, None, :] + da[:, :, None] * quat[:, None, :]
        rounded = quat_to_matrix(quat) - jnp.eye(3, dtype=q.dtype)[None]
        length = (jnp.trace(whole, axis1=1, axis2=2) - 1) + jnp.trace(more, axis1=1, axis2=2)
        turn = (_turn(whole) - rounded) + _turn(more) - length[:, None, None] * rounded
        offset = quat_to_matrix(model.joint_quat[joints])
        missed = missed.at[joints].set(_times(_times(row[joints], offset), turn))
    return missed


def _turn(products: Array) -> Array:
    """Rotation matrices (n, 3, 3) less the identity, from products (n, 4, 4) of quaternions."""
    (_, wx, wy, wz), (_, xx, xy, xz), (_, _, yy, yz), (*_, zz) = jnp.moveaxis(products, 0, -1)
    rows = [
        [-yy - zz, xy - wz, xz + wy],
        [xy + wz, -xx - zz, yz - wx],
        [xz - wy, yz + wx, -xx - yy],
    ]
    return 2 * jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
