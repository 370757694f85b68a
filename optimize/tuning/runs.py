"""Runs of a search that advance together and differ in their settings, over one problem."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimize.problems.defaults import default_numbers
from optimize.problems.evaluation import Evaluation
from optimize.problems.problem import Problem
from optimize.tuning.assessment import Evaluators
from optimize.tuning.evolution import EvolutionResult
from optimize.tuning.names import OWN, WEIGHTS


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


def table_of_runs(
    problem: Problem,
    search: Mapping[str, Any],
    by_run: Mapping[str, np.ndarray],
    runs: Sequence[EvolutionResult],
) -> list[dict[str, Any]]:
    """Rows of settings and result, one for each run.

    search: arguments of ``evolve_runs``; by_run: settings that differ.
    """
    return [
        {
            "run": k,
            **{name: search[name][k] for name in ("seed", "sigma", "population")},
            **{name: values[k] for name, values in by_run.items()},
            "fitness": run.best_fitness,
            "parts": run.best_parts,
            "evaluations": sum(record.members for record in run.history),
            "restarts": run.history[-1].restarts if run.history else 0,
            "numbers": dict(
                zip(problem.names, problem.tunables.decode(np.asarray(run.best_x, float)))
            ),
        }
        for k, run in enumerate(runs)
    ]
