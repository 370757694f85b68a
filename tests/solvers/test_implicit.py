"""Derivatives of solved problems: against differences, in closed form, and where cases meet."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers import implicit, lcp
from jaxsim.solvers.pgs import RowGroup
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

PROBLEMS, SWEEPS = 20, 1000


def random_like(tree, seed: int):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=np.shape(x))), tree)


def inner(a, b) -> np.ndarray:
    """(PROBLEMS,) of two batched trees."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum(np.sum(np.asarray(x * y).reshape(len(x), -1), axis=1) for x, y in pairs)


def random_problems(seed: int = 3) -> tuple[tuple[RowGroup, RowGroup, RowGroup], jax.Array]:
    """Four points in space, three limits and two equations on sixteen dofs; points that are
    open, stick and slide."""
    rng = np.random.default_rng(seed)
    target, few, two = (np.zeros((PROBLEMS, *n)) for n in ((2, 6), (1, 3), (1, 2)))
    target[..., ::3] = rng.normal(size=(PROBLEMS, 2, 2))
    contacts = RowGroup(
        rng.normal(size=(PROBLEMS, 2, 6, 16)), target, 0 * target, np.full((PROBLEMS, 2, 2), 0.7)
    )
    limits = RowGroup(rng.normal(size=(PROBLEMS, 1, 3, 16)), few - 0.5, few, few)
    grip = RowGroup(rng.normal(size=(PROBLEMS, 1, 2, 16)), two + 0.1, two, two, bilateral=True)
    y = rng.normal(size=(PROBLEMS, 16))
    return jax.tree.map(jnp.asarray, ((contacts, limits, grip), y))


def number(groups, y, smoothing=0.0):
    """A number of all that comes out, and the impulses."""
    groups, y = implicit.solve(groups, y, SWEEPS, smoothing)
    impulses = [f.impulse for f in groups]
    return jnp.sum(jnp.sin(y)) + sum(jnp.sum(f**2) for f in impulses), impulses


@pytest.fixture(scope="module")
def sensitivity(x64_module):
    """Of a batch: the number and the impulses, its gradient, its derivative along a direction."""

    def one(groups, y, direction):
        value, reverse = jax.value_and_grad(number, (0, 1), has_aux=True)(groups, y)
        return value, reverse, jax.jvp(number, (groups, y), direction)[1][0]

    return quick_jit(jax.vmap(one))


def test_it_is_that_of_differences(sensitivity):
    problem = random_problems()
    direction = random_like(problem, 5)
    (_, impulses), reverse, forward = sensitivity(*problem, direction)
    np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-7)
    h = 1e-6
    above, below = (
        sensitivity(*jax.tree.map(lambda a, d, s=s: a + s * h * d, problem, direction), direction)
        for s in (1, -1)
    )
    slope = (above[0][0] - below[0][0]) / (2 * h)
    np.testing.assert_allclose(slope, forward, rtol=1e-6, atol=1e-6)

    point = np.asarray(impulses[0]).reshape(-1, 3)
    normal, tangent = point[:, 0], np.linalg.norm(point[:, 1:], axis=1)
    slides = (normal > 0) & (tangent > 0.7 * normal - 1e-9)
    kinds = [normal == 0, slides, (normal > 0) & ~slides]
    assert min(k.sum() for k in kinds) >= 5, "points that are open, slide and stick"
    assert 5 < (np.asarray(impulses[1]) > 0).sum() < impulses[1].size - 5


@pytest.mark.parametrize("what", ["at rest", "no friction", "touching without force", "idle rows"])
def test_it_is_finite_where_cases_meet(sensitivity, what):
    groups, y = random_problems()
    if what in ("at rest", "touching without force"):
        y = 0 * y
        groups = tuple(replace(group, target=0 * group.target) for group in groups)
    contacts, *others = groups
    if what == "no friction":
        contacts = replace(contacts, friction=0 * contacts.friction)
    if what == "touching without force":
        contacts = replace(contacts, impulse=1 + contacts.impulse)
    if what == "idle rows":
        idle = contacts.x.at[:, 1].set(0)
        contacts = replace(contacts, x=idle, target=contacts.target.at[:, 1].set(0))
    problem = (contacts, *others), y
    for leaf in jax.tree.leaves(sensitivity(*problem, random_like(problem, 6))):
        assert np.isfinite(leaf).all()


