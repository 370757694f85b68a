"""Problem whose members are simulated by several workers, to the same bits."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from optimize.problems.problem import Problem
from optimize.running.cluster import Workers, each


@dataclass(frozen=True)
class Distributed(Problem):
    """Problem whose ``outcomes`` are simulated by workers, an equal share of the members each.

    Aggregation, early stopping and derivatives stay in this process.
    """

    workers: Workers | None = None

    @cached_property
    def _alone(self) -> Problem:
        return Problem(**{own.name: getattr(self, own.name) for own in fields(Problem)})

    def outcomes(
        self, x: np.ndarray, generation: int = 0, which: slice = slice(None)
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outcomes of trials, see ``Problem.outcomes``.

        All shares have one size, for one program.
        """
        size = -(-len(x) // (self.workers.count if self.workers else 1))
        index = np.arange(size * -(-len(x) // size))
        index[len(x) :] = 0  # whose outcomes are left out again
        calls = [(x[own], generation, which) for own in index.reshape(-1, size)]
        found = list(each(self.workers, self._alone.outcomes, calls))
        parts, good = zip(*found)
        named = {name: np.concatenate([p[name] for p in parts])[: len(x)] for name in parts[0]}
        return named, np.concatenate(good)[: len(x)]


def distribute(problem: Problem, workers: Workers | None) -> Problem:
    """Problem on workers; unchanged where there are none."""
    if workers is None:
        return problem
    own = {each.name: getattr(problem, each.name) for each in fields(Problem)}
    return Distributed(**own, workers=workers)
