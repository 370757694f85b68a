"""Projected Gauss-Seidel against exact solutions: enumeration, a block and a ball that slide."""

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers.pgs import RowGroup, natural_residual, solve, useful_start
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

PROBLEMS = 40


@pytest.fixture(scope="module")
def run():
    """``run(groups, y, sweeps)``: impulses of each group, the velocity, and the residual."""

    def one(groups, y, sweeps):
        groups, y = solve(groups, y, sweeps)
        return [f.impulse for f in groups], y, natural_residual(groups, y)

    return quick_jit(one, static_argnums=2)


@pytest.fixture(scope="module")
def run_many(run):
    """The same for a batch of problems of one shape."""

    def one(groups, y, sweeps):
        groups, y = solve(groups, y, sweeps)
        return [f.impulse for f in groups], y, natural_residual(groups, y)

    def many(groups, y, sweeps):
        return jax.vmap(lambda f, y: one(f, y, sweeps))(groups, y)

    return quick_jit(many, static_argnums=2)


def normals(x, target, impulse=None, blocks: int = 1) -> RowGroup:
    """RowGroup without friction: x (..., r, nv), in so many blocks."""
    batch, (r, nv) = x.shape[:-2], x.shape[-2:]
    per = r // blocks
    impulse = np.zeros(target.shape) if impulse is None else impulse
    return RowGroup(
        x=jnp.asarray(x.reshape(*batch, blocks, per, nv)),
        target=jnp.asarray(target.reshape(*batch, blocks, per)),
        impulse=jnp.asarray(impulse.reshape(*batch, blocks, per)),
        friction=jnp.zeros((*batch, blocks, per)),
    )


