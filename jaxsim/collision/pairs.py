"""Distances between two shapes. Normals point from the second shape to the first."""

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.collision.box_box import FACE
from jaxsim.math.safe import safe_norm
from jaxsim.math.varying import alike

BISECTIONS = 14


def ball_plane(center: Array, radius: Array, pos: Array, rot: Array):
    """Contact of a ball (3,), () with the half space below the z axis of (pos, rot).

    Returns point (3,), normal (3,), gap ().
    """
    normal = rot[:, 2]
    gap = jnp.sum((center - pos) * normal) - radius
    return center - normal * (radius + gap / 2), normal, gap


def box_distance(point: Array, half: Array) -> tuple[Array, Array]:
    """Signed distance () of a point (3,) to a box at the origin, and its gradient (3,).

    Outside the distance is to the nearest point; inside (negative) to the nearest face. At the
    point of equal distance to several faces the first of x, y, z is taken.
    """
    sign = jnp.where(point >= 0, 1.0, -1.0).astype(point.dtype)
    excess = jnp.abs(point) - half
    outward = jnp.maximum(excess, 0.0)
    outside = safe_norm(outward)
    is_outside = outside > 0
    face = jax.nn.one_hot(jnp.argmax(excess), 3, dtype=point.dtype)
    depth = jnp.sum(excess * face)  # the largest; its derivative, too, is of the face taken
    gradient = jnp.where(is_outside, outward / jnp.where(is_outside, outside, 1.0), face) * sign
    return jnp.where(is_outside, outside, depth), gradient


def ball_box(center: Array, radius: Array, pos: Array, rot: Array, half: Array):
    """Contact of a ball with a box: point (3,), normal (3,), gap ()."""
    distance, gradient = box_distance(rot.T @ (center - pos), half)
    normal = rot @ gradient
    gap = distance - radius
    return center - normal * (radius + gap / 2), normal, gap


def side_box(ends: Array, radii: Array, pos: Array, rot: Array, half: Array):
    """Contact of a tapered capsule's side with a box: point, normal, gap, () bool if it counts.

    ends (2, 3), radii (2,). The ball of the segment that is nearest to the box is found by
    bisection on the slope of distance(s) - radius(s), a convex function of s in [0, 1]. Where that
    is an end ball, the end's own slot has the point and the last result is False.
    The gradient treats s as constant (envelope theorem); it is a subgradient where the segment
    itself enters the box and the nearest face changes there.
    """
    local = (ends - pos) @ rot
    along, widening = local[1] - local[0], radii[1] - radii[0]

    def slope(s):
        _, gradient = box_distance(local[0] + s * along, half)
        return jnp.sum(gradient * along) - widening

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        rising = slope(middle) > 0
        return jnp.where(rising, low, middle), jnp.where(rising, middle, high)

    zero = jnp.zeros((), ends.dtype)
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, alike((zero, zero + 1), local, half))
    s = jax.lax.stop_gradient((low + high) / 2)
    center, radius = ends[0] + s * (ends[1] - ends[0]), radii[0] + s * widening
    inner = (s > 1e-3) & (s < 1 - 1e-3)
    return (*ball_box(center, radius, pos, rot, half), inner)


def box_plane(center: Array, turn: Array, half: Array, pos: Array, rot: Array):
    """Contacts of the corners of a box's lowest face with the half space below z of (pos, rot).

    center (3,), turn (3, 3), half (3,) of the box. Points (4, 3), normals (4, 3), gaps (4,). The
    lowest face is the one that faces most downwards; the lowest corner always belongs to it.
    Gradients treat the choice of the face as constant.
    """
    normal = rot[:, 2]
    edges = turn.T * half[:, None]
    facing = jnp.argmax(jnp.abs(jnp.sum(turn * normal[:, None], axis=0)))
    out, u, v = (
        jnp.asarray(sum(jnp.where(facing == k, edges[(k + i) % 3], 0.0) for k in range(3)))
        for i in range(3)
    )
    down = jnp.where(jnp.sum(out * normal) > 0, -out, out)
    signs = jnp.asarray(FACE, center.dtype)
    corners = (center + down)[None] + signs[:, :1] * u[None] + signs[:, 1:] * v[None]
    gap = jnp.sum((corners - pos[None]) * normal[None], axis=-1)
    normals = jnp.broadcast_to(normal, corners.shape)
    return corners - normal[None] * (gap / 2)[:, None], normals, gap
