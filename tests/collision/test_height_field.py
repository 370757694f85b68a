"""Height fields: the whole surface searched, flat ground, valleys, rest, gradients, borders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.box_box import FAR
from jaxsim.collision.box_field import box_field
from jaxsim.collision.height_field import Field, ball_field, side_field, surface
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.model.topology import FieldReach
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

HALF = np.array([1.2, 0.8])
REACH = FieldReach(ball=1, side=2, box=1, box_lines=3)
N, RADIUS = 200, 0.1
RNG = np.random.default_rng(0)
ROUGH = 0.1 * RNG.normal(size=(9, 7))
FLAT = np.full((9, 7), 0.2)
X = np.linspace(-1.2, 1.2, 9)
VALLEY = np.repeat(0.8 * np.abs(X)[:, None], 7, axis=1)


def of_ball(heights, center):
    """(2, 7) point, normal and gap of both slots of a ball."""
    point, normal, gap = ball_field(center, RADIUS, Field(heights, HALF), REACH.ball)
    return jnp.concatenate([point, normal, gap[:, None]], axis=1)


def of_side(heights, ends):
    """(2, 7) of both halves of a capsule's side, FAR where they do not count."""

    def half(k):
        field, radii = Field(heights, HALF), jnp.full(2, RADIUS)
        point, normal, gap, counts = side_field(ends, radii, k, field, REACH)
        return jnp.concatenate([point, normal, jnp.where(counts, gap, FAR)[None]])

    return jax.vmap(half)(jnp.arange(2.0))


def of_crate(heights, place):
    """(24, 7) of a box; place (4, 3): its centre and its rotation."""
    half = jnp.array([0.15, 0.1, 0.2])
    point, normal, gap = box_field(place[0], place[1:], half, Field(heights, HALF), REACH)
    return jnp.concatenate([point, normal, gap[:, None]], axis=1)


def batched(function):
    """Values of a batch, their derivatives along one direction, and the gradient of their sum."""

    def one(heights, x, direction):
        value, forward = jax.jvp(lambda x: function(heights, x), (x,), (direction,))
        reverse = jax.vjp(lambda x: function(heights, x), x)[1](jnp.ones_like(value))[0]
        return value, forward, reverse

    compiled = quick_jit(jax.vmap(one, (None, 0, 0)))

    def batch(heights, x, direction=None):
        """Of up to N members, so that one compiled program does for all."""
        direction = np.ones_like(x) if direction is None else np.broadcast_to(direction, x.shape)
        filled = (np.resize(a, (N, *a.shape[1:])).astype(float) for a in (x, direction))
        return [np.asarray(y)[: len(x)] for y in compiled(heights, *filled)]

    return batch


@pytest.fixture(scope="module")
def ball(x64_module):
    return batched(of_ball)


@pytest.fixture(scope="module")
def side(x64_module):
    return batched(of_side)


@pytest.fixture(scope="module")
def crate(x64_module):
    return batched(of_crate)


def placed(pos, rot) -> np.ndarray:
    return np.concatenate([pos[:, None], np.broadcast_to(rot, (len(pos), 3, 3))], axis=1)


def corners(heights) -> list[np.ndarray]:
    """The three corners (m, 3) of all triangles."""
    place = [np.linspace(-h, h, n) for h, n in zip(HALF, heights.shape, strict=True)]
    nodes = np.stack([*np.meshgrid(*place, indexing="ij"), heights], axis=-1)
    near, right, up, far = nodes[:-1, :-1], nodes[1:, :-1], nodes[:-1, 1:], nodes[1:, 1:]
    return [np.concatenate([x.reshape(-1, 3), y.reshape(-1, 3)])
            for x, y in ((near, near), (right, far), (far, up))]  # fmt: skip


def from_triangles(point, a, b, c) -> np.ndarray:
    """Distances (m,) of a point from triangles."""
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    height = np.sum((point - a) * normal, axis=1)
    foot = point - height[:, None] * normal
    inside, best = np.ones(len(a), bool), np.full(len(a), np.inf)
    for u, v in ((a, b), (b, c), (c, a)):
        inside &= np.sum(np.cross(v - u, foot - u) * normal, axis=1) >= 0
        t = np.clip(np.sum((point - u) * (v - u), 1) / np.sum((v - u) ** 2, 1), 0, 1)
        best = np.minimum(best, np.linalg.norm(point - u - t[:, None] * (v - u), axis=1))
    return np.where(inside, np.abs(height), best)


def above(heights, points) -> np.ndarray:
    field = Field(jnp.asarray(heights), jnp.asarray(HALF))
    return np.asarray(jax.vmap(lambda p: surface(field, p)[0])(points)) >= 0


def random_points(rng, n=N):
    return rng.uniform([-1, -0.6, -0.1], [1, 0.6, 0.4], size=(n, 3))


