"""Evaluation of the members of all runs of a search together, over one problem.

Runs may differ in the weights of the objective and in numbers of the scenario. Calls always have
the same number of rows, so that nothing is compiled again: one call while the populations are at
their first size, more when some have grown.
"""

from __future__ import annotations

import dataclasses
import difflib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from optimize.problems.fitness import Evaluation
from optimize.problems.problem import Problem, default_numbers
from optimize.tuning.names import OWN, WEIGHTS

GradientFunction = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""x (P, n) -> loss (P,), derivative (P, n)."""
GradientVeto = Callable[[Any, np.ndarray, np.ndarray], str]
"""A method along the derivative, x (R, n), sigma (R,) -> why it is not to be followed from there,
an empty text where it is."""


class Evaluators(NamedTuple):
    """Functions by which a search evaluates a problem.

    evaluate: x (P, n), run (P,) -> Evaluation; slopes: for methods along a derivative. veto: asked
    before a stage of a chain follows the derivative.
    """

    evaluate: Callable[[np.ndarray, np.ndarray], Evaluation]
    slopes: GradientFunction | None
    veto: GradientVeto | None = None


class EvaluatedRun(NamedTuple):
    """Evaluated members of one run."""

    x: np.ndarray  # (P, n)
    fitness: np.ndarray  # (P,) float64
    slope: np.ndarray | None  # (P, n)
    parts: dict[str, np.ndarray]  # (P,) float64 each
    healthy: np.ndarray  # (P,) bool
    steps: int
    seconds: float  # of the evaluation of all runs

    def first(self) -> EvaluatedRun:
        """Record of the first member alone."""
        parts = {name: column[:1] for name, column in self.parts.items()}
        slope = None if self.slope is None else self.slope[:1]
        return self._replace(
            x=self.x[:1], fitness=self.fitness[:1], slope=slope, parts=parts,
            healthy=self.healthy[:1],
        )  # fmt: skip


def assess(
    evaluators: Evaluators, gradient_based: bool, members: list, rows: int
) -> list[EvaluatedRun]:
    """Evaluate the members of all runs in calls of ``rows`` rows, and check the shapes."""
    began = time.perf_counter()
    x = np.concatenate(members).astype(np.float64)  # what is computed of them is ranked in it
    run = np.repeat(np.arange(len(members)), [len(m) for m in members])
    batches, slopes, steps = [], [], 0
    for at in range(0, len(x), rows):
        index = np.arange(at, at + rows)
        index[index >= len(x)] = 0  # whose numbers are left out again
        evaluation, slope = _evaluated(evaluators, gradient_based, x[index].copy(), run[index])
        count = min(rows, len(x) - at)
        columns = _columns(evaluation, rows)
        batches.append({name: column[:count] for name, column in columns.items()})
        slopes.append(slope[:count])
        steps += int(evaluation.steps) * count / rows
    seconds = time.perf_counter() - began
    whole = {name: np.concatenate([c[name] for c in batches]) for name in batches[0]}
    slope = np.concatenate(slopes)
    healthy = np.isfinite(whole["fitness"]) & (whole["failed"] == 0)
    parts = {name[5:]: column for name, column in whole.items() if name.startswith("part ")}
    out, ends = [], np.cumsum([len(m) for m in members])
    for rows_of_run in map(slice, [0, *ends[:-1]], ends):
        terms = {name: column[rows_of_run] for name, column in parts.items()}
        share = round(steps * len(x[rows_of_run]) / len(x))
        columns = (
            whole["fitness"][rows_of_run],
            slope[rows_of_run] if gradient_based else None,
            terms,
        )
        out.append(EvaluatedRun(x[rows_of_run], *columns, healthy[rows_of_run], share, seconds))
    return out


def _evaluated(
    evaluators: Evaluators, gradient_based: bool, x, run
) -> tuple[Evaluation, np.ndarray]:
    if not gradient_based:
        return evaluators.evaluate(x, run), np.zeros((len(x), 0))
    if evaluators.slopes is None:
        raise ValueError("a method along the derivative needs slopes=, that gives it")
    loss, slope = evaluators.slopes(x)
    loss, slope = np.asarray(loss, float), np.asarray(slope, float)
    if loss.shape != (len(x),) or slope.shape != x.shape:
        raise ValueError(f"slopes gave shapes {loss.shape}, {slope.shape} for members {x.shape}")
    bad = ~(np.isfinite(loss) & np.isfinite(slope).all(axis=1))
    return Evaluation(loss, {}, bad), slope


def _columns(evaluation: Any, size: int) -> dict[str, np.ndarray]:
    if not isinstance(evaluation, Evaluation):
        raise TypeError(f"evaluate returned {type(evaluation).__name__}, not an Evaluation")
    failed = np.asarray(evaluation.failed, dtype=bool)
    if failed.shape not in ((), (size,)):
        raise ValueError(f"evaluate gave failed of shape {failed.shape}, expected ({size},)")
    parts = {f"part {name}": _column(name, v, size) for name, v in evaluation.parts.items()}
    fitness = _column("fitness", evaluation.fitness, size)
    return {"fitness": fitness, "failed": np.broadcast_to(failed, size), **parts}


def _column(name: str, value: Any, size: int) -> np.ndarray:
    column = np.asarray(value, dtype=np.float64)
    if column.shape != (size,):
        raise ValueError(f"evaluate gave {name} of shape {column.shape}, expected ({size},)")
    return column


# ---- runs that differ in their settings


def run_evaluators(problem: Problem, values: Mapping[str, np.ndarray]) -> Evaluators:
    """Evaluators of the members of several runs, each with the weights and the numbers of its run.

    values: of ``names.of_runs``; "weights.energy" is a weight of the objective, any path or label a
    number of the scenario. Raises KeyError and ValueError for unknown names.
    """
    weights = {n[len(WEIGHTS) :]: v for n, v in values.items() if n.startswith(WEIGHTS)}
    numbers = {n: v for n, v in values.items() if n not in OWN and not n.startswith(WEIGHTS)}
    for name in weights.keys() - problem.objective.weights.keys():
        near = difflib.get_close_matches(name, problem.objective.weights, 3, 0.0)
        raise ValueError(f"by_run: the objective has no weight {name!r}; nearest are {near}")
    whole = _with(problem, numbers) if numbers else problem
    fixed = np.stack(list(numbers.values()), axis=1) if numbers else np.zeros((0, 0))

    def evaluate(x: np.ndarray, run: np.ndarray) -> Evaluation:
        if not numbers:
            evaluation = problem.evaluate(x)
        else:
            tuned = problem.tunables.decode(np.asarray(x, float))
            evaluation = whole.evaluate_values(np.concatenate([tuned, fixed[run]], axis=1))
        return _weighed(problem, evaluation, {n: v[run] for n, v in weights.items()})

    if weights or numbers:
        return Evaluators(evaluate, None)
    return Evaluators(evaluate, problem.values_and_slopes)


def _with(problem: Problem, numbers: Mapping[str, np.ndarray]) -> Problem:
    """Problem with further numbers, which the search does not see."""
    scenario = problem.scenario
    tuned = default_numbers(scenario) if problem.numbers is None else problem.numbers
    own = {name: np.asarray(scenario.get(name), float).reshape(-1) for name in numbers}
    bounds: dict[str, Any] = {}
    for name, values in numbers.items():
        if own[name].size != 1:
            raise ValueError(
                f"by_run: {name} is of {own[name].size} numbers; name one, as {name}[0]"
            )
        both = np.append(values, own[name])
        bounds[name] = (both.min() - 1.0, both.max() + 1.0)
    every = {**tuned, **bounds}
    others = tuple(dataclasses.replace(other, numbers=every) for other in problem.others)
    whole = dataclasses.replace(problem, numbers=every, others=others)
    taken = {scenario.path(n) for n in numbers} & set(problem.tunables.names)
    if taken or whole.tunables.size != problem.tunables.size + len(numbers):
        raise ValueError(f"by_run: {', '.join(sorted(taken)) or 'a number'} is tuned already")
    return whole


def _weighed(
    problem: Problem, evaluation: Evaluation, weights: Mapping[str, np.ndarray]
) -> Evaluation:
    """Evaluation under the weights of each member's run."""
    if not weights:
        return evaluation
    objective = dataclasses.replace(
        problem.objective, weights={**problem.objective.weights, **weights}
    )
    fitness = np.asarray(objective.total(evaluation.parts), float)
    return dataclasses.replace(
        evaluation, fitness=fitness, failed=np.asarray(evaluation.failed) | ~np.isfinite(fitness)
    )
