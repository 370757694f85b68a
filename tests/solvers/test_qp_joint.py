"""QPs that have equations in common, against one QP of all their unknowns."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxsim.solvers import qp
from jaxsim.solvers.joint import JointEquations
from tests.compiling import quick_jit
from tests.solvers.qp_problems import FREE, KC, MASKED, K, N, one, problems, single, solver

pytestmark = pytest.mark.usefixtures("x64")

BODIES, TOGETHER = 3, 4  # problems, and equations that they have in common; the last one is idle


def tied(seed: int = 0, systems: int = 8) -> qp.QuadraticProgram:
    """(systems, BODIES, ...) problems with equations that a point inside of each fulfils."""
    rng = np.random.default_rng(seed)
    flat = problems(seed, systems * BODIES)
    flat = replace(flat, lower=flat.lower[:, FREE:], upper=flat.upper[:, FREE:])
    ways = [solver()(replace(flat, r=sign * flat.r)).x for sign in (1, -1)]
    allowed = np.asarray(sum(ways) / 2).reshape(systems, BODIES, N)  # between two solutions
    p = jax.tree.map(lambda x: x.reshape(systems, BODIES, *x.shape[1:]), flat)
    C = rng.normal(size=(systems, BODIES, TOGETHER, N)) * 10 ** rng.uniform(-2, 2, (TOGETHER, 1))
    C[..., MASKED], C[:, :, -1] = 0, 0
    c = np.einsum("skij,skj->si", C, allowed)
    c = np.repeat(c[:, None], BODIES, axis=1)
    return replace(p, joint=JointEquations(jnp.asarray(C), jnp.asarray(c), "body"))


def whole(p: qp.QuadraticProgram) -> qp.QuadraticProgram:
    """One problem of the (BODIES, ...) problems' unknowns, first those that have no bounds."""
    blocks = {
        name: scipy.linalg.block_diag(*np.asarray(getattr(p, name))) for name in ("J", "A", "G")
    }
    A = np.concatenate([blocks["A"], np.concatenate(list(np.asarray(p.joint.C)), axis=1)])
    order, rows = order_of_unknowns(), order_of_rows()
    return qp.QuadraticProgram(
        J=jnp.asarray(blocks["J"][:, order]),
        r=p.r.reshape(-1),
        A=jnp.asarray(A[:, order]),
        b=jnp.concatenate([p.b.reshape(-1), p.joint.c[0]]),
        G=jnp.asarray(blocks["G"][rows][:, order]),
        h=p.h.reshape(-1)[rows],
        lower=p.lower.reshape(-1),
        upper=p.upper.reshape(-1),
        ceiling=p.ceiling.reshape(-1),
    )


def order_of_unknowns() -> np.ndarray:
    every = np.arange(BODIES * N).reshape(BODIES, N)
    return np.concatenate([every[:, :FREE].reshape(-1), every[:, FREE:].reshape(-1)])


def order_of_rows() -> np.ndarray:
    every = np.arange(BODIES * K).reshape(BODIES, K)
    return np.concatenate([every[:, : K - KC].reshape(-1), every[:, K - KC :].reshape(-1)])


def solve(p: qp.QuadraticProgram, start=None, **options) -> qp.QPSolution:
    one_of = partial(qp.solve, **options)
    bodies = jax.vmap(one_of, axis_name="body")
    return quick_jit(jax.vmap(bodies))(p, start)


alone = quick_jit(qp.solve)


@pytest.fixture(scope="module")
def solved():
    with jax.enable_x64(True):
        p = tied()
        return p, solve(p)


def test_the_solution_is_that_of_one_problem(solved):
    p, s = solved
    assert (np.asarray(s.status) == qp.SOLVED).mean() > 0.9
    for k in np.flatnonzero((s.status == qp.SOLVED).all(axis=1)):
        wanted = alone(whole(one(p, k)))
        assert wanted.status == qp.SOLVED
        got = np.asarray(s.x[k]).reshape(-1)[order_of_unknowns()]
        np.testing.assert_allclose(got, wanted.x, atol=1e-5)


