"""Files of a push map: a table, a CSV, arrays, a polar plot."""

import csv
import io
import os
from dataclasses import replace
from typing import Any

import numpy as np

from jaxsim.io.files import write_arrays
from jaxsim.viewer.plots import LINE_COLOURS, SOFT, new_figure, save_figure
from optimize.problems.starts import spread_text
from optimize.results.folder import RunFolder
from optimize.studies.push_options import PushMap
from optimize.studies.push_plots import plot_varied
from optimize.sweeps.bisection import UNTRIED

TABLE, CSV, ARRAYS, PLOT = "push_map.txt", "push_map.csv", "push_map.npz", "push_map.png"
MOST_TOLD = 4  # changes of the scenario, in the title
PARTS = {"least": 0.0, "quarter": 0.25, "median": 0.5, "3 quarters": 0.75, "most": 1.0}
SIDES = {0: "forward", 90: "left", 180: "backward", 270: "right"}
PANEL = 4.0  # [inch]


def write_report(folder: RunFolder, result: PushMap) -> PushMap:
    """Write all files of a map; without matplotlib the plot is missing, and the result says so."""
    folder.write_text(TABLE, table(result) + "\n")
    folder.write_text(CSV, cells_csv(result))
    write_arrays(folder / ARRAYS, arrays(result))
    try:
        plot_push_map(folder / PLOT, result)
    except ImportError as error:
        return replace(result, missing=(f"no {PLOT}: {error}",))
    return result


def arrays(result: PushMap) -> dict[str, np.ndarray]:
    """Arrays of a map by name, see ``PushMap``; with quantiles (parts, ...) and varied numbers."""
    return {
        "tolerated": result.tolerated,
        "below": result.below,
        "failed": result.failed,
        "unsolved": result.unsolved,
        "residual": result.residual,
        "first_fall": result.first_fall,
        "quantiles": result.quantiles(tuple(PARTS.values())),
        "parts": np.array(tuple(PARTS.values())),
        "durations": np.array(result.options.durations),
        "directions_deg": result.options.directions_deg,
        **{name: np.array(values) for name, values in (result.options.vary or {}).items()},
    }


def title(result: PushMap) -> str:
    """Title of a map: its scenario and the changes to it."""
    changes = {**(result.options.set or {}), **(result.options.numbers or {})}
    settings = [f"{key} = {value}" for key, value in list(changes.items())[:MOST_TOLD]]
    more = [f"and {len(changes) - MOST_TOLD} more numbers"] if len(changes) > MOST_TOLD else []
    return ", ".join([f"scenario {result.options.scenario}", *settings, *more])


def table(result: PushMap) -> str:
    """Format quantiles of the tolerated push over the starts, with notes."""
    o = result.options
    names = [name.split(".")[-1] for name in o.vary or {}]
    lines = [
        f"Largest push at the {o.link} that is survived [N]: {title(result)}",
        f"{o.starts} starts (seed {o.seed}), steps of {o.resolution:g} N up to {o.strongest:g} N,"
        f" standing {o.seconds:g} s after the push",
        f"starts: {spread_text()}",
        *([f"scheme: {result.settings}"] if result.settings else []),
        "",
        "".join(f"{name:>10}  " for name in names)
        + f"{'duration':>8}  {'direction':>14}  "
        + "  ".join(f"{name:>10}" for name in PARTS)
        + "  first fall  weaker not",
    ]
    quantiles = result.quantiles(tuple(PARTS.values()))
    first = result.first_fall.min(axis=-1)
    weaker = (result.below == 0).any(axis=0).sum(axis=-1)
    for at in np.ndindex(first.shape):
        *index, d, k = at
        angle = float(o.directions_deg[k])
        name = f"{SIDES.get(round(angle), '')} {angle:.0f} deg".strip()
        own = "".join(f"{x:10g}  " for x in o.values_at(tuple(index)).values())
        row = "  ".join(f"{x:10.0f}" for x in quantiles[(slice(None), *at)])
        lines.append(
            f"{own}{o.durations[d]:6.2f} s  {name:>14}  {row}  {first[at]:10.0f}  {weaker[at]:10d}"
        )
    return "\n".join([*lines, "", *notes(result)])