def enumerated(x: np.ndarray, target: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The solution of the complementarity problem of a few normal rows, over all active sets."""
    A, r = x @ x.T, x @ y - target
    for active in product((False, True), repeat=len(target)):
        on = np.array(active)
        f = np.zeros(len(target))
        if on.any():
            f[on] = np.linalg.solve(A[np.ix_(on, on)], -r[on])
        if (f >= 0).all() and (A @ f + r >= -1e-12).all():
            return f
    raise AssertionError("no solution")


@pytest.fixture(scope="module")
def random_problems(x64_module):
    """Six rows of eight dofs each: x, target, y."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(PROBLEMS, 6, 8))
    return x, rng.normal(size=(PROBLEMS, 6)), rng.normal(size=(PROBLEMS, 8))


@pytest.mark.parametrize("blocks", [1, 3])
def test_normal_rows_reach_the_enumerated_solution(run_many, random_problems, blocks):
    x, target, y = random_problems
    [impulse], after, residual = run_many((normals(x, target, blocks=blocks),), y, 300)
    several = 0
    for k in range(PROBLEMS):
        wanted = enumerated(x[k], target[k], y[k])
        several += (wanted > 0).sum() > 1
        np.testing.assert_allclose(impulse[k].reshape(-1), wanted, atol=1e-6)
        np.testing.assert_allclose(after[k], y[k] + wanted @ x[k], atol=1e-6)
    assert several > PROBLEMS / 2
    assert residual.max() < 1e-6


def test_two_families_are_one_problem(run_many, random_problems):
    x, target, y = random_problems
    groups = (normals(x[:, :2], target[:, :2]), normals(x[:, 2:], target[:, 2:], blocks=2))
    impulses, _, residual = run_many(groups, y, 300)
    impulse = np.concatenate([np.asarray(f).reshape(PROBLEMS, -1) for f in impulses], axis=1)
    for k in range(PROBLEMS):
        np.testing.assert_allclose(impulse[k], enumerated(x[k], target[k], y[k]), atol=1e-6)
    assert residual.max() < 1e-6


def test_residual_is_zero_at_the_solution_alone(random_problems):
    x, target, y = random_problems
    solution = np.stack([enumerated(x[k], target[k], y[k]) for k in range(PROBLEMS)])
    residual = quick_jit(jax.vmap(lambda rows, y: natural_residual((rows,), y)))

    def at(impulse):
        return residual(normals(x, target, impulse), y + np.einsum("kr,krv->kv", impulse, x))

    np.testing.assert_allclose(at(solution), 0, atol=1e-10)
    assert (at(solution + 0.01) > 1e-3).all()
    assert (at(np.zeros_like(solution))[(solution > 0.1).any(axis=1)] > 0.01).all()
    # one free row, approached too fast by 0.3: the residual is that velocity
    one = normals(np.array([[[2.0, 0.0]]]), np.array([[0.3]]))
    np.testing.assert_allclose(residual(one, np.zeros((1, 2))), 0.3)


def test_warm_start_saves_sweeps(run_many, random_problems):
    """From a solution of nearly the same problem, two sweeps do better than four cold ones."""
    x, target, y = random_problems
    [before], *_ = run_many((normals(x, target),), y, 300)
    moved = target + 0.01
    before = np.asarray(before).reshape(PROBLEMS, 6)
    *_, warm = run_many((normals(x, moved, before),), y, 2)
    *_, cold = run_many((normals(x, moved),), y, 2)
    *_, cold_twice = run_many((normals(x, moved),), y, 4)
    assert np.median(warm) < 0.2 * np.median(cold)
    assert np.median(warm) < np.median(cold_twice)


# ---- friction --------------------------------------------------------------------------------

MASS, DT, G = 2.0, 0.01, 9.81


def contact(rows: np.ndarray, target, friction: float) -> RowGroup:
    """One point: its normal row, then its tangents, in white coordinates."""
    return RowGroup(
        x=jnp.asarray(rows)[None],
        target=jnp.asarray(target, float)[None],
        impulse=jnp.zeros((1, len(rows))),
        friction=jnp.full((1, 1), friction),
    )


@pytest.mark.parametrize("speed", [3.0, -3.0, 0.03, 0.0])
def test_sliding_block(run, speed):
    """It loses mu g h a step, or stops: Coulomb in closed form."""
    rows = np.array([[0.0, 1.0], [1.0, 0.0]]) / np.sqrt(MASS)  # whitened by sqrt(m)
    free = np.sqrt(MASS) * np.array([speed, -G * DT])
    [impulse], y, residual = run((contact(rows, [0, 0], 0.5),), free, 8)
    weight = MASS * G * DT
    drag = -np.sign(speed) * min(0.5 * weight, MASS * abs(speed))
    np.testing.assert_allclose(impulse[0], [weight, drag], atol=1e-12)
    np.testing.assert_allclose(y / np.sqrt(MASS), [speed + drag / MASS, 0], atol=1e-12)
    assert residual < 1e-12


@pytest.mark.parametrize("pressing", [0.5, 0.9, 1.5, 3.0])
def test_sliding_that_presses_is_solved_at_once(run, pressing):
    """Friction presses on the ground by more than the normal impulse relieves it, as at toes that
    are pushed along: from 1 on whole steps of the normal would never end."""
    mu, c = 2 * pressing, 0.5
    rows = np.array([[1.0, 0.0], [-c, np.sqrt(1 - c * c)]])  # unit rows; the slip is to the right
    free = np.linalg.solve(rows, [-1.0, 50.0])
    [impulse], _, residual = run((contact(rows, [0, 0], mu),), free, 8)
    normal = 1 / (1 + mu * c)  # r_n = -1 + f_n - c f_t = 0 with f_t = -mu f_n
    np.testing.assert_allclose(impulse[0], [normal, -mu * normal], rtol=1e-3)
    assert residual < 1e-3


@pytest.mark.parametrize(("slip", "sticks"), [(2.0, False), (0.05, True)])
def test_sliding_ball_starts_to_roll(run, slip, sticks):
    """Friction acts on the surface: m (1 - slip) in the sliding, 2/7 m in the rolling case."""
    radius = 0.3
    inertia = 0.4 * MASS * radius**2
    white = np.diag([MASS, MASS, inertia]) ** 0.5
    J = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, radius]])  # surface velocity vx + r w
    rows = J @ np.linalg.inv(white)
    [impulse], y, _ = run((contact(rows, [0, 0], 0.5),), white @ np.array([slip, -G * DT, 0]), 8)
    weight = MASS * G * DT
    drag = -2 / 7 * MASS * slip if sticks else -0.5 * weight
    np.testing.assert_allclose(impulse[0], [weight, drag], rtol=1e-9)
    vx, _, spin = np.linalg.solve(white, y)
    np.testing.assert_allclose([vx, spin], [slip + drag / MASS, drag * radius / inertia])
    assert (abs(vx + radius * spin) < 1e-12) == sticks