def block_on_the_ground(points: int) -> RowGroup:
    """A block of 2 kg that each of so many points at one place holds up."""
    rows = np.array([[0.0, 1.0], [1.0, 0.0]]) / np.sqrt(2.0)
    return jax.tree.map(
        jnp.asarray,
        RowGroup(
            np.tile(rows, (1, points, 1)),
            np.zeros((1, 2 * points)),
            np.zeros((1, 2 * points)),
            np.full((1, points), 0.5),
        ),
    )


def test_duplicate_contacts_do_not_change_the_derivative_of_the_velocity():
    """Of a block that slides, and of one that sticks; by its velocity and by the friction."""

    def after(free, friction, points):
        rows = block_on_the_ground(points)
        rows = replace(rows, friction=friction + 0 * rows.friction)
        return implicit.solve((rows,), free, 200)[1]

    def derivatives(speed):
        free = np.sqrt(2.0) * jnp.stack([speed, -0.1])
        return [jax.jacrev(after, (0, 1))(free, 0.5, points) for points in (1, 3)]

    once, often = quick_jit(jax.vmap(derivatives))(jnp.array([1.0, 0.001]))
    for a, b in zip(once, often):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(once[0], [[[1, 0.5], [0, 0]], np.zeros((2, 2))], atol=1e-9)
    np.testing.assert_allclose(once[1], [[-0.1 * np.sqrt(2.0), 0], [0, 0]], atol=1e-9)


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_rows_of_different_lengths_have_the_derivative_by_friction(friction):
    """Of a block that slides; without friction, too."""
    rows = block_on_the_ground(1)
    rows = replace(rows, x=rows.x * jnp.array([1.0, 3.0])[None, :, None])

    @quick_jit
    def after(friction):
        given = replace(rows, friction=friction + 0 * rows.friction)
        return implicit.solve((given,), jnp.array([2.0, -0.1]), 20)[1]

    slope = jax.jacfwd(after)(friction)
    np.testing.assert_allclose(slope, (after(friction + 1e-6) - after(friction)) / 1e-6, atol=1e-9)
    np.testing.assert_allclose(slope, [-0.3, 0], atol=1e-9)


# ---- smoothing ---------------------------------------------------------------------------------


def test_relaxed_complementarity_in_closed_form():
    u = jnp.array([-10, -1.0, -1e-3, 0.0, 1e-3, 1.0, 10])
    for smoothing in (1e-4, 0.3):
        value, slope = implicit.relaxed_positive(u, smoothing)
        np.testing.assert_allclose(value * (value - u), smoothing, rtol=1e-9)
        h = 1e-5 * np.maximum(1, np.abs(u))
        above, below = (implicit.relaxed_positive(u + s * h, smoothing)[0] for s in (1, -1))
        np.testing.assert_allclose(slope, (above - below) / (2 * h), atol=1e-6)
    value, slope = implicit.relaxed_positive(u, 0.0)
    np.testing.assert_array_equal(value, np.maximum(u, 0))
    np.testing.assert_array_equal(slope, u > 0)


def fall(speed, smoothing):
    """(2,) the whitened velocity, along x and z, of the block with its ground 0.2 m/s away."""
    rows = block_on_the_ground(1)
    rows = replace(rows, target=rows.target.at[0, 0].set(-0.2))
    return implicit.solve((rows,), jnp.stack([3 + 0 * speed, speed]), 20, smoothing)[1]


def test_smoothing_changes_the_derivative_alone_and_as_the_relaxed_problem_says():
    speeds = jnp.array([-0.5, -0.29, -0.27, -0.1, 0.5])  # whitened; the ground is at -0.2 sqrt(2)

    def one(speed, smoothing):
        return jax.jvp(lambda v: fall(v, smoothing), (speed,), (jnp.ones_like(speed),))

    run = quick_jit(jax.vmap(jax.vmap(one, (0, None)), (None, 0)))
    smoothings = jnp.array([0.0, 1e-4, 1e-2])
    values, slopes = run(speeds, smoothings)
    trial = -0.2 * np.sqrt(2.0) - speeds
    _, pushes = implicit.relaxed_positive(trial, smoothings[:, None])
    np.testing.assert_allclose(slopes[..., 1], 1 - pushes, atol=1e-9)
    np.testing.assert_array_equal(values[1], values[0])
    np.testing.assert_array_equal(values[2], values[0])
    np.testing.assert_array_equal(slopes[0, :, 1], [0, 0, 1, 1, 1])
    # an open contact brakes along x as well, once it is relaxed
    assert 0 == slopes[0, 2, 0] < slopes[1, 2, 0] < slopes[2, 2, 0] < 0.5


