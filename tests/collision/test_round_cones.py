"""Spheres, capsules and tapered capsules against one another: dense search, rest, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.round_cones import nearest_balls, side_side
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

POSES = 200


def contacts(*cones):
    """(3, 7): point, normal and gap of the nearest pair, then of both slots of two capsules."""
    one = [x[None] for x in nearest_balls(*cones)]
    both = side_side(*cones)
    parts = (jnp.concatenate([x, y]) for x, y in zip(one, both, strict=True))
    point, normal, gap = parts
    return jnp.concatenate([point, normal, gap[:, None]], axis=1)


@pytest.fixture(scope="module")
def slopes():
    """``contacts`` of a batch of up to POSES pairs, their derivative along a direction, and the
    gradient of their product with a cotangent."""

    def one(cones, direction, cotangent):
        value, forward = jax.jvp(contacts, cones, direction)
        return value, forward, jax.vjp(contacts, *cones)[1](cotangent)

    function = quick_jit(jax.vmap(one))

    def batch(cones, direction, cotangent):
        n = len(cones[0])
        padded = jax.tree.map(filled, (tuple(cones), tuple(direction), cotangent))
        return jax.tree.map(lambda x: np.asarray(x)[:n], function(*padded))

    return batch


@pytest.fixture(scope="module")
def touch(slopes):
    """``contacts`` of a batch of pairs."""
    return lambda *cones: slopes(cones, cones, np.zeros((len(cones[0]), 3, 7)))[0]


def filled(x):
    """A batch repeated up to POSES members, so that one compiled program does for all."""
    return np.resize(x, (POSES, *np.shape(x)[1:])).astype(float)


def random_cones(rng, n=POSES):
    ends = 0.5 * rng.normal(size=(2, n, 2, 3))
    radii = rng.uniform(0.02, 0.3, size=(2, n, 2))
    radii[:, ::4, 1] = radii[:, ::4, 0]  # capsules
    return ends[0], radii[0], ends[1], radii[1]


def gap_at(cones, s, t):
    """Gaps of the balls at s, t (m,) of one pair."""
    ends_a, radii_a, ends_b, radii_b = cones
    s, t = np.asarray(s)[..., None], np.asarray(t)[..., None]
    between = ends_a[0] + s * (ends_a[1] - ends_a[0]) - ends_b[0] - t * (ends_b[1] - ends_b[0])
    radius = radii_a[0] + s[..., 0] * np.ptp(radii_a) * np.sign(radii_a[1] - radii_a[0])
    other = radii_b[0] + t[..., 0] * np.ptp(radii_b) * np.sign(radii_b[1] - radii_b[0])
    return np.linalg.norm(between, axis=-1) - radius - other


def searched(cones) -> float:
    """The least gap, by grids that close in on it (it is convex in s and t)."""
    s, t, width = 0.5, 0.5, 0.5
    for _ in range(18):
        grid = np.linspace(-width, width, 21)
        places = np.meshgrid(np.clip(s + grid, 0, 1), np.clip(t + grid, 0, 1))
        gap = gap_at(cones, *places)
        best = np.unravel_index(gap.argmin(), gap.shape)
        s, t, width = places[0][best], places[1][best], width / 3
    return gap.min()


def test_the_gap_of_tapered_capsules_is_the_least_of_all_pairs_of_balls(touch):
    """Apart and overlapping; the point lies midway on the balls' common normal."""
    cones = random_cones(np.random.default_rng(0))
    found = touch(*cones)
    single, double = found[:, 0], found[:, 1:]
    wanted = np.array([searched([x[k] for x in cones]) for k in range(POSES)])
    assert (wanted < 0).sum() > 40 and (wanted > 0).sum() > 40
    np.testing.assert_allclose(single[:, 6], wanted, atol=1e-9)
    np.testing.assert_allclose(double[:, :, 6].min(axis=1), wanted, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(double[..., 3:6], axis=-1), 1, atol=1e-12)
    assert (double[:, :, 6] >= wanted[:, None] - 1e-9).all()
    # both surface points are as far from a's and b's balls as they should be
    for k in range(0, POSES, 10):
        for sign, (ends, radii) in ((1, (0, 1)), (-1, (2, 3))):
            surface = single[k, :3] + sign * single[k, 3:6] * single[k, 6] / 2
            point = np.stack([surface, surface]), np.zeros(2)
            of_shape = [cones[ends][k], cones[radii][k], *point]
            np.testing.assert_allclose(searched(of_shape), 0, atol=1e-8)


def test_swapped_shapes_give_the_same_contact(touch):
    a, ra, b, rb = random_cones(np.random.default_rng(1))
    one, other = (touch(*x)[:, 0] for x in ((a, ra, b, rb), (b, rb, a, ra)))
    np.testing.assert_allclose(one * ([1] * 3 + [-1] * 3 + [1]), other, atol=1e-9)


