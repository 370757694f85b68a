"""Contacts of a box on a height field, in the frame of the field.

Corners of the box touch the surface. Nodes of the grid that protrude touch the facing face of the
box, and ridges cross its edges, where the surface protrudes most above the straight line below the
edge. All gaps are along the normal of a face, of the surface or of the box, or along the common
normal of two edges, so a box that slides over level ground is never caught.

Gradients treat the choice of triangles, nodes, faces and edges as constant.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import FAR
from jaxsim.collision.height_field import Field, crossings, surface, window
from jaxsim.model.topology import FieldReach

CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
EDGES = np.array(  # axis, and the sides (0 or 1) along the other two axes
    [[axis, *side] for axis in range(3) for side in ((0, 0), (0, 1), (1, 0), (1, 1))]
)
NODES = 4  # one in each quarter around the box
SLOTS = len(CORNERS) + NODES + len(EDGES)
STICKS_OUT = 1e-5  # least height of a ridge above the line below an edge [m]
OUTER = 1e-3  # extra depth that a node nearer to the middle needs, relative to its distance
LOOKS = 1e-6  # cosine by which the face of an edge may be turned away from a ridge


def box_field(pos: Array, rot: Array, half: Array, field: Field, reach: FieldReach):
    """Contacts of a box on a height field: points (24, 3), normals (24, 3), gaps (24,).

    pos (3,), rot (3, 3), half (3,). Slots 0 to 7 hold the corners, 8 to 11 the deepest node in each
    quarter around the box, 12 to 23 the edges.
    """
    signs = jnp.asarray(CORNERS, half.dtype)
    corners = pos + jnp.sum((signs * half)[:, None] * rot, axis=-1)
    clearance, normal = jax.vmap(surface, (None, 0))(field, corners)
    clearance = jnp.where(field.contains(corners), clearance, FAR)
    parts = (
        (corners, normal, clearance),
        _nodes(pos, rot, half, field, reach.box),
        _edges(corners, rot, field, reach.box_lines),
    )
    touching, normal, gap = (jnp.concatenate(x) for x in zip(*parts, strict=True))
    middle = jnp.where(gap < FAR, gap, 0)[:, None] / 2
    sides = jnp.concatenate([jnp.full(8, -1), jnp.full(4, 1), jnp.full(12, -1)])[:, None]
    return touching + sides * middle * normal, normal, gap


def _nodes(pos: Array, rot: Array, half: Array, field: Field, reach: int):
    """Deepest nodes (4, 3) below the facing face of the box, normals (4, 3) and gaps (4,)."""
    wide = field.nodes(window(field, pos, reach + 1))
    slope = [(wide[2:, 1:-1] - wide[:-2, 1:-1]), (wide[1:-1, 2:] - wide[1:-1, :-2])]
    rise = [
        x[..., 2] / jnp.where(run > 0, run, 1)
        for x, run in zip(slope, (slope[0][..., 0], slope[1][..., 1]), strict=True)
    ]
    node = wide[1:-1, 1:-1].reshape(-1, 3)
    up = jnp.stack([-rise[0], -rise[1], jnp.ones_like(rise[0])], axis=-1).reshape(-1, 3)
    local = jnp.sum((node - pos)[:, :, None] * rot, axis=1)
    looks = jnp.sum(up[:, :, None] * rot, axis=1)  # the surface's normal in the axes of the box
    faces = jnp.arange(3) == jnp.argmax(jnp.abs(looks), axis=-1)[:, None]
    out = -jnp.sign(
        jnp.sum(jnp.where(faces, looks, 0), axis=-1)
    )  # side of the face that looks down
    depth = jnp.sum(jnp.where(faces, out[:, None] * local - half, 0), axis=-1)
    within = jnp.all(faces | (jnp.abs(local) <= half), axis=-1)
    thick = jnp.sum(jnp.where(faces, half, 0), axis=-1)
    gap = jnp.where(within & (depth > -2 * thick), depth, FAR)
    normal = -out[:, None] * jnp.sum(jnp.where(faces[:, None], rot, 0), axis=-1)

    offset = node[:, :2] - pos[:2]
    score = gap - OUTER * jnp.abs(offset[:, 0]) - OUTER * jnp.abs(offset[:, 1])
    quarter = 2 * (offset[:, 0] > 0) + (offset[:, 1] > 0)
    mine = quarter == np.arange(NODES)[:, None]
    best = jnp.argmin(jnp.where(mine, score, FAR), axis=1)[:, None] == jnp.arange(len(node))
    pick = jax.vmap(lambda table: jnp.sum(jnp.where(best, table, 0), axis=1), 1, 1)
    exists = jnp.any(best & mine, axis=1)
    gap = jnp.where(exists, jnp.sum(jnp.where(best, gap, 0), axis=1), FAR)
    return pick(node), pick(normal), gap


def _edges(corners: Array, rot: Array, field: Field, lines: int):
    """Points (12, 3) of the edges above the ridges that protrude most, normals, gaps (12,)."""
    weight = np.array([4, 2, 1])  # of an axis in the index of a corner
    ends, sides = [], []
    for axis, *side in EDGES:
        others = [k for k in range(3) if k != axis]
        first = int(weight[others] @ side)
        ends.append((first, first + weight[axis]))
        sides.append([0 if k == axis else 2 * side[others.index(k)] - 1 for k in range(3)])
    start, end = (corners[np.array(x)] for x in zip(*ends, strict=True))

    def edge_contact(start, end, side):
        s, clearance, normal, valid = crossings(start, end, field, lines)
        lows = [point[2] - surface_height(field, point) for point in (start, end)]
        protrudes = lows[0] + s * (lows[1] - lows[0]) - clearance
        highest = jnp.arange(s.shape[0]) == jnp.argmax(jnp.where(valid, protrudes, -FAR))
        s, clearance = (jnp.sum(jnp.where(highest, x, 0)) for x in (s, clearance))
        normal = jnp.sum(jnp.where(highest[:, None], normal, 0), axis=0)
        into = jnp.sum(normal[:, None] * rot, axis=0) * side
        exists = jnp.any(highest & valid & (protrudes > STICKS_OUT)) & jnp.all(into <= LOOKS)
        gap = jnp.where(exists, clearance * normal[2], FAR)
        up = jnp.arange(3) == 2
        return start + s * (end - start), jnp.where(exists, normal, up), gap

    return jax.vmap(edge_contact)(start, end, jnp.asarray(sides, corners.dtype))


def surface_height(field: Field, point: Array) -> Array:
    """() height of the surface below a point (3,); outside that of the nearest triangle."""
    distance, normal = surface(field, point)
    return point[2] - distance / normal[2]