def test_the_gap_of_a_ball_is_its_distance_from_all_triangles(ball):
    """Above the surface and, within reach, below it; the second slot is never nearer."""
    centers = random_points(np.random.default_rng(1))
    found = ball(ROUGH, centers)[0]
    triangles = corners(ROUGH)
    distance = np.array([from_triangles(c, *triangles).min() for c in centers])
    signed = np.where(above(ROUGH, centers), distance, -distance)
    near = np.abs(distance) < 0.13
    assert (signed[near] < 0).sum() > 15 and (signed[near] > 0).sum() > 30
    gap = found[:, :, 6].min(axis=1)
    np.testing.assert_allclose(gap[near], signed[near] - RADIUS, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found[..., 3:6], axis=-1), 1, atol=1e-12)
    # half a gap from the point along the normal lies the ball's surface
    for k in (0, 1):
        used = found[:, k, 6] < FAR
        rim = found[:, k, :3] + found[:, k, 3:6] * found[:, k, 6:] / 2
        np.testing.assert_allclose(np.linalg.norm(rim - centers, axis=1)[used], RADIUS, atol=1e-12)


def test_level_ground_is_a_plane(ball, crate):
    """Wherever the ball or box is, so that nothing that slides is caught at the cells' borders."""
    rng = np.random.default_rng(2)
    centers = random_points(rng)
    centers[:60, :2] = np.round((centers[:60, :2] + HALF) / [0.3, 0.8 / 3]) * [0.3, 0.8 / 3] - HALF
    found = ball(FLAT, centers)[0]
    gap = found[..., 6]
    np.testing.assert_allclose(gap.min(axis=1), centers[:, 2] - 0.2 - RADIUS, atol=1e-12)
    near = gap < 0.5
    np.testing.assert_allclose(found[near][:, 3:6] @ [0, 0, 1], 1, atol=1e-12)

    pos = random_points(rng)
    pos[:, 2] = rng.uniform(0.39, 0.42, N)
    yaw = rng.uniform(0, 6, N)
    rot = np.array(
        [[[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]] for a in yaw]
    )
    found = crate(FLAT, placed(pos, rot))[0]
    used = found[:, :, 6] < 0.2
    assert used[:, :8].sum() == 4 * N and not used[:, 12:].any()
    expected = np.broadcast_to((pos[:, 2] - 0.4)[:, None], used.shape)
    np.testing.assert_allclose(found[used][:, 6], expected[used], atol=1e-12)
    np.testing.assert_allclose(found[used][:, 3:6] @ [0, 0, 1], 1, atol=1e-12)


def test_a_ball_rests_on_both_sides_of_a_valley(ball):
    """Each side keeps its slot, whichever is nearer."""
    rise = 0.8 / np.hypot(1, 0.8)
    level = np.array([1 / np.hypot(1, 0.8), rise])
    centers = np.array([[x, y, 0.15] for x in (-1e-3, 0.0, 1e-3) for y in (0.0, 0.133, -0.4)])
    found = ball(VALLEY, centers)[0]
    for k, sign in ((0, 1), (1, -1)):
        normal = np.tile([sign * rise, 0, level[0]], (9, 1))
        np.testing.assert_allclose(found[:, k, 3:6], normal, atol=1e-9)
        np.testing.assert_allclose(
            found[:, k, 6], np.sum(centers * normal, axis=1) - RADIUS, atol=1e-9
        )


def test_nothing_touches_beyond_the_border_and_what_is_below_is_pushed_up(ball, crate):
    outside = np.array([[1.21, 0, 0.1], [0, -0.81, 0.1], [-3, 5, 0.2]])
    assert (ball(FLAT, outside)[0][..., 6] == FAR).all()
    below = np.array([[0.1, 0.2, -0.3], [0.5, -0.3, -1.0], [1.19, 0.79, 0.1]])
    found = ball(FLAT, below)[0]
    np.testing.assert_allclose(found[..., 6].min(axis=1), below[:, 2] - 0.2 - RADIUS, atol=1e-12)
    np.testing.assert_allclose(found[:, 0, 3:6], [[0, 0, 1]] * 3, atol=1e-12)
    rough = ball(ROUGH, below - [0, 0, 0.5])[0]
    assert (rough[:, 0, 5] > 0).all() and (rough[:, 0, 6] < 0).all()
    box = crate(FLAT, placed(outside + np.array([3, -4, 0]), np.eye(3)))[0]
    assert (box[..., 6] >= FAR / 2).all()


