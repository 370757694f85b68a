"""QPs whose first unknowns have no bounds: the same answers as with infinite ones, for less."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.fused import fuse
from jaxsim.solvers import qp, qp_system
from jaxsim.solvers.qp_levels import solve_levels
from tests.compiling import quick_jit
from tests.solvers.qp_problems import (
    ALONE,
    FREE,
    INFEASIBLE,
    KC,
    MEMBERS,
    NAMES,
    NF,
    NQ,
    E,
    K,
    M,
    N,
    assert_optimal,
    one,
    problems,
    reference,
    relative,
    single,
    solver,
    with_,
)

pytestmark = pytest.mark.usefixtures("x64_module")

solve, sharp = solver(), solver(tolerance=1e-10)


def without_bounds(p: qp.QuadraticProgram, free: int = FREE) -> qp.QuadraticProgram:
    """Those of the first unknowns left away."""
    return replace(p, lower=p.lower[..., free:], upper=p.upper[..., free:])


def all_bounds(s, free: int):
    """A solution's multipliers with those of infinite bounds."""
    none = jnp.zeros((*s.x.shape[:-1], free), s.x.dtype)
    low, high = (jnp.concatenate([none, x], axis=-1) for x in (s.at_lower, s.at_upper))
    return replace(s, at_lower=low, at_upper=high)


@pytest.fixture(scope="module")
def batch(x64_module):
    return problems()


def test_the_solution_is_that_of_infinite_bounds(batch):
    s = sharp(without_bounds(batch))
    assert s.at_lower.shape == (MEMBERS, N - FREE) and s.violated.shape == (MEMBERS, E + K + N)
    assert (s.status == qp.SOLVED).all() and not s.violated.any()
    wanted = np.stack([reference(one(batch, k)) for k in range(MEMBERS)])
    assert relative(s.x, wanted).max() < 1e-7
    assert_optimal(batch, all_bounds(s, FREE), 1e-9)
    held = np.concatenate([s.inequality, s.at_ceiling, s.at_lower, s.at_upper], axis=1) > 1e-6
    assert held.any(axis=1).all()


@pytest.mark.parametrize("free", [NQ, N])
def test_forces_alone_have_bounds_or_nothing_has(batch, free):
    p = with_(
        batch,
        lower=lambda x: x.__setitem__((..., slice(free)), -np.inf),
        upper=lambda x: x.__setitem__((..., slice(free)), np.inf),
    )
    s = sharp(without_bounds(p, free))
    assert (s.status == qp.SOLVED).all()
    assert_optimal(p, all_bounds(s, free), 1e-9)
    assert (s.inequality > 1e-6).any()


def test_float32_takes_no_more_iterations_than_with_bounds():
    """The rows of G that push have large weights; what is left of them must not be lost."""
    for seed in range(4):
        p = single(problems(seed, 256))
        s, with_bounds = solve(without_bounds(p)), solve(p)
        assert (s.status == qp.SOLVED).all()
        assert s.iterations.max() <= with_bounds.iterations.max() + 4
        assert s.iterations.mean() < with_bounds.iterations.mean() + 0.1
        assert_optimal(p, all_bounds(s, FREE), 1e-5)


@pytest.mark.parametrize("kind", INFEASIBLE)
def test_infeasible_problems_name_the_rows(batch, kind):
    edit, expected = INFEASIBLE[kind]
    s = solve(without_bounds(edit(batch)))
    assert (s.status == qp.INFEASIBLE).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(s))
    for row in s.violated:
        named = {NAMES[k] for k in np.flatnonzero(row)}
        assert named and named <= expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tasks_that_leave_a_free_unknown_open(batch, dtype):
    """In one half of the batch two of them do the same, in the other nothing depends on one."""
    one_half, other = slice(MEMBERS // 2), slice(MEMBERS // 2, None)

    def edit(matrix):
        matrix[one_half, :, 1] = matrix[one_half, :, 0]
        matrix[other, :, 1] = 0

    no_ceiling = np.full_like(batch.ceiling, np.inf)  # with it nothing would fit some
    p = replace(with_(batch, J=edit, A=edit, G=edit), ceiling=jnp.asarray(no_ceiling))
    expected = sharp(p)
    s = solve(without_bounds(p if dtype == "float64" else single(p)))
    assert (s.status == qp.SOLVED).all() and (s.x[other, 1] == 0).all()

    def cost(x):
        return np.sum(np.square(np.einsum("bij,bj->bi", p.J, x) - p.r), axis=1)

    rtol = 1e-6 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(cost(s.x), cost(expected.x), rtol=rtol)


@pytest.mark.slow
def test_equations_and_inequalities_may_be_absent(batch):
    p = without_bounds(batch)
    for absent in ("A b", "G h ceiling", "A b G h ceiling"):
        fewer = replace(p, **{name: getattr(p, name)[:, :0] for name in absent.split()})
        whole = replace(fewer, lower=batch.lower, upper=batch.upper)
        s, expected = sharp(fewer), sharp(whole)
        assert (s.status == qp.SOLVED).all()
        np.testing.assert_allclose(s.x, expected.x, atol=1e-7)


def test_bounds_that_fit_no_unknowns_are_told(batch):
    p = one(batch)
    more = jnp.zeros(N + 1)
    with pytest.raises(ValueError, match=r"lower \(11,\) and upper \(11,\); .* of the 10 unknowns"):
        qp.solve(replace(p, lower=more, upper=more))
    with pytest.raises(ValueError, match=r"lower \(8,\) and upper \(10,\); give both the shape"):
        qp.solve(replace(p, lower=p.lower[FREE:]))


def test_broken_members_change_no_bit_of_others(batch):
    p = without_bounds(batch)
    whole = solve(p)
    s = solve(with_(p, G=lambda G: G.__setitem__((3, 0, 0), np.nan)))
    assert s.status[3] == qp.NOT_FINITE and np.isfinite(s.x[3]).all()
    others = np.arange(MEMBERS) != 3
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(s)):
        np.testing.assert_array_equal(a[others], b[others])