def test_the_joint_equations_hold_and_pull_on_all(solved):
    p, s = solved
    ok = np.asarray(s.status == qp.SOLVED).all(axis=1)
    total = np.einsum("skij,skj->si", p.joint.C, s.x)
    size = np.abs(np.asarray(s.x)).max(axis=(1, 2))[:, None]
    size = size * np.asarray(abs(p.joint.C)).max((1, 3))
    np.testing.assert_allclose(((total - p.joint.c[:, 0]) / (size + 1e-9))[ok], 0, atol=1e-7)
    slope = np.einsum("skmi,skm->ski", p.J, np.einsum("skmi,ski->skm", p.J, s.x) - p.r)
    pull = np.einsum("skei,ske->ski", p.A, s.equality)
    pull += np.einsum("skei,ske->ski", p.G, s.inequality)
    pull -= np.einsum("skei,ske->ski", p.G[:, :, -KC:], s.at_ceiling)
    pull[..., FREE:] += s.at_lower - s.at_upper
    alone = np.abs(slope - pull)
    joint = np.abs(slope - pull - np.einsum("skei,ske->ski", p.joint.C, s.joint))
    scale = np.abs(np.asarray(p.J)).max(axis=2) ** 2 + 1e-9
    assert (joint / scale)[ok].max() < 1e-4
    assert (alone / scale)[ok].max() > 1e-2  # without the joint multipliers it is none


def test_all_of_a_system_are_told_the_same(solved):
    _, s = solved
    for name in ("status", "iterations", "primal", "dual", "gap", "joint"):
        value = np.asarray(getattr(s, name))
        assert (value == value[:, :1]).all(), name


def test_a_solution_starts_the_next_problem(solved):
    p, s = solved
    again = solve(p, s.start)
    ok = np.asarray(s.status == qp.SOLVED)
    np.testing.assert_allclose(again.x[ok], s.x[ok], atol=1e-5)
    assert (np.asarray(again.iterations) <= np.asarray(s.iterations))[ok].all()
    assert np.asarray(again.iterations)[ok].mean() < np.asarray(s.iterations)[ok].mean() - 1


def test_the_derivative_is_that_of_one_problem(solved):
    p, s = solved
    k = int(np.flatnonzero(np.asarray(s.status == qp.SOLVED).all(axis=1))[0])
    rng = np.random.default_rng(5)
    tangents = jax.tree.map(
        lambda x: jnp.where(jnp.isfinite(x) & (x != 0), jnp.asarray(rng.normal(size=x.shape)), 0.0),
        one(p, k),
    )
    same = jnp.broadcast_to(tangents.joint.c[:1], tangents.joint.c.shape)
    tangents = replace(tangents, joint=replace(tangents.joint, c=same))
    bodies = jax.vmap(qp.solve, axis_name="body")

    def moved(solve):
        return quick_jit(lambda p, dot: jax.jvp(lambda p: solve(p).x, (p,), (dot,))[1])

    move = moved(bodies)(one(p, k), tangents)
    wanted = moved(qp.solve)(whole(one(p, k)), whole(tangents))
    got = np.asarray(move).reshape(-1)[order_of_unknowns()]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_a_problem_that_is_not_finite_takes_its_own_system_with_it_and_no_other(solved):
    p, s = solved
    bad = replace(p, r=p.r.at[2, 1, 0].set(jnp.nan))
    got = solve(bad)
    assert (np.asarray(got.status[2]) == qp.NOT_FINITE).all()
    others = [k for k in range(len(s.status)) if k != 2]
    for name in ("x", "status", "joint"):
        ours, theirs = (np.asarray(getattr(each, name))[others] for each in (got, s))
        np.testing.assert_array_equal(ours, theirs)


def test_in_float32(solved):
    p, s = solved
    got = solve(single(p))
    ok = np.asarray((s.status == qp.SOLVED) & (got.status == qp.SOLVED))
    assert ok.mean() > 0.8
    size = np.abs(np.asarray(s.x)).max(axis=(1, 2))[:, None, None]
    assert np.quantile((np.abs(np.asarray(got.x) - s.x) / size)[ok], 0.9) < 1e-3
