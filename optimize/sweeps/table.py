"""Summary of a sweep, its CSV, and its failed members."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim.io.files import naming
from optimize.sweeps import store
from optimize.sweeps.measures import UNSOLVED

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataArray, Dataset

ROWS = 100_000  # of a CSV that are in memory at a time
TOLD = 8  # members that failed, by name


def measures_in(table: "Dataset") -> list[str]:
    """Names of the measures of a sweep."""
    return [str(name) for name in table.data_vars if name != store.FAILED]


def measure_in(table: "Dataset", name: str) -> "DataArray":
    """Array of one measure. Raises KeyError, naming all, for another name."""
    known = measures_in(table)
    if name not in known:
        raise KeyError(f"no measure {name!r} in this sweep; there are: {', '.join(known)}")
    return table[name]


def failed_members(table: "Dataset") -> "DataFrame":
    """Coordinates of members whose motion diverged, by their number.

    The number is the place in the array, the last axis fastest.
    """
    import pandas

    failed = np.asarray(table[store.FAILED])
    members = np.flatnonzero(failed)
    at = dict(zip(table[store.FAILED].dims, np.unravel_index(members, failed.shape)))
    columns = {
        str(name): np.asarray(values)[at[values.dims[0]]]
        for name, values in table.coords.items()
        if values.ndim == 1
    }
    return pandas.DataFrame(columns, index=pandas.Index(members, name="member"))


def write_csv(path: str | os.PathLike, table: "Dataset") -> None:
    """Write a CSV with a line for each member: its coordinates, then its measures.

    At most ``ROWS`` lines are in memory, or one step along the first axis.
    """
    dims = tuple(map(str, table[store.FAILED].dims))
    sizes = [table.sizes[dim] for dim in dims]
    step = max(1, ROWS // max(1, int(np.prod(sizes[1:]))))
    part = f"{os.fspath(path)}.part"
    with naming(path):
        try:
            with open(part, "w", encoding="utf-8", newline="") as file:
                for first in range(0, sizes[0], step):
                    some = table.isel({dims[0]: slice(first, first + step)})
                    frame = some.to_dataframe(dim_order=list(dims))
                    frame.to_csv(file, header=first == 0, lineterminator="\n")
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)


def summary(table: "Dataset") -> str:
    """Format the number of members and failures, and the range of each measure with its ends."""
    failed = np.asarray(table[store.FAILED])
    axes = " x ".join(f"{table.sizes[dim]} {dim}" for dim in table[store.FAILED].dims)
    lines = [f"{failed.size} members: {axes}", *_failed_lines(table, failed)]
    rows: list[tuple[str, ...]] = [("", "least", "median", "most", "least at", "most at")]
    for name in measures_in(table):
        values = np.asarray(table[name])
        if not np.isfinite(values).any():
            continue
        unit = table[name].attrs.get("units", "")
        ends = np.nanargmin(values), np.nanargmax(values)
        figures = (np.nanmin(values), np.nanmedian(values), np.nanmax(values))
        label = f"{name} [{unit}]" if unit else name
        rows.append((label, *(f"{x:.4g}" for x in figures), *(_at(table, int(k)) for k in ends)))
    widths = [max(len(row[k]) for row in rows) for k in range(6)]
    for label, *figures in rows:
        cells = [f"{cell:>{w}}" for cell, w in zip(figures[:3], widths[1:])]
        ends = [f"{cell:<{w}}" for cell, w in zip(figures[3:], widths[4:])]
        lines.append("  ".join([f"{label:<{widths[0]}}", *cells, *ends]).rstrip())
    return "\n".join(lines)


def unsolved_note(table: "Dataset") -> str:
    """Note on unsolved steps; empty where all were solved, or nothing is optimised."""
    for count, force in (tuple(UNSOLVED), tuple(UNSOLVED.values())):
        if count in table and force in table:
            steps, most = np.asarray(table[count]), np.asarray(table[force])
            if np.nansum(steps) > 0:
                return (
                    f"{np.nansum(steps):g} steps were not solved by the optimisation, of"
                    f" {(steps > 0).sum()} of {steps.size} members; the largest force without a"
                    f" source at the root was {np.nanmax(most):.3g} N ({count}, {force})"
                )
    return ""


def _failed_lines(table: "Dataset", failed: np.ndarray) -> list[str]:
    members = np.flatnonzero(failed)
    if not members.size:
        return ["none failed"]
    shown = [f"  {k}: {_at(table, int(k))}" for k in members[:TOLD]]
    more = [f"  and {members.size - TOLD} more"] if members.size > TOLD else []
    return [
        f"{members.size} failed: their motion diverged, their measures are NaN:",
        *shown,
        *more,
    ]


def _at(table: "Dataset", member: int) -> str:
    """Format the coordinates of a member for a reader."""
    dims = table[store.FAILED].dims
    place = np.unravel_index(member, [table.sizes[dim] for dim in dims])
    one: Any = table.coords.to_dataset().isel(dict(zip(dims, map(int, place))))
    several = {dim for dim in dims if table.sizes[dim] > 1}
    shown = [
        f"{name}={float(one[name]):.4g}"
        for name, values in table.coords.items()
        if values.ndim == 1 and values.dims[0] in several and name != store.SAMPLE
    ]
    return ", ".join(shown)
