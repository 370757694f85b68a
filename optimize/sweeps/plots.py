"""Plots of a sweep: heat maps, families of lines, pairs of sampled numbers, bars of indices."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim.viewer.plots import LINE_COLOURS, SOFT, new_figure, save_figure
from optimize.sweeps import store
from optimize.sweeps.sensitivity import KINDS, LEVEL
from optimize.sweeps.table import measure_in

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

WIDTH, HEIGHT = 6.0, 4.4  # [inch]
PAIR = 2.4  # a panel of pairs [inch]
NUMBERED = 64  # cells of a heat map that carry their number


def plot_sweep(
    path: str | os.PathLike,
    table: "Dataset",
    measure: str,
    by: tuple[str, ...] | None = None,
    kind: str | None = None,
) -> None:
    """Plot one measure to a PNG: its mean over the starts and all axes that are not shown.

    by: the axes to show, by default those with more than one value. kind: "heat" (of two axes),
    "lines" (over the first, a line for each value of the second, if there is one), "pairs" (of
    sampled numbers); by default pairs for a sample, lines over one axis, else a heat map.

    Raises KeyError for an unknown axis or measure, ValueError where the kind does not fit,
    ImportError without matplotlib.
    """
    values = measure_in(table, measure)
    axes = [str(d) for d in values.dims if d not in (store.START, store.SAMPLE)]
    if by is None:
        several = [dim for dim in axes if table.sizes[dim] > 1] or axes[:1]
        by = tuple(several[:2])
    for name in by:
        if name not in axes:
            raise KeyError(f"no axis {name!r} with values; there are: {', '.join(axes)}")
    if kind is None:
        kind = "pairs" if store.SAMPLE in values.dims else "lines" if len(by) == 1 else "heat"
    draw = {"heat": _heat, "lines": _lines, "pairs": _pairs}.get(kind)
    if draw is None:
        raise ValueError(f"kind {kind!r}: there are heat, lines, pairs")
    save_figure(path, draw(table, values, by))


def plot_indices(path: str | os.PathLike, indices: "Dataset") -> None:
    """Plot ``sobol_indices`` to a PNG: a pair of bars for each number, with their intervals."""
    names = [str(name) for name in np.asarray(indices["number"])]
    figure = new_figure(WIDTH, 1.6 + 0.5 * len(names))
    axis: Any = figure.add_subplot()
    place = np.arange(len(names))
    for k, name in enumerate(KINDS):
        error = np.asarray(indices[f"{name}_interval"])
        axis.barh(
            place + 0.38 * (0.5 - k), np.asarray(indices[name]), 0.34, xerr=error, label=name,
            color=LINE_COLOURS[k], ecolor=SOFT, capsize=2,
        )  # fmt: skip
    axis.axvline(0.0, color=SOFT, lw=0.8)
    axis.set_yticks(place, names)
    axis.set_xlabel(f"Sobol index of {indices.attrs['measure']}, {LEVEL:.0%} intervals", fontsize=8)
    axis.tick_params(labelsize=8, colors=SOFT)
    axis.legend(fontsize=7, frameon=False)
    save_figure(path, figure)


def label_of(values: "DataArray") -> str:
    """Name and unit of an array."""
    unit = values.attrs.get("units", "")
    return f"{values.name} [{unit}]" if unit else str(values.name)


def _mean(values: "DataArray", keep: tuple[str, ...]) -> "DataArray":
    """Mean over all other axes, without members that failed."""
    rest = [dim for dim in values.dims if dim not in keep]
    return values.mean(rest, skipna=True).transpose(*keep)


def _begun(values: "DataArray", shown: tuple[str, ...]) -> tuple[Any, Any]:
    """New figure whose title names the measure, and its axis."""
    figure = new_figure(WIDTH, HEIGHT)
    rest = [f"{values.sizes[d]} {d}" for d in values.dims if d not in shown and values.sizes[d] > 1]
    mean = f"; mean over {' and '.join(rest)}" if rest else ""
    axis = figure.add_subplot()
    axis.set_title(f"{label_of(values)}{mean}", fontsize=9, loc="left", parse_math=False)
    axis.tick_params(labelsize=8, colors=SOFT)
    return figure, axis


def _heat(table: "Dataset", values: "DataArray", by: tuple[str, ...]) -> Any:
    """Heat map with the first axis down, the second along."""
    if len(by) != 2:
        raise ValueError(f"a heat map has two axes, got {', '.join(by) or 'none'}")
    figure, axis = _begun(values, by)
    cells = np.asarray(_mean(values, by))
    drawn = axis.imshow(cells, origin="lower", aspect="auto", cmap="viridis")
    bar = figure.colorbar(drawn, ax=axis)
    bar.ax.tick_params(labelsize=8, colors=SOFT)
    middle = np.nanmean([np.nanmin(cells), np.nanmax(cells)]) if np.isfinite(cells).any() else 0
    for (row, column), value in np.ndenumerate(cells) if cells.size <= NUMBERED else ():
        colour = "black" if value > middle else "white"
        shown = "failed" if np.isnan(value) else f"{value:.3g}"
        axis.text(
            column, row, shown, ha="center", va="center", fontsize=7,
            color=SOFT if np.isnan(value) else colour,
        )  # fmt: skip
    for dim, ticks in zip(by, (axis.set_yticks, axis.set_xticks)):
        where = np.unique(np.linspace(0, table.sizes[dim] - 1, 9).astype(int))
        ticks(where, [f"{x:.3g}" for x in np.asarray(table[dim])[where]])
    axis.set_ylabel(label_of(table[by[0]]), fontsize=8)
    axis.set_xlabel(label_of(table[by[1]]), fontsize=8)
    return figure


def _lines(table: "Dataset", values: "DataArray", by: tuple[str, ...]) -> Any:
    if len(by) not in (1, 2):
        raise ValueError(f"lines go over one axis, for each value of a second; got {len(by)}")
    figure, axis = _begun(values, by)
    along = np.asarray(table[by[0]])
    if len(by) == 1:
        spread = values.stack(all=[d for d in values.dims if d != by[0]])
        ends = spread.min("all"), spread.max("all")
        axis.fill_between(along, *map(np.asarray, ends), color=LINE_COLOURS[0], lw=0, alpha=0.15)
    mean = _mean(values, by)
    for k, row in enumerate(np.asarray(mean).reshape(len(along), -1).T):
        name = f"{by[1]} = {float(table[by[1]][k]):.3g}" if len(by) == 2 else None
        colour = LINE_COLOURS[k % len(LINE_COLOURS)]
        axis.plot(along, row, color=colour, lw=1.6, marker="o", ms=3, label=name)
    if len(by) == 2:
        axis.legend(fontsize=7, frameon=False)
    axis.set_xlabel(label_of(table[by[0]]), fontsize=8)
    return figure


def _pairs(table: "Dataset", values: "DataArray", by: tuple[str, ...]) -> Any:
    """Scatter plots of each sampled number against each other one, the measure as colour.

    On the diagonal a number is drawn against the measure.
    """
    names = [
        str(n) for n, x in table.coords.items() if x.dims == (store.SAMPLE,) and n != store.SAMPLE
    ]
    if not names:
        raise ValueError("pairs are of a sample, and nothing was drawn; choose heat or lines")
    colour = np.asarray(_mean(values, (store.SAMPLE,)))
    side = PAIR * len(names)
    figure = new_figure(side + 1.2, side + 0.4)
    figure.suptitle(label_of(values), fontsize=9, x=0.02, ha="left", parse_math=False)
    shared: Any = None
    panels = []
    for row, down in enumerate(names):
        for column, along in enumerate(names[: row + 1]):
            axis: Any = figure.add_subplot(len(names), len(names), row * len(names) + column + 1)
            own = row == column
            height = colour if own else np.asarray(table[down])
            shared = axis.scatter(np.asarray(table[along]), height, c=colour, s=8, cmap="viridis")
            axis.set_xlabel(label_of(table[along]), fontsize=7)
            axis.set_ylabel(label_of(values) if own else label_of(table[down]), fontsize=7)
            axis.tick_params(labelsize=7, colors=SOFT)
            panels.append(axis)
    figure.colorbar(shared, ax=panels).ax.tick_params(labelsize=7, colors=SOFT)
    return figure
