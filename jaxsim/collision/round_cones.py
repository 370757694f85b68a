"""Contacts of spheres, capsules and tapered capsules with one another.

All are round cones: the hull of two balls, swept by the balls between them. The distance of two of
them is that of their nearest two balls: the minimum of |p(s) - q(t)| - r_a(s) - r_b(t) over s and t
in [0, 1]. This is convex, and where it is stationary the normal has known products with both axes
(the tapers), so the nearest pair has a closed form; on the border one of the balls is an end. For
equal radii it is that of two segments: Ericson, Real-Time Collision Detection (2005), 5.1.9.

The least of these distances is the distance of the shapes where they are apart or overlap a
little. Where the segments themselves cross, the depth is that along their common normal.
Gradients follow the nearest pair; the choice among the five cases is treated as constant.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_divide, safe_norm, safe_normalize

PARALLEL = 1e-3  # sine of the angle between axes below which the nearest pair has an end ball


def ball_ball(center_a: Array, radius_a: Array, center_b: Array, radius_b: Array, aside: Array):
    """Contact of two balls: point (3,) midway, unit normal (3,) from b to a, gap () [m].

    aside (3,) is the normal of concentric balls.
    """
    between = center_a - center_b
    apart = jnp.sum(between * between) > 0
    distance = jnp.where(apart, safe_norm(between), jnp.sum(between * aside))
    normal = jnp.where(apart, safe_divide(between, distance), aside)
    gap = distance - radius_a - radius_b
    return center_b + normal * (radius_b + gap / 2), normal, gap


def nearest_ball(ends: Array, radii: Array, point: Array) -> Array:
    """Parameter s () in [0, 1] of the ball of a round cone that is nearest to a point (3,).

    ends (2, 3), radii (2,). The ball slides from the foot of the point towards the wider end, in
    proportion to the distance from the axis. Where one end ball contains the other it is that end.
    """
    along, widening = ends[1] - ends[0], radii[1] - radii[0]
    length2 = jnp.sum(along * along)
    tapers = length2 > widening * widening
    rest = jnp.where(tapers, length2 - widening * widening, 1)
    off_axis = safe_norm(cross(point - ends[0], along))
    slid = jnp.sum((point - ends[0]) * along) + off_axis * widening / jnp.sqrt(rest)
    s = jnp.clip(slid / jnp.where(tapers, length2, 1), 0, 1)
    return jnp.where(tapers, s, jnp.where(widening > 0, 1, 0).astype(s.dtype))


def nearest_pair(ends_a: Array, radii_a: Array, ends_b: Array, radii_b: Array):
    """Parameters s () and t () of the nearest two balls of cones a and b.

    ends (2, 3), radii (2,) of each.
    """
    u, v = ends_a[1] - ends_a[0], ends_b[1] - ends_b[0]
    s_at = jax.vmap(lambda point: nearest_ball(ends_a, radii_a, point))(ends_b)
    t_at = jax.vmap(lambda point: nearest_ball(ends_b, radii_b, point))(ends_a)
    inner = _stationary(ends_a[0] - ends_b[0], u, v, radii_a, radii_b)
    ends = jnp.array([0, 1], u.dtype)
    s = jnp.concatenate([s_at, ends, inner[0][None]])
    t = jnp.concatenate([ends, t_at, inner[1][None]])
    between = ends_a[0] + s[:, None] * u - ends_b[0] - t[:, None] * v
    distance = safe_norm(between) - at(radii_a, s) - at(radii_b, t)
    first = jnp.arange(5) == jnp.argmin(distance)
    return jnp.sum(jnp.where(first, s, 0)), jnp.sum(jnp.where(first, t, 0))


def at(ends: Array, s: Array) -> Array:
    """Interpolate centre or radius at s between two ends."""
    return ends[0] + s * (ends[1] - ends[0])


def _stationary(offset, u, v, radii_a, radii_b) -> tuple[Array, Array]:
    """Parameters s, t at which the distance of two endless cones is stationary, clipped to [0, 1].

    offset (3,) is from the start of b's axis v to that of a's axis u. The normal n between the
    nearest balls has n u = widening of a, n v = - widening of b; its third component is along
    u x v, and with the offset it gives the distance of the two centres.
    """
    wide_a, wide_b = radii_a[1] - radii_a[0], radii_b[1] - radii_b[0]
    m = cross(u, v)
    uu, uv, vv, mm = (jnp.sum(x * y) for x, y in ((u, u), (u, v), (v, v), (m, m)))
    proper = mm > PARALLEL**2 * uu * vv
    mm = jnp.where(proper, mm, 1)
    n_u, n_v = (wide_a * vv + wide_b * uv) / mm, (wide_b * uu + wide_a * uv) / mm
    rest = 1 - n_u * wide_a - n_v * wide_b  # squared length of the normal's part along m
    opens = rest > 1e-6
    distance = jnp.abs(jnp.sum(offset * m)) / jnp.sqrt(jnp.where(opens, rest, 1) * mm)
    p = distance * wide_a - jnp.sum(offset * u)
    q = distance * wide_b + jnp.sum(offset * v)
    s, t = (p * vv + q * uv) / mm, (q * uu + p * uv) / mm
    exists = proper & opens
    return jnp.where(exists, jnp.clip(s, 0, 1), 0), jnp.where(exists, jnp.clip(t, 0, 1), 0)


def _aside(u: Array, v: Array) -> Array:
    """(3,) unit normal of two axes, of one if they are parallel, upwards if both are zero."""
    u, v = jax.lax.stop_gradient(u), jax.lax.stop_gradient(v)
    m = cross(u, v)
    uu, vv = jnp.sum(u * u), jnp.sum(v * v)
    axis = jnp.where(uu > 0, u, v)
    least = jnp.arange(3) == jnp.argmin(jnp.abs(axis))
    one = jnp.where(jnp.sum(m * m) > PARALLEL**2 * uu * vv, m, cross(axis, least.astype(u.dtype)))
    up = (jnp.arange(3) == 2).astype(u.dtype)
    return jnp.where((uu > 0) | (vv > 0), safe_normalize(one), up)


def nearest_balls(ends_a: Array, radii_a: Array, ends_b: Array, radii_b: Array):
    """Single contact of two round cones, one of which may be a sphere: point, normal, gap."""
    s, t = nearest_pair(ends_a, radii_a, ends_b, radii_b)
    aside = _aside(ends_a[1] - ends_a[0], ends_b[1] - ends_b[0])
    return ball_ball(at(ends_a, s), at(radii_a, s), at(ends_b, t), at(radii_b, t), aside)


def side_side(ends_a: Array, radii_a: Array, ends_b: Array, radii_b: Array):
    """Two contacts of two capsules: points (2, 3), normals (2, 3), gaps (2,).

    One is the nearest pair. The other is the ball of a at the farther end of the stretch where b
    lies beside a, with b's ball nearest to it: its gap is as valid, and a capsule that lies along
    another rests on both. The slots are in order of s along a, so that parallel capsules keep
    theirs. Where capsules cross at a right angle both slots have the nearest pair.
    """
    s, t = nearest_pair(ends_a, radii_a, ends_b, radii_b)
    u = ends_a[1] - ends_a[0]
    beside = safe_divide(jnp.sum((ends_b - ends_a[0]) * u, axis=-1), jnp.sum(u * u))
    beside = jnp.clip(beside, 0, 1)
    low, high = jnp.minimum(*beside), jnp.maximum(*beside)
    is_low = s - low <= high - s
    other = jnp.where(is_low, high, low)
    t_other = nearest_ball(ends_b, radii_b, at(ends_a, other))
    pairs = jnp.stack([jnp.stack([s, t]), jnp.stack([other, t_other])])
    pairs = jnp.where(is_low, pairs, pairs[::-1])
    aside = _aside(u, ends_b[1] - ends_b[0])

    def touch(s, t):
        return ball_ball(at(ends_a, s), at(radii_a, s), at(ends_b, t), at(radii_b, t), aside)

    return jax.vmap(touch)(*pairs.T)
