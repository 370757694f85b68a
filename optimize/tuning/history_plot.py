"""Plot of a tuning run: fitness, failures, step size and every objective term.

matplotlib is imported when a plot is made, and its global state (pyplot) is left alone.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.files import write_bytes
from optimize.results.folder import RunFolder
from optimize.tuning.histories import best_of, column, histories

_COLUMNS = 3


def plot_history(folder: str | os.PathLike) -> Path:
    """Draw the folder's history.jsonl into history.png, and return its path.

    Over the generations: fitness (best, median, best so far), failed members, step size, and the
    raw objective terms of the best member, each with its own axis, because their units differ.
    The start (the given motion) is drawn as a dashed line, the measure of any gain. Of several runs
    it is the one that found the best; of the others the best so far is a thin line each, unless
    they have objective weights of their own.

    Raises ModuleNotFoundError without matplotlib, FileNotFoundError without a history,
    ValueError for an empty or damaged one.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'plots need matplotlib: pip install "jaxsim-characters[viewer]"', name=error.name
        ) from error
    run = RunFolder(Path(folder))
    runs = histories(run)
    if not runs:
        raise ValueError(f"{run / run.HISTORY} is empty: there is nothing to plot yet")
    best = best_of(runs) or runs[0]
    start = next((line for line in best.lines if line["generation"] < 0), {})
    lines = [line for line in best.lines if line["generation"] >= 0]
    terms = list(dict.fromkeys(name for line in best.lines for name in line["best_parts"]))

    rows = 2 + -(-len(terms) // _COLUMNS)
    figure = Figure(figsize=(10.0, 2.2 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, _COLUMNS, height_ratios=[1.6] + [1.0] * (rows - 1))
    axes = figure.add_subplot(grid[0, :])
    for other in runs if len(runs) > 1 and best.weights is None else []:
        later = other.lines[1:]
        axes.plot(column(later, "generation"), column(later, "best_ever"), lw=0.5, color="0.8")
    _plot_fitness(axes, lines, start)
    _plot_failures(figure.add_subplot(grid[1, 0]), lines)
    _plot_sigma(figure.add_subplot(grid[1, 1]), lines)
    for i, term in enumerate(terms):
        axes = figure.add_subplot(grid[2 + i // _COLUMNS, i % _COLUMNS])
        _start_line(axes, start.get("best_parts", {}).get(term))
        axes.plot(column(lines, "generation"), _values(lines, term), lw=1.0)
        leave_out_spikes(axes, _values(lines, term), [start.get("best_parts", {}).get(term)])
        _label(axes, term)

    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return write_bytes(run / run.HISTORY_PLOT, picture.getvalue())


def _plot_fitness(axes: Any, lines: Sequence[Mapping[str, Any]], start: Mapping[str, Any]) -> None:
    generation = column(lines, "generation")
    axes.plot(generation, column(lines, "median"), lw=0.8, color="tab:gray", label="median")
    axes.plot(generation, column(lines, "best"), lw=0.8, color="tab:blue", label="best")
    best_ever = column(lines, "best_ever")
    axes.plot(generation, best_ever, lw=1.8, color="tab:red", label="best so far")
    _start_line(axes, start.get("best"), label="start")
    leave_out_spikes(axes, column(lines, "best"), [start.get("best")])
    axes.legend(loc="upper right", fontsize=8)
    _label(axes, "fitness (lower is better)")


def _plot_failures(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    axes.fill_between(column(lines, "generation"), column(lines, "failures"), step="mid")
    axes.set_ylim(bottom=0.0)
    _label(axes, "failed members")


def _plot_sigma(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    axes.plot(column(lines, "generation"), column(lines, "sigma"), lw=1.0)
    axes.set_yscale("log")
    _label(axes, "step size sigma")


def leave_out_spikes(axes: Any, values: np.ndarray, always: Sequence[float | None]) -> None:
    """Limit the axis to most of the values and to ``always``, so that outliers do not flatten it.

    Such outliers are a few generations in which every member, or the median one, fell.
    """
    values = values[np.isfinite(values)]
    if not values.size:
        return
    kept = np.asarray([*np.percentile(values, [5, 95]), *(v for v in always if v is not None)])
    low, high = kept.min(), kept.max()
    drawn = np.ptp(axes.get_ylim())
    if high > low and drawn > 3 * (high - low):
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))


def _start_line(axes: Any, value: float | None, label: str | None = None) -> None:
    if value is not None:
        axes.axhline(value, ls="--", lw=0.8, color="black", label=label)


def _label(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("generation", fontsize=8)
    axes.tick_params(which="both", labelsize=8)
    axes.grid(alpha=0.25)


def _values(lines: Sequence[Mapping[str, Any]], term: str) -> np.ndarray:
    return column([line["best_parts"] for line in lines], term)
