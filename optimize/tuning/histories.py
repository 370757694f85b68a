"""The runs of a search as their folder tells of them, each with the cost and the best so far.

Runs with objective weights of their own (``each``) have found numbers that do not compare. What
compares are the terms of what they found, under the weights of the whole search.
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
    """One run.

    lines: of history.jsonl, a generation each, the start among them. seed: None where the folder
    does not say. each: its own settings. weights: those its terms are weighed by, None where its
    fitness counts as it is.
    """

    number: int
    lines: Sequence[Mapping[str, Any]]
    seed: int | None = None
    each: Mapping[str, float] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def evaluations(self) -> np.ndarray:
        """(G,) members that were evaluated, so far."""
        return np.cumsum([line.get("members", 0) for line in self.lines])

    @cached_property
    def parts(self) -> Mapping[str, float | None]:
        """The terms of the best member; none where they are not kept."""
        brought = [line for line in self.lines if _brought(line)]
        return brought[-1]["best_parts"] if brought else {}

    @property
    def best(self) -> np.ndarray:
        """(G,) fitness of the best member so far, NaN where there is none.

        Of a run with weights of its own: of its best by these, under the weights of all; it may
        rise. NaN where the terms are not kept.
        """
        if self.weights is None:
            return column(self.lines, "best_ever")
        found, now = [], float("nan")
        for line in self.lines:
            now = weighed(self.weights, line["best_parts"]) if _brought(line) else now
            found.append(now)
        return np.asarray(found, float)

    @property
    def last(self) -> float:
        """The best of all, NaN where there is none."""
        return float(self.best[-1]) if len(self.lines) else float("nan")


def _brought(line: Mapping[str, Any]) -> bool:
    """Whether the best member so far is of this generation."""
    return line["best"] is not None and line["best"] == line["best_ever"]


def own_weights(each: Mapping[str, Any]) -> bool:
    """Whether runs have objective weights of their own."""
    return any(name.startswith(WEIGHTS) for name in each)


def weighed(weights: Mapping[str, float], parts: Mapping[str, float | None]) -> float:
    """The objective of raw terms; NaN where one of them is not there."""
    values = [parts.get(name) for name in weights]
    if any(value is None for value in values):
        return float("nan")
    return float(sum(w * v for w, v in zip(weights.values(), values)))  # type: ignore[operator]


def column(lines: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """(G,) values; NaN (a gap in the curve) where a line has none."""
    values = [line.get(name) for line in lines]
    return np.asarray([float("nan") if v is None else v for v in values], float)


def histories(folder: RunFolder) -> list[RunHistory]:
    """The runs of a tuning run, or of a search of ``evolve_runs``, which has no config.json.

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
    each = of_runs(config.get("each", {}), config.get("runs", 1))
    weights = config["weights"] if own_weights(each) else None
    return [
        RunHistory(
            number,
            lines,
            config["seed"] + number,
            {name: float(values[number]) for name, values in each.items()},
            weights,
        )
        for number, lines in by_run.items()
    ]


def best_of(runs: Sequence[RunHistory]) -> RunHistory | None:
    """The run that found the best; None where none found anything that compares."""
    found = [run for run in runs if np.isfinite(run.last)]
    return min(found, key=lambda run: run.last) if found else None


def stepped(run: RunHistory, at: np.ndarray) -> np.ndarray:
    """The best so far after so many evaluations, (k,); NaN before the first."""
    index = np.searchsorted(run.evaluations, at, side="right") - 1
    return np.where(index < 0, np.nan, run.best[np.maximum(index, 0)])


def quartiles(runs: Sequence[RunHistory]) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations (k,) that all runs have reached, and (3, k) quartiles of their best so far.

    A run that has found nothing yet counts as infinite; NaN where a quartile is.
    """
    ends = min(run.evaluations[-1] for run in runs)
    at = np.unique(np.concatenate([run.evaluations for run in runs]))
    at = at[at <= ends]
    values = np.stack([stepped(run, at) for run in runs])
    values = np.sort(np.where(np.isnan(values), np.inf, values), axis=0)
    with np.errstate(invalid="ignore"):  # between infinite ones
        found = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    return at, np.where(np.isfinite(found), found, np.nan)
