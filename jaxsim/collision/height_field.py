"""Surface of a height field, and contacts of balls and sides of capsules on it.

Every cell of the grid is two triangles, and the ground below them is solid. The neighbourhood of a
point is a window of cells of fixed size (``Topology.field_reach``). All positions are in the frame
of the field, z up; nothing touches where the centre of a ball is beyond the field's extents.

A ball touches the nearest point of the surface, on a face, an edge or a corner, so ridges and peaks
have their own normals, and a ball that slides over a level or hollow edge touches the faces alone.
A second face below it counts, too, so that a ball in a valley rests on both sides. A ball below the
surface is pushed out at the nearest point.

Gradients treat the choice of faces and edges as constant.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import ALIKE, FAR
from jaxsim.collision.round_cones import at, nearest_pair
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.model.topology import FieldReach

INSIDE = 1e-6  # largest distance of a foot point from its triangle, relative to the cell
ASKEW = 0.1  # sine of the angle between edges, seen from above, below which they do not cross
LINE_ENDS = 1e-3  # share of the capsule at each end where the end touches and not the side


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Field:
    """Heights and extents of one height field."""

    heights: Array  # (nx, ny) [m]
    half: Array  # (2,) half extents [m]

    @property
    def shape(self) -> np.ndarray:
        return np.array(self.heights.shape, np.int32)

    @property
    def cell(self) -> Array:
        """(2,) widths of a cell [m]."""
        return 2 * self.half / jnp.asarray(self.shape - 1, self.half.dtype)

    def grid(self, point: Array) -> Array:
        """(..., 2) coordinates of points (..., 2 or 3) in cells from the field's corner."""
        return (point[..., :2] + self.half) / self.cell

    def contains(self, point: Array) -> Array:
        """(...) bool: the point is above or below the field."""
        return jnp.all(jnp.abs(point[..., :2]) <= self.half, axis=-1)

    def nodes(self, index: Array) -> Array:
        """(..., 3) positions of grid nodes; an index (..., 2) is clipped to the border."""
        index = jnp.clip(index, 0, self.shape - 1)
        flat = index[..., 0] * self.shape[1] + index[..., 1]
        height = jnp.take(self.heights.reshape(-1), flat, mode="clip")
        place = index.astype(self.half.dtype) * self.cell - self.half
        return jnp.concatenate([place, height[..., None]], axis=-1)


def window(field: Field, point: Array, reach: int) -> Array:
    """(2 reach + 1, 2 reach + 1, 2) indices of the nodes around the one nearest to a point."""
    middle = jnp.round(jax.lax.stop_gradient(field.grid(point))).astype(np.int32)
    middle = jnp.clip(middle, 0, field.shape - 1)
    return middle + _square(-reach, reach + 1)


def _square(start: int, stop: int) -> np.ndarray:
    """(n, n, 2) indices from start to stop along both axes."""
    return np.moveaxis(np.mgrid[start:stop, start:stop], 0, -1).astype(np.int32)


def triangles(nodes: Array) -> tuple[Array, Array]:
    """First corner and unit upward normal of both triangles of every cell between nodes.

    nodes (n, m, 3); returns (n - 1, m - 1, 3) and (2, n - 1, m - 1, 3): the triangles along the
    cells' x sides, then those along their y sides. A cell without area, beyond the border, has a
    normal all the same.
    """
    near, far = nodes[:-1, :-1], nodes[1:, 1:]
    right, up = nodes[1:, :-1], nodes[:-1, 1:]
    along_x, along_y = jnp.stack([right - near, far - up]), jnp.stack([far - right, up - near])
    slope_x = safe_divide(along_x[..., 2], along_x[..., 0])
    slope_y = safe_divide(along_y[..., 2], along_y[..., 1])
    normal = jnp.stack([-slope_x, -slope_y, jnp.ones_like(slope_x)], axis=-1)
    return near, normal / jnp.sqrt(jnp.sum(normal * normal, axis=-1, keepdims=True))


def surface(field: Field, point: Array) -> tuple[Array, Array]:
    """Signed distance () of a point (3,) to the plane of the triangle below it, its normal (3,)."""
    place = field.grid(point)
    first = jnp.clip(jnp.floor(jax.lax.stop_gradient(place)), 0, field.shape - 2)
    index = first.astype(np.int32) + _square(0, 2)
    corner, normal = triangles(field.nodes(index))
    share = place - first
    normal = jnp.where(share[1] > share[0], normal[1, 0, 0], normal[0, 0, 0])
    return jnp.sum((point - corner[0, 0]) * normal), normal