def number(p: qp.QuadraticProgram, free: int):
    s = all_bounds(qp.solve(p, tolerance=1e-9, smoothing=1e-3), free)
    parts = jnp.concatenate([s.x, s.equality, s.inequality, s.at_ceiling, s.at_lower, s.at_upper])
    return jnp.sum(jnp.sin(parts) * jnp.cos(jnp.arange(parts.shape[0])))


def test_derivatives_are_those_of_infinite_bounds(batch):
    slope = quick_jit(jax.vmap(jax.grad(partial(number, free=FREE))))(without_bounds(batch))
    expected = quick_jit(jax.vmap(jax.grad(partial(number, free=0))))(batch)
    for name in ALONE:
        a, b = np.asarray(getattr(slope, name)), np.asarray(getattr(expected, name))
        b = b[:, FREE:] if name in ("lower", "upper") else b
        assert np.abs(b).max() > 1e-3
        np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())


@pytest.mark.slow
def test_levels_and_a_warm_start(batch):
    p, first = without_bounds(batch), slice(0, 2)
    levels = [(p.J[:, rows], p.r[:, rows]) for rows in (first, slice(2, M))]
    run = quick_jit(jax.vmap(solve_levels))
    free = run(levels, p.A, p.b, p.G, p.h, p.lower, p.upper, p.ceiling)[-1]
    bounded = run(levels, p.A, p.b, p.G, p.h, batch.lower, batch.upper, p.ceiling)[-1]
    assert (free.status == qp.SOLVED).all()
    np.testing.assert_allclose(free.x, bounded.x, atol=1e-5)
    near = replace(p, r=p.r * 1.003)
    cold, warm = solve(near), quick_jit(jax.vmap(qp.solve))(near, solve(p).start)
    assert (warm.status == qp.SOLVED).all()
    assert warm.iterations.max() < cold.iterations.max()
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-6)


def test_fused_is_xla(batch):
    p = single(without_bounds(one(batch, slice(16))))
    s, expected = fuse(qp.solve)(p), solve(p)
    np.testing.assert_array_equal(s.status, expected.status)
    assert (np.abs(s.iterations - expected.iterations) <= 2).all()
    np.testing.assert_allclose(s.x, expected.x, atol=2e-5)


@pytest.mark.parametrize("free", [0, FREE, NQ, N])
def test_a_step_solves_its_system(batch, free):
    """With weights from 1e-6 to 1e6, against the whole matrix."""
    rng = np.random.default_rng(0)
    q, _ = qp.scale_problem(without_bounds(one(batch), free))
    weight = np.where(q.real, 10 ** rng.uniform(-6, 6, q.d.shape), 0.0)
    g, base, e = (rng.normal(size=x.shape) for x in (q.at, q.d, q.b))
    g[np.asarray(q.fixed)], base[~np.asarray(q.real)] = 0, 0
    tiny = 1e-12
    f = qp_system.factor(q, qp_system.eliminate_free(q), jnp.asarray(weight), tiny, tiny)
    dx, dy, moved, _ = qp_system.solve_factored(f, q, g, base, e)
    eye = np.eye(N)[free:]
    C, inside = np.concatenate([eye, -eye, q.G, -q.G[-KC:]]), ~np.asarray(q.fixed)
    J = np.asarray(q.J * q.columns)
    K_ = J.T @ J + C.T @ (weight[:, None] * C)
    left = K_ @ dx - np.asarray(q.A).T @ dy - g - C.T @ base
    np.testing.assert_allclose(left[inside], 0, atol=1e-6)
    np.testing.assert_allclose(np.asarray(q.A) @ dx, e, atol=1e-7)
    np.testing.assert_allclose(moved, C @ dx, atol=1e-8)
    assert len(dx) == NQ + NF
