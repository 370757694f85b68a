"""Convex quadratic programs over a chain of stages: ``qp``'s problem for each, tied by a state.

The method is that of ``interior_point``; a step's linear system is solved by ``riccati``.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.safe import safe_divide, safe_norm, safe_sqrt
from jaxsim.solvers import riccati
from jaxsim.solvers.interior_point import COLD, LEAST, OWN, STEP, WARM, largest, least_centring
from jaxsim.solvers.lcp import NOT_FINITE, SOLVED, UNFINISHED
from jaxsim.solvers.qp import default_tolerance
from jaxsim.solvers.qp_system import MOST, RIDGE
from jaxsim.solvers.riccati import Chain, Square, StageRows


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StagedProgram:
    """Minimise the sum of |J (u, s) - r|^2 / 2 over H stages, under constraints in each stage.

    These are A (u, s) = b and C (u, s) >= d, with s_(k+1) = F s_k + B u_k + f and s_0 = 0. A row
    without a bound has d = -inf. A control with columns of zeros gets the value 0.
    """

    J: StageRows  # m rows
    r: Array  # (H, m)
    A: StageRows  # e rows
    b: Array  # (H, e)
    C: StageRows  # c rows
    d: Array  # (H, c)
    chain: Chain
    f: Array  # (H, nx)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StageIterate:
    """Iterate with controls, the states that they lead to, multipliers and slacks."""

    u: Array  # (H, n)
    x: Array  # (H, nx)
    y: Array  # (H, e)
    z: Array  # (H, c) not negative
    s: Array  # (H, c) slacks, not negative


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StagedSolution:
    """Controls u with multipliers, residuals and status: see ``qp.QPSolution``."""

    u: Array  # (H, n)
    equality: Array  # (H, e)
    inequality: Array  # (H, c)
    status: Array  # () int: SOLVED, UNFINISHED or NOT_FINITE
    primal: Array  # ()
    dual: Array  # ()
    gap: Array  # ()
    iterations: Array  # () int


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScaledStages:
    """Problem whose columns, rows and solution have the size 1, with its scale factors."""

    p: StagedProgram
    live: Array  # (H, n) bool: something depends on the control
    real: Array  # (H, c) bool: the inequality exists
    cost: Square  # of J and A
    columns: Array  # (H, n) factors of the columns: u = columns * size * scaled u
    of_A: Array  # (H, e) factors of the rows of A
    of_C: Array  # (H, c) factors of the rows of C
    size: Array  # () size of the solution


def solve(
    problem: StagedProgram,
    start: tuple[Array, Array, Array] | None = None,
    iterations: int = 50,
    tolerance: float | None = None,
) -> StagedSolution:
    """Solve a QP over stages, from controls (H, n) and multipliers (H, e), (H, c), or from zeros.

    tolerance: that of ``qp.solve``. A problem that is not finite has a solution that is not.
    """
    tolerance = default_tolerance(problem.r.dtype) if tolerance is None else tolerance
    q = _scaled(problem, None if start is None else start[0])
    p = _begun(q, start)

    def goes_on(run):
        return (run[1] < iterations) & ~run[2]

    def again(run):
        p, count, _, (_, before, gap_before), caution, centre = run
        new = _step(q, p, caution, centre)
        good = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(new)))
        new = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, p)
        left = primal, dual, gap = measures(q, new)
        stuck = (primal <= tolerance) & (gap <= tolerance) & (dual > before / 2)
        caution = jnp.where(stuck, 10 * caution, caution)
        caution = jnp.minimum(jnp.where(good, caution, 100 * caution), MOST)
        done, centre = (
            jnp.stack([x <= tolerance for x in left]).all(),
            least_centring(gap, gap_before),
        )
        return new, count + 1, done, left, caution, centre

    one, count = jnp.ones((), problem.r.dtype), jnp.asarray(0, jnp.int32)
    run = (p, count, jnp.zeros((), bool), (jnp.inf * one,) * 3, one, 0 * one)
    p, count, done, *_ = lax.while_loop(goes_on, again, run)
    primal, dual, gap = measures(q, p)
    finite = jnp.isfinite(primal + dual + gap) & _finite(problem)
    status = jnp.where(done, SOLVED, UNFINISHED)
    status = jnp.where(finite, status, NOT_FINITE).astype(jnp.int32)
    unit = q.size * q.columns
    u = jnp.where(finite, p.u * unit, jnp.nan)
    y, z = p.y * q.of_A * q.size, p.z * q.of_C * q.size
    return StagedSolution(u, y, z, status, primal, dual, gap, count)


def _finite(p: StagedProgram) -> Array:
    rest = replace(p, d=jnp.where(p.d == -jnp.inf, 0.0, p.d))
    return jnp.isfinite(sum(jnp.sum(x) for x in jax.tree.leaves(rest)))


def _scaled(p: StagedProgram, start: Array | None = None) -> ScaledStages:
    """Scale columns of the controls to length 1 in J, then rows of A and C, then the solution.

    The solution's size is that of the start (H, n) and the right sides, or without a start that of
    all right sides and bounds.
    """
    finite = _finite(p)
    has = p.d != -jnp.inf
    p = jax.tree.map(lambda x: jnp.where(finite, x, 0.0), replace(p, d=jnp.where(has, p.d, 0.0)))
    in_J, in_rest = (safe_norm(jnp.swapaxes(rows.u, 1, 2)) for rows in (p.J, p.A))
    noise = 10 * jnp.finfo(in_J.dtype).eps * jnp.max(in_J)
    length = jnp.where(in_J > noise, in_J, in_rest)
    live, columns = length > 0, 1 / jnp.where(length > 0, length, 1.0)

    def inverse(rows: StageRows) -> Array:
        of_u = safe_norm(jnp.where(live[:, None], rows.u * columns[:, None], 0.0))
        of_row = jnp.where(of_u > 0, of_u, safe_norm(rows.s))
        return 1 / jnp.where(of_row > 0, of_row, 1.0)

    of_A, of_C = inverse(p.A), inverse(p.C)
    touches = jnp.any((p.C.u != 0) & live[:, None], axis=2) | jnp.any(p.C.s != 0, axis=2)
    real = has & (touches | (p.d > 0))
    d = jnp.where(real, p.d * of_C, 0.0)
    pull, _ = p.J.pull(p.r)
    sizes = [jnp.abs(pull * columns), jnp.abs(p.b * of_A)]
    sizes += [jnp.abs(d)] if start is None else [d, jnp.abs(start / columns)]
    size = jnp.max(jnp.stack([jnp.max(x, initial=0.0) for x in sizes]))
    size = jnp.where(jnp.isfinite(size), size, 1.0)
    size = jnp.where(size > 0, size, 1.0)

    def rows(rows: StageRows, row: Array) -> StageRows:
        u = jnp.where(live[:, None], rows.u * columns[:, None], 0.0)
        return StageRows(u * row[..., None], rows.s * row[..., None])

    J, A, C = rows(p.J, jnp.ones_like(p.r)), rows(p.A, of_A), rows(p.C, of_C)
    chain = Chain(p.chain.F, jnp.where(live[:, None], p.chain.B * columns[:, None], 0.0))
    scaled = StagedProgram(J, p.r / size, A, p.b * of_A / size, C, d / size, chain, p.f / size)
    cost = Square.of(J) + Square.of(A)
    return ScaledStages(scaled, live, real, cost, columns, of_A, of_C, size)


def _begun(q: ScaledStages, start: tuple[Array, Array, Array] | None) -> StageIterate:
    p = q.p
    if start is None:
        start = jnp.zeros_like(q.columns), jnp.zeros_like(p.b), jnp.zeros_like(p.d)
    u, y, z = start
    u = jnp.where(q.live, u / (q.columns * q.size), 0.0)
    y = y / (q.of_A * q.size)
    z = jnp.where(q.real, z / (q.of_C * q.size), 0.0)
    u, y, z = (jnp.where(jnp.isfinite(x), x, 0.0) for x in (u, y, z))
    x = p.chain.states(u, p.f)
    none = jnp.zeros_like(y), jnp.zeros_like(z)
    with_them, without = (_left(q, u, x, *of) for of in ((y, z), none))
    helps = largest(with_them) <= largest(without)
    y, z = (jnp.where(helps, x, 0.0) for x in (y, z))
    room = p.C.of(u, x) - p.d
    missed = jnp.maximum(largest(p.b - p.A.of(u, x)), largest(jnp.where(q.real, -room, 0.0)))
    left = jnp.maximum(jnp.minimum(largest(with_them), largest(without)), missed)
    least = jnp.clip(WARM * left, LEAST, COLD)
    s = jnp.maximum(room, least)
    z = jnp.maximum(z, least * jnp.minimum(1.0, 1 / s))
    return StageIterate(u, x, y, jnp.where(q.real, z, 0.0), jnp.where(q.real, s, 1.0))


def _direct(q: ScaledStages, u: Array, x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    """(H, n), (H, nx) gradient of the Lagrangian by controls and by states as if independent."""
    parts = q.p.J.pull(q.p.J.of(u, x) - q.p.r), q.p.A.pull(y), q.p.C.pull(z)
    of_u, of_s = (a - b - c for a, b, c in zip(*parts))
    return of_u, of_s


def _left(q: ScaledStages, u: Array, x: Array, y: Array, z: Array) -> Array:
    """(H, n) total gradient of the Lagrangian by the controls."""
    return jnp.where(q.live, q.p.chain.reduced(*_direct(q, u, x, y, z)), 0.0)


def measures(q: ScaledStages, p: StageIterate) -> tuple[Array, Array, Array]:
    """Relative primal residual, dual residual and complementarity gap, () each.

    See ``interior_point.measures``.
    """
    sizes = jnp.abs(p.u), jnp.abs(p.x)
    reach = jnp.maximum(jnp.max(sizes[0]), jnp.max(jnp.abs(q.p.b), initial=0.0))
    reach = reach + float(jnp.finfo(p.u.dtype).eps)

    terms = jax.tree.map(jnp.abs, q.p.A).of(*sizes) + jnp.abs(q.p.b)
    off = safe_divide(q.p.b - q.p.A.of(p.u, p.x), jnp.minimum(reach, OWN * terms))
    room = jnp.where(q.real, q.p.C.of(p.u, p.x) - q.p.d - p.s, 0.0)
    room = room / jnp.maximum(reach, jnp.abs(q.p.d))
    left = _left(q, p.u, p.x, p.y, p.z)
    dual = jnp.maximum(largest(left), jnp.abs(jnp.sum(left * p.u)))
    product = jnp.where(q.real, p.s * p.z, 0.0)
    return jnp.maximum(largest(off), largest(room)), dual, safe_sqrt(largest(product))


def _step(q: ScaledStages, p: StageIterate, caution: Array, least: Array) -> StageIterate:
    """Predictor-corrector step, the counterpart of ``interior_point.step``."""
    eps, real, C = float(jnp.finfo(p.u.dtype).eps), q.real, q.p.C
    delta = caution * eps**0.75
    answer = 1 / (p.s + delta * p.z)
    weight = jnp.where(real, p.z * answer, 0.0)
    diagonal = jnp.where(q.live, caution * RIDGE * eps, 1.0)
    f = riccati.factor(q.p.chain, q.cost + Square.of(C, weight), q.p.A, diagonal, delta)
    of_u, of_s = _direct(q, p.u, p.x, p.y, p.z)
    equation = q.p.b - q.p.A.of(p.u, p.x)
    room = jnp.where(real, C.of(p.u, p.x) - q.p.d - p.s, 0.0)
    again = q.p.A.pull(equation)  # A^T A is in the cost, too

    def direction(product: Array):
        base = jnp.where(real, -(product + p.z * room) * answer, 0.0)
        push = C.pull(base)
        g, g_s = (-a + b + c for a, b, c in zip((of_u, of_s), push, again))
        du, dx, dy = riccati.solve(f, q.p.chain, q.p.A, g, g_s, equation)
        moved = C.of(du, dx)
        dz = base - weight * moved
        return StageIterate(du, dx, dy, dz, jnp.where(real, moved + room + delta * dz, 0.0))

    def longest(to: StageIterate) -> Array:
        rate = jnp.where(real, jnp.maximum(-to.s / p.s, -to.z / p.z), 0.0)
        return 1 / jnp.max(rate, initial=1e-9)

    product = p.s * p.z
    straight = direction(product)
    part = jnp.minimum(longest(straight), 1.0)
    after = jnp.sum(jnp.where(real, (p.s + part * straight.s) * (p.z + part * straight.z), 0.0))
    now, count = jnp.sum(jnp.where(real, product, 0.0)), jnp.sum(real, dtype=product.dtype)
    centre = jnp.maximum(safe_divide(after, now) ** 3, least) * safe_divide(now, count)
    to = direction(product + part * straight.s * straight.z - centre)
    part = jnp.minimum(STEP * longest(to), 1.0)
    return jax.tree.map(lambda old, new: old + part * new, p, to)
