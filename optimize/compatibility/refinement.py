"""Sampling by refinement: evenly over the space, then near the boundary of the learned volume."""

import numpy as np
from scipy.stats import qmc

from optimize.compatibility.space import Space
from optimize.compatibility.volume import machine

FIRST = 256  # points of the first batch, evenly over the space
BATCH = 128  # of each of the others, at least
GROWTH = 4  # a batch grows to this part of the points so far, by doubling: few machines are fitted
CANDIDATES = 32  # for each point of a batch, of which those nearest to the boundary are chosen
EDGE = 0.05  # candidates this part of a range beyond it lie at its end: where answers differ most
EXPLORED = 4  # one of so many points of a batch goes anywhere


class RefinementSampler:
    """Sampler by refinement: ``ask`` for points, ``tell`` their answers; reproducible by its seed.

    A batch after the first: of Sobol candidates those with the least decision of a support vector
    machine of all points so far, no two nearer than candidates lie to each other; and new Sobol
    points, so that no part of the space is given up.
    """

    def __init__(self, space: Space, seed: int, first: int = FIRST, batch: int = BATCH):
        self.space, self.first, self.batch = space, first, batch
        self.sobol = qmc.Sobol(space.size, rng=np.random.default_rng(seed))
        self.z, self.yes = np.zeros((0, space.size)), np.zeros(0, bool)

    def _even(self, count: int) -> np.ndarray:
        unit = self.sobol.random(count)
        return qmc.scale(unit, self.space.lower, self.space.upper)

    def ask(self) -> np.ndarray:
        """Sample points (m, d)."""
        if not len(self.yes):
            points = self._even(self.first)
        elif self.yes.all() or not self.yes.any():
            points = self._even(self.batch)
        else:
            batch = self.batch
            while GROWTH * 2 * batch <= len(self.yes):
                batch *= 2
            explored = batch // EXPLORED
            near = self._near_the_boundary(batch - explored, CANDIDATES * batch)
            points = np.concatenate([near, self._even(explored)])
        self._asked = points
        return points

    def _to_the_ends(self, points: np.ndarray) -> np.ndarray:
        """Spread even points beyond the ranges by ``EDGE``, and clip them there."""
        low, high = self.space.lower, self.space.upper
        return np.clip(points + 2 * EDGE * (points - (low + high) / 2), low, high)

    def _near_the_boundary(self, count: int, candidates: int) -> np.ndarray:
        points = self._to_the_ends(self._even(candidates))
        z = self.space.scaled(points)
        learned = machine().fit(self.z, self.yes)
        order = np.argsort(np.abs(learned.decision_function(z)), kind="stable")
        extent = self.space.scaled(self.space.upper - self.space.lower)
        apart = (np.prod(extent) / candidates) ** (1 / self.space.size)
        chosen: list[int] = []
        for k in order:
            if len(chosen) == count:
                break
            if not chosen or np.linalg.norm(z[chosen] - z[k], axis=1).min() > apart:
                chosen.append(int(k))
        return points[chosen]

    def tell(self, yes: np.ndarray) -> None:
        """Update by the answers to the points of the last ``ask``."""
        self.z = np.concatenate([self.z, self.space.scaled(self._asked)])
        self.yes = np.concatenate([self.yes, np.asarray(yes, bool)])