def test_friction_in_space_opposes_the_motion_within_a_round_cone(run):
    """The direction of a sliding block does not turn, whatever the axes of the tangents."""
    for angle in (0.0, 0.4, np.pi / 4):
        c, s = np.cos(angle), np.sin(angle)
        rows = np.array([[0, 0, 1.0], [c, s, 0], [-s, c, 0]]) / np.sqrt(MASS)
        velocity = np.array([3.0, 4.0, -G * DT])
        [impulse], y, residual = run((contact(rows, [0, 0, 0], 0.5),), np.sqrt(MASS) * velocity, 8)
        normal, *tangent = np.asarray(impulse[0])
        np.testing.assert_allclose(np.linalg.norm(tangent), 0.5 * normal, rtol=1e-12)
        after = np.asarray(y) / np.sqrt(MASS)
        wanted = [3 - 0.6 * 0.5 * G * DT, 4 - 0.8 * 0.5 * G * DT, 0]
        np.testing.assert_allclose(after, wanted, atol=1e-12)
        assert residual < 1e-12


def test_friction_opposes_the_slip_of_a_body_that_is_lighter_along_one_axis(run):
    """Maximal dissipation: the force is against the velocity that remains, not a scaled one."""
    rows = np.diag([1.0, 0.5, 2.0])  # white rows of the normal and of two tangents
    free = np.array([-2.0, 1.5, 2.0])  # normal velocity -2, slips 0.75 and 4
    [impulse], y, residual = run((contact(rows, [0, 0, 0], 0.3),), free, 400)
    normal, *force = np.asarray(impulse[0])
    slip = rows[1:, 1:] @ np.asarray(y)[1:]
    np.testing.assert_allclose(normal, 2)
    np.testing.assert_allclose(np.linalg.norm(force), 0.6)
    np.testing.assert_allclose(force, -0.6 * slip / np.linalg.norm(slip), atol=1e-9)
    assert residual < 1e-9


