"""Strict priorities: three levels of a problem's tasks beside all of them in one QP."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.solvers import qp
from jaxsim.solvers.qp_levels import solve_levels

LEVELS = (slice(0, 12), slice(12, 30), slice(30, None))  # of the tasks
HEADER = ["precision", "one QP [us]", "three levels [us]", "ratio"]
HEADER += ["iterations, mean / max: one", "levels", "unfinished: one", "levels"]


def levels(p: dict[str, np.ndarray], best_of: Callable) -> list[list[str]]:
    """A row for each precision; p: stacked fields of qp.QuadraticProgram, best_of(run): seconds."""

    def three(p: qp.QuadraticProgram):
        parts = tuple((p.J[rows], p.r[rows]) for rows in LEVELS)
        return solve_levels(parts, p.A, p.b, p.G, p.h, p.lower, p.upper, p.ceiling)

    programs = [jax.jit(jax.vmap(run)) for run in (lambda p: (qp.solve(p),), three)]
    table = []
    for dtype in (jnp.float32, jnp.float64):
        problem = qp.QuadraticProgram(**{name: jnp.asarray(x, dtype) for name, x in p.items()})
        found = [jax.block_until_ready(program(problem)) for program in programs]
        us = [
            1e6 * best_of(lambda run=run: jax.block_until_ready(run(problem))) / len(p["r"])  # noqa: B023
            for run in programs
        ]
        rounds = [[np.asarray(s.iterations) for s in each] for each in found]
        lost = [[int((s.status != qp.SOLVED).sum()) for s in each] for each in found]
        table.append(
            [
                jnp.dtype(dtype).name,
                *(f"{t:.3g}" for t in us),
                f"{us[1] / us[0]:.1f}",
                *("; ".join(f"{n.mean():.1f} / {n.max()}" for n in each) for each in rounds),
                *("; ".join(map(str, each)) for each in lost),
            ]
        )
    return table
