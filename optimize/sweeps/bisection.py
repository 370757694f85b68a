"""Bisection in many cells at once, over steps of a grid.

Each cell is halved on its own: a step at which something held is its new lower end, one at which it
did not its upper end, until the two are neighbours. The property need not be monotone (a stronger
push may make a character step where a weaker one leaves it leaning); there may be other such
borders in a cell, and bisection finds one of them. So the next ``checks`` steps down the grid are
tried as well, and reported.
"""

from typing import Any, NamedTuple

import numpy as np

UNTRIED = -1


class Search(NamedTuple):
    """State of a bisection. Arrays of the cells (n,)."""

    low: np.ndarray  # step that held; -1 before any did
    high: np.ndarray  # step that did not; one above the last before any was seen
    tried: np.ndarray  # (steps, n) 1 held, 0 not, UNTRIED
    failed: np.ndarray  # how many runs were not finite

    def below(self, checks: int) -> np.ndarray:
        """Results (checks, n) at the next steps below ``low``; UNTRIED where there is none."""
        down = self.low - 1 - np.arange(checks)[:, None]
        held = np.take_along_axis(self.tried, np.maximum(down, 0), axis=0)
        return np.where(down < 0, UNTRIED, held)

    def next(self, checks: int) -> tuple[np.ndarray, np.ndarray]:
        """Cells (m,), each once, and steps (m,) of the next round; none at the end."""
        rank = np.arange(checks)[:, None]
        left = (self.below(checks) == UNTRIED) & (rank < self.low)
        first = np.where(left, rank, checks).min(axis=0, initial=checks)
        halved = self.high - self.low > 1
        steps = np.where(halved, (self.low + self.high) // 2, self.low - 1 - first)
        cells = np.flatnonzero(halved | (first < checks))
        return cells, steps[cells]

    def after(self, cells: np.ndarray, steps: np.ndarray, holds: Any, finite: Any) -> "Search":
        """State after a round: held and finite (m,) bool.

        A run that is not finite counts as one that did not hold.
        """
        low, high, tried, failed = (x.copy() for x in self)
        finite = np.asarray(finite, bool)
        holds = np.asarray(holds, bool) & finite
        failed[cells] += ~finite
        tried[steps, cells] = holds
        inside = (steps > low[cells]) & (steps < high[cells])  # else a check
        better, worse = inside & holds, inside & ~holds
        low[cells[better]], high[cells[worse]] = steps[better], steps[worse]
        return Search(low, high, tried, failed)


def nothing_tried(cells: int, top: int) -> Search:
    """State before the first round, of cells over steps 0 .. top."""
    return Search(
        low=np.full(cells, -1),
        high=np.full(cells, top + 1),
        tried=np.full((top + 1, cells), UNTRIED),
        failed=np.zeros(cells, int),
    )
