"""Bisection in many cells at once, over steps of a grid.

Each cell is halved on its own: a step at which something held is its new lower end, one at which it
did not its upper end, until the two are neighbours. What is looked for need not be monotone (a
stronger push may make a character step where a weaker one leaves it leaning); there may be other
such borders in a cell, and bisection finds one of them. So the next ``checks`` steps down the grid
are tried as well, and told.
"""

from typing import Any, NamedTuple

import numpy as np

UNTRIED = -1


class Search(NamedTuple):
    """Where a bisection stands. Arrays of the cells (n,)."""

    low: np.ndarray  # step that held; -1 before any did
    high: np.ndarray  # step that did not; one above the last before any was seen
    tried: np.ndarray  # (steps, n) 1 held, 0 not, UNTRIED
    failed: np.ndarray  # how many runs were not finite
    unsolved: np.ndarray  # frames whose optimisation was not solved, of all runs
    residual: np.ndarray  # largest root residual of all runs [N]

    def below(self, checks: int) -> np.ndarray:
        """(checks, n) of ``tried``: the next steps below ``low``; UNTRIED where there is none."""
        down = self.low - 1 - np.arange(checks)[:, None]
        held = np.take_along_axis(self.tried, np.maximum(down, 0), axis=0)
        return np.where(down < 0, UNTRIED, held)

    def next(self, checks: int) -> tuple[np.ndarray, np.ndarray]:
        """Cells (m,) and steps (m,) of the next round; none at the end."""
        cells = np.flatnonzero(self.high - self.low > 1)
        if cells.size:
            return cells, (self.low + self.high)[cells] // 2
        down = self.low - 1 - np.arange(checks)[:, None]
        row, cells = np.nonzero((self.below(checks) == UNTRIED) & (down >= 0))
        return cells, down[row, cells]

    def after(
        self,
        cells: np.ndarray,
        steps: np.ndarray,
        held: Any,
        finite: Any,
        unsolved: Any = 0,
        residual: Any = 0.0,
    ) -> "Search":
        """With what a round found: held and finite (m,) bool, and if it tells what the solver said,
        unsolved (m,) int frames, residual (m,) largest [N]. What is not finite did not hold."""
        low, high, tried, failed, all_unsolved, largest = (x.copy() for x in self)
        np.add.at(all_unsolved, cells, unsolved)
        np.maximum.at(largest, cells, residual)
        finite = np.asarray(finite, bool)
        held = np.asarray(held, bool) & finite
        np.add.at(failed, cells, ~finite)
        tried[steps, cells] = held
        inside = (steps > low[cells]) & (steps < high[cells])  # else a check
        better, worse = inside & held, inside & ~held
        low[cells[better]], high[cells[worse]] = steps[better], steps[worse]
        return Search(low, high, tried, failed, all_unsolved, largest)

    def rounds_left(self) -> int:
        """At most, one of checks among them."""
        widest = int((self.high - self.low).max())
        return (widest - 1).bit_length() + 1


def nothing_tried(cells: int, top: int) -> Search:
    """Of so many cells, over steps 0 .. top."""
    return Search(
        low=np.full(cells, -1),
        high=np.full(cells, top + 1),
        tried=np.full((top + 1, cells), UNTRIED),
        failed=np.zeros(cells, int),
        unsolved=np.zeros(cells, int),
        residual=np.zeros(cells),
    )
