"""Edge of a number for each member of a sweep: how far it may go until a condition fails."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from optimize.problems.problem import Problem
from optimize.running.objectives import FILE, Term
from optimize.sweeps.bisection import UNTRIED, Search, nothing_tried
from optimize.sweeps.measures import UNSOLVED, Columns

HALF = 0.5  # of a measure that is yes or no: above, it holds


@dataclass(frozen=True)
class Edge:
    """Last value of a number, on its way from ``start`` to ``end``, at which a measure holds.

    number: label or path; one value for all numbers of the path. parts: steps of the grid between.
    holds: a measure of the sweep that is 1 where it does. checks: values before the last that are
    tried too, for there may be holes (``optimize.sweeps.bisection``). total, largest: other
    measures, of which the sum and the largest of all values tried are reported. Raises ValueError
    for numbers that make no sense, and for a measure that is reported twice.

    >>> push = Edge("forces.force[0,0]", 0.0, 600.0, parts=24, holds="standing")
    >>> push.grid[1]
    np.float64(25.0)
    """

    number: str
    start: float
    end: float
    parts: int = 32
    holds: str = "standing"
    checks: int = 2
    total: tuple[str, ...] = ()
    largest: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("total", "largest"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        ends = self.start, self.end
        if not all(map(math.isfinite, ends)) or self.start == self.end:
            raise ValueError(f"edge: {self.number} goes from {ends[0]} to {ends[1]}; give two ends")
        if not (self.parts >= 1 and self.checks >= 0):
            raise ValueError(
                f"edge: parts is {self.parts}, checks {self.checks}; give at least 1 and 0"
            )
        told = [*self.found, *map(measure_name, (*self.total, *self.largest))]
        twice = sorted({name for name in told if told.count(name) > 1})
        if twice:
            raise ValueError(f"edge: {', '.join(twice)} would be told twice; name it once")

    @property
    def grid(self) -> np.ndarray:
        """Values (parts + 1,) that are tried."""
        return np.linspace(self.start, self.end, self.parts + 1)

    @property
    def measures(self) -> list[str]:
        """Measures of every value that is tried."""
        return list(dict.fromkeys((self.holds, *self.total, *self.largest)))

    @property
    def found(self) -> tuple[str, ...]:
        """Names that are reported beside total and largest, see ``Edges``."""
        before = (f"before_{k + 1}" for k in range(self.checks))
        return "edge", "holes", "beyond", "not_finite", *before

    def as_json(self) -> dict[str, Any]:
        """Dictionary for config.json."""
        return asdict(self)


def with_unsolved(edge: Edge, known: Mapping[str, Term]) -> Edge:
    """Edge that also reports unsolved steps, where the scheme optimises.

    These are how many steps were not solved in all runs, and the largest force without a source in
    them. known: the measures by name.
    """
    if not set(UNSOLVED) <= set(known):
        return edge
    holds = known.get(edge.holds)
    while_standing = holds is not None and holds.measure is None
    count, force = UNSOLVED.values() if while_standing else UNSOLVED
    told = {*edge.measures}
    return replace(
        edge,
        total=(*edge.total, *({count} - told)),
        largest=(*edge.largest, *({force} - told)),
    )


def measure_name(measure: str) -> str:
    """Name of a measure, also of a file's: "my_file.py:name"."""
    return measure.rpartition(":")[2] if FILE in measure else measure


@dataclass(frozen=True)
class Edges:
    """Finder of the edges of members, called as ``Problem.outcomes_at`` is.

    Gives ``edge`` (P, trials), the last value at which it holds, one part before ``start`` where it
    does not even there; ``holes``, how many of the values tried before that do not; ``beyond``, 1
    where it holds at ``end``, and the edge lies further on; ``before_1``, ..., whether it holds so
    many parts before the edge, NaN where there is no such value. A run that is not finite does not
    hold; a member that never was finite is not whole, and all of these are NaN. Of all values tried
    ``not_finite`` are how many were not, and ``total`` and ``largest`` of the edge what they say,
    NaN where no value is finite.
    """

    problem: Problem
    columns: Columns
    path: str
    edge: Edge

    def __call__(
        self, numbers: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        trials, edge = self.problem.trials, self.edge
        shape = len(next(iter(numbers.values()))), trials
        search = nothing_tried(shape[0] * trials, edge.parts)
        tallies = {name: np.full(shape[0] * trials, np.nan) for name in self._folds}
        while (ahead := search.next(edge.checks))[0].size:
            cells, steps = ahead
            own = {path: values[cells // trials] for path, values in numbers.items()}
            own[self.path] = edge.grid[steps]
            parts, good = self.problem.outcomes_of(own, cells % trials)
            measured, sound = self.columns.of(parts), self.columns.sound(parts, good)
            holds = measure_name(edge.holds)
            search = search.after(cells, steps, measured[holds] > HALF, sound[holds])
            for name, fold in self._folds.items():
                own = np.where(sound[name], measured[name], np.nan)
                tallies[name][cells] = fold(tallies[name][cells], own)
        whole = search.failed < (search.tried != UNTRIED).sum(axis=0)
        found = self._found(search)
        found = {name: np.where(whole, x, np.nan) for name, x in found.items()}
        found |= {"not_finite": search.failed.astype(float), **tallies}
        return {name: x.reshape(shape) for name, x in found.items()}, whole.reshape(shape)

    @property
    def _folds(self) -> dict[str, Callable[..., np.ndarray]]:
        """Fold of each reported measure over the tried values; not finite values are ignored."""
        folds = {measure_name(name): _sum for name in self.edge.total}
        return folds | {measure_name(name): _largest for name in self.edge.largest}

    def _found(self, search: Search) -> dict[str, np.ndarray]:
        """Results of a finished bisection for each cell."""
        edge, below = self.edge, search.below(self.edge.checks)
        first = edge.start - (edge.grid[1] - edge.grid[0])
        return {
            "edge": np.where(search.low < 0, first, edge.grid[search.low]),
            "holes": (below == 0).sum(axis=0),
            "beyond": search.low == edge.parts,
            **{
                f"before_{k + 1}": np.where(held == UNTRIED, np.nan, held)
                for k, held in enumerate(below)
            },
        }


def _sum(so_far: np.ndarray, more: np.ndarray) -> np.ndarray:
    both = np.nan_to_num(so_far) + more
    return np.where(np.isfinite(more), both, so_far)


def _largest(so_far: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.fmax(so_far, np.where(np.isfinite(more), more, np.nan))