def test_parallel_capsules_touch_at_both_ends_of_the_overlap(touch):
    """In the order of a's axis, also where one of them is turned by little."""
    turns = np.array([0.0, 1e-9, 1e-5, -1e-5, 1e-3, -1e-3])
    n = len(turns)
    lower = np.tile([[-0.5, 0, 0], [0.5, 0, 0]], (n, 1, 1)).astype(float)
    along = np.stack([np.cos(turns), np.sin(turns), 0 * turns], -1)
    upper = np.stack([0.2 - 0.6 * along, 0.2 + 0.6 * along], 1) * [1, 1, 0] + [0, 0, 0.29]
    upper[..., 1] -= 0.2
    slots = touch(upper, np.full((n, 2), 0.1), lower, np.full((n, 2), 0.2))[:, 1:]
    np.testing.assert_allclose(slots[:, 0, 0], -0.4, atol=2e-3)
    np.testing.assert_allclose(slots[:, 1, 0], 0.5, atol=2e-3)
    np.testing.assert_allclose(slots[..., 6], -0.01, atol=1e-6)
    np.testing.assert_allclose(slots[..., 3:6], np.broadcast_to([0, 0, 1], (n, 2, 3)), atol=3e-3)


BALL = [[0.1, 0.2, 0.3]] * 2
HARD = {  # ends and radii of both
    "one centre": (BALL, [0.1, 0.1], BALL, [0.2, 0.2]),
    "one segment": ([[0, 0, 0], [1, 0, 0]], [0.1, 0.1], [[0, 0, 0], [1, 0, 0]], [0.1, 0.1]),
    "on one line": ([[0, 0, 0], [1, 0, 0]], [0.1, 0.2], [[0.5, 0, 0], [2, 0, 0]], [0.1, 0.3]),
    "crossing": ([[-1, 0, 0], [1, 0, 0]], [0.1, 0.1], [[0, -1, 0], [0, 1, 0]], [0.1, 0.1]),
    "parallel": ([[0, 0, 1], [1, 0, 1]], [0.1, 0.1], [[0, 0, 0], [1, 0, 0]], [0.1, 0.1]),
    "touching": ([[0, 0, 0.2], [1, 0, 0.2]], [0.1, 0.1], [[0, 0, 0], [0, 1, 0]], [0.1, 0.1]),
    "a ball on an axis": ([[0.5, 0, 0]] * 2, [0.1, 0.1], [[0, 0, 0], [1, 0, 0]], [0.1, 0.1]),
    "one end in the other": ([[0, 0, 0], [0.1, 0, 0]], [0.5, 0.1], BALL, [0.1, 0.1]),
    "as wide as long": ([[0, 0, 0], [0.1, 0, 0]], [0.1, 0.2], BALL, [0.1, 0.1]),
}


def test_hard_placements_are_finite_with_unit_normals(touch, slopes):
    cones = tuple(np.array(x, float) for x in zip(*HARD.values(), strict=True))
    values = touch(*cones)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(np.linalg.norm(values[..., 3:6], axis=-1), 1, atol=1e-12)
    gaps = dict(zip(HARD, values[:, 0, 6], strict=True))
    for name, wanted in (("one centre", -0.3), ("crossing", -0.2), ("parallel", 0.8)):
        np.testing.assert_allclose(gaps[name], wanted, atol=1e-12)
    # the gap grows by as much as one shape moves along the normal
    normal = values[:, 0, 3:6]
    shift = (np.stack([normal, normal], axis=1), *(0 * x for x in cones[1:]))
    _, forward, reverse = slopes(cones, shift, np.ones((len(normal), 3, 7)))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((reverse, forward)))
    np.testing.assert_allclose(forward[:, 0, 6], 1, atol=1e-9)


def test_derivatives_are_those_of_finite_differences(touch, slopes):
    """Of points, normals and gaps with respect to ends and radii, away from switches."""
    rng = np.random.default_rng(2)
    cones = random_cones(rng)
    direction = tuple(rng.normal(size=x.shape) for x in cones)
    cotangent = rng.normal(size=(POSES, 3, 7))
    _, forward, reverse = slopes(cones, direction, cotangent)
    both = (zip([forward], [cotangent], strict=True), zip(reverse, direction, strict=True))
    one, other = (sum((x * y).reshape(POSES, -1).sum(1) for x, y in pairs) for pairs in both)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    h = 1e-6
    plus, minus = (
        touch(*(x + sign * h * d for x, d in zip(cones, direction, strict=True)))
        for sign in (1, -1)
    )
    wanted = (plus - minus) / (2 * h)
    wrong = np.abs(forward - wanted).reshape(POSES, -1).max(axis=1)
    scale = 1 + np.abs(wanted).reshape(POSES, -1).max(axis=1)
    assert np.mean(wrong < 1e-6 * scale) > 0.98, "only a step over a switch may differ"
