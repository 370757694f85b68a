"""Heights of a tree's joints beyond float32: what rounding made of them, to first order.

A foot hangs 1 to 2 m below its root, so that in float32 its height carries 1e-7 m of rounding. A
gap is closed within a step, and a millisecond makes 1e-4 m/s of it. Here products and sums of the
heights and of the last rows of the rotations are taken again with factors of 11 bits, whose
products are exact, and what is missing is added. The corrections themselves are float32.

No derivative follows the corrections: that of the heights is right without them.
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

FACTOR, PRODUCT = 2.0**11, 2.0**22  # parts of 1, or of a metre, on which factors and products lie


def fine_heights(
    model: Model, q: Array, rest: Array, local: tuple[Array, Array], world: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Rotations (nj, 3, 3) and positions (nj, 3) of all joints with better last rows.

    rest (nq,): what is missing from q, see ``integrate_finely``. local, world: rotations and
    positions of the joints in their parents' frames and in the world, as float32 has them.
    """
    top = model.topology
    rot, pos = world
    q, local_rot, local_pos, R, p = jax.lax.stop_gradient((q, *local, rot, pos))
    parent = np.array(top.joint_parent)
    rooted = (parent == WORLD)[:, None]
    up = jnp.asarray([0.0, 0.0, 1.0], q.dtype)
    row = jnp.where(rooted, up, R[parent, 2])  # of the parent
    start = jnp.where(rooted, 0.0, p[parent])
    offset = quat_to_matrix(jax.lax.stop_gradient(model.joint_quat))
    turned = rotate(R, _product(row, local_rot, R[:, 2]) + _of_balls(top, q, row, offset))
    angle, shift = _of_axes(model, q, rest, row, R)
    turned = turned + angle
    risen = _rise(row, local_pos, start[:, 2], p[:, 2]) + shift
    mask = jnp.asarray(_ancestors(top), q.dtype)
    whole = matmul(mask, turned)  # (nj, 3): last row of dR R^T
    risen = matmul(mask, risen + jnp.sum((whole - turned) * (p - start), axis=-1))
    rows = jnp.sum(whole[:, :, None] * R, axis=1)
    return rot.at[:, 2].add(rows), pos.at[:, 2].add(risen)


def _parts(x: Array, grid: float) -> tuple[Array, Array]:
    """x on the grid, and what is left; both exact."""
    high = jnp.round(x * grid) / grid
    return high, x - high


def _product(row: Array, matrix: Array, rounded: Array) -> Array:
    """row (n, 3) matrix (n, 3, 3), less what was rounded (n, 3)."""
    (a, b), (A, B) = _parts(row, FACTOR), _parts(matrix, FACTOR)
    exact = _times(a, A) - rounded
    return exact + (_times(a, B) + _times(b, matrix))


def _times(row: Array, matrix: Array) -> Array:
    return jnp.sum(row[:, :, None] * matrix, axis=1)


def _rise(row: Array, offset: Array, start: Array, end: Array) -> Array:
    """start + row . offset - end (n,)."""
    (a, b), (x, y) = _parts(row, FACTOR), _parts(offset, FACTOR)
    (low, low_rest), (high, high_rest) = _parts(start, PRODUCT), _parts(end, PRODUCT)
    exact = jnp.sum(a * x, axis=-1) + (low - high)
    return exact + ((low_rest - high_rest) + jnp.sum(a * y + b * offset, axis=-1))


def _of_axes(model: Model, q: Array, rest: Array, row: Array, R: Array) -> tuple[Array, Array]:
    """What sines and cosines miss of the unit circle, and the rest of q: rows (nj, 3) of rotations
    and heights (nj,)."""
    top = model.topology
    start = np.array(top.q_start)
    axis = rotate(R, jax.lax.stop_gradient(model.joint_axis))
    turned, risen = jnp.zeros_like(row), jnp.zeros_like(row[:, 0])
    hinges, slides, flying = (top.joints_of(kind) for kind in ("hinge", "slide", "free"))
    if hinges.size:
        a, angle = axis[hinges], q[start[hinges]]
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        (s, ds), (c, dc) = _parts(sine, FACTOR), _parts(cosine, FACTOR)
        square = (s * s + c * c - 1) + (ds * (sine + s) + dc * (cosine + c))
        across = jnp.asarray([0.0, 0.0, 1.0], q.dtype) - a[:, 2:] * a
        about = jnp.stack([-a[:, 1], a[:, 0], jnp.zeros_like(a[:, 0])], axis=-1)
        own = rest[start[hinges]][:, None] * about - 0.5 * square[:, None] * across
        turned = turned.at[hinges].set(own)
    if slides.size:
        risen = risen.at[slides].set(rest[start[slides]] * axis[slides, 2])
    if flying.size:
        risen = risen.at[flying].set(rest[start[flying] + 2])
    return turned, risen


def _of_balls(top: Topology, q: Array, row: Array, offset: Array) -> Array:
    """What the matrices of quaternions miss, as rows (nj, 3) along the joints' axes."""
    missed = jnp.zeros_like(row)
    for kind in ("ball", "free"):
        joints = top.joints_of(kind)
        if not joints.size:
            continue
        first = np.array(top.q_start)[joints] + Q_SIZE[kind] - 4
        quat = q[first[:, None] + np.arange(4)]
        high, low = _parts(quat, FACTOR)
        exact = high[:, :, None] * high[:, None, :]
        small = high[:, :, None] * low[:, None, :] + low[:, :, None] * quat[:, None, :]
        eye = jnp.eye(3, dtype=q.dtype)
        motion = quat_to_matrix(quat) - eye
        length = (_trace(exact) - 1) + _trace(small)
        turn = (_turn(exact) - motion) + _turn(small) - length[:, None, None] * motion
        missed = missed.at[joints].set(_times(_times(row[joints], offset[joints]), turn))
    return missed


def _trace(products: Array) -> Array:
    return sum(products[:, k, k] for k in range(4))


def _turn(products: Array) -> Array:
    """The matrix of a quaternion from the products (n, 4, 4) of its numbers, less the identity."""
    (_, wx, wy, wz), (_, xx, xy, xz), (_, _, yy, yz), (*_, zz) = jnp.moveaxis(products, 0, -1)
    rows = [[-yy - zz, xy - wz, xz + wy], [xy + wz, -xx - zz, yz - wx], [xz - wy, yz + wx, -xx - yy]]
    return 2 * jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _ancestors(top: Topology) -> np.ndarray:
    """(nj, nj) whether a joint is another's ancestor, or itself."""
    mask = np.eye(top.n_joints, dtype=bool)
    for joint, parent in enumerate(top.joint_parent):
        if parent != WORLD:
            mask[joint] |= mask[parent]
    return mask
