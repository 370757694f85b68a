"""What the gradient of a fused rollout costs, in forward rollouts, and how right it is.

    python benchmarks/rollout_gradient.py                        the table; two minutes
    python benchmarks/rollout_gradient.py --precision float64    with errors
    python benchmarks/rollout_gradient.py --record               append it to benchmarks/RESULTS.md
    python benchmarks/rollout_gradient.py --quick                to see that it runs

The planar human stands under a pose controller, each member from a pose of its own; the gradient is
that of a number of the last state with respect to the first pose. Both run as a user calls them,
outside ``jit``, in turn. The error is that of the derivative along a random direction, beside
central differences, in float64: relative, of half the members, of nine in ten, of all at most.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._engines import interleaved
from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.pose.pd import PoseController
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.fused import fuse
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.simulation.step_options import DERIVATIVES
from optimize.session import session

HEADER = ["derivative", "batch", "rollout [ms]", "with gradient [ms]", "ratio", "compile [s]"]
HEADER += ["error of half / nine in ten / all"]
GOAL = 4.0  # forward rollouts
DIFFERENCE = 1e-7


def last_pose(derivative: str, steps: int):
    """A number of the last state as a function of the first pose."""
    model = planar_human()
    standing = start(model, "standing")
    config = TimeStepping(dt=0.001, derivative=derivative)

    def number(q):
        begin = standing.replace(q=q)
        end = rollout(model, PoseController(standing.q), begin, config, steps, backend="xla").state
        return jnp.sum(end.q**2)

    return number, standing.q


def rows(derivative: str, options) -> list[tuple[list[str], float]]:
    """A line of the table for each batch, with its ratio."""
    number, standing = last_pose(derivative, options.steps)
    forward = fuse(number)
    gradient = jax.value_and_grad(lambda q: jnp.sum(forward(q)))
    found = []
    for batch in options.batch:
        noise, way = np.random.default_rng(0).normal(size=(2, batch, standing.size))
        q = jnp.asarray(standing + 0.05 * noise, standing.dtype)
        begun = time.perf_counter()
        jax.block_until_ready(gradient(q))
        first = time.perf_counter() - begun
        runs = {
            "rollout": lambda q=q: jax.block_until_ready(forward(q)),
            "gradient": lambda q=q: jax.block_until_ready(gradient(q)),
        }
        best = interleaved(runs, options.repeats, options.least)
        ratio = best["gradient"] / best["rollout"]
        times = [f"{1e3 * best[name]:.3g}" for name in runs]
        row = [derivative, str(batch), *times, f"{ratio:.2f}", f"{first - best['gradient']:.1f}"]
        row.append(errors(forward, gradient, q, way) if q.dtype == np.float64 else "-")
        found.append((row, ratio))
        print("  ".join(f"{name}: {cell}" for name, cell in zip(HEADER, row)), flush=True)
    return found


def errors(forward, gradient, q, way) -> str:
    """The gradient along ``way`` beside differences: relative errors."""
    slope = np.sum(np.asarray(gradient(q)[1]) * way, axis=1)
    ends = [np.asarray(forward(q + sign * DIFFERENCE * way)) for sign in (1, -1)]
    wanted = (ends[0] - ends[1]) / (2 * DIFFERENCE)
    error = np.abs(slope - wanted) / np.abs(wanted)
    return " / ".join(f"{e:.0e}" for e in np.quantile(error, [0.5, 0.9, 1]))


def verdict(derivative: str, found: list[tuple[list[str], float]]) -> str:
    """How a derivative stands to the goal."""
    worst = max(ratio for _, ratio in found)
    met = "met" if worst <= GOAL else "not met"
    return f"- {derivative}: at most {worst:.2f} forward rollouts (goal {GOAL:g}), {met}"


def main(words: list[str]) -> str:
    """Measure, print progress and the table; returns the text for RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 512, 2048])
    parser.add_argument("--steps", type=int, default=100, help="time steps a call")
    parser.add_argument("--repeats", type=int, default=7, help="the best of so many counts")
    parser.add_argument("--least", type=float, default=1.0, help="seconds of each repeat")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="a small batch, few steps")
    options = parser.parse_args(words)
    if options.quick:
        options.batch, options.steps, options.repeats, options.least = [4], 4, 1, 0.0
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp()  # that of others hides what compiling takes
    with session(options.device, options.precision, cache=False):
        of = {derivative: rows(derivative, options) for derivative in DERIVATIVES}
        what = f"{options.precision}, {options.steps} steps a call"
        head = [
            f"## Gradient of a fused rollout, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; {what}",
            f"`{shlex.join(['python', 'benchmarks/rollout_gradient.py', *words])}`",
            table(HEADER, [row for found in of.values() for row, _ in found]),
            "\n".join(verdict(*item) for item in of.items()),
        ]
    return publish("\n\n".join(head) + "\n", options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
