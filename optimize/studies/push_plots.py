"""Plots of a push map over numbers that vary: lines over one, a heat map over two."""

import os
from typing import Any

import numpy as np

from jaxsim.viewer.plots import LINE_COLOURS, SOFT, new_figure, save_figure
from optimize.studies.push_options import PushMap

WIDTH, HEIGHT = 5.0, 4.0  # of a panel [inch]


def plot_varied(path: str | os.PathLike, result: PushMap, title: str) -> None:
    """Plot a panel for each duration, over all directions and starts.

    Raises ImportError without matplotlib, or where more than two numbers vary.
    """
    o = result.options
    if len(o.varied) > 2:
        raise ImportError("a plot shows one or two varied numbers")
    figure = new_figure(WIDTH * len(o.durations), HEIGHT + 0.5)
    head = f"Largest push at the {o.link} survived [N]\n{title}; {o.directions} directions,"
    figure.suptitle(f"{head} {o.starts} starts", fontsize=10, x=0.02, ha="left", parse_math=False)
    force = np.moveaxis(np.nan_to_num(result.tolerated), len(o.varied), 0)
    draw = _lines if len(o.varied) == 1 else _heat
    for d, duration in enumerate(o.durations):
        axis: Any = figure.add_subplot(1, len(o.durations), d + 1)
        axis.set_title(f"for {duration:g} s", fontsize=10, parse_math=False)
        draw(axis, result, force[d].reshape(*o.varied, -1))
        axis.tick_params(labelsize=8, colors=SOFT)
    save_figure(path, figure)


def _lines(axis: Any, result: PushMap, force: np.ndarray) -> None:
    """Draw force (k, members): the median as a line, quartiles and tenths as bands."""
    ((name, values),) = (result.options.vary or {}).items()
    tenth, quarter, median, three, nine = np.quantile(force, (0.1, 0.25, 0.5, 0.75, 0.9), axis=1)
    colour = LINE_COLOURS[0]
    axis.fill_between(values, tenth, nine, color=colour, lw=0, alpha=0.15, label="eight of ten")
    axis.fill_between(values, quarter, three, color=colour, lw=0, alpha=0.3, label="half of them")
    axis.plot(values, median, color=colour, lw=1.6, marker="o", ms=3, label="median")
    axis.set_xlabel(name, fontsize=8)
    axis.set_ylim(0, max(nine.max() * 1.05, result.options.resolution))
    axis.legend(fontsize=7, frameon=False)


def _heat(axis: Any, result: PushMap, force: np.ndarray) -> None:
    """Draw force (k, l, members): the median as colour and number, the quartiles beneath it."""
    (down, rows), (along, columns) = (result.options.vary or {}).items()
    quarter, median, three = np.quantile(force, (0.25, 0.5, 0.75), axis=2)
    most = max(median.max(), result.options.resolution)
    axis.imshow(median, origin="lower", aspect="auto", cmap="viridis", vmin=0, vmax=most)
    for k, m in np.ndindex(median.shape):
        said = f"{median[k, m]:.0f}\n{quarter[k, m]:.0f} to {three[k, m]:.0f}"
        colour = "white" if median[k, m] < 0.6 * most else "black"
        axis.text(m, k, said, ha="center", va="center", fontsize=7, color=colour)
    axis.set_xticks(range(len(columns)), [f"{x:g}" for x in columns])
    axis.set_yticks(range(len(rows)), [f"{x:g}" for x in rows])
    axis.set_xlabel(along, fontsize=8)
    axis.set_ylabel(down, fontsize=8)
