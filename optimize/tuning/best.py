"""Results of a search: best.scl, best.json, and the table of its runs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from controllers.source import NumberSource
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.running.summary import json_safe
from optimize.tuning.checkpoint import GenerationRecord
from optimize.tuning.config import TuneConfig
from optimize.tuning.evolution import EvolutionResult
from optimize.tuning.histories import weighted_sum

BY_SEARCH = "by the motions of the search"


class Best:
    """Writer of best.scl and best.json, up to date with the search.

    weighed: runs have weights of their own, so that their members are compared by their terms,
    under the weights of the problem.
    """

    def __init__(self, folder: RunFolder, problem: Problem, weighed: bool = False):
        self.folder, self.problem, self.weighed = folder, problem, weighed
        self.start: dict[str, Any] | None = None
        self.found: dict[int, tuple[float, dict]] = {}  # run -> its best: fitness, terms
        self.written: tuple[int, float] | None = None
        if (folder / RunFolder.HISTORY).is_file():
            for line in folder.read_history():
                self._note(line)

    def worth(self, fitness: float | None, parts: Mapping[str, float | None]) -> float:
        """Fitness of a member, comparable between runs; infinite where it failed."""
        if fitness is None or not np.isfinite(fitness):
            return np.inf
        if not self.weighed:
            return float(fitness)
        return float(np.nan_to_num(weighted_sum(self.problem.objective.weights, parts), nan=np.inf))

    def _note(self, line: Mapping[str, Any]) -> None:
        """Record a history line: as the start if it is the first, and as the best of its run."""
        worth = self.worth(line["best"], line["best_parts"])
        if self.start is None:
            self.start = {**line, "best": worth if np.isfinite(worth) else None}
        if line["best"] is not None and line["best"] == line["best_ever"]:
            self.found[line.get("run", 0)] = worth, line["best_parts"]

    def begin(self, records: list[GenerationRecord]) -> None:
        """Record the first generation that is shown as the start."""
        for record in records:
            self._note(dataclasses.asdict(record))

    def offer(self, records: list[GenerationRecord], best_x: np.ndarray) -> None:
        """Write the best member of all runs, if this generation has changed which that is."""
        self.begin(records)
        if not self.found:
            return
        run = min(self.found, key=lambda run: self.found[run][0])
        worth, parts = self.found[run]
        if np.isfinite(worth) and (run, worth) != self.written:
            self.write(worth, parts, best_x[run])
            self.written = run, worth

    def write(
        self,
        fitness: float | None,
        parts: Mapping[str, float | None],
        x: np.ndarray,
        before: tuple[float | None, Mapping[str, float | None]] | None = None,
        how: str = BY_SEARCH,
    ) -> None:
        """Write best.scl of a script, and best.json with terms and numbers before and after.

        before: fitness and terms of the start, by default as the search has them; how: description
        of their evaluation.
        """
        problem, start = self.problem, self.start or {"best": None, "best_parts": {}}
        start_fitness, begun_parts = before or (start["best"], start["best_parts"])
        source = problem.scenario.number_source
        values = values_of(problem, source, x)
        for name, text in source.files(values).items():
            self.folder.write_text(name, text)
        objective = problem.objective
        terms = [
            {
                "name": name,
                "unit": objective.term(name).unit,
                "weight": weight,
                "before": begun_parts.get(name),
                "after": parts.get(name),
            }
            for name, weight in objective.weights.items()
        ]
        content = {
            "objective": objective.name,
            "judged": how,
            "fitness": {"before": start_fitness, "after": fitness},
            "terms": terms,
            "numbers": _numbers(problem, source, values),
        }
        self.folder.write_json(RunFolder.BEST, json_safe(content))


def values_of(problem: Problem, source: NumberSource, x: np.ndarray) -> dict[str, float]:
    """Numbers of a member x (n,) of the optimiser by path, as the controller's file holds them."""
    after = problem.tunables.decode(np.asarray(x, float))
    values = dict(zip(problem.tunables.names, map(float, after)))
    return source.rounded(values)


def _numbers(
    problem: Problem, source: NumberSource, after: dict[str, float]
) -> dict[str, dict[str, Any]]:
    """Tuned numbers by label or path: unit, bounds, values before and after."""
    tunables, units, before = problem.tunables, source.units(), source.values()
    return {
        problem.names[k]: {
            "unit": units.get(path),
            "lower": tunables.lower[k],
            "upper": tunables.upper[k],
            "before": before.get(path, tunables.initial[k]),  # not in the search's precision
            "after": after[path],
        }
        for k, path in enumerate(tunables.names)
    }


def table_of_runs(
    config: TuneConfig, problem: Problem, runs: Sequence[EvolutionResult]
) -> list[dict[str, Any]]:
    """Rows of runs.json: settings and result, one for each run."""
    search = config.search(problem.tunables.size)
    return [
        {
            "run": k,
            **{name: search[name][k] for name in ("seed", "sigma", "population")},
            **{name: values[k] for name, values in config.values_by_run.items()},
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
