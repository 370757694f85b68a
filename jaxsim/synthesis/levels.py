"""Strict priorities of a step: the tasks of each level as a quadratic problem of their own.

Points in contact stay as well as the first level lets them, beside its goals. Rows that keep
torques steady and small, and contact forces that should vanish, are of the last level. All levels
have the constraints of the step: equations of motion, gaps, limits.
"""

from dataclasses import replace
from functools import reduce

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.solvers import qp
from jaxsim.solvers.qp_levels import solve_levels
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.contact_forces import EDGES
from jaxsim.synthesis.tasks import Tasks


def solve_problem(
    problem: qp.QuadraticProgram, tasks: Tasks, start: qp.Start, config: SynthesisConfig
) -> qp.QPSolution:
    """Solve the problem of a step, as one weighted sum or by the levels of its tasks.

    Of levels the solution has the x of the last one that was solved, the worst status and
    residuals, the sum of the iterations, and the multipliers of the first level. Levels start
    without ``start``. Raises ValueError for levels of characters that hand holds tie together.
    """
    if not tasks.levels:
        return qp.solve(problem, start, config.iterations, config.tolerance)
    if problem.joint is not None:
        raise ValueError("strict priorities are of one character; hand holds tie several together")
    of_row = row_levels(tasks, len(problem.r))
    levels = tuple(
        (problem.J[rows], problem.r[rows])
        for rows in (np.flatnonzero(of_row == k) for k in range(of_row.max() + 1))
    )
    p = problem
    solutions = solve_levels(
        levels, p.A, p.b, p.G, p.h, p.lower, p.upper, p.ceiling, config.iterations, config.tolerance
    )
    return replace(
        solutions[0],
        x=solutions[-1].x,
        status=_worst([s.status for s in solutions]),
        iterations=sum(s.iterations for s in solutions),
        **{
            name: reduce(jnp.maximum, [getattr(s, name) for s in solutions])
            for name in ("primal", "dual", "gap")
        },
    )


def row_levels(tasks: Tasks, rows: int) -> np.ndarray:
    """Level (rows,) of each row of the problem, in the order of ``problem.step_problem``."""
    effectors, last = tasks.still.shape[0], max(tasks.levels)
    contact, relax = 3 * effectors, EDGES * effectors
    torques = rows - len(tasks.levels) - contact - relax
    counts = torques, contact, relax
    of_torques, of_contact, of_relax = map(np.full, counts, (last, 0, last))
    return np.concatenate([of_torques, tasks.levels, of_contact, of_relax])


def _worst(status: list[Array]) -> Array:
    """Status () of several; one that is not finite counts most."""
    lost = reduce(jnp.logical_or, [s == qp.NOT_FINITE for s in status])
    return jnp.where(lost, qp.NOT_FINITE, reduce(jnp.maximum, status))
