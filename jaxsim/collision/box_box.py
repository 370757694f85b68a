"""Contact points of two boxes.

The axis of least penetration comes from the separating axis test of Gottschalk, Lin & Manocha,
OBBTree (1996). If it is a face normal, the facing face of the other box is clipped against it edge
by edge (Liang & Barsky 1984), which needs neither sorting nor polygons of changing length; if it is
normal to an edge of each, these edges touch at one point. Closest points of lines: Ericson,
Real-Time Collision Detection (2005), chapter 5.1.8.

Gradients treat the choice of axis, faces and edges as constant; they are finite at every pose.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_divide, safe_normalize

SLOTS = 13  # starts, then ends, of the clipped incident edges; reference corners; edges
FAR = 1e3  # gap of a slot without a point [m]
PARALLEL = 1e-3  # sine of the angle between edges below which they have no common normal
PREFER = 1e-3  # largest extra depth of a preferred axis, relative to the least half extent
ALIKE = 0.9998  # cosine (of 0.02 rad): closer to a face normal, an edge axis yields to it
RIM = 5e-4  # tolerance of the clipping, relative to the least half extent
FACE = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])  # of a face, going round


def box_box(
    pos_a: Array, rot_a: Array, half_a: Array, pos_b: Array, rot_b: Array, half_b: Array
) -> tuple[Array, Array, Array]:
    """Contacts of box a with box b: point (13, 3) [m], normal (13, 3), gap (13,) [m].

    pos (3,) is a centre in the world [m], rot (3, 3) turns box axes to world axes, half (3,) are
    half extents [m]. A point lies midway between the two surfaces; its normal is the axis of least
    penetration, unit, from b to a; its gap is the signed distance along the normal, negative where
    they overlap, and FAR in a slot that holds no point.

    Slots 0 to 11 hold the overlap of two faces, at most eight points. Slot 12 holds the crossing
    of two edges, or else the lowest corner if the overlap misses it. If an edge axis is nearly a
    face normal, the faces are taken: they have the same depth, and more points to rest on.

    Of boxes apart the least gap is their separation along the axis: the distance where faces or
    crossing edges are nearest, less where a corner is nearest to an edge or a corner. Faces, b's
    most, win over axes that separate more by up to PREFER times the least half extent, and the gap
    may be that much too low; where an edge yields, it is a part 1 - ALIKE (and RIM) too high.
    """
    scale = jnp.minimum(jnp.min(half_a), jnp.min(half_b))
    offset, axes_a, axes_b = pos_a - pos_b, rot_a.T, rot_b.T
    axes, apart = _separations(offset, axes_a, half_a, axes_b, half_b)
    preference = np.repeat([0.0, 0.5, 1.0], [3, 3, 9])
    score = apart - jnp.asarray(PREFER * preference, apart.dtype) * scale
    face, edge = jnp.argmax(score[:6]), jnp.argmax(score[6:])
    normal, edge_normal = _pick(axes[:6], face), _pick(axes[6:], edge)

    on_b = face < 3  # b has the reference face, a the incident one
    outward = jnp.where(on_b, 1, -1).astype(normal.dtype)
    frames = jnp.stack([jnp.roll(x, -k, 0) for x in (axes_b, axes_a) for k in range(3)])
    halves = jnp.stack([jnp.roll(x, -k, 0) for x in (half_b, half_a) for k in range(3)])
    frame = jnp.concatenate([(outward * normal)[None], _pick(frames, face)[1:]])
    local, gap = _face_points(
        _pick(halves, face),
        _dot(frame, outward * offset),
        _dot(jnp.where(on_b, axes_a, axes_b)[:, None], frame),
        jnp.where(on_b, half_a, half_b),
        RIM * scale,
        jnp.max(apart),
    )
    point = jnp.where(on_b, pos_b, pos_a) + jnp.sum(local[:, :, None] * frame, axis=1)

    edge_point, edge_gap = _edge_point(edge, edge_normal, offset, axes_a, half_a, axes_b, half_b)
    # Where the overlap of faces misses the nearest place, an edge does not yield to them.
    ahead = _pick(score[6:], edge) > _pick(score[:6], face)
    by_edge = ahead & ((jnp.abs(_dot(normal, edge_normal)) < ALIKE) | (gap[12] < FAR))
    gap = jnp.where(by_edge, FAR, gap)
    return (
        jnp.concatenate([point[:12], jnp.where(by_edge, pos_b + edge_point, point[12])[None]]),
        jnp.concatenate([jnp.tile(normal, (12, 1)), jnp.where(by_edge, edge_normal, normal)[None]]),
        jnp.concatenate([gap[:12], jnp.where(by_edge, edge_gap, gap[12])[None]]),
    )


def _separations(offset: Array, axes_a: Array, half_a: Array, axes_b: Array, half_b: Array):
    """Unit axes (15, 3) from b to a, and the separation of the boxes along each (15,) [m].

    Three face normals of b, three of a, nine normals of an edge of each (-FAR if they are
    parallel). offset (3,) is from b's centre to a's; rows of axes (3, 3) are a box's axes.
    """
    across = cross(axes_a[:, None], axes_b[None]).reshape(9, 3)
    proper = jnp.sum(across * across, axis=-1) > PARALLEL**2
    across = safe_normalize(jnp.where(proper[:, None], across, axes_b[0]))
    axes = jnp.concatenate([axes_b, axes_a, across])
    axes = axes * _sign(_dot(axes, offset))[:, None]
    reach_a = jnp.sum(jnp.abs(_dot(axes[:, None], axes_a)) * half_a, axis=-1)
    reach_b = jnp.sum(jnp.abs(_dot(axes[:, None], axes_b)) * half_b, axis=-1)
    apart = _dot(axes, offset) - reach_a - reach_b
    valid = jnp.concatenate([jnp.ones(6, bool), proper])
    return axes, jnp.where(valid, apart, -FAR)


def _face_points(ref_half, center, axes, half, tolerance, apart) -> tuple[Array, Array]:
    """Points (13, 3) and gaps (13,) between a reference face and the box over it [m].

    In the frame of the reference box, whose first axis is the face's outward normal: center (3,)
    of the other box, its axes as rows (3, 3) and its half extents (3,). The incident face is the
    face of the other box that faces the reference face most directly. apart () is the largest
    separation of the boxes along any axis.
    """
    top, rim = ref_half[0], ref_half[1:]
    facing = jnp.argmax(jnp.abs(axes[:, 0]))
    frame = _pick(jnp.stack([jnp.roll(axes, -k, 0) for k in range(3)]), facing)
    extent = _pick(jnp.stack([jnp.roll(half, -k) for k in range(3)]), facing)
    out, u, v = -_sign(frame[0, 0]) * frame[0], frame[1], frame[2]
    signs = jnp.asarray(FACE, center.dtype)
    middle = center + extent[0] * out
    start = middle + signs[:, :1] * extent[1] * u + signs[:, 1:] * extent[2] * v
    clipped, exists = _clip_edges(start, rim, tolerance)

    # Reference corners, moved along the normal to the plane of the incident face.
    flat = signs * rim
    height = middle[0] - safe_divide(_dot(flat - middle[1:], out[1:]), out[0])
    arm = jnp.concatenate([height[:, None], flat], axis=-1) - middle
    inner = jnp.abs(jnp.stack([_dot(arm, u), _dot(arm, v)], -1)) <= extent[1:] - tolerance
    exists = jnp.concatenate([exists, jnp.all(inner, axis=-1)])
    flat = jnp.concatenate([clipped[:, 1:], flat])
    gap = jnp.where(exists, jnp.concatenate([clipped[:, 0], height]) - top, FAR)

    # The lowest corner, if the boxes are closer there than at the points above.
    lowest = center - jnp.sum((half * _sign(axes[:, 0]))[:, None] * axes, axis=0)
    low_gap = lowest[0] - top
    missed = jnp.min(gap) * ALIKE > jnp.maximum(apart, 0) + tolerance
    beside = (lowest[1:] + jnp.clip(lowest[1:], -rim, rim)) / 2
    flat = jnp.concatenate([flat, beside[None]])
    gap = jnp.concatenate([gap, jnp.where(missed, low_gap, FAR)[None]])
    level = top + jnp.where(gap < FAR, gap, 0) / 2
    return jnp.concatenate([level[:, None], flat], axis=-1), gap


def _clip_edges(start: Array, rim: Array, tolerance: Array) -> tuple[Array, Array]:
    """Clip four edges by a rectangle |y| <= rim[0], |z| <= rim[1]: points (8, 3), exist (8,) bool.

    The points are where edges enter and leave it. start (4, 3) are the corners, going round; the
    first coordinate is not clipped. The rectangle is widened by the tolerance, so that edges along
    its rim count as inside. A corner inside is reported once, as the start of its edge. Source:
    Liang & Barsky (1984).
    """
    rim = rim + tolerance
    end = jnp.roll(start, -1, axis=0)
    along = end - start
    y, dy = start[:, 1:], along[:, 1:]
    crosses = jnp.abs(dy) > tolerance
    first = safe_divide(-rim - y, jnp.where(crosses, dy, 0))
    second = safe_divide(rim - y, jnp.where(crosses, dy, 0))
    within = jnp.abs(y + dy / 2) <= rim
    enter = jnp.where(crosses, jnp.minimum(first, second), jnp.where(within, 0.0, 2.0))
    leave = jnp.where(crosses, jnp.maximum(first, second), jnp.where(within, 1.0, -1.0))
    enter, leave = jnp.maximum(*enter.T), jnp.minimum(*leave.T)
    enter, leave = jnp.maximum(enter, 0), jnp.minimum(leave, 1)
    inside = jnp.all(jnp.abs(y) <= rim, axis=-1)
    met = enter <= leave
    enter = jnp.where(inside, 0, jnp.clip(enter, 0, 1))
    point = [start + t[:, None] * along for t in (enter, jnp.clip(leave, 0, 1))]
    return jnp.concatenate(point), jnp.concatenate([inside | met, met & ~jnp.roll(inside, -1)])


def _edge_point(index, normal, offset, axes_a, half_a, axes_b, half_b) -> tuple[Array, Array]:
    """Midpoint (3,) from b's centre, and gap (), of the edges that face each other along normal.

    index () is 3 i + j for edges along axis i of a and axis j of b; the rest as in _separations.
    The nearest points of the two lines are kept within the edges.
    """
    of_a, of_b = jnp.arange(3) == index // 3, jnp.arange(3) == index % 3
    along_a, along_b = _pick(axes_a, index // 3), _pick(axes_b, index % 3)
    extent_a, extent_b = _pick(half_a, index // 3), _pick(half_b, index % 3)
    down = jnp.where(of_a, 0, half_a * _sign(_dot(axes_a, normal)))
    up = jnp.where(of_b, 0, half_b * _sign(_dot(axes_b, normal)))
    center_a = offset - jnp.sum(down[:, None] * axes_a, axis=0)
    center_b = jnp.sum(up[:, None] * axes_b, axis=0)
    between = center_a - center_b
    across = cross(along_a, along_b)
    cosine, sine2 = _dot(along_a, along_b), jnp.maximum(_dot(across, across), PARALLEL**2)
    on_a, on_b = _dot(along_a, between), _dot(along_b, between)
    s = jnp.clip((cosine * on_b - on_a) / sine2, -extent_a, extent_a)
    t = jnp.clip((on_b - cosine * on_a) / sine2, -extent_b, extent_b)
    point = (center_a + s * along_a + center_b + t * along_b) / 2
    return point, _dot(between, normal)


def _dot(a: Array, b: Array) -> Array:
    """Dot products along the last axis, in full precision."""
    return jnp.sum(a * b, axis=-1)


def _sign(x: Array) -> Array:
    """1 where x >= 0, else -1."""
    return jnp.where(x >= 0, 1, -1).astype(x.dtype)


def _pick(table: Array, index: Array) -> Array:
    """Row of a small table, without a gather."""
    chosen = (jnp.arange(table.shape[0]) == index).reshape(-1, *[1] * (table.ndim - 1))
    return jnp.sum(jnp.where(chosen, table, 0), axis=0)
