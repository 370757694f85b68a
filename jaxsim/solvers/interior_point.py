"""A primal-dual interior-point method for small convex QPs, in scaled units.

Mehrotra's predictor and corrector (On the implementation of a primal-dual interior point method,
1992) on the proximally regularised conditions (Schwan, Jiang, Kuhn and Jones, PIQP, 2023). With s
the slacks and z the multipliers of the inequalities C x >= d (bounds, then rows of G) a step is

    (H + C^T W C) dx - A^T dy = right side,   A dx + delta dy = what the equations miss,

with H = J^T J and W = 1 / (s / z + delta): bounds only add to the diagonal, so one Cholesky
factorisation of the size of x does, with a small one for the equations.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.dynamics.kinematics import matmul
from jaxsim.math.safe import safe_divide, safe_sqrt

NEAR = 0.1  # least slack and multiplier to start with; the slowest member decides, so large
STEP = 0.995  # part of the way to the nearest bound
FAR = 1e4  # times the scale: no solution is looked for beyond


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled:
    """A problem whose columns, rows and solution have the size 1. c = 2 n + k inequalities."""

    J: Array  # (m, n)
    r: Array  # (m,)
    A: Array  # (e, n)
    b: Array  # (e,)
    G: Array  # (k, n)
    d: Array  # (c,) of C x >= d with C = (1, -1, G); 0 where there is no bound
    real: Array  # (c,) bool: the inequality exists
    fixed: Array  # (n,) bool: the bounds are one number, which d and -d name
    H: Array  # (n, n) J^T J and the ridge
    ridge: Array  # (n,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scale:
    """What the unknowns and rows of a problem were divided by."""

    x: Array  # (n,)
    equality: Array  # (e,) of multipliers
    inequality: Array  # (c,) of multipliers
    size: Array  # () of the solution


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Point:
    """An iterate."""

    x: Array  # (n,)
    y: Array  # (e,)
    z: Array  # (c,) not negative
    s: Array  # (c,) not negative


def inequalities(problem: Scaled, x: Array) -> Array:
    """C x (c,)."""
    return jnp.concatenate([x, -x, matmul(problem.G, x)])


def pulled_back(problem: Scaled, z: Array) -> Array:
    """C^T z (n,)."""
    n = problem.H.shape[0]
    return z[:n] - z[n : 2 * n] + matmul(z[2 * n :], problem.G)


def gradient(problem: Scaled, x: Array) -> Array:
    """Of the objective, from the rows themselves: H alone has lost half of the digits."""
    return matmul(matmul(problem.J, x) - problem.r, problem.J) + problem.ridge * x


@dataclass(frozen=True)
class Factor:
    """The matrix of a step, factorised."""

    lower: Array  # (n, n)
    inverse: Array  # (n,) 1 / its diagonal
    through: Array  # (n, e) lower^-1 A^T
    small: Array  # (e, e) lower factor of A K^-1 A^T + delta
    small_inverse: Array  # (e,)


def factor(problem: Scaled, weight: Array, delta: Array) -> Factor:
    """weight (c,): W. A fixed unknown gets a diagonal so large that it does not move."""
    n = problem.H.shape[0]
    diagonal = weight[:n] + weight[n : 2 * n]
    huge = 1 / jnp.finfo(weight.dtype).eps ** 2
    K = (
        problem.H
        + matmul(problem.A.T, problem.A)
        + matmul(problem.G.T * weight[2 * n :], problem.G)
    )
    K = K + jnp.diag(jnp.where(problem.fixed, huge, diagonal))
    lower = lax.linalg.cholesky(K, symmetrize_input=False)
    inverse = 1 / jnp.diagonal(lower)
    through = forward(lower, inverse, problem.A.T)
    S = matmul(through.T, through)
    S = S + jnp.diag(delta * (1 + jnp.diagonal(S)))
    small = lax.linalg.cholesky(S, symmetrize_input=False)
    return Factor(lower, inverse, through, small, 1 / jnp.diagonal(small))


def forward(lower: Array, inverse: Array, b: Array) -> Array:
    """lower^-1 b of b (n,) or (n, p), a row at a time: on CPUs three times as fast as XLA's
    triangular solve of a batch."""

    def visit(x, row):
        i, L_i, inverse_i, b_i = row
        return x.at[i].set((b_i - matmul(L_i, x)) * inverse_i), None

    return lax.scan(visit, jnp.zeros_like(b), (jnp.arange(b.shape[0]), lower, inverse, b))[0]


def backward(lower: Array, inverse: Array, b: Array) -> Array:
    """lower^-T b of b (n,)."""

    def visit(b, row):
        i, L_i, inverse_i = row
        x_i = b[i] * inverse_i
        b = b - L_i * x_i
        return b.at[i].set(0), x_i

    rows = (jnp.arange(b.shape[0]), lower, inverse)
    return lax.scan(visit, b, rows, reverse=True)[1]


def solve_factored(f: Factor, g: Array, e: Array, A: Array) -> tuple[Array, Array]:
    """dx, dy of K dx - A^T dy = g and A dx + delta dy = e, with K before A^T A was added."""
    u = forward(f.lower, f.inverse, g + matmul(e, A))
    w = e - matmul(f.through.T, u)
    dy = backward(f.small, f.small_inverse, forward(f.small, f.small_inverse, w))
    return backward(f.lower, f.inverse, u + matmul(f.through, dy)), dy


def measures(problem: Scaled, p: Point) -> tuple[Array, Array, Array]:
    """() each, relative: what the constraints miss, the gradient left, and the root of the largest
    product of a multiplier and its slack."""
    room = jnp.where(problem.real, inequalities(problem, p.x) - problem.d - p.s, 0.0)
    missed = jnp.concatenate([matmul(problem.A, p.x) - problem.b, room])
    product = jnp.where(problem.real, p.s * p.z, 0.0)
    return largest(missed), largest(left_over(problem, p)), safe_sqrt(largest(product))


def left_over(problem: Scaled, p: Point) -> Array:
    """(n,) the gradient that no multiplier takes; that of a fixed unknown is its bounds'."""
    off = gradient(problem, p.x) - matmul(p.y, problem.A) - pulled_back(problem, p.z)
    return jnp.where(problem.fixed, 0.0, off)


