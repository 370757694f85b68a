"""Small complementarity problems given by their matrix: bilateral, unilateral and friction rows.

Unknown forces f with w = K f + b, and for every row

    f = lower and w >= 0,   lower < f < upper and w = 0,   or   f = upper and w <= 0.

A bilateral row has no bounds, a unilateral one lower = 0. The upper bound of a friction row is its
coefficient times the force of its normal row: with lower = 0 these are the three conditions of
Kokkevis, Practical Physics for Articulated Characters (2004), equations 19 to 21, whose lambda is
-w where the bound holds. Section 6 there recommends projected Gauss-Seidel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide, safe_sqrt
from jaxsim.solvers.idle import unless_idle
from jaxsim.solvers.implicit import ROUNDS, proximal_weight, relaxed_positive, solution_of
from jaxsim.solvers.status import Status

# Statuses. Unfinished: the tolerance needs more iterations, or the rows contradict each other.
SOLVED, UNFINISHED = int(Status.OK), int(Status.UNFINISHED)
NOT_FINITE = int(Status.NOT_FINITE)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bounds:
    """Bounds of the forces of all rows; see ``bilateral``, ``unilateral``, ``with_friction``."""

    lower: Array  # (m,)
    upper: Array  # (m,) of a friction row: its coefficient
    normal: Array  # (m,) int: of a friction row its normal row, which comes before it; else -1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LCPSolution:
    """Forces with residual and status."""

    force: Array  # (m,)
    residual: Array  # () see ``natural_residual``
    iterations: Array  # () int
    status: Array  # () int: SOLVED, UNFINISHED or NOT_FINITE


def bilateral(count: int) -> Bounds:
    """Bounds of rows that are equations: the force has any sign."""
    free = jnp.full(count, jnp.inf)
    return Bounds(-free, free, jnp.full(count, -1))


def unilateral(count: int) -> Bounds:
    """Bounds of rows that only push: the force is not negative."""
    return Bounds(jnp.zeros(count), jnp.full(count, jnp.inf), jnp.full(count, -1))


def with_friction(coefficient: Array, tangents: int = 1) -> Bounds:
    """Bounds of n (1 + tangents) rows: a normal and tangents for each coefficient (n,)."""
    n, k = coefficient.shape[0], 1 + tangents
    upper = jnp.stack([jnp.full(n, jnp.inf), *[coefficient] * tangents], axis=1).reshape(-1)
    normal = np.stack([np.full(n, -1), *[k * np.arange(n)] * tangents], axis=1).reshape(-1)
    return Bounds(jnp.zeros(k * n), upper, jnp.asarray(normal))


def together(*parts: Bounds) -> Bounds:
    """Concatenate the rows of several problems."""
    starts = np.cumsum([0, *(part.lower.shape[0] for part in parts)])
    return Bounds(
        jnp.concatenate([p.lower for p in parts]),
        jnp.concatenate([p.upper for p in parts]),
        jnp.concatenate([jnp.where(p.normal < 0, -1, p.normal + s) for p, s in zip(parts, starts)]),
    )


def gauss_seidel(
    K: Array,
    b: Array,
    bounds: Bounds,
    start: Array | None = None,
    iterations: int = 100,
    tolerance: float = 1e-6,
    early: bool = False,
    smoothing: Array | float = 0.0,
) -> LCPSolution:
    """Projected Gauss-Seidel with conjugate directions, from ``start`` (m,) or from zero.

    A sweep begins beyond the end of the last one, by a factor from the sweeps' lengths, while they
    become shorter. K (m, m) with a diagonal that is not negative (a row of zeros stays idle),
    b (m,). tolerance: of the natural residual, relative to the largest |b|; it decides the status,
    and with ``early`` the end. Where rows contradict each other the forces stay bounded: they grow
    at most with the square of the sweeps. The forces' derivative, in both modes, is that of the
    conditions at the solution (``solvers.implicit``), for every method; smoothing () relaxes it,
    in the unit of a force times a row's. Source: Silcowitz, Niebel and Erleben, A nonsmooth
    nonlinear conjugate gradient method for interactive contact force problems (2010).
    """
    return _solved(_gauss_seidel, K, b, bounds, start, iterations, tolerance, early, smoothing)


def _gauss_seidel(K: Array, b: Array, bounds: Bounds, start: Array):
    def sweep(f):
        def visit(f, row):
            index, K_i, b_i, lower, upper, normal, inverse = row

            def moved(f):
                now = f[index] - (jnp.sum(K_i * f) + b_i) * inverse
                value = _clip(now, lower, _upper(upper, normal, f))
                return f.at[index].set(jnp.where(inverse > 0, value, f[index]))

            return unless_idle(inverse > 0, moved, f, idle=lambda f: f), None

        rows = (jnp.arange(b.shape[0]), K, b, bounds.lower, bounds.upper, bounds.normal, inverse)
        return jax.lax.scan(visit, f, rows)[0]

    def once(state):
        _, begun, way, last = state
        swept = sweep(begun)
        moved = swept - begun
        size = jnp.sum(jnp.diagonal(K) * moved * moved)
        more = jnp.where(size < last, safe_divide(size, last), 0.0) * way
        return swept, swept + more, moved + more, size

    inverse = safe_divide(jnp.ones_like(b), jnp.diagonal(K))
    nothing = jnp.zeros_like(b)
    return once, (start, start, nothing, jnp.sum(nothing)), lambda state: state[0]


def accelerated_gradient(
    K: Array,
    b: Array,
    bounds: Bounds,
    start: Array | None = None,
    iterations: int = 300,
    tolerance: float = 1e-6,
    early: bool = False,
    smoothing: Array | float = 0.0,
) -> LCPSolution:
    """Projected gradient with Nesterov's momentum and restarts: all rows at once.

    For symmetric K. Needs more iterations than Gauss-Seidel, each a product with K and no chain
    of rows. Arguments and derivative as there; forces of contradictory rows grow with the square
    of the iterations. Source: O'Donoghue and Candes, Adaptive restart for accelerated
    gradient schemes (2015).
    """
    way = _accelerated_gradient
    return _solved(way, K, b, bounds, start, iterations, tolerance, early, smoothing)


def _accelerated_gradient(K: Array, b: Array, bounds: Bounds, start: Array):
    diagonal = safe_sqrt(jnp.diagonal(K))
    scale = safe_divide(jnp.ones_like(diagonal), diagonal)
    unit = K * scale[:, None] * scale[None, :]
    largest = jnp.max(jnp.sum(jnp.abs(unit), axis=1), initial=1.0)  # no eigenvalue is larger
    friction = bounds.upper * jnp.where(bounds.normal < 0, 1.0, scale[bounds.normal]) * diagonal
    scaled = Bounds(
        bounds.lower * diagonal,
        jnp.where(bounds.normal < 0, bounds.upper * jnp.where(scale > 0, diagonal, 1), friction),
        bounds.normal,
    )

    def once(state):
        x, y, t = state
        gradient = matmul(unit, y) + b * scale
        new = _project(y - gradient / largest, scaled)
        t_new = 0.5 * (1 + jnp.sqrt(1 + 4 * t * t))
        back = jnp.sum(gradient * (new - x)) > 0
        t_new = jnp.where(back, 1.0, t_new)
        momentum = jnp.where(back, 0.0, (t - 1) / t_new)
        return new, new + momentum * (new - x), t_new

    x = start * diagonal
    return once, (x, x, jnp.ones((), b.dtype)), lambda state: state[0] * scale


def natural_residual(K: Array, b: Array, bounds: Bounds, f: Array) -> Array:
    """() largest |d f - P(d f - w)| with d the row's K_ii, in b's unit: 0 exactly at a solution.

    NaN if any number is.
    """
    d = jnp.diagonal(K)
    d = jnp.where(d > 0, d, 1.0)  # no force acts on a row of zeros
    upper = _upper(bounds.upper, bounds.normal, f)
    w = matmul(K, f) + b
    off = jnp.abs(f - _clip(f - w / d, bounds.lower, upper)) * d
    return jnp.max(off, initial=0.0) + 0 * jnp.sum(off)  # the maximum alone can lose a NaN


def _project(x: Array, bounds: Bounds) -> Array:
    """Project forces into the bounds: first rows with constant bounds, then friction."""
    own = _clip(x, bounds.lower, jnp.where(bounds.normal < 0, bounds.upper, jnp.inf))
    return _clip(own, bounds.lower, _upper(bounds.upper, bounds.normal, own))


def _upper(upper: Array, normal: Array, f: Array) -> Array:
    """Upper bounds under forces f; an infinite one is never multiplied, for the gradient."""
    coefficient = jnp.where(normal < 0, 0.0, upper)
    return jnp.where(normal < 0, upper, coefficient * f[normal])


def _clip(x: Array, lower: Array, upper: Array) -> Array:
    x = jnp.where(x < lower, lower, x)  # NaN stays
    return jnp.where(x > upper, upper, x)


def _solved(
    way, K, b, bounds, start, iterations: int, tolerance: float, early: bool, smoothing
) -> LCPSolution:
    if not b.shape[0]:
        return LCPSolution(b, jnp.zeros((), b.dtype), jnp.asarray(0), jnp.asarray(SOLVED))
    start = jnp.zeros_like(b) if start is None else start
    run = _LCPSettings(way, iterations, tolerance, early)
    force, count = _forces(run, K, b, bounds, start, jnp.asarray(smoothing, b.dtype))
    off, allowed = natural_residual(K, b, bounds, force), _allowed(tolerance, b)
    finite = jnp.isfinite(off) & jnp.isfinite(allowed)
    status = jnp.where(finite, jnp.where(off <= allowed, SOLVED, UNFINISHED), NOT_FINITE)
    return LCPSolution(force, off, count, status)


def _allowed(tolerance: float, b: Array) -> Array:
    return tolerance * jnp.max(jnp.abs(b), initial=0.0)


@dataclass(frozen=True)
class _LCPSettings:
    """Method and settings of a solution.

    way(K, b, bounds, start) returns an iteration: its step, its initial state, and the function
    from a state to forces.
    """

    way: Callable
    iterations: int
    tolerance: float
    early: bool


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _forces(run: _LCPSettings, K: Array, b: Array, bounds: Bounds, start: Array, smoothing: Array):
    """Forces (m,) and number of iterations ()."""
    once, state, forces = run.way(K, b, bounds, start)
    if not run.early:
        state, _ = jax.lax.scan(lambda s, _: (once(s), None), state, None, length=run.iterations)
        return forces(state), jnp.asarray(run.iterations)
    allowed = _allowed(run.tolerance, b)

    def residual(state):
        return natural_residual(K, b, bounds, forces(state))

    def goes_on(carry):
        count, _, off = carry
        return (count < run.iterations) & (off > allowed)  # not of NaN

    def again(carry):
        count, state, _ = carry
        state = once(state)
        return count + 1, state, residual(state)

    count, state, _ = jax.lax.while_loop(goes_on, again, (0, state, residual(state)))
    return forces(state), jnp.asarray(count)


@_forces.defjvp
def _forces_jvp(run: _LCPSettings, primals, tangents):
    """Derivative with each row free, at a bound, or with smoothing in between.

    See ``solvers.implicit``.
    """
    K, b, bounds, start, smoothing = primals
    K_dot, b_dot, bounds_dot, *_ = tangents
    f, count = _forces(run, K, b, bounds, start, smoothing)
    m, d = f.shape[0], jnp.diagonal(K)
    inverse = safe_divide(jnp.ones_like(d), d)
    trial = f - (matmul(K, f) + b) * inverse
    relax = smoothing * inverse
    has_normal = bounds.normal >= 0
    pushing, _ = relaxed_positive(trial, relax)
    normal = jnp.where(has_normal, pushing[bounds.normal], 1.0)
    coefficient = jnp.where(has_normal, bounds.upper, 0.0)
    above = _inside(trial - bounds.lower, relax)
    below = _inside(jnp.where(has_normal, coefficient * normal, bounds.upper) - trial, relax)
    free = jnp.where(d > 0, above * below, 0.0)

    weight = proximal_weight(f.dtype)
    real = jnp.where(d > 0, 1.0, 0.0)
    by_normal = jnp.where(has_normal, (1 - below) * coefficient * real, 0.0)
    one_hot = (bounds.normal[:, None] == jnp.arange(m)[None, :]).astype(f.dtype)
    system = (free * inverse)[:, None] * K - by_normal[:, None] * one_hot
    system = system + jnp.diag(1 - free + weight * free)
    solution = solution_of(system)
    moved = matmul(K_dot, f) + b_dot
    upper_dot = (1 - below) * normal * bounds_dot.upper
    source = ((1 - above) * bounds_dot.lower + upper_dot) * real - free * inverse * moved
    f_dot = jnp.zeros_like(f)
    for _ in range(ROUNDS):
        f_dot = solution(source + weight * free * f_dot)
    return (f, count), (f_dot, np.zeros(count.shape, jax.dtypes.float0))


def _inside(distance: Array, relax: Array) -> Array:
    """Indicator of a bound: 1 within it and 0 beyond it, or with smoothing in between."""
    finite = jnp.isfinite(distance)
    slope = relaxed_positive(jnp.where(finite, distance, 1.0), relax)[1]
    return jnp.where(finite, slope, 1.0)
