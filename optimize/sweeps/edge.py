"""How far one number may go before something no longer holds, for each member of a sweep."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optimize.problems.problem import Problem
from optimize.running.objectives import FILE
from optimize.sweeps.bisection import nothing_tried
from optimize.sweeps.measures import Columns

HALF = 0.5  # of a measure that is yes or no: above, it holds


@dataclass(frozen=True)
class Edge:
    """The last value of a number, on its way from ``start`` to ``end``, at which something holds.

    number: label or path; one value for all numbers of the path. parts: steps of the grid between.
    holds: a measure of the sweep that is 1 where it does. checks: values before the last that are
    tried too, for there may be holes (``optimize.sweeps.bisection``). Raises ValueError for numbers
    that make no sense.

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

    def __post_init__(self):
        ends = self.start, self.end
        if not all(map(math.isfinite, ends)) or self.start == self.end:
            raise ValueError(f"edge: {self.number} goes from {ends[0]} to {ends[1]}; give two ends")
        if self.parts < 1 or self.checks < 0:
            raise ValueError(
                f"edge: parts is {self.parts}, checks {self.checks}; give at least 1 and 0"
            )

    @property
    def grid(self) -> np.ndarray:
        """(parts + 1,) the values that are tried."""
        return np.linspace(self.start, self.end, self.parts + 1)

    @property
    def measure(self) -> str:
        """The name of what holds, also of a file's: "my_file.py:name"."""
        return self.holds.rpartition(":")[2] if FILE in self.holds else self.holds

    def as_json(self) -> dict[str, Any]:
        """For config.json."""
        return asdict(self)


@dataclass(frozen=True)
class Edges:
    """Finds the edges of members: called as ``Problem.outcomes_at``.

    Gives ``edge`` (P, trials), the last value at which it holds, one part before ``start`` where it
    does not even there; ``holes``, how many of the values tried before that do not; ``beyond``, 1
    where it holds at ``end``, and the edge lies further on. What is not finite does not hold; a
    member that never was is not whole.
    """

    problem: Problem
    columns: Columns
    path: str
    edge: Edge

    def __call__(
        self, numbers: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        shape = len(next(iter(numbers.values()))), self.problem.trials
        grid, top, cells = self.edge.grid, self.edge.parts, math.prod(shape)
        search, runs = nothing_tried(cells, top), np.zeros(cells, int)
        while (ahead := search.next(self.edge.checks))[0].size:
            # Of checks a cell may have several in a round: one is done, the rest in the next.
            which, first = np.unique(ahead[0], return_index=True)
            at = np.maximum(search.low, 0)  # of cells that are done: any
            at[which] = ahead[1][first]
            parts, good = self.problem.outcomes_at(numbers, {self.path: grid[at].reshape(shape)})
            held = self.columns.of(parts)[self.edge.measure] > HALF
            runs[which] += 1
            of = held.reshape(-1)[which], good.reshape(-1)[which]
            search = search.after(which, at[which], *of)
        below = search.below(self.edge.checks)
        step = grid[1] - grid[0]
        found = {
            "edge": np.where(search.low < 0, self.edge.start - step, grid[search.low]),
            "holes": (below == 0).sum(axis=0).astype(float),
            "beyond": (search.low == top).astype(float),
        }
        whole = search.failed < np.maximum(runs, 1)
        return {name: x.reshape(shape) for name, x in found.items()}, whole.reshape(shape)
