"""The best member of a search, as it is written down."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from controllers.scl.ast import Script
from controllers.scl.roles import UNITS, number_roles
from controllers.scl.writer import rewrite
from optimize.problems.problem import Problem, script_in
from optimize.results.folder import RunFolder
from optimize.running.summary import json_safe
from optimize.tuning.checkpoint import GenerationRecord


class Best:
    """best.scl and best.json, kept up to date with the search."""

    def __init__(self, folder: RunFolder, problem: Problem):
        self.folder, self.problem = folder, problem
        self.start: dict[str, Any] | None = None
        if (folder / RunFolder.HISTORY).is_file():
            history = folder.read_history()
            self.start = history[0] if history else None

    def begin(self, records: list[GenerationRecord]) -> None:
        """Take the first generation that is shown for the start."""
        if self.start is None:
            self.start = dataclasses.asdict(records[0])

    def offer(self, records: list[GenerationRecord], best_x: np.ndarray) -> None:
        """Write the best member of all runs if this generation brought it."""
        self.begin(records)
        first = min(records, key=lambda r: np.inf if r.best_ever is None else r.best_ever)
        if first.best is not None and first.best == first.best_ever:
            self.write(first.best, first.best_parts, best_x[first.run])

    def write(self, fitness: float, parts: Mapping[str, float | None], x: np.ndarray) -> None:
        """best.scl of a script, and best.json with terms and numbers before and after."""
        problem, start = self.problem, self.start or {"best": None, "best_parts": {}}
        script = script_in(problem.scenario)
        if script is not None:
            self.folder.write_text(RunFolder.BEST_SCRIPT, tuned_text(problem, script, x))
        objective = problem.objective
        terms = [
            {
                "name": name,
                "unit": objective.term(name).unit,
                "weight": weight,
                "before": start["best_parts"].get(name),
                "after": parts.get(name),
            }
            for name, weight in objective.weights.items()
        ]
        content = {
            "objective": objective.name,
            "fitness": {"before": start["best"], "after": fitness},
            "terms": terms,
            "numbers": numbers_found(problem, x),
        }
        self.folder.write_json(RunFolder.BEST, json_safe(content))


def tuned_text(problem: Problem, script: Script, x: np.ndarray) -> str:
    """The script with the numbers of a member x (n,) of the optimiser."""
    after = problem.tunables.decode(np.asarray(x, float))
    values = np.array(script.values())
    for k, path in enumerate(problem.tunables.names):
        if path.startswith("controller.values["):
            at = int(path[len("controller.values[") : -1])
            values[at] = after[k]
    return rewrite(script, values.tolist())


def numbers_found(problem: Problem, x: np.ndarray) -> dict[str, dict[str, Any]]:
    """Every number by label or path: its unit, bounds, before and after."""
    tunables, script = problem.tunables, script_in(problem.scenario)
    roles = () if script is None else number_roles(script)
    after, rows = np.asarray(tunables.decode(np.asarray(x, float))), {}
    for k, path in enumerate(tunables.names):
        unit, before = None, tunables.initial[k]
        if script is not None and path.startswith("controller.values["):
            at = int(path[len("controller.values[") : -1])
            unit = UNITS[roles[at]]
            before = script.values()[at]  # as written, not in the search's precision
        rows[problem.names[k]] = {
            "unit": unit,
            "lower": tunables.lower[k],
            "upper": tunables.upper[k],
            "before": before,
            "after": after[k],
        }
    return rows
