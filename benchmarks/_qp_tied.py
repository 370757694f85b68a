"""What a QP costs alone, beside another, and tied to it as two bodies are who hold each other."""

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.solvers import qp
from jaxsim.solvers.joint import JointEquations

TOGETHER = 6  # equations that two problems have in common, as a clasp of two hands
ITERATIONS = 10  # of each solution
ROUNDS = 10  # calls of each program in a repeat
AXIS = "body"
HEADER = ["problems", "iteration, CPU [us]", "quartiles", "of one alone"]


def tied(p: dict[str, np.ndarray], repeats: int) -> list[list[str]]:
    """A row for one problem, two apart, and two tied: the median and the quartiles of calls,
    seconds of the processor, and the ratio of medians. p: the stacked fields of
    qp.QuadraticProgram, two of them at least. A call of each comes in turn, so that whatever else
    the machine does slows all of them, and the fastest call, which a quiet moment gives to one of
    them, does not count."""
    fields: dict[str, Any] = {name: jnp.asarray(x[:2]) for name, x in p.items()}
    two = qp.QuadraticProgram(**fields)
    one = jax.tree.map(lambda x: x[0], two)
    C = jnp.asarray(np.random.default_rng(0).normal(size=(2, TOGETHER, p["J"].shape[2])))
    both = replace(two, joint=JointEquations(C, jnp.zeros((2, TOGETHER)), AXIS))
    apart, together = jax.vmap(_solve), jax.vmap(_solve, axis_name=AXIS)
    programs = {"1": (_solve, one), "2": (apart, two), "2, tied": (together, both)}
    compiled = {name: (jax.jit(f).lower(x).compile(), x) for name, (f, x) in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in compiled}
    for _ in range(1 + ROUNDS * repeats):
        for name, (program, problem) in compiled.items():
            begun = time.process_time()
            jax.block_until_ready(program(problem))
            times[name].append((time.process_time() - begun) / ITERATIONS * 1e6)
    rows: list[list[str]] = []
    alone = np.median(times["1"][1:])
    for name, each in times.items():  # but for the first calls
        low, middle, high = np.quantile(each[1:], [0.25, 0.5, 0.75])
        rows.append([name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}", f"{middle / alone:.2f}"])
        print(*rows[-1], flush=True)
    return rows


def _solve(problem: qp.QuadraticProgram):
    return qp.solve(problem, iterations=ITERATIONS, tolerance=0.0).x
