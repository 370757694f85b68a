"""Plot of several searches: the best so far over the evaluations, with quartiles of seeds.

plot_runs("runs.png", ["runs/a", "runs/b"])
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.viewer.plots import LINE_COLOURS, SOFT, new_figure, save_figure
from optimize.results.folder import RunFolder
from optimize.tuning.histories import RunHistory, histories, quartiles
from optimize.tuning.history_plot import leave_out_spikes
from optimize.tuning.names import OWN, WEIGHTS

# Settings of the evaluation: searches that differ in these have a panel each.
JUDGED_BY = (
    *("scenario", "set", "objective", "weights", "seconds", "dt", "pushes", "pushed_at"),
    *("vary", "trials", "spread", "sample", "resample", "aggregate"),
)
# Not part of a configuration: runs that differ only in these are seeds of the same.
FREE = (
    *(
        "seed",
        "command",
        "generations",
        "runs",
        "by_run",
        "chunk",
        "backend",
        "precision",
        "checks",
    ),
    *("front", "final_dt", "in_python", "objective_digest", "scenario_digest"),
)
WIDTH, HEIGHT = 7.0, 3.6  # of a panel [inch]

Group = tuple[dict[str, Any], list[RunHistory]]
"""Settings, and the runs that have them."""


def plot_runs(path: str | os.PathLike, folders: Sequence[str | os.PathLike]) -> None:
    """Plot tuning runs to one PNG: median and quartiles for each configuration.

    The runs of a configuration differ in seeds and folders; they are drawn up to where the shortest
    of them ends. Raises ValueError where there is nothing to plot, ImportError without matplotlib.
    """
    panels = groups_of(folders)
    if not panels:
        raise ValueError("no tuning run with a history to plot")
    figure = new_figure(WIDTH, HEIGHT * len(panels))
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axis, (title, groups) in zip(axes, panels.items()):
        names = _labels([settings for settings, _ in groups])
        for k, (name, (_, runs)) in enumerate(zip(names, groups)):
            _draw(axis, runs, name, LINE_COLOURS[k % len(LINE_COLOURS)])
        every = np.concatenate([run.best for _, runs in groups for run in runs])
        leave_out_spikes(axis, every, [])
        axis.set_title(title, fontsize=9, loc="left", parse_math=False)
        axis.set_xlabel("evaluations", fontsize=8)
        axis.set_ylabel("best so far", fontsize=8)
        axis.tick_params(labelsize=8, colors=SOFT)
        axis.legend(fontsize=7, frameon=False)
    save_figure(path, figure)


def groups_of(folders: Sequence[str | os.PathLike]) -> dict[str, list[Group]]:
    """Group runs into panels by title, and into configurations within.

    Runs of which nothing is evaluated, or nothing compares, are left out.
    """
    panels: dict[str, tuple[str, dict[str, Group]]] = {}
    for path in folders:
        folder = RunFolder(Path(path))
        config = folder.read_config()
        told = [config.get(name) for name in JUDGED_BY]
        title = f"{config['scenario']}, {config['objective']}"
        panel = panels.setdefault(json.dumps(told, sort_keys=True), (title, {}))[1]
        for run in histories(folder) if (folder / folder.HISTORY).is_file() else []:
            numbers = {n: v for n, v in (run.settings or {}).items() if not n.startswith(WEIGHTS)}
            judged_alike = {*numbers} <= {*OWN}
            if not np.isfinite(run.last) or not judged_alike:
                continue
            settings = _settings(config) | dict(run.settings or {})
            key = json.dumps(settings, sort_keys=True)
            panel.setdefault(key, (settings, []))[1].append(run)
    titled: dict[str, list[Group]] = {}
    for title, panel in panels.values():
        if panel:
            more = sum(name.startswith(title) for name in titled)
            titled[f"{title} ({more + 1})" if more else title] = [*panel.values()]
    return titled


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a search that define its configuration, each weight by itself."""
    weights = {f"{WEIGHTS}{name}": value for name, value in config["weights"].items()}
    own = {n: v for n, v in config.items() if n not in (*FREE, *JUDGED_BY)}
    return {**own, **weights}


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Labels of configurations by the settings in which they differ."""
    names = dict.fromkeys(name for own in settings for name in own)
    several = [n for n in names if len({json.dumps(own.get(n)) for own in settings}) > 1]
    shown = several or ["method"]
    return [", ".join(f"{n} {_told(own.get(n))}" for n in shown) for own in settings]


def _told(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def _draw(axis: Any, runs: list[RunHistory], name: str, colour: str) -> None:
    at, (low, middle, high) = quartiles(runs)
    count = f" ({len(runs)} runs)" if len(runs) > 1 else ""
    axis.plot(at, middle, color=colour, lw=1.4, label=f"{name}{count}", drawstyle="steps-post")
    if len(runs) > 1:
        axis.fill_between(at, low, high, color=colour, alpha=0.2, lw=0, step="post")