def ball_field(center: Array, radius: Array, field: Field, reach: int):
    """Two contacts of a ball (3,), () with a field: points (2, 3), normals (2, 3), gaps (2,).

    reach: cells to each side that the ball may touch. The second slot is FAR where there is only
    one nearest point, or the other faces have nearly the same normal. The point whose normal is
    more along x comes first, so that each keeps its slot.
    """
    index = window(field, center, reach)
    nodes = field.nodes(index)
    height, below = surface(field, center)
    above = height >= 0

    corner, face_normal = triangles(nodes)
    face_distance = jnp.sum((center - corner) * face_normal, axis=-1)
    foot = field.grid(center - face_distance[..., None] * face_normal) - index[:-1, :-1]
    beyond = foot[..., 1] - foot[..., 0]
    side = np.array([1, -1]).reshape(2, 1, 1)
    least, most = jnp.min(foot, axis=-1), jnp.max(foot, axis=-1)
    on_face = (least >= -INSIDE) & (most <= 1 + INSIDE) & (side * beyond <= INSIDE)
    real = jnp.all((index[:-1, :-1] >= 0) & (index[:-1, :-1] < field.shape - 1), axis=-1)
    facing = on_face & real & ((face_distance >= 0) == above)
    face_gap = jnp.where(facing, jnp.abs(face_distance), FAR).reshape(-1)
    face_normal = face_normal.reshape(-1, 3)

    start, end = edges(nodes)
    along = end - start
    t = safe_divide(jnp.sum((center - start) * along, -1), jnp.sum(along * along, -1))
    from_edge = center - start - jnp.clip(t, 0, 1)[:, None] * along
    apart = jnp.sum(from_edge * from_edge, -1) > 0
    edge_gap = safe_norm(from_edge)
    sign = jnp.where(above, 1, -1).astype(center.dtype)
    outward = sign * safe_divide(from_edge, edge_gap[:, None])
    edge_normal = jnp.where(apart[:, None], outward, below)

    distance = jnp.concatenate([face_gap, edge_gap])
    normals = jnp.concatenate([face_normal, edge_normal])
    first = jnp.arange(distance.shape[0]) == jnp.argmin(distance)
    gap_1, normal_1 = _pick(distance, first), _pick(normals, first)
    alike = jnp.sum(face_normal * normal_1, axis=-1) > ALIKE
    others = jnp.where(alike | ~above, FAR, face_gap)
    second = jnp.arange(others.shape[0]) == jnp.argmin(others)
    exists = jnp.min(others) < FAR
    gap_2, normal_2 = _pick(face_gap, second), _pick(face_normal, second)
    normal_2 = jnp.where(exists, normal_2, normal_1)
    gap_1, gap_2 = sign * gap_1 - radius, jnp.where(exists, gap_2 - radius, FAR)
    keep = normal_1[0] + 0.5 * normal_1[1] >= normal_2[0] + 0.5 * normal_2[1]
    normal = jnp.stack([normal_1, normal_2])
    normal = jnp.where(keep, normal, normal[::-1])
    gap = jnp.stack([gap_1, gap_2])
    gap = jnp.where(field.contains(center), jnp.where(keep, gap, gap[::-1]), FAR)
    half = jnp.where(gap < FAR, gap, 0)[:, None] / 2
    return center - normal * (radius + half), normal, gap


def edges(nodes: Array) -> tuple[Array, Array]:
    """Ends (n, 3) and (n, 3) of all edges of the triangles between nodes (k, m, 3)."""
    pairs = (
        (nodes[:-1], nodes[1:]),
        (nodes[:, :-1], nodes[:, 1:]),
        (nodes[:-1, :-1], nodes[1:, 1:]),
    )
    start, end = (jnp.concatenate([p[k].reshape(-1, 3) for p in pairs]) for k in (0, 1))
    return start, end