# ---- problems given by their matrix ------------------------------------------------------------

SOLVERS = {
    "gauss_seidel": partial(lcp.gauss_seidel, iterations=2000),
    "accelerated_gradient": partial(lcp.accelerated_gradient, iterations=20_000),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_with_an_early_end_it_is_that_of_differences_too(name):
    """Bilateral, unilateral, boxed and friction rows; of K, b and the bounds."""
    rng = np.random.default_rng(0)
    J = rng.normal(size=(PROBLEMS, 8, 11))
    K, b = jnp.asarray(J @ J.transpose(0, 2, 1)), jnp.asarray(rng.normal(size=(PROBLEMS, 8)))
    box = lcp.Bounds(jnp.full(2, -0.02), jnp.full(2, 0.03), jnp.full(2, -1))
    bounds = lcp.together(
        lcp.bilateral(1), lcp.unilateral(1), box, lcp.with_friction(jnp.array([0.4, 0.1]))
    )
    # not of the friction rows' lower bounds: with one below 0 the upper one is lower still
    free = jnp.isfinite(bounds.lower) & (jnp.arange(8) < 4), jnp.isfinite(bounds.upper)

    def number(K, b, lower, upper):
        found = SOLVERS[name](
            K, b, lcp.Bounds(lower, upper, bounds.normal), early=True, tolerance=1e-12
        )
        return jnp.sum(jnp.sin(3 * found.force))

    def one(inputs, direction):
        value, reverse = jax.value_and_grad(lambda x: number(*x))(inputs)
        return value, reverse, jax.jvp(lambda x: number(*x), (inputs,), (direction,))[1]

    inputs = (K, b, *(jnp.tile(x, (PROBLEMS, 1)) for x in (bounds.lower, bounds.upper)))
    direction = random_like(inputs, 8)
    direction = (*direction[:2], *(d * f for d, f in zip(direction[2:], free)))
    run = quick_jit(jax.vmap(one))
    _, reverse, forward = run(inputs, direction)
    np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-7, atol=1e-9)
    h = 1e-7
    above, below = (
        run(jax.tree.map(lambda a, d, s=s: a + s * h * d, inputs, direction), direction)
        for s in (1, -1)
    )
    np.testing.assert_allclose((above[0] - below[0]) / (2 * h), forward, rtol=1e-6, atol=1e-6)


def test_duplicate_and_idle_rows_of_a_matrix_have_a_finite_derivative():
    """Two rows that say the same; a row of zeros keeps what it has."""

    def force(b):
        K = jnp.zeros((3, 3)).at[:2, :2].set(2.0)
        b = jnp.append(jnp.full(2, b), 0.0)
        return lcp.gauss_seidel(K, b, lcp.unilateral(3)).force

    for derivative in (jax.jacfwd, jax.jacrev):
        slope = quick_jit(derivative(force))(-3.0)
        np.testing.assert_allclose([slope[:2].sum(), slope[2]], [-0.5, 0], atol=1e-9)


def test_smoothing_of_a_matrix_problem_in_closed_form():
    """One row: f = max(0, -b / K), relaxed to K f f + b f = smoothing."""

    def force(b, smoothing):
        K, bounds = jnp.array([[2.0]]), lcp.unilateral(1)
        return lcp.gauss_seidel(K, b[None], bounds, smoothing=smoothing).force[0]

    b, smoothing = jnp.array([[-1.0], [0.3]]), jnp.array([0.0, 0.1])
    root = np.sqrt(b * b + 8 * smoothing)
    slope = quick_jit(jnp.vectorize(jax.grad(force)))(b, smoothing)
    np.testing.assert_allclose(slope, (b / root - 1) / 4)


def test_linear_systems_without_symmetry_or_large_pivots():
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(50, 7, 7)), rng.normal(size=(50, 7))
    A[:10] += 1e6 * np.einsum("pi,pj->pij", *rng.normal(size=(2, 10, 7)))
    A[10] = np.eye(7)[::-1]
    found = quick_jit(jax.vmap(lambda A, b: implicit.solution_of(A)(b)))(A, b)
    wanted = np.linalg.solve(A, b[..., None])[..., 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)
