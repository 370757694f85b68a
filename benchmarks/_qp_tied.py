"""What a QP costs alone, beside another, and tied to it as two bodies are who hold each other."""

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.solvers import qp
from jaxsim.solvers.joint import Joint

TOGETHER = 6  # equations that two problems have in common, as a clasp of two hands
ROUNDS = 10  # iterations of each solution, and solutions of each call that is timed
AXIS = "body"
HEADER = ["problems", "iteration, CPU [us]", "median of the calls", "of one alone"]


def tied(p: dict[str, np.ndarray], repeats: int) -> list[list[str]]:
    """A row for one problem, two apart, and two tied; p: the stacked fields of qp.Problem, two of
    them at least. Seconds of the processor, of the fastest of ``repeats`` calls."""
    two = qp.Problem(**{name: jnp.asarray(x[:2]) for name, x in p.items()})
    one = jax.tree.map(lambda x: x[0], two)
    C = jnp.asarray(np.random.default_rng(0).normal(size=(2, TOGETHER, p["J"].shape[2])))
    both = replace(two, joint=Joint(C, jnp.zeros((2, TOGETHER)), AXIS))
    rows: list[list[str]] = []
    alone = np.inf
    for name, problem, batch in (("1", one, False), ("2", two, True), ("2, tied", both, True)):
        times = np.array(_seconds(problem, batch, repeats)) / ROUNDS * 1e6
        alone = times.min() if not rows else alone
        cells = [f"{times.min():.0f}", f"{np.median(times):.0f}", f"{times.min() / alone:.1f}"]
        rows.append([name, *cells])
        print(*rows[-1], flush=True)
    return rows


def _seconds(problem: qp.Problem, batch: bool, repeats: int) -> list[float]:
    """Of the processor, of a solution of ``ROUNDS`` iterations."""

    def solve(problem):
        return qp.solve(problem, iterations=ROUNDS, tolerance=0.0).x

    program = jax.jit(jax.vmap(solve, axis_name=AXIS) if batch else solve)
    jax.block_until_ready(program(problem))
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        for _ in range(ROUNDS):
            jax.block_until_ready(program(problem))
        found.append((time.process_time() - begun) / ROUNDS)
    return found
