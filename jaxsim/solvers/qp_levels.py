"""Least squares with strict priorities: a quadratic program for each level."""

from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.solvers import qp

HELD = 100.0  # a bound is surely active if its multiplier is so many times its slack, scaled


def solve_levels(
    levels: tuple[tuple[Array, Array], ...],
    A: Array,
    b: Array,
    G: Array,
    h: Array,
    lower: Array,
    upper: Array,
    ceiling: Array | None = None,
    iterations: int = 50,
    tolerance: float | None = None,
    smoothing: float | Array = 0.0,
) -> tuple[qp.QPSolution, ...]:
    """Minimise |J x - r| of each level (J, r) among the solutions of all levels before it.

    Returns a solution for each level, under the constraints of a ``qp.QuadraticProgram``; the last
    one is the result. The J x that a level achieves becomes equations of the next ones;
    ``equality`` and ``violated`` of a level have these rows after those of A. An unknown at an
    active bound stays there. A level that is not solved has the x of the level before, which the
    next ones then keep. Where the equations leave rows of G no room, more iterations are
    needed, and in float32 one member in twelve ends unfinished (docs/explanation/qp.md).
    """
    solutions = []
    tolerance = qp.default_tolerance(A.dtype) if tolerance is None else tolerance
    for J, r in levels:
        problem = qp.QuadraticProgram(J, r, A, b, G, h, lower, upper, ceiling)
        solution = qp.solve(problem, None, iterations, tolerance, smoothing)
        if solutions:
            x = jnp.where(solution.status == qp.SOLVED, solution.x, solutions[-1].x)
            solution = replace(solution, x=x)
        solutions.append(solution)
        lower, upper = _active_bounds(problem, solutions[-1], tolerance)
        A = jnp.concatenate([A, J])
        b = jnp.concatenate([b, matmul(J, solutions[-1].x)])
    return tuple(solutions)


def _active_bounds(
    p: qp.QuadraticProgram, s: qp.QPSolution, tolerance: float
) -> tuple[Array, Array]:
    """Bounds for the next level, made equal where one of them is surely active.

    Every x that is as good lies on such a bound, and the next level has no slack without room.
    Multipliers of an unsolved problem show no active bound: of two bounds that contradict each
    other both push.
    """
    scale = qp.scale_problem(p)[1]
    nb = p.lower.shape[0]
    f = s.x.shape[0] - nb
    x, of_x, of_bounds = s.x[f:], scale.x[f:], scale.inequality[:nb]

    def pushes(multiplier: Array, slack: Array) -> Array:
        least = jnp.maximum(HELD * slack / of_x, 10 * tolerance)
        return (s.status == qp.SOLVED) & (multiplier / of_bounds > least)

    lower = jnp.where(pushes(s.at_upper, p.upper - x), p.upper, p.lower)
    return lower, jnp.where(pushes(s.at_lower, x - p.lower), p.lower, p.upper)
