"""A program over stages is the dense one of all its controls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers import qp, riccati, stages
from jaxsim.solvers.lcp import NOT_FINITE, SOLVED
from jaxsim.solvers.riccati import Chain, Square, StageRows
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

H, N, NX, M, E, C = 6, 5, 4, 7, 2, 4  # stages; controls, states; rows of goals, equations, bounds


def problem(seed: int) -> stages.StagedProgram:
    """Random; some of C's rows are without a bound, and u = 1 fits all."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=(H, *shape)))  # noqa: E731
    chain = Chain(0.6 * draw(NX, NX), draw(NX, N))
    J, A, bounds = (StageRows(draw(rows, N), 0.5 * draw(rows, NX)) for rows in (M, E, C))
    f, one = 0.1 * draw(NX), jnp.ones((H, N))
    s = chain.states(one, f)
    d = bounds.of(one, s) - jnp.asarray(rng.uniform(size=(H, C)))
    d = jnp.where(jnp.arange(C) == 1, -jnp.inf, d)
    return stages.StagedProgram(J, 3 * draw(M), A, A.of(one, s), bounds, d, chain, f)


def dense(p: stages.StagedProgram, rows: StageRows) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all stages on all controls (H m, H n), and what they are at controls of 0."""
    at = lambda u: rows.of(u, p.chain.states(u, p.f)).reshape(-1)  # noqa: E731
    zero = jnp.zeros((H, N))
    return np.asarray(jax.jacfwd(at)(zero)).reshape(-1, H * N), np.asarray(at(zero))


@pytest.fixture(scope="module")
def solved(x64_module):
    return quick_jit(stages.solve)


def test_a_newton_step_is_that_of_the_dense_system(x64_module):
    """The block recursion against one factorisation of the conditions of all stages."""
    p = problem(0)
    rng = np.random.default_rng(1)
    weight = jnp.asarray(rng.uniform(0.1, 100.0, size=(H, C)))
    diagonal, delta = jnp.full((H, N), 1e-6), 0.0
    g, e = jnp.asarray(rng.normal(size=(H, N))), jnp.asarray(rng.normal(size=(H, E)))
    g_s = jnp.asarray(rng.normal(size=(H, NX)))

    def recursion():
        cost = Square.of(p.J) + Square.of(p.C, weight)
        f = riccati.factor(p.chain, cost, p.A, diagonal, delta)
        return riccati.solve(f, p.chain, p.A, g, g_s, e)

    u, s, y = quick_jit(recursion)()
    (J, _), (A, _), (bounds, _) = (dense(p, rows) for rows in (p.J, p.A, p.C))
    states = np.asarray(jax.jacfwd(p.chain.states)(jnp.zeros((H, N)))).reshape(H * NX, H * N)
    K = J.T @ J + bounds.T @ np.diag(np.ravel(weight)) @ bounds + np.diag(np.ravel(diagonal))
    whole = np.block([[K, -A.T], [A, np.zeros((H * E, H * E))]])
    wanted = np.linalg.solve(whole, np.append(np.ravel(g) + states.T @ np.ravel(g_s), e))
    found = np.append(u, y)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())
    np.testing.assert_allclose(np.ravel(s), states @ np.ravel(u), atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_solution_is_that_of_one_dense_problem(solved, seed):
    p = problem(seed)
    found = solved(p)
    assert found.status == SOLVED
    (J, at_J), (A, at_A), (bounds, at_C) = (dense(p, rows) for rows in (p.J, p.A, p.C))
    none = jnp.zeros(0)
    r, b, d = (np.ravel(x) - at for x, at in ((p.r, at_J), (p.b, at_A), (p.d, at_C)))
    J, r, A, b, bounds, d = map(jnp.asarray, (J, r, A, b, bounds, d))
    whole = qp.QuadraticProgram(J, r, A, b, bounds, d, none, none)
    wanted = quick_jit(qp.solve)(whole)
    assert wanted.status == SOLVED and (np.asarray(wanted.inequality) > 1e-3).sum() > 3
    np.testing.assert_allclose(np.ravel(found.u), wanted.x, atol=1e-6)
    np.testing.assert_allclose(np.ravel(found.inequality), wanted.inequality, atol=1e-5)
    np.testing.assert_allclose(np.ravel(found.equality), wanted.equality, atol=1e-5)


def test_a_warm_start_ends_there_sooner(solved):
    p = problem(0)
    first = solved(p)
    again = solved(p, (first.u, first.equality, first.inequality))
    assert again.iterations < first.iterations
    np.testing.assert_allclose(again.u, first.u, atol=1e-6)


def test_what_is_not_finite_harms_no_other_member():
    good, bad = problem(0), problem(1)
    bad = stages.StagedProgram(**{**vars(bad), "r": bad.r.at[2, 1].set(jnp.nan)})
    both = jax.tree.map(lambda *x: jnp.stack(x), good, bad)
    found = quick_jit(jax.vmap(stages.solve))(both)
    assert list(found.status) == [SOLVED, NOT_FINITE]
    assert np.isnan(found.u[1]).all()
    np.testing.assert_allclose(found.u[0], quick_jit(stages.solve)(good).u, atol=1e-9)


def test_a_control_without_any_use_is_zero(solved):
    p = problem(0)

    def idle(rows: StageRows) -> StageRows:
        return StageRows(rows.u.at[:, :, 3].set(0.0), rows.s)

    chain = Chain(p.chain.F, p.chain.B.at[:, :, 3].set(0.0))
    bounds = StageRows(p.C.u.at[:, 0].set(jnp.eye(N)[3]), p.C.s.at[:, 0].set(0.0))
    one = jnp.ones((H, N)).at[:, 3].set(0.0)
    d = p.d.at[:, 0].set(0.0)
    p = stages.StagedProgram(idle(p.J), p.r, idle(p.A), p.b, bounds, d, chain, p.f)
    p = stages.StagedProgram(**{**vars(p), "b": p.A.of(one, chain.states(one, p.f))})
    found = solved(p)
    assert (np.asarray(found.u)[:, 3] == 0).all()
    assert found.status == SOLVED