@pytest.mark.slow
def test_the_side_of_a_capsule_meets_what_sticks_out_between_its_ends(side):
    """The least gap along the capsule, ends included, is that of 41 balls."""
    rng = np.random.default_rng(3)
    n = 120
    middle, turn = random_points(rng, n) * [0.7, 0.6, 1], rng.normal(size=(n, 3)) * [1, 1, 0.3]
    middle[:, 2] += 0.15
    along = 0.3 * turn / np.linalg.norm(turn, axis=1, keepdims=True)
    ends = np.stack([middle + along, middle - along], axis=1)
    found = side(ROUGH, ends)[0][:, :, 6].min(axis=1)
    triangles, s = corners(ROUGH), np.linspace(0, 1, 41)[:, None]
    inner = 0
    for k, (start, end) in enumerate(ends):
        points = start + s * (end - start)
        if not above(ROUGH, points).all():
            continue
        dense = [from_triangles(p, *triangles).min() - RADIUS for p in points]
        best, least = np.argmin(dense), np.min(dense)
        assert found[k] >= least - 1e-3
        if 2 < best < 38 and least < 0.2:
            inner += 1
            np.testing.assert_allclose(found[k], least, atol=1e-3)
    assert inner > 8


def test_a_small_box_rests_on_a_ridge_and_a_large_one_on_peaks(crate):
    """Between two nodes of a ridge only the edges of the box meet it."""
    ridge = np.repeat(np.where(np.arange(9) == 4, 0.2, 0.0)[:, None], 7, axis=1)
    found = crate(ridge, placed(np.array([[0.02, 0.13, 0.39]]), np.eye(3)))[0][0]
    crossing = found[12:][found[12:, 6] < 0.05]
    assert len(crossing) == 2  # the edges along x of the bottom
    np.testing.assert_allclose(crossing[:, 6], -0.01, atol=1e-12)
    np.testing.assert_allclose(crossing[:, 3:6], [[0, 0, 1]] * 2, atol=1e-12)
    np.testing.assert_allclose(np.sort(crossing[:, 1]), [0.03, 0.23], atol=1e-12)

    peak = np.where(np.hypot(*np.mgrid[-4:5, -3:4]) == 0, 0.2, 0.0)
    found = crate(peak, placed(np.array([[0.02, 0.03, 0.39]]), np.eye(3)))[0][0]
    on_node = found[8:12][found[8:12, 6] < 0.05]
    np.testing.assert_allclose(on_node[:, 6], [-0.01], atol=1e-12)
    np.testing.assert_allclose(on_node[:, 3:6], [[0, 0, 1]], atol=1e-12)


@pytest.mark.parametrize("kind", ["ball", "side", "crate"])
def test_derivatives_are_those_of_finite_differences(kind, ball, side, crate):
    rng, h = np.random.default_rng(4), 1e-7
    points = random_points(rng)
    if kind == "ball":
        function, x = ball, points
    elif kind == "side":
        function, x = side, points[:, None] * [0.7, 0.6, 1] + 0.25 * rng.normal(size=(N, 2, 3))
    else:
        turn = quat_to_matrix(jnp.asarray(quaternions(rng)))
        function, x = crate, placed(points * [0.6, 0.6, 1] + [0, 0, 0.1], turn)
    direction = rng.normal(size=x.shape[1:])
    _, forward, _ = function(ROUGH, x, direction)
    plus, minus = (function(ROUGH, x + sign * h * direction)[0] for sign in (1, -1))
    used = (np.abs(plus[..., 6:]) < 0.5) & (np.abs(minus[..., 6:]) < 0.5)
    wanted = (plus - minus) / (2 * h)
    wrong = np.where(used, np.abs(forward - wanted), 0).reshape(N, -1).max(axis=1)
    size = 1 + np.where(used, np.abs(wanted), 0).reshape(N, -1).max(axis=1)
    assert np.mean(wrong < 1e-5 * size) > 0.97, "only a step over a switch may differ"
    forward, reverse = (function(ROUGH, x)[k] for k in (1, 2))
    np.testing.assert_allclose(
        forward.reshape(N, -1).sum(1), reverse.reshape(N, -1).sum(1), rtol=1e-8, atol=1e-8
    )


def quaternions(rng):
    quat = rng.normal(size=(N, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


def test_hard_places_are_finite(ball, side, crate):
    """Nodes, borders of cells, on the surface, at the border of the field, axis along a ridge."""
    centers = np.array(
        [[0, 0, 0.2], [0.3, 0, 0.2], [0.15, 0, 0.2], [1.2, 0.8, 0.3], [0, 0, 0], [0.1, 0.1, 0.2]]
    )
    ends = centers[:, None] + [[0.3, 0, 0], [-0.3, 0, 0]]
    ends[0] = centers[0]  # of no length
    for heights in (FLAT, VALLEY, ROUGH):
        for function, x in ((ball, centers), (side, ends), (crate, placed(centers, np.eye(3)))):
            values = function(heights, x)
            assert all(np.isfinite(x).all() for x in values)
            np.testing.assert_allclose(np.linalg.norm(values[0][..., 3:6], axis=-1), 1, atol=1e-9)
