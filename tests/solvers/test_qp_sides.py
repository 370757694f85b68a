"""Rows of G with a bound on both sides: the same answers as two rows, for the price of one."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers import qp
from tests.compiling import quick_jit
from tests.solvers.qp_problems import (
    ALONE,
    FREE,
    KC,
    MEMBERS,
    NAMES,
    E,
    K,
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
TIGHT = K - KC  # the first row with two sides


@pytest.fixture(scope="module", params=[0, FREE])
def batch(x64_module, request):
    p = problems()
    return replace(p, lower=p.lower[:, request.param :], upper=p.upper[:, request.param :])


def as_two_rows(p: qp.QuadraticProgram) -> qp.QuadraticProgram:
    """Each side a row of its own."""
    G = jnp.concatenate([p.G, -p.G[:, -KC:]], axis=1)
    return replace(p, G=G, h=jnp.concatenate([p.h, -p.ceilings], axis=1), ceiling=None)


def test_the_solution_is_that_of_two_rows(batch):
    s, two = sharp(batch), sharp(as_two_rows(batch))
    assert (s.status == qp.SOLVED).all() and (two.status == qp.SOLVED).all()
    assert s.at_ceiling.shape == (MEMBERS, KC) and two.at_ceiling.shape == (MEMBERS, 0)
    assert (s.at_ceiling[:, :-1] > 1e-6).any(axis=0).all()  # the last one is idle
    np.testing.assert_allclose(s.x, two.x, atol=1e-7)
    both = jnp.concatenate([s.inequality, s.at_ceiling], axis=1)
    np.testing.assert_allclose(both, two.inequality, atol=1e-5 * np.abs(both).max())
    assert (s.iterations <= two.iterations + 2).all()
    held = one(problems(), slice(8))
    wanted = np.stack([reference(one(held, k)) for k in range(8)])
    assert relative(s.x[:8], wanted).max() < 1e-7


def test_no_side_is_like_no_ceiling(batch):
    p = with_(batch, ceiling=lambda c: c.__setitem__(..., np.inf))
    s, absent = sharp(p), sharp(replace(batch, ceiling=None))
    np.testing.assert_allclose(s.x, absent.x, atol=1e-8)
    assert (s.at_ceiling == 0).all()
    above = with_(batch, h=lambda h: h.__setitem__((..., slice(-KC, None)), -np.inf))
    s = sharp(above)
    assert (s.status == qp.SOLVED).all() and (s.inequality[:, -KC:] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_sides_are_an_equation(batch, dtype):
    """A joint that is given no strength: nothing is left between the two."""
    p = with_(batch, ceiling=lambda c: c.__setitem__((..., 0), batch.h[:, TIGHT]))
    rows = jnp.concatenate([p.A, p.G[:, TIGHT : TIGHT + 1]], axis=1)
    sides = jnp.concatenate([p.b, p.h[:, TIGHT : TIGHT + 1]], axis=1)
    free = with_(p, h=lambda h: h.__setitem__((..., TIGHT), -np.inf),
                 ceiling=lambda c: c.__setitem__((..., 0), np.inf))  # fmt: skip
    wanted = sharp(replace(free, A=rows, b=sides))
    there = np.asarray(wanted.status == qp.SOLVED)
    assert there.mean() > 0.8  # of some the equation contradicts the other constraints
    s = solve(p if dtype == "float64" else single(p))
    assert (np.asarray(s.status)[there] == qp.SOLVED).all()
    np.testing.assert_array_equal(s.status == qp.SOLVED, there)
    error = relative(np.asarray(s.x)[there], np.asarray(wanted.x)[there])
    assert error.max() < (1e-3 if dtype == "float32" else 1e-5)
    pull = np.asarray(s.inequality[:, TIGHT] - s.at_ceiling[:, 0])[there]
    scale = np.abs(wanted.equality).max()
    np.testing.assert_allclose(
        pull, wanted.equality[there, E], atol=(1e-3 if dtype == "float32" else 1e-6) * scale
    )


def test_check_names_a_row_whose_ceiling_is_missed(batch):
    p = with_(batch, ceiling=lambda c: c.__setitem__((3, 1), batch.h[3, TIGHT + 1] - 0.5))
    with pytest.raises(qp.QPError, match=rf"1 infeasible .*G{TIGHT + 1} \(1\)"):
        qp.check(solve(p), NAMES)


def test_float32_takes_as_many_iterations_as_two_rows():
    for seed in range(4):
        p = single(problems(seed, 256))
        s, two = solve(p), solve(as_two_rows(p))
        assert (s.status == qp.SOLVED).all()
        assert s.iterations.mean() < two.iterations.mean() + 0.1
        assert_optimal(p, s, 1e-5)


def test_more_ceilings_than_rows_are_told(batch):
    p = one(batch)
    with pytest.raises(ValueError, match=r"ceiling \(6,\): .*of the last kc of the 5 rows of G"):
        qp.solve(replace(p, ceiling=jnp.zeros(K + 1)))


def number(p: qp.QuadraticProgram):
    s = qp.solve(p, tolerance=1e-9, smoothing=1e-3)
    rows = s.inequality[:K].at[-KC:].add(-s.at_ceiling) if p.ceiling is not None else (
        s.inequality[:K].at[-KC:].add(-s.inequality[K:]))  # fmt: skip
    return jnp.sum(jnp.sin(jnp.concatenate([s.x, rows])))


@pytest.mark.slow
def test_derivatives_are_those_of_two_rows(batch):
    slope = quick_jit(jax.vmap(jax.grad(number)))(batch)
    two = quick_jit(jax.vmap(jax.grad(lambda p: number(one(as_two_rows(jax.tree.map(
        lambda x: x[None], p)))))))(batch)  # fmt: skip
    for name in ALONE:
        a, b = np.asarray(getattr(slope, name)), np.asarray(getattr(two, name))
        assert np.abs(b).max() > 1e-3
        np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())
