"""Small QPs, against enumeration of what holds, finite differences, and solving twice."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.fused import fuse
from jaxsim.solvers import interior_point as ip
from jaxsim.solvers import qp, qp_levels
from tests.compiling import quick_jit
from tests.solvers.qp_problems import (
    ALONE,
    IDLE,
    INFEASIBLE,
    MASKED,
    MEMBERS,
    NAMES,
    M,
    assert_optimal,
    copy_row,
    one,
    problems,
    reference,
    relative,
    single,
    solver,
    with_,
)

pytestmark = pytest.mark.usefixtures("x64_module")

solve = solver()


@pytest.fixture(scope="module")
def batch(x64_module):
    return problems()


@pytest.fixture(scope="module")
def wanted(batch):
    return np.stack([reference(one(batch, k)) for k in range(MEMBERS)])


def test_solutions_are_those_of_an_active_set_method(batch, wanted):
    s = solver(tolerance=1e-10)(batch)
    assert (s.status == qp.SOLVED).all() and not s.violated.any()
    assert relative(s.x, wanted).max() < 1e-7
    assert_optimal(batch, s, 1e-9)
    for measure in (s.primal, s.dual, s.gap):
        assert (measure <= 1e-10).all()
    held = np.concatenate([s.inequality, s.at_ceiling, s.at_lower, s.at_upper], axis=1) > 1e-6
    assert held.any(axis=1).all() and held.mean() < 0.5  # constraints of both kinds occur


def test_float32(batch, wanted):
    s = solve(single(batch))
    assert s.x.dtype == jnp.float32
    assert (s.status == qp.SOLVED).all()
    error = relative(s.x, wanted)
    assert np.median(error) < 1e-4 and error.max() < 1e-3
    assert_optimal(batch, s, 1e-5)


def test_masked_rows_and_columns_are_idle(batch):
    s = solve(batch)
    assert (s.x[:, MASKED] == 0).all()
    assert (s.inequality[:, IDLE] == 0).all() and (s.at_ceiling[:, -1] == 0).all()
    fewer = jax.tree.map(np.asarray, batch)

    def less(x, axis, which=MASKED):
        return np.delete(x, which, axis)

    without = qp.QuadraticProgram(
        J=less(fewer.J, 2), r=fewer.r, A=less(fewer.A, 2), b=fewer.b,
        G=less(less(fewer.G, 2), 1, IDLE), h=less(fewer.h, 1, IDLE),
        lower=less(fewer.lower, 1), upper=less(fewer.upper, 1), ceiling=fewer.ceiling[:, :-1],
    )  # fmt: skip
    absent = solve(without).x
    np.testing.assert_allclose(np.delete(s.x, MASKED, axis=1), absent, atol=1e-6)
    said_otherwise = solve(with_(batch, h=lambda h: h.__setitem__((..., IDLE), -np.inf))).x
    np.testing.assert_allclose(said_otherwise, s.x, atol=1e-6)
    above = solve(with_(batch, lower=lambda x: x.__setitem__((..., MASKED), 0.25)))
    np.testing.assert_allclose(above.x[:, MASKED], 0.25, atol=1e-6)
    idle = solve(with_(batch, A=lambda A: A.__setitem__((slice(None), 0), 0),
                       b=lambda b: b.__setitem__((..., 0), 0)))  # fmt: skip
    assert (idle.status == qp.SOLVED).all()


def combine_rows(a):
    a[:, 2] = a[:, 0] - 2 * a[:, 1]


@pytest.mark.parametrize("edit", [copy_row, combine_rows])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dependent_rows_change_nothing(batch, dtype, edit):
    p = with_(batch, A=edit, b=edit)
    if edit is copy_row:
        p = with_(p, G=edit, h=edit)
    s = solve(single(p) if dtype == "float32" else p)
    assert (s.status == qp.SOLVED).all()
    expected = np.stack([reference(one(p, k)) for k in range(8)])
    assert relative(s.x[:8], expected).max() < (1e-3 if dtype == "float32" else 1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("names", ["J r", "A b G h ceiling", "x"])
def test_units_change_nothing(batch, wanted, names, scale):
    if names == "x":
        all_but_matrices = ("r", "b", "h", "lower", "upper", "ceiling")
        changed = {n: getattr(batch, n) * scale for n in all_but_matrices}
        wanted = wanted * scale
    else:
        changed = {n: getattr(batch, n) * scale for n in names.split()}
    p = single(replace(batch, **changed))
    s = solve(p)
    assert (s.status == qp.SOLVED).all()
    assert relative(s.x, wanted).max() < 1e-3


def test_fixed_unknowns_keep_their_value(batch):
    p = with_(batch, lower=lambda x: x.__setitem__((..., 3), 0.1),
              upper=lambda x: x.__setitem__((..., 3), 0.1))  # fmt: skip
    s = solve(p)
    good = s.status == qp.SOLVED
    assert good.mean() > 0.8 and set(np.asarray(s.status).tolist()) <= {qp.SOLVED, qp.INFEASIBLE}
    np.testing.assert_allclose(s.x[:, 3], 0.1, rtol=1e-12)
    assert_optimal(one(p, good), one(s, good), 1e-8)


@pytest.mark.parametrize("kind", INFEASIBLE)
def test_infeasible_problems_name_the_rows(batch, kind):
    edit, expected = INFEASIBLE[kind]
    p = edit(batch)
    s = solve(p)
    assert (s.status == qp.INFEASIBLE).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(s))
    for row in s.violated:
        named = {NAMES[k] for k in np.flatnonzero(row)}
        assert named and named <= expected
    coarse = solve(single(p))
    assert not (coarse.status == qp.SOLVED).any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(coarse))


def test_check_says_what_failed_and_what_to_do(batch):
    qp.check(solve(batch), NAMES)
    p = with_(batch, J=lambda J: J.__setitem__((2, 0, 0), np.nan),
              lower=lambda x: x.__setitem__((5, 3), 9))  # fmt: skip
    with pytest.raises(qp.QPError) as error:
        qp.check(solve(p), NAMES)
    text = str(error.value)
    for part in (f"2 of {MEMBERS}", "first 2", "1 infeasible", "1 not finite", "x3", "NaN"):
        assert part in text
    with pytest.raises(qp.QPError, match=r"unfinished \(allow more iterations.*row"):
        qp.check(solver(iterations=1)(batch))
    with pytest.raises(ValueError, match="iterations is 0; the solver takes at least one"):
        qp.solve(one(batch, 0), iterations=0)


@pytest.mark.parametrize("field", ALONE)
def test_broken_members_change_no_bit_of_others(batch, field):
    whole = solve(batch)
    broken = with_(batch, **{field: lambda x: x[3].reshape(-1).__setitem__(0, np.nan)})
    s = solve(broken)
    assert s.status[3] == qp.NOT_FINITE
    assert np.isfinite(s.x[3]).all()
    others = np.arange(MEMBERS) != 3
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(s)):
        np.testing.assert_array_equal(a[others], b[others])


def test_a_warm_start_saves_iterations(batch):
    s = solve(batch)
    rng = np.random.default_rng(7)
    near = jax.tree.map(lambda x: x * (1 + 3e-3 * rng.normal(size=x.shape)), batch)
    own = ("h", "lower", "upper", "ceiling")
    near = replace(near, **{name: getattr(batch, name) for name in own})
    cold = solve(near)
    warm = quick_jit(jax.vmap(qp.solve))(near, s.start)
    assert (warm.status == qp.SOLVED).all()
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-6)
    assert warm.iterations.max() < cold.iterations.max()
    assert warm.iterations.mean() < cold.iterations.mean()
    lost = jax.tree.map(lambda x: x * jnp.nan if x.dtype == jnp.float64 else x, s)
    assert (quick_jit(jax.vmap(qp.solve))(near, lost.start).status == qp.SOLVED).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_multipliers_of_tasks_of_another_weight_do_no_harm(batch, dtype):
    """Those of tasks a thousand times as strong are a million times as large."""
    batch = batch if dtype == jnp.float64 else single(batch)
    strong = replace(batch, J=1e3 * batch.J, r=1e3 * batch.r)
    before, cold = solve(strong), solve(batch)
    warm = quick_jit(jax.vmap(qp.solve))(batch, before.start)
    assert (before.status == qp.SOLVED).all() and (warm.status == qp.SOLVED).all()
    assert warm.iterations.max() <= cold.iterations.max() + 1
    assert warm.iterations.mean() < cold.iterations.mean() + 0.5


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_bounds_far_away_cost_few_iterations(batch, dtype):
    """A joint in the middle of its range has a limit a thousand times further than it will move."""
    batch = batch if dtype == jnp.float64 else single(batch)

    def bounds(value):
        def edit(x):
            x[:, :2] = value

        return edit

    none = with_(batch, lower=bounds(-np.inf), upper=bounds(np.inf))
    far = with_(batch, lower=bounds(-1e4), upper=bounds(2e4))
    a, b = solve(none), solve(far)
    assert (b.status == qp.SOLVED).all()
    assert b.iterations.mean() < a.iterations.mean() + 1.5
    np.testing.assert_allclose(b.x, a.x, atol=1e-6 if dtype == jnp.float64 else 1e-3)


def answers(p: qp.QuadraticProgram, smoothing=0.0):
    """A number that all of the solution enters."""
    s = qp.solve(p, smoothing=smoothing, tolerance=1e-9, iterations=40)
    parts = jnp.concatenate([s.x, s.equality, s.inequality, s.at_ceiling, s.at_lower, s.at_upper])
    return jnp.sum(jnp.sin(parts) * jnp.cos(jnp.arange(parts.shape[0])))


value_and_grad = quick_jit(jax.value_and_grad(answers))


@pytest.mark.parametrize("field", ALONE)
def test_gradient_is_that_of_differences(batch, field):
    s = solve(batch)
    of_all = (s.inequality, s.at_ceiling, s.at_lower, s.at_upper)
    p = one(batch, int(np.argmax(np.all([(z > 1e-3).any(axis=1) for z in of_all], axis=0))))
    _, gradient = value_and_grad(p)
    rng = np.random.default_rng(1)
    x = getattr(p, field)
    direction = np.where(np.isfinite(x) & (np.asarray(x) != 0), rng.normal(size=x.shape), 0.0)
    step = 1e-6
    ends = [value_and_grad(replace(p, **{field: x + s * step * direction}))[0] for s in (1, -1)]
    difference = (ends[0] - ends[1]) / (2 * step)
    slope = np.sum(np.where(direction != 0, getattr(gradient, field) * direction, 0.0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert abs(slope) > 1e-3
    np.testing.assert_allclose(slope, difference, rtol=1e-5)


def test_active_rows_within_the_span_of_few_tasks_have_a_derivative():
    """Nothing decides six directions of x, to which large weights of active rows add rounding."""
    rng = np.random.default_rng(0)
    J, r, M = (jnp.asarray(rng.normal(size=shape)) for shape in ((4, 3, 9), (4, 3), (4, 2, 3)))

    def task(r, J, M, at):
        G, h, bound = M @ J, M @ at + 1, jnp.full(9, 10.0)
        none = jnp.zeros((0, 9)), jnp.zeros(0)
        s = qp.solve(qp.QuadraticProgram(J, r, *none, G=G, h=h, lower=-bound, upper=bound))
        return J @ s.x, (s.status, s.inequality)

    values = quick_jit(jax.vmap(task))
    _, (status, inequality) = values(r, J, M, r)
    assert (status == qp.SOLVED).all() and (inequality > 1e-3).any(axis=1).all()
    of_r = quick_jit(jax.vmap(jax.jacfwd(lambda *x: task(*x)[0])))(r, J, M, r)
    steps = 1e-5 * np.eye(3)
    moves = [values(r + e, J, M, r)[0] - values(r - e, J, M, r)[0] for e in steps]
    np.testing.assert_allclose(of_r, np.stack(moves, axis=-1) / 2e-5, atol=1e-8)


def test_forward_and_reverse_derivatives_agree(batch):
    p = one(batch)
    rng = np.random.default_rng(2)
    dot = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), p)
    _, forward = quick_jit(lambda p, dot: jax.jvp(answers, (p,), (dot,)))(p, dot)
    _, gradient = value_and_grad(p)
    pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(dot))
    np.testing.assert_allclose(forward, sum(jnp.sum(a * b) for a, b in pairs), rtol=1e-9)


def test_smoothing_acts_on_the_derivative_alone(batch):
    """x >= 0 with the minimum at t: for t < 0 x does not move, with smoothing it does."""

    def x_of(t, smoothing):
        zero = jnp.zeros
        p = qp.QuadraticProgram(jnp.ones((1, 1)), t[None], zero((0, 1)), zero(0), zero((0, 1)),
                                zero(0), zero(1), jnp.full(1, jnp.inf))  # fmt: skip
        return qp.solve(p, smoothing=smoothing).x[0]

    both = quick_jit(jax.value_and_grad(x_of))
    for t in (-0.5, 0.5):
        exact, slope = both(jnp.asarray(t), 0.0)
        np.testing.assert_allclose(slope, 1.0 * (t > 0), atol=1e-12)
        for kappa in (0.01, 0.1, 1.0):
            value, slope = both(jnp.asarray(t), kappa)
            assert value == exact
            root = np.sqrt(t * t + 4 * kappa)  # x (x - t) = kappa
            np.testing.assert_allclose(slope, (1 + t / root) / 2, rtol=1e-6)


def test_vmap_jit_and_one_by_one_agree(batch):
    s = solve(batch)
    alone = quick_jit(qp.solve)
    for k in range(3):
        np.testing.assert_allclose(alone(one(batch, k)).x, s.x[k], atol=1e-9)
    nested = jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), batch)
    twice = quick_jit(jax.vmap(jax.vmap(qp.solve)))(nested)
    np.testing.assert_allclose(twice.x.reshape(s.x.shape), s.x, atol=1e-9)


def test_fused_is_xla(batch):
    p = single(one(batch, slice(16)))
    p = with_(p, J=lambda J: J.__setitem__((2, 0, 0), np.nan))
    s, expected = fuse(qp.solve)(p), solve(p)
    np.testing.assert_array_equal(s.status, expected.status)
    assert (np.abs(s.iterations - expected.iterations) <= 2).all()
    np.testing.assert_allclose(s.x, expected.x, atol=2e-5)


def in_levels(p: qp.QuadraticProgram, rows: tuple[slice, ...]):
    levels = tuple((p.J[each], p.r[each]) for each in rows)
    return qp_levels.solve_levels(levels, p.A, p.b, p.G, p.h, p.lower, p.upper, p.ceiling)


def test_levels_are_those_solved_one_after_the_other(batch):
    """A first level that can be met, so that the reference has room at the second."""
    first, second = slice(0, 2), slice(2, M)
    inside = solve(batch).x + 0.0
    met = batch.r.at[:, first].set(jnp.einsum("bij,bj->bi", batch.J[:, first], inside))
    p = replace(batch, r=met)
    one_level, both = quick_jit(jax.vmap(lambda p: in_levels(p, (first, second))))(p)
    assert (one_level.status == qp.SOLVED).all() and (both.status == qp.SOLVED).all()
    for k in range(8):
        member = one(p, k)
        rest = replace(member, J=member.J[second], r=member.r[second],
                       A=jnp.concatenate([member.A, member.J[first]]),
                       b=jnp.concatenate([member.b, member.r[first]]))  # fmt: skip
        np.testing.assert_allclose(both.x[k], reference(rest), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_levels_give_way_in_their_order(dtype):
    """In a unit box: x0 = 2 is answered by 1; then x0 + x1 = 0.5 by x1 = 0; then x1 + x2 = 0.7,
    and x0 = 0 may not move what the first level has."""
    J = jnp.asarray([[1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 0]], dtype)
    r = jnp.asarray([2, 0.5, 0.7, 0], dtype)
    none, row = jnp.zeros((0, 3), dtype), jnp.zeros(0, dtype)
    p = qp.QuadraticProgram(J, r, none, row, none, row, jnp.zeros(3, dtype), jnp.ones(3, dtype))
    rows = slice(0, 1), slice(1, 2), slice(2, 4)
    found = quick_jit(lambda p: in_levels(p, rows))(p)
    assert all(s.status == qp.SOLVED and s.iterations <= 8 for s in found)
    np.testing.assert_allclose(found[-1].x, [1, 0, 0.7], atol=1e-6)
    slope = quick_jit(jax.jacobian(lambda r: in_levels(replace(p, r=r), rows)[-1].x))(r)
    np.testing.assert_allclose(slope, [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]], atol=1e-6)


def test_what_contradicts_itself_at_one_level_does_at_the_next():
    """Bounds that leave nothing, both of which push, are not held."""
    none, row = jnp.zeros((0, 2)), jnp.zeros(0)
    levels = (jnp.eye(2)[:1], jnp.ones(1)), (jnp.eye(2)[1:], jnp.ones(1))
    bounds = jnp.array([1.0, 0]), jnp.array([0.0, 1])
    found = quick_jit(
        lambda *bounds: qp_levels.solve_levels(levels, none, row, none, row, *bounds)
    )(*bounds)
    assert [int(s.status) for s in found] == [qp.INFEASIBLE, qp.INFEASIBLE]


def test_only_a_bound_that_surely_pushes_is_held():
    """Not one that rounding has passed, nor one whose slack is as small as its multiplier."""
    none, row = jnp.zeros((0, 4)), jnp.zeros(0)
    p = qp.QuadraticProgram(
        jnp.eye(4), jnp.full(4, -1.0), none, row, none, row, jnp.zeros(4), jnp.ones(4)
    )
    s = qp.solve(p)  # all four rest on 0
    s = replace(s, x=jnp.array([0, -1e-9, 1e-4, 1]), at_lower=jnp.array([1, 1e-9, 1e-4, 0]),
                at_upper=jnp.array([0, 0, 0, 0.5]))  # fmt: skip
    lower, upper = qp_levels._active_bounds(p, s, 3e-8)
    np.testing.assert_array_equal(lower, [0, 0, 0, 1])
    np.testing.assert_array_equal(upper, [0, 1, 1, 1])


def test_never_a_false_solved(batch):
    """What says solved has small residuals in the units of the problem, whatever was asked."""
    rng = np.random.default_rng(11)
    p = problems(3)
    p = with_(p, h=lambda h: h.__iadd__(rng.exponential(size=h.shape) * (h != -1)))
    for version in (p, single(p)):
        s = solve(version)
        good, lost = (np.asarray(s.status == k) for k in (qp.SOLVED, qp.INFEASIBLE))
        assert good.any() and lost.any()
        assert_optimal(one(p, good), one(s, good), 1e-8 if version is p else 1e-4)
        assert not s.violated[good].any() and s.violated[lost].any(axis=1).all()


def test_a_row_of_small_terms_is_not_met_because_x_is_large():
    """An equation and an inequality on a small unknown, missed by a third of their terms."""
    none, row = jnp.zeros((0, 2)), jnp.array([[0.0, 1.0]])
    tasks = jnp.array([[1.0, 0.0]]), jnp.ones(1)
    bounds = jnp.full(2, -jnp.inf), jnp.full(2, jnp.inf)
    missed = jnp.full(1, 2e-6)
    for p in (
        qp.QuadraticProgram(*tasks, row, missed, none, jnp.zeros(0), *bounds),
        qp.QuadraticProgram(*tasks, none, jnp.zeros(0), row, missed, *bounds),
    ):
        q, _ = qp.scale_problem(p)
        point = ip.Iterate(jnp.array([1.0, 1e-6]), 0 * q.b, 0 * q.d, 0 * q.d)
        primal, dual, gap = ip.measures(q, point, ip.residual(q, point, ip.gradient(q, point.x)))
        assert primal > 100 * qp.default_tolerance(jnp.float32)
        assert max(dual, gap) < 1e-6


@pytest.mark.parametrize("slope", [3e-3, 1e-3, 1e-4, 3e-5, 1e-5])
def test_a_small_gradient_along_a_long_way_is_not_solved(slope):
    """Columns that differ by little: the best x is 1 / slope away, down a valley in which the
    gradient is below the tolerance where half of the objective is left."""
    J = jnp.array([[1, 1, 0], [0, slope, 0], [0, 0, 1]], jnp.float32)
    r, none, row = jnp.array([0.0, 1, 1], jnp.float32), jnp.zeros((0, 3), jnp.float32), jnp.zeros(0)
    row, bounds = row.astype(jnp.float32), jnp.full(3, jnp.inf, jnp.float32)
    s = quick_jit(qp.solve)(qp.QuadraticProgram(J, r, none, row, none, row, -bounds, bounds))
    left = np.sum(np.square(np.asarray(J, float) @ np.asarray(s.x, float) - np.asarray(r)))
    assert s.status == qp.UNFINISHED or left < 1e-3
    assert s.status == qp.SOLVED or slope <= 1e-3