def random_contacts(friction: float, seed: int = 3) -> tuple[RowGroup, np.ndarray]:
    """Blocks of two points with three rows each; the last block is a padding of zeros."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(PROBLEMS, 3, 6, 12))
    x[:, 2] = 0
    target = np.zeros((PROBLEMS, 3, 6))
    target[:, :2, ::3] = rng.normal(size=(PROBLEMS, 2, 2))
    rows = RowGroup(x, target, np.zeros_like(target), np.full((PROBLEMS, 3, 2), friction))
    return jax.tree.map(jnp.asarray, rows), rng.normal(size=(PROBLEMS, 12))


@pytest.mark.parametrize("friction", [0.0, 0.7])
@pytest.mark.parametrize("sweeps", [1, 8, 500])
def test_impulses_stay_in_the_cone_after_any_number_of_sweeps(run_many, friction, sweeps):
    rows, y = random_contacts(friction)
    [impulse], _, residual = run_many((rows,), y, sweeps)
    point = np.asarray(impulse).reshape(PROBLEMS, 3, 2, 3)
    normal, tangent = point[..., 0], np.linalg.norm(point[..., 1:], axis=-1)
    assert (normal >= 0).all()
    assert (tangent <= friction * normal + 1e-12).all()
    np.testing.assert_array_equal(point[:, 2], 0)  # idle rows
    if sweeps == 500:
        assert residual.max() < 1e-6


def test_contact_at_rest_takes_no_energy_from_nowhere(run_many):
    """Where every target is zero, the impulses never add kinetic energy."""
    rows, y = random_contacts(0.7, seed=4)
    rows = RowGroup(rows.x, 0 * rows.target, rows.impulse, rows.friction)
    _, after, _ = run_many((rows,), y, 200)
    before = np.sum(y**2, axis=1)
    assert (np.sum(np.asarray(after) ** 2, axis=1) <= before + 1e-9).all()


def test_no_warm_start_adds_energy(run_many):
    """Impulses of an impact, kept for the next step: the better part of them is not used."""
    rows, y = random_contacts(0.0, seed=5)
    old = jnp.abs(random_like(rows.impulse, 6)) * 10
    rows = RowGroup(rows.x, 0 * rows.target, old, rows.friction)
    rows = jax.vmap(lambda rows, y: useful_start((rows,), y)[0])(rows, y)
    _, after, _ = run_many((rows,), y, 1)
    assert (np.sum(np.asarray(after) ** 2, axis=1) <= np.sum(y**2, axis=1) + 1e-9).all()


# ---- gradients -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sensitivity():
    """Value and reverse gradient of a scalar of the solution, and its derivative by forward mode,
    both with regard to every array that enters."""

    def scalar(rows, y):
        (rows,), y = solve((rows,), y, 5)
        return jnp.sum(jnp.sin(y)) + jnp.sum(rows.impulse**2) + natural_residual((rows,), y)

    def one(rows, y, direction):
        value, reverse = jax.value_and_grad(scalar, (0, 1))(rows, y)
        return value, reverse, jax.jvp(scalar, (rows, y), direction)[1]

    return quick_jit(one)


def inner(a, b) -> float:
    return sum(float(np.sum(np.asarray(x) * np.asarray(y))) for x, y in zip(leaves(a), leaves(b)))


def leaves(tree):
    return jax.tree.leaves(tree)


def random_like(tree, seed: int):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), tree)


def test_gradient_is_that_of_finite_differences(sensitivity):
    """From impulses that push; from none at all the least one decides whether a contact slides."""
    rows, y = jax.tree.map(lambda x: x[0], random_contacts(0.7))
    rows = jax.tree.map(lambda x: x[:2], rows)
    rows = replace(rows, impulse=rows.impulse + 0.1)
    direction = random_like((rows, y), 5)
    _, reverse, forward = sensitivity(rows, y, direction)
    np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-9)
    h = 1e-6
    ends = [
        sensitivity(*jax.tree.map(lambda a, d, s=s: a + s * h * d, (rows, y), direction), direction)
        for s in (1, -1)
    ]
    np.testing.assert_allclose((ends[0][0] - ends[1][0]) / (2 * h), forward, rtol=1e-5)


@pytest.mark.parametrize("what", ["at rest", "no friction", "touching without force", "idle rows"])
def test_gradient_is_finite_where_cases_meet(sensitivity, what):
    rows, y = jax.tree.map(lambda x: x[0], random_contacts(0.7))
    rows = jax.tree.map(lambda x: x[1:] if what == "idle rows" else x[:2], rows)
    if what in ("at rest", "touching without force"):
        rows, y = RowGroup(rows.x, 0 * rows.target, rows.impulse, rows.friction), 0 * y
    if what == "no friction":
        rows = RowGroup(rows.x, rows.target, rows.impulse, 0 * rows.friction)
    if what == "touching without force":
        rows = RowGroup(rows.x, rows.target, rows.impulse, jnp.ones_like(rows.friction))
    value, reverse, forward = sensitivity(rows, y, random_like((rows, y), 6))
    for leaf in leaves((value, reverse, forward)):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("cosine", [0.994, -0.994, 1.0])
def test_limits_that_are_nearly_one_row_are_solved_as_a_pair(cosine):
    """Whether one pushes, both or none; a row that is the other one again is solved, too."""
    rows = jnp.array([[1.0, 0.0, 0.0], [cosine, np.sqrt(1 - cosine**2), 0.0]])
    zeros = jnp.zeros((1, 2))

    def one(target):
        limits = RowGroup(x=rows[None], target=target[None], impulse=zeros, friction=zeros)
        solved, y = solve((limits,), jnp.zeros(3), 1)
        return solved[0].impulse[0], natural_residual(solved, y)

    targets = jnp.array([[1, 1.001], *np.random.default_rng(0).normal(size=(60, 2))])
    impulses, residuals = map(np.asarray, jax.vmap(one)(targets))
    assert residuals.max() < 1e-9
    pushing = {tuple(impulse > 0) for impulse in impulses}
    assert {(False, False)} < pushing and ((True, True) in pushing) == (abs(cosine) < 1)
