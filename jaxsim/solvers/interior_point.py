"""Primal-dual interior-point method for small convex QPs, in scaled units.

Mehrotra's predictor and corrector (On the implementation of a primal-dual interior point method,
1992) on the proximally regularised conditions (Schwan, Jiang, Kuhn and Jones, PIQP, 2023). With s
the slacks and z the multipliers of the inequalities C x >= d (bounds, then the sides of the rows of
G) a step is

    (H + C^T W C) dx - A^T dy = right side,   A dx + delta dy = residual of the equations,

with H = J^T J and W = 1 / (s / z + delta): bounds only add to the diagonal, so one Cholesky
factorisation of the size of x does, with a small one for the equations.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide, safe_sqrt
from jaxsim.solvers.joint import every, most, total
from jaxsim.solvers.qp_system import (
    MOST,
    RIDGE,
    Reduced,
    ScaledProgram,
    apply_tasks,
    apply_tasks_transposed,
    both_sides,
    factor,
    inequalities,
    solve_factored,
)

COLD, LEAST = 0.1, 1e-3  # least slack and multiplier of a cold start, and of a warm start
WARM = 0.3  # least slack and multiplier of a warm start, relative to its residual
STEP = 0.995  # fraction of the way to the nearest bound
FALLS, CENTRE = 0.9, 0.5  # least centring where the gap did not fall to so much of the last one
OWN = 50.0  # a row is met to the tolerance of x's scale, and to so many times it of its own terms


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scale:
    """Scale factors of unknowns, multipliers and solution of a ``ScaledProgram``."""

    x: Array  # (n,)
    equality: Array  # (e,) of multipliers
    inequality: Array  # (c,) of multipliers
    joint: Array | None  # (mj,) of multipliers
    size: Array  # () of the solution
    finite: Array  # () bool: all numbers of the problem are finite


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Iterate:
    """Iterate of the interior-point method: unknowns, multipliers and slacks."""

    x: Array  # (n,)
    y: Array  # (e,)
    z: Array  # (c,) not negative
    s: Array  # (c,) not negative
    w: Array | None = None  # (mj,) of joint equations


def apply_constraints(problem: ScaledProgram, x: Array) -> Array:
    """(c,) C x, the left sides of all inequalities at x (n,)."""
    return inequalities(problem, x, matmul(problem.G, x))


def apply_constraints_transposed(problem: ScaledProgram, z: Array) -> Array:
    """(n,) C^T z, the gradient of multipliers z (c,) of the inequalities."""
    of_x, of_rows = both_sides(problem, z, jnp.subtract)
    return jnp.pad(of_x, (problem.free, 0)) + matmul(of_rows, problem.G)


def gradient(problem: ScaledProgram, x: Array) -> Array:
    """Gradient (n,) of the objective at x (n,), from the rows: H has lost half of the digits."""
    return apply_tasks_transposed(problem, apply_tasks(problem, x) - problem.r)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Residual:
    """Residuals of the optimality conditions at an iterate."""

    gradient: Array  # (n,) of the Lagrangian; that of fixed unknowns does not count
    equation: Array  # (e,) b - A x
    room: Array  # (c,) C x - d - s
    joint: Array | None  # (mj,) c - C_j x, of all problems
    contradicts: Array  # () bool: the multipliers prove infeasibility, see ``residual``


def residual(problem: ScaledProgram, p: Iterate, slope: Array) -> Residual:
    """Residuals of the optimality conditions at an iterate with the ``gradient`` slope (n,).

    The multipliers prove that no x fits all constraints (Farkas) when they add these up to 0 >= a
    positive number, with a 0 so small that x would need 1e3 (float32) or 1e7 (float64) times the
    scale of the problem.
    """
    fixed, eps = problem.fixed, float(jnp.finfo(p.x.dtype).eps)
    joint, missing = problem.joint, None
    pull = matmul(p.y, problem.A) + apply_constraints_transposed(problem, p.z)
    if joint is not None:
        pull = pull + matmul(p.w, joint.C)
        missing = joint.c - joint.total(matmul(joint.C, p.x))
    reach = jnp.sum(p.y * problem.b) + jnp.sum(p.z * problem.d)
    reach = total(joint, reach - jnp.sum(jnp.where(fixed, pull * problem.at, 0.0)))
    against = total(joint, jnp.sum(jnp.abs(jnp.where(fixed, 0.0, pull))))
    size = total(joint, jnp.sum(jnp.abs(p.y)) + jnp.sum(p.z))
    if joint is not None and p.w is not None:
        reach, size = reach + jnp.sum(p.w * joint.c), size + jnp.sum(jnp.abs(p.w))
    return Residual(
        slope - pull,
        problem.b - matmul(problem.A, p.x),
        jnp.where(problem.real, apply_constraints(problem, p.x) - problem.d - p.s, 0.0),
        missing,
        reach > (against + eps * size) / eps**0.45,
    )


def measures(problem: ScaledProgram, p: Iterate, off: Residual) -> tuple[Array, Array, Array]:
    """Relative primal residual, dual residual and complementarity gap, () each.

    Primal: the largest violation of a constraint over the size of x and of the constraints (of a
    row whose own terms are smaller than that by more than ``OWN``, over so many times these, and a
    rounding of the size at least: all terms of a row may go to zero, each as fast as the others).
    Dual: the gradient of the Lagrangian, or its product with x if that is larger (where two columns
    differ by little, x is far off). Gap: the root of the largest product of a multiplier and its
    slack. All are over the scale of the tasks.
    """
    product = jnp.where(problem.real, p.s * p.z, 0.0)
    scale, size, nb = reach(problem, p), jnp.abs(p.x), problem.bounded
    in_A = matmul(jnp.abs(problem.A), size) + jnp.abs(problem.b)
    in_G = jnp.abs(inequalities(problem, size, matmul(jnp.abs(problem.G), size))[2 * nb :])
    in_G = in_G + jnp.abs(problem.d[2 * nb :])
    bounds = jnp.maximum(scale, jnp.abs(problem.d[: 2 * nb]))  # of one far away s has few digits
    least = float(jnp.finfo(p.x.dtype).eps) * scale
    of_A, of_G = (jnp.clip(OWN * own, least, scale) for own in (in_A, in_G))
    missed = [
        off.equation / of_A,
        off.room[: 2 * nb] / bounds,
        off.room[2 * nb :] / jnp.maximum(of_G, jnp.abs(problem.d[2 * nb :])),
    ]
    if off.joint is not None:
        missed.append(off.joint / scale)
    dual = left_over(problem, p.x, off.gradient)
    all_ = largest(jnp.concatenate(missed)), dual, safe_sqrt(largest(product))
    return jax.tree.map(lambda x: most(problem.joint, x), all_)


def left_over(problem: ScaledProgram, x: Array, gradient: Array) -> Array:
    """() size of the Lagrangian's gradient (n,), or of its product with x if that is larger."""
    left = jnp.where(problem.fixed, 0.0, gradient)
    return jnp.maximum(largest(left), jnp.abs(jnp.sum(left * x)))