def notes(result: PushMap) -> list[str]:
    """Notes on exceptions that a table hides."""
    o = result.options
    out = ["first fall: the weakest force that is known to have made one of the starts fall"]
    out += [f"weaker not: starts that did not survive one of the {o.checks} next weaker forces"]
    out.append(unsolved_note(result))
    ceiling = int((result.tolerated == o.top * o.resolution).sum())
    if ceiling:
        out.append(f"{ceiling} of {result.tolerated.size} cells survived the strongest push")
    for kind, mask in (
        ("fell without a push, counted as 0 N", np.isnan(result.tolerated)),
        ("were not finite in some runs, counted as falls", result.failed > 0),
    ):
        where = np.argwhere(mask)
        if len(where):
            some = ", ".join(str(tuple(map(int, at))) for at in where[:16])
            more = f" and {len(where) - 16} more" if len(where) > 16 else ""
            axes = ", ".join([*(o.vary or {}), "duration, direction, start"])
            out.append(f"{len(where)} cells ({axes}) {kind}: {some}{more}")
    return out


def unsolved_note(result: PushMap) -> str:
    """Note on the frames that were not solved, and their largest force without a source."""
    return (
        f"{result.unsolved.sum()} frames of all runs were not solved by the optimisation, in"
        f" {(result.unsolved > 0).sum()} of {result.unsolved.size} cells; the largest force without"
        f" a source at the root was {result.residual.max():.2g} N"
    )


def cells_csv(result: PushMap) -> str:
    """Format a CSV with a line for each cell; empty where a number is not known."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    checks = [f"survived_{k + 1}_weaker" for k in range(len(result.below))]
    out.writerow(
        [
            *(result.options.vary or {}),
            "duration_s",
            "direction_deg",
            "start",
            "tolerated_N",
            *checks,
            "runs_not_finite",
            "frames_unsolved",
            "force_without_source_N",
        ]
    )
    o = result.options
    for at in np.ndindex(result.tolerated.shape):
        *index, d, k, s = at
        force = result.tolerated[at]
        below = ["" if b == UNTRIED else int(b) for b in result.below[(slice(None), *at)]]
        varied = [f"{x:g}" for x in o.values_at(tuple(index)).values()]
        row = [o.durations[d], f"{o.directions_deg[k]:g}", s, "" if np.isnan(force) else force]
        counts = result.failed[at], result.unsolved[at], f"{result.residual[at]:.4g}"
        out.writerow([*varied, *row, *below, *counts])
    return text.getvalue()


def plot_push_map(path: str | os.PathLike, result: PushMap) -> None:
    """Plot a panel for each duration; over varied numbers see ``push_plots``.

    Raises ImportError without matplotlib.
    """
    if result.options.vary:
        plot_varied(path, result, title(result))
    else:
        plot_around(path, result)


def plot_around(path: str | os.PathLike, result: PushMap) -> None:
    """Polar plot of a map: the median over the starts, the quartiles and the extremes as bands.

    Forward is up, left is left.
    """
    o = result.options
    figure = new_figure(PANEL * len(o.durations), PANEL + 0.5)
    head = f"Largest push survived [N]\n{title(result)}; {o.starts} starts"
    figure.suptitle(head, fontsize=10, x=0.02, ha="left", parse_math=False)
    around = np.deg2rad(np.append(o.directions_deg, 360.0))
    quantiles = result.quantiles(tuple(PARTS.values()))
    closed = np.concatenate([quantiles, quantiles[:, :, :1]], axis=2)
    fall = np.minimum(result.first_fall.min(axis=-1), o.strongest)
    first = np.concatenate([fall, fall[:, :1]], axis=1)
    for d, duration in enumerate(o.durations):
        axis: Any = figure.add_subplot(1, len(o.durations), d + 1, projection="polar")
        least, quarter, median, three, most = closed[:, d]
        colour = LINE_COLOURS[d % len(LINE_COLOURS)]
        band: dict[str, Any] = {"color": colour, "lw": 0}
        axis.fill_between(around, least, most, **band, alpha=0.15, label="all starts")
        axis.fill_between(around, quarter, three, **band, alpha=0.3, label="half of them")
        axis.plot(around, first[d], color=SOFT, lw=1.0, ls="--", label="a fall from here")
        axis.plot(around, median, color=colour, lw=1.6, marker="o", ms=3, label="median")
        axis.set_theta_zero_location("N")
        axis.set_ylim(0, max(closed.max() * 1.05, o.resolution))
        axis.set_xticks(np.deg2rad([0, 90, 180, 270]), ["forward", "left", "backward", "right"])
        axis.set_rlabel_position(112.5)
        axis.tick_params(labelsize=8, colors=SOFT)
        axis.set_title(f"for {duration:g} s", fontsize=10, parse_math=False)
        axis.legend(loc="lower left", bbox_to_anchor=(-0.12, -0.16), fontsize=7, frameon=False)
    save_figure(path, figure)
