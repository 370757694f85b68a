"""Warm starts: the iterations of problems that changed by 0.3%, from nothing and from before."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.solvers import qp

CHANGE, SETS = 3e-3, 4  # relative; so many batches, each with other numbers
HEADER = ["seed", "cold, mean / slowest", "warm, mean / slowest", "of the slowest", "unfinished"]


def warm(problems: Callable[[int], dict[str, np.ndarray]]) -> list[list[str]]:
    """A row for each of ``SETS`` batches problems(seed), whose tasks, equations and rows of G
    change: in each number by ``CHANGE`` times a normal one."""
    solve = jax.jit(jax.vmap(qp.solve))
    table = []
    for seed in range(SETS):
        p, rng = problems(seed), np.random.default_rng(seed + 100)
        near = {k: v * (1 + CHANGE * rng.normal(size=v.shape)) if k in "JrAbG" else v
                for k, v in p.items()}  # fmt: skip
        before, after = (
            qp.QuadraticProgram(**{k: jnp.asarray(v, jnp.float32) for k, v in x.items()})
            for x in (p, near)
        )
        cold, again = solve(after), solve(after, solve(before).start)
        rounds = [np.asarray(s.iterations) for s in (cold, again)]
        lost = [int((s.status != qp.SOLVED).sum()) for s in (cold, again)]
        table.append(
            [
                str(seed),
                *(f"{n.mean():.1f} / {n.max()}" for n in rounds),
                f"{rounds[1].max() / rounds[0].max():.2f}",
                f"{lost[0]}; {lost[1]}",
            ]
        )
    return table