def reach(problem: ScaledProgram, p: Iterate) -> Array:
    """() largest size of x and of the right sides of the constraints."""
    sizes = jnp.concatenate([jnp.abs(p.x), jnp.abs(problem.b), problem.d])
    largest_one = most(problem.joint, jnp.max(sizes, initial=0.0))
    return largest_one + float(jnp.finfo(p.x.dtype).eps)


def largest(x: Array) -> Array:
    """Largest |x|; NaN if any entry is (the maximum alone can lose a NaN)."""
    x = jnp.abs(x)
    return jnp.max(x, initial=0.0) + 0 * jnp.sum(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IterationState:
    """State of the interior-point iteration."""

    point: Iterate
    off: Residual
    count: Array  # () iterations done
    done: Array  # () bool: solved, or proven infeasible
    left: tuple[Array, Array, Array]  # () each: ``measures`` of the point
    caution: Array  # () factor on the usual regularisation
    centre: Array  # () least centring of the next step


def iterate(
    problem: ScaledProgram,
    system: Reduced,
    p: Iterate,
    slope: Array,
    iterations: int,
    tolerance: Array,
) -> IterationState:
    """Iterate from p, whose ``gradient`` is slope (n,), to the last finite point; at least a step.

    A step to a point that is not finite is discarded and tried again with more regularisation. More
    regularisation is used, too, where only the dual residual is left and does not fall, as rounding
    makes it with large multipliers. After a step in which the gap does not fall the next one goes
    nearer to the middle of the feasible set: predictor and corrector alone may cycle for ever.
    """

    def goes_on(run: IterationState):
        return (run.count < iterations) & ~run.done

    def again(run: IterationState) -> IterationState:
        p = step(problem, system, run.point, run.off, run.caution, run.centre)
        off = residual(problem, p, gradient(problem, p.x))
        good = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves((p, off))))
        good = every(problem.joint, good)
        p, off = jax.tree.map(
            lambda new, old: jnp.where(good, new, old), (p, off), (run.point, run.off)
        )
        left = primal, dual, gap = measures(problem, p, off)
        stuck = (primal <= tolerance) & (gap <= tolerance) & (dual > run.left[1] / 2)
        caution = jnp.where(stuck, 10 * run.caution, run.caution)
        caution = jnp.minimum(jnp.where(good, caution, 100 * run.caution), MOST)
        centre = least_centring(gap, run.left[2])
        return IterationState(p, off, run.count + 1, ended(off, *left), left, caution, centre)

    def ended(off: Residual, *left: Array) -> Array:
        return jnp.stack([x <= tolerance for x in left]).all() | off.contradicts

    off = residual(problem, p, slope)
    one, unknown = jnp.ones((), p.x.dtype), jnp.full((), jnp.inf, p.x.dtype)
    left, done = (unknown, unknown, unknown), jnp.zeros((), bool)
    start = IterationState(p, off, jnp.asarray(0, jnp.int32), done, left, one, 0 * one)
    return lax.while_loop(goes_on, again, start)


