"""Member of a sweep by its coordinates, as a scenario to simulate and look at."""

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from optimize.results.folder import RunFolder
from optimize.scenarios.scenario import Scenario
from optimize.sweeps import store
from optimize.sweeps.sweep import Sweep, kept_sweep, open_sweep

if TYPE_CHECKING:
    from xarray import Dataset


class Member(NamedTuple):
    """Scenario of a member of a sweep, with its index and values.

    at: dimension -> index. told: its coordinates and measures in the sweep.
    """

    scenario: Scenario
    at: dict[str, int]
    told: dict[str, float]


def member(folder: str | os.PathLike, at: Mapping[str, float], what: Any = None) -> Member:
    """Member nearest to given coordinates; ``simulate(member(...).scenario)`` plays it.

    at: coordinate -> value, by name or a part of the name that no other has ("friction" for
    "model.friction"); "start" and "sample" by number. What is left out is 0 along its dimension,
    unless several values make that ambiguous. what: the Problem or Scenario, where the sweep was
    of one that was made in Python. Of a sweep with an edge the member is simulated at its own.

    Raises KeyError for an unknown coordinate, ValueError for one out of the range of the sweep or
    left out.
    """
    table = open_sweep(folder)
    run = RunFolder.open(folder)
    swept = kept_sweep(run, what)
    named = {_named(table, name): value for name, value in at.items()}
    index = _sampled(table, named) | _gridded(table, named)
    one = table.isel(index)
    figures = {str(n): float(one[n]) for n in (*one.coords, *one.data_vars) if one[n].ndim == 0}
    scenario = scenario_at(swept, index)
    if swept.edge is not None and math.isfinite(figures["edge"]):  # at the edge, or where it begins
        low, high = sorted((swept.edge.start, swept.edge.end))
        scenario = scenario.set(swept.edge_path, min(max(figures["edge"], low), high))
    return Member(scenario, index, figures)


def scenario_at(swept: Sweep, index: Mapping[str, int]) -> Scenario:
    """Scenario of one member of a sweep, by its index along each dimension."""
    design, problem = swept.design, swept.problem
    point = [index[dim] for dim in swept.layout.dims[:-1]]
    held = design.at(tuple(slice(k, k + 1) for k in point))
    start = index[store.START]
    scenario = problem.scenario.with_tree(
        {"state": jax.tree.map(lambda x: x[start], problem.starts())}
    )
    seconds = problem.steps * float(problem.scenario.scheme.dt)
    scenario = dataclasses.replace(scenario, seconds=seconds)
    for path, values in problem.varied().items():
        scenario = scenario.set(path, values[start])
    for name, values in held.items():
        scenario = scenario.set(swept.paths[name], values[0])
    return scenario


def _named(table: "Dataset", text: str) -> str:
    """Coordinate of a name, or of a part of a name that no other has."""
    names = [str(name) for name, x in table.coords.items() if x.ndim == 1]
    if text in names:
        return text
    matches = [name for name in names if text in name]
    if len(matches) == 1:
        return matches[0]
    told = f"{text!r} may be {', '.join(matches)}" if matches else f"no coordinate {text!r}"
    raise KeyError(f"{told}; the coordinates are: {', '.join(names)}")


def _sampled(table: "Dataset", at: Mapping[str, float]) -> dict[str, int]:
    """Sample nearest to given values, each number relative to its range."""
    if store.SAMPLE not in table.dims:
        return {}
    if store.SAMPLE in at:
        return {store.SAMPLE: _nearest(table, store.SAMPLE, at[store.SAMPLE])}
    drawn = [n for n, x in table.coords.items() if x.dims == (store.SAMPLE,) and n != store.SAMPLE]
    given = [name for name in drawn if name in at]
    if not given:
        raise ValueError(f"say which sample: by its number, or by {', '.join(map(str, drawn))}")
    away = np.zeros(table.sizes[store.SAMPLE])
    for name in given:
        values = np.asarray(table[name])
        _check_range(str(name), values, at[str(name)])
        away += ((values - at[str(name)]) / (np.ptp(values) or 1.0)) ** 2
    return {store.SAMPLE: int(away.argmin())}


def _gridded(table: "Dataset", at: Mapping[str, float]) -> dict[str, int]:
    indices = {}
    for dim in map(str, table["failed"].dims):
        if dim == store.SAMPLE:
            continue
        if dim in at:
            indices[dim] = _nearest(table, dim, at[dim])
        elif table.sizes[dim] == 1 or dim == store.START:
            indices[dim] = 0
        else:
            raise ValueError(f"say where along {dim}, which has {table.sizes[dim]} values")
    return indices


def _nearest(table: "Dataset", dim: str, value: float) -> int:
    values = np.asarray(table[dim])
    _check_range(dim, values, value)
    return int(np.abs(values - value).argmin())


def _check_range(name: str, values: np.ndarray, value: float) -> None:
    low, high = float(values.min()), float(values.max())
    slack = 1e-6 * max(abs(low), abs(high))
    if not low - slack <= value <= high + slack:
        raise ValueError(f"{name} is {value:g}; the sweep goes from {low:g} to {high:g}")
