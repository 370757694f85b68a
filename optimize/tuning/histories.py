"""Histories of the runs of a search, read from their folder, with cost and best so far.

Runs with objective weights of their own (``by_run``) report fitness that does not compare. The
terms of their best members do compare, under the weights of the whole search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from optimize.results.folder import RunFolder
from optimize.tuning.names import WEIGHTS, of_runs


@dataclass(frozen=True)
class RunHistory:
    """History of one run of a search.

    lines: of history.jsonl, a generation each, the start among them. seed: None where the folder
    does not say. settings: those of this run alone. weights: those its terms are weighted with,
    None where its fitness counts as it is.
    """

    number: int
    lines: Sequence[Mapping[str, Any]]
    seed: int | None = None
    settings: Mapping[str, float] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def evaluations(self) -> np.ndarray:
        """Cumulative number of evaluated members, (G,)."""
        return np.cumsum([line.get("members", 0) for line in self.lines])

    @cached_property
    def parts(self) -> Mapping[str, float | None]:
        """Terms of the best member; empty where they are not saved."""
        brought = [line for line in self.lines if _brought(line)]
        return brought[-1]["best_parts"] if brought else {}

    @property
    def best(self) -> np.ndarray:
        """Fitness of the best member so far, (G,), NaN where there is none.

        In a run with weights of its own: of the best member by these, under the weights of all; it
        may rise. NaN where the terms are not saved.
        """
        if self.weights is None:
            return column(self.lines, "best_ever")
        found, now = [], float("nan")
        for line in self.lines:
            now = weighted_sum(self.weights, line["best_parts"]) if _brought(line) else now
            found.append(now)
        return np.asarray(found, float)

    @property
    def last(self) -> float:
        """Fitness of the best member of all generations, NaN where there is none."""
        return float(self.best[-1]) if len(self.lines) else float("nan")


def _brought(line: Mapping[str, Any]) -> bool:
    """True if this generation holds the best member so far."""
    return line["best"] is not None and line["best"] == line["best_ever"]


def own_weights(by_run: Mapping[str, Any]) -> bool:
    """True if runs have objective weights of their own."""
    return any(name.startswith(WEIGHTS) for name in by_run)


def weighted_sum(weights: Mapping[str, float], parts: Mapping[str, float | None]) -> float:
    """Weighted sum of raw terms; NaN where one of them is missing."""
    values = [parts.get(name) for name in weights]
    if any(value is None for value in values):
        return float("nan")
    return float(sum(w * v for w, v in zip(weights.values(), values)))  # type: ignore[operator]


def column(lines: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Values of one field over the generations (G,); NaN, a gap in a curve, where it is missing."""
    values = [line.get(name) for line in lines]
    return np.asarray([float("nan") if v is None else v for v in values], float)


def histories(folder: RunFolder) -> list[RunHistory]:
    """Load the histories of a tuning run, or of a search of ``evolve_runs`` without a config.json.

    Raises ValueError where a file is damaged, FileNotFoundError where there is no history.
    """
    config = folder.read_config() if (folder / folder.CONFIG).is_file() else None
    by_run: dict[int, list[dict[str, Any]]] = {}
    for number, line in enumerate(folder.read_history(), start=1):
        missing = [n for n in ("generation", "best", "best_ever", "best_parts") if n not in line]
        if missing:
            place = f"{folder / folder.HISTORY}, line {number}"
            raise ValueError(f"{place} lacks {', '.join(missing)}: no search writes that")
        by_run.setdefault(line.get("run", 0), []).append(line)
    if config is None:
        return [RunHistory(number, lines) for number, lines in by_run.items()]
    values = of_runs(config.get("by_run", {}), config.get("runs", 1))
    weights = config["weights"] if own_weights(values) else None
    return [
        RunHistory(
            number,
            lines,
            config["seed"] + number,
            {name: float(own[number]) for name, own in values.items()},
            weights,
        )
        for number, lines in by_run.items()
    ]


def best_of(runs: Sequence[RunHistory]) -> RunHistory | None:
    """Run that found the best member; None where no run found one that compares."""
    found = [run for run in runs if np.isfinite(run.last)]
    return min(found, key=lambda run: run.last) if found else None


def best_after(run: RunHistory, at: np.ndarray) -> np.ndarray:
    """Best fitness after given numbers of evaluations (k,); NaN before the first."""
    index = np.searchsorted(run.evaluations, at, side="right") - 1
    return np.where(index < 0, np.nan, run.best[np.maximum(index, 0)])


def quartiles(runs: Sequence[RunHistory]) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations (k,) that all runs have reached, and quartiles (3, k) of their best so far.

    A run that has found nothing yet counts as infinite; NaN where a quartile is.
    """
    ends = min(run.evaluations[-1] for run in runs)
    at = np.unique(np.concatenate([run.evaluations for run in runs]))
    at = at[at <= ends]
    values = np.stack([best_after(run, at) for run in runs])
    values = np.sort(np.where(np.isnan(values), np.inf, values), axis=0)
    with np.errstate(invalid="ignore"):  # between infinite ones
        found = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    return at, np.where(np.isfinite(found), found, np.nan)