def least_centring(gap: Array, before: Array) -> Array:
    """() least centring of the next step, after the gaps () of the last two."""
    return jnp.where(gap > FALLS * before, CENTRE, 0.0).astype(gap.dtype)


def step(
    problem: ScaledProgram, system: Reduced, p: Iterate, off: Residual, caution: Array, least: Array
) -> Iterate:
    """Predictor-corrector step.

    caution () is a factor on the regularisation; least (): the step aims at this part of the mean
    product of multiplier and slack, or more.
    """
    real, nb, joint = problem.real, problem.bounded, problem.joint
    eps = float(jnp.finfo(p.x.dtype).eps)
    delta = caution * eps**0.75
    soft = jnp.where(jnp.arange(p.s.shape[0]) < 2 * nb, 0.0, delta)
    answer = 1 / (p.s + soft * p.z)
    weight = jnp.where(real, p.z * answer, 0.0)
    f = factor(problem, system, weight, caution * RIDGE * eps, delta)

    slope = jnp.where(problem.fixed, 0.0, -off.gradient)

    def direction(product: Array):
        """Newton direction with s dz + z ds = -product and C dx - ds + soft dz = -room."""
        base = jnp.where(real, -(product + p.z * off.room) * answer, 0.0)
        dx, dy, moved, dw = solve_factored(f, problem, slope, base, off.equation, off.joint)
        dz = base - weight * moved
        return Iterate(dx, dy, dz, jnp.where(real, moved + off.room + soft * dz, 0.0), dw)

    def longest(to: Iterate) -> Array:
        """Fraction of the step at which the first slack or multiplier is zero."""
        rate = jnp.where(real, jnp.maximum(-to.s / p.s, -to.z / p.z), 0.0)
        return 1 / most(joint, jnp.max(rate, initial=1e-9))

    product = p.s * p.z
    straight = direction(product)
    part = jnp.minimum(longest(straight), 1.0)
    after = jnp.sum(jnp.where(real, (p.s + part * straight.s) * (p.z + part * straight.z), 0.0))
    after, now = total(joint, after), total(joint, jnp.sum(jnp.where(real, product, 0.0)))
    count = total(joint, jnp.sum(real, dtype=now.dtype))
    centre = jnp.maximum(safe_divide(after, now) ** 3, least) * safe_divide(now, count)
    # A short predictor tells little of the second order: its full term can make iterates cycle.
    to = direction(product + part * straight.s * straight.z - centre)
    part = jnp.minimum(STEP * longest(to), 1.0)
    return jax.tree.map(lambda old, new: old + part * new, p, to)