def contradicts(problem: Scaled, p: Point) -> Array:
    """() bool: the multipliers prove that no x smaller than ``FAR`` times the scale fits all
    constraints (Farkas): they add them up to 0 >= something positive."""
    pull = matmul(p.y, problem.A) + pulled_back(problem, p.z)
    n = p.x.shape[0]
    reach = jnp.sum(p.y * problem.b) + jnp.sum(p.z * problem.d)
    reach = reach - jnp.sum(jnp.where(problem.fixed, pull * problem.d[:n], 0.0))
    pull = jnp.sum(jnp.abs(jnp.where(problem.fixed, 0.0, pull)))
    size = jnp.sum(jnp.abs(p.y)) + jnp.sum(p.z)
    return (reach > FAR * pull) & (reach > 1e-4 * size)


def largest(x: Array) -> Array:
    """The largest |x|; NaN if any is (the maximum alone can lose a NaN)."""
    x = jnp.abs(x)
    return jnp.max(x, initial=0.0) + 0 * jnp.sum(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Run:
    """The state of an iteration."""

    point: Point
    count: Array  # () iterations done
    done: Array  # () bool: solved, or found to contradict itself
    delta: Array  # () regularisation


def iterate(problem: Scaled, p: Point, iterations: int, tolerance: Array) -> tuple[Point, Array]:
    """The last finite point, and how many iterations it took.

    A step that fails is not taken, and tried again with more regularisation.
    """

    def is_done(p: Point) -> Array:
        primal, dual, gap = measures(problem, p)
        solved = (primal <= tolerance) & (dual <= tolerance) & (gap <= tolerance)
        return solved | contradicts(problem, p)

    def goes_on(run: Run):
        return (run.count < iterations) & ~run.done

    def again(run: Run) -> Run:
        p = step(problem, run.point, run.delta)
        total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(p))
        good = jnp.isfinite(total)
        p = jax.tree.map(lambda new, old: jnp.where(good, new, old), p, run.point)
        delta = jnp.where(good, run.delta, 100 * run.delta)
        return Run(p, run.count + 1, is_done(p), delta)

    delta = jnp.asarray(jnp.finfo(p.x.dtype).eps ** 0.75, p.x.dtype)
    run = lax.while_loop(goes_on, again, Run(p, jnp.asarray(0), is_done(p), delta))
    return run.point, run.count


def step(problem: Scaled, p: Point, delta: Array) -> Point:
    """One predictor and corrector."""
    real, n = problem.real, p.x.shape[0]
    soft = jnp.where(jnp.arange(p.s.shape[0]) < 2 * n, 0.0, delta)
    answer = 1 / (p.s + soft * p.z)
    weight = jnp.where(real, p.z * answer, 0.0)
    f = factor(problem, weight, delta)
    left = left_over(problem, p)
    missed = problem.b - matmul(problem.A, p.x)
    gap = jnp.where(real, inequalities(problem, p.x) - problem.d - p.s, 0.0)

    def direction(product: Array):
        """With s dz + z ds = -product and C dx - ds + soft dz = -gap."""
        base = jnp.where(real, -(product + p.z * gap) * answer, 0.0)
        dx, dy = solve_factored(f, pulled_back(problem, base) - left, missed, problem.A)
        moved = inequalities(problem, dx)
        dz = base - weight * moved
        return Point(dx, dy, dz, jnp.where(real, moved + gap + soft * dz, 0.0))

    def longest(to: Point) -> Array:
        """The part of the way at which the first slack or multiplier is zero."""
        rate = jnp.where(real, jnp.maximum(-to.s / p.s, -to.z / p.z), 0.0)
        return 1 / jnp.max(rate, initial=1e-9)

    product = p.s * p.z
    straight = direction(product)
    part = jnp.minimum(longest(straight), 1.0)
    after = jnp.sum(jnp.where(real, (p.s + part * straight.s) * (p.z + part * straight.z), 0.0))
    now = jnp.sum(jnp.where(real, product, 0.0))
    centre = safe_divide(after, now) ** 3 * safe_divide(now, jnp.sum(1.0 * real))
    to = direction(product + straight.s * straight.z - centre)
    part = jnp.minimum(STEP * longest(to), 1.0)
    return jax.tree.map(lambda old, new: old + part * new, p, to)
