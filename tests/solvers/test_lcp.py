"""Complementarity problems with a matrix, against enumeration of what each row may be doing."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers import lcp
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

PROBLEMS = 30
SOLVERS = {
    "gauss_seidel": (lcp.gauss_seidel, 300),
    "accelerated_gradient": (lcp.accelerated_gradient, 6000),
}


def enumerated(K, b, bounds) -> np.ndarray:
    """Every row free, at its lower or at its upper bound, until all conditions hold."""
    m = len(b)
    for states in product("flu", repeat=m):
        A, rhs = np.zeros((m, m)), np.zeros(m)
        for i, state in enumerate(states):
            limit = bounds.lower[i] if state == "l" else bounds.upper[i]
            if state == "f":
                A[i], rhs[i] = K[i], -b[i]
            elif state == "u" and bounds.normal[i] >= 0:
                A[i, i], A[i, bounds.normal[i]] = 1, -limit
            elif np.isfinite(limit):
                A[i, i], rhs[i] = 1, limit
            else:
                break
        else:
            if np.linalg.matrix_rank(A) < m:
                continue
            f = np.linalg.solve(A, rhs)
            w = K @ f + b
            upper = [u if n < 0 else u * f[n] for u, n in zip(bounds.upper, bounds.normal)]
            sign = {"f": lambda w: abs(w) < 1e-9, "l": lambda w: w > -1e-9, "u": lambda w: w < 1e-9}
            inside = (f >= bounds.lower - 1e-9).all() and (f <= np.array(upper) + 1e-9).all()
            if inside and all(sign[s](w[i]) for i, s in enumerate(states)):
                return f
    raise AssertionError("no solution")


def as_numpy(bounds):
    return jax.tree.map(np.asarray, bounds)


@pytest.fixture(scope="module")
def problems(x64_module):
    """Mechanical ones: K = J M^-1 J^T of six rows of nine dofs."""
    rng = np.random.default_rng(0)
    J = rng.normal(size=(PROBLEMS, 6, 9)) / rng.uniform(0.5, 2, 9)
    return J @ J.transpose(0, 2, 1), rng.normal(size=(PROBLEMS, 6))


BOUNDS = {
    "unilateral": lambda: lcp.unilateral(6),
    "mixed": lambda: lcp.together(lcp.bilateral(2), lcp.unilateral(4)),
    "box": lambda: lcp.Bounds(jnp.full(6, -0.3), jnp.full(6, 0.5), jnp.full(6, -1)),
    "friction": lambda: lcp.together(lcp.with_friction(jnp.array([0.4, 0.1])), lcp.bilateral(2)),
}


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("name", SOLVERS)
def test_forces_are_those_of_enumeration(problems, name, kind):
    (solver, iterations), bounds = SOLVERS[name], BOUNDS[kind]()
    K, b = problems
    solve = quick_jit(jax.vmap(lambda K, b: solver(K, b, bounds, iterations=iterations)))
    found = solve(K, b)
    wanted = np.stack([enumerated(*x, as_numpy(bounds)) for x in zip(K, b)])
    np.testing.assert_allclose(found.force, wanted, atol=1e-5)
    np.testing.assert_array_equal(found.status, lcp.SOLVED)
    assert (found.residual < 1e-5).all()
    at_rest = np.abs(np.einsum("pij,pj->pi", K, wanted) + b) < 1e-9
    assert at_rest.any(axis=1).all() and not at_rest.all()  # rows of both kinds occur


def test_early_exit_stops_when_it_is_done(problems):
    K, b = problems
    bounds = lcp.unilateral(6)
    run = quick_jit(jax.vmap(partial(lcp.gauss_seidel, bounds=bounds, iterations=500, early=True)))
    found = run(K, b)
    assert (found.status == lcp.SOLVED).all()
    assert (found.iterations < 500).all() and found.iterations.max() > 3
    again = jax.vmap(
        lambda K, b, f: lcp.gauss_seidel(K, b, bounds, start=f, iterations=500, early=True)
    )(K, b, found.force)
    assert (again.iterations == 0).all()  # a warm start from the solution


@pytest.mark.parametrize(("name", "most"), [("gauss_seidel", 101), ("accelerated_gradient", 5000)])
def test_contradictory_rows_give_bounded_forces_and_say_so(name, most):
    solver, _ = SOLVERS[name]
    K = jnp.array([[2.0, 2.0], [2.0, 2.0]])
    found = solver(K, jnp.array([1.0, -1.0]), lcp.bilateral(2), iterations=100)
    assert found.status == lcp.UNFINISHED
    assert np.abs(found.force).max() < most
    assert found.residual > 0.5


@pytest.mark.parametrize("name", SOLVERS)
def test_rows_said_twice_share_the_force(name):
    solver, iterations = SOLVERS[name]
    found = solver(
        jnp.full((2, 2), 2.0), jnp.full(2, -3.0), lcp.unilateral(2), iterations=iterations
    )
    assert found.status == lcp.SOLVED
    np.testing.assert_allclose(found.force.sum(), 1.5, rtol=1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_idle_rows_and_broken_members_leave_the_others_alone(problems, name):
    solver, iterations = SOLVERS[name]
    K, b = (np.array(x[:4]) for x in problems)
    bounds = lcp.unilateral(6)
    solve = quick_jit(jax.vmap(lambda K, b: solver(K, b, bounds, iterations=iterations)))
    whole = solve(K, b)
    broken = K.copy()
    broken[2, 1, 1] = np.nan
    found = solve(broken, b)
    assert found.status.tolist() == [lcp.SOLVED, lcp.SOLVED, lcp.NOT_FINITE, lcp.SOLVED]
    for k in (0, 1, 3):
        np.testing.assert_array_equal(found.force[k], whole.force[k])
    K[:, 5], K[:, :, 5] = 0, 0
    b[:, 5] = 0
    idle = solve(K, b)
    np.testing.assert_array_equal(idle.force[:, 5], 0)
    assert (idle.status == lcp.SOLVED).all()


def test_gradient_in_reverse_is_that_of_differences(problems):
    K, b = (x[0] for x in problems)
    bounds = BOUNDS["friction"]()

    def number(K, b):
        return jnp.sum(jnp.sin(lcp.gauss_seidel(K, b, bounds, iterations=60).force))

    value = quick_jit(jax.value_and_grad(number, (0, 1)))
    _, (of_K, of_b) = value(K, b)
    rng = np.random.default_rng(1)
    dK, db, h = rng.normal(size=K.shape), rng.normal(size=b.shape), 1e-6
    ends = [value(K + s * h * dK, b + s * h * db)[0] for s in (1, -1)]
    slope = np.sum(of_K * dK) + np.sum(of_b * db)
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), slope, rtol=1e-6)