def crossings(start: Array, end: Array, field: Field, lines: int):
    """Crossings of a segment with edges of the field, seen from above.

    start, end (3,); at most ``lines`` edges of each of the three directions. Returns s (n,) in
    [0, 1] along the segment, clearance (n,) straight above the edge [m], the upward unit normal
    (n, 3) to both, and which exist (n,).
    """
    place_0, place_1 = field.grid(start), field.grid(end)
    counts = [jnp.concatenate([p, (p[0] - p[1])[None]]) for p in (place_0, place_1)]  # (3,) each
    low = jnp.ceil(jax.lax.stop_gradient(jnp.minimum(*counts)))
    line = low[:, None] + np.arange(lines)
    s = safe_divide(line - counts[0][:, None], (counts[1] - counts[0])[:, None], -1.0)
    valid = (s >= 0) & (s <= 1)
    s = jnp.where(valid, s, 0)
    point = start + s[..., None] * (end - start)
    place = field.grid(point)  # (3, lines, 2)

    # The edge runs from the node below in the coordinate that is not fixed.
    on_x, on_y = np.eye(3, dtype=bool)[:2, :, None]
    fixed = line.astype(np.int32)
    base = jnp.floor(jax.lax.stop_gradient(place)).astype(np.int32)
    i = jnp.where(on_x, fixed, base[..., 0])
    j = jnp.where(on_y, fixed, jnp.where(on_x, base[..., 1], base[..., 0] - fixed))
    step = np.array([[0, 1], [1, 0], [1, 1]], np.int32)[:, None]
    first = jnp.stack([i, j], -1)
    last = first + step
    inside = (first >= 0) & (first < field.shape) & (last >= 0) & (last < field.shape)
    valid = valid & jnp.all(inside, axis=-1)
    near, far = field.nodes(first), field.nodes(last)
    share = jnp.where(on_x, place[..., 1], place[..., 0]) - jnp.where(on_x, j, i)
    clearance = point[..., 2] - near[..., 2] - share * (far - near)[..., 2]
    along = jnp.broadcast_to(end - start, near.shape)
    normal = cross(along, far - near)
    size = safe_norm(normal, keepdims=True)
    length2 = [jnp.sum(x[..., :2] * x[..., :2], axis=-1) for x in (along, far - near)]
    valid = valid & (normal[..., 2] ** 2 > ASKEW**2 * length2[0] * length2[1])
    normal = safe_divide(normal, jnp.where(normal[..., 2:] > 0, size, -size))
    return tuple(x.reshape(-1, *x.shape[2:]) for x in (s, clearance, normal, valid))


def side_field(ends: Array, radii: Array, half: Array, field: Field, reach: FieldReach):
    """Contact of half a round cone's side with a field: point, normal, gap, () bool if it counts.

    ends (2, 3), radii (2,); half () is 0 for the half at end 0, else 1. Peaks and ridges touch a
    side between its ends: the edge nearest to this half determines the ball of the side, and that
    ball's nearest point is the contact. Near the ends the result does not count, as the slots of
    the end balls have it.
    """
    bounds = half / 2 + jnp.array([0, 0.5], ends.dtype)
    piece, piece_radii = (jax.vmap(at, (None, 0))(x, bounds) for x in (ends, radii))
    rims = edges(field.nodes(window(field, jnp.mean(piece, axis=0), reach.side)))

    def nearest(start, end):
        rim = jnp.stack([start, end])
        s, t = nearest_pair(piece, piece_radii, rim, jnp.zeros(2, ends.dtype))
        return s, safe_norm(at(piece, s) - at(rim, t)) - at(piece_radii, s)

    along, gaps = jax.vmap(nearest)(*rims)
    s = at(bounds, _pick(along, jnp.arange(gaps.shape[0]) == jnp.argmin(gaps)))
    point, normal, gap = ball_field(at(ends, s), at(radii, s), field, reach.ball)
    nearer = jnp.arange(2) == jnp.argmin(gap)
    counts = (s > LINE_ENDS) & (s < 1 - LINE_ENDS)
    return _pick(point, nearer), _pick(normal, nearer), _pick(gap, nearer), counts


def _pick(table: Array, chosen: Array) -> Array:
    """Row of a table where ``chosen`` (n,) is true, by a sum in place of a gather."""
    return jnp.sum(jnp.where(chosen.reshape(-1, *[1] * (table.ndim - 1)), table, 0), axis=0)
