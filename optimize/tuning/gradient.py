"""Tuning along a gradient: Adam on the mean loss of a problem's trials.

A controller's choice of states is discrete; within a choice the loss is smooth, and where a number
only moves the moment of a choice the derivative is zero although the loss may jump. So the
derivatives are compared with finite differences first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

from jaxsim.io.archive import ArchiveError, read_arrays
from optimize.interrupts import deferred
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.studies.push_report import write_arrays
from optimize.tuning.checkpoint import damaged_state

STATE = "gradient.npz"
RATE = 0.2  # of Adam, in step sizes of CMA-ES
CHECKED = 4  # numbers whose derivative is compared with finite differences
DIFFERENCE = {"float64": 1e-4, "float32": 1e-2}  # of a coordinate


class Descent(NamedTuple):
    best_x: np.ndarray  # (n,) coordinates
    best_fitness: float
    before: float
    steps: int
    report: tuple[str, ...]
    interrupted: bool


def descend(
    problem: Problem, steps: int, sigma: float, folder: RunFolder, resume: bool, progress: bool
) -> Descent:
    """``steps`` of Adam from the numbers as they are, each kept in the folder.

    Raises FloatingPointError where the loss or its derivative is not finite at the start,
    KeyboardInterrupt before anything is known.
    """
    n = problem.tunables.size
    adam = optax.adam(RATE * sigma)
    x, seen, lines = np.zeros(n), np.zeros((0, n + 1)), []
    state = adam.init(jnp.asarray(x))
    if resume and (folder / STATE).is_file():
        x, seen, state, lines = kept(folder, state)
    interrupted = False
    bar = tqdm(total=steps + 1, initial=len(seen), unit="step", disable=not progress)
    try:
        with deferred() as check, bar:
            while len(seen) <= steps:
                loss, slope = problem.value_and_slope(x)
                if not (np.isfinite(loss) and np.isfinite(slope).all()):
                    lines.append(f"step {len(seen)}: loss or derivative is not finite; stopped")
                    break
                lines = lines or compared(problem, x, slope)
                seen = np.vstack([seen, [loss, *x]])
                update, state = adam.update(jnp.asarray(slope, jnp.asarray(x).dtype), state)
                x = x + np.asarray(update)
                leaves = {f"state_{k}": leaf for k, leaf in enumerate(jax.tree.leaves(state))}
                arrays = {"x": x, "seen": seen, "lines": np.array(lines), **leaves}
                write_arrays(folder / STATE, arrays)
                bar.set_postfix_str(f"loss {loss:.5g}", refresh=False)
                bar.update()
                check()
    except KeyboardInterrupt:
        interrupted = True
    if not len(seen):
        raise KeyboardInterrupt if interrupted else FloatingPointError("; ".join(lines))
    best = int(np.argmin(seen[:, 0]))
    head = (
        f"gradient, {len(seen) - 1} steps, {problem.trials} trials of"
        f" {problem.steps * float(problem.scenario.scheme.dt):g} s",
        f"{problem.objective.name}: {seen[0, 0]:.6g} before, {seen[best, 0]:.6g} after step {best}",
    )
    report = (*head, "", *lines)
    figures = float(seen[best, 0]), float(seen[0, 0]), len(seen) - 1
    return Descent(seen[best, 1:], *figures, report, interrupted)


def compared(problem: Problem, x: np.ndarray, slope: np.ndarray) -> list[str]:
    """The largest derivatives beside central differences of the loss."""
    step = DIFFERENCE[str(slope.dtype)]
    lines = [f"derivative by a coordinate, and its central difference over +-{step:g}:"]
    for k in np.argsort(-np.abs(slope))[:CHECKED]:
        move = step * np.eye(len(x))[k]
        measured = (problem.value(x + move) - problem.value(x - move)) / (2 * step)
        lines.append(f"  {problem.names[k]:<22} {slope[k]: .6e}  {measured: .6e}")
    return lines


def kept(folder: RunFolder, state):
    """Where the descent stands. Raises CheckpointError where the file is damaged."""
    path, example = folder / STATE, jax.tree.leaves(state)
    try:
        held = read_arrays(path)
        leaves = [held[f"state_{k}"] for k in range(len(example))]
        x, seen, lines = held["x"], held["seen"], held["lines"]
        n = len(example[1])
        good = x.shape == (n,) and seen.ndim == 2 and seen.shape[1] == n + 1
        same = [a.shape == np.shape(b) and a.dtype == b.dtype for a, b in zip(leaves, example)]
        if not (good and all(same) and lines.ndim == 1):
            raise ArchiveError(f"{path} holds arrays of other shapes than this run's")
    except (ArchiveError, KeyError, IndexError) as error:
        raise damaged_state(path, error) from error
    state = jax.tree.unflatten(jax.tree.structure(state), [jnp.asarray(leaf) for leaf in leaves])
    return x, seen, state, [str(line) for line in lines]
