"""Which of a search's members is handed out: the best as they are judged, the start among them.

A search simulates with coarser steps and fewer digits than its result is judged with, and follows
what these make of a motion. So the start, the means and the latest best members are judged alike,
by the trials of the search, and the best of them is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from optimize.interrupts import deferred
from optimize.problems.problem import Problem
from optimize.tuning.best import written_values
from optimize.tuning.evolution import EvolutionResult

MOTIONS, LEAST = 32, 8  # that are judged in all, and members at least
TOGETHER = 16  # motions in a call


@dataclass(frozen=True)
class Judged:
    """A member x (n,) of the optimiser, and what it is worth as it is judged.

    name: "start", or which of the search's members. total: None where its motion failed.
    """

    name: str
    x: np.ndarray
    total: float | None = None
    parts: Mapping[str, float | None] | None = None

    @property
    def worth(self) -> float:
        """Infinite where its motion failed."""
        return np.inf if self.total is None else self.total

    def as_json(self, objective: str) -> dict[str, Any]:
        """For result.json."""
        return {"name": objective, "total": self.total, "parts": dict(self.parts or {})}


@dataclass(frozen=True)
class Judgement:
    """start, chosen: of all that were judged; the chosen is the start where none is better. found:
    the member that the search found the best."""

    start: Judged
    chosen: Judged
    found: Judged
    count: int

    @property
    def gained(self) -> bool:
        """Whether a member is better than the start."""
        return self.chosen is not self.start


def candidates(runs: Sequence[EvolutionResult], most: int) -> list[Judged]:
    """At most so many: the start, the best and the mean of each run, the runs in their order; then
    earlier best members, half of them the latest, the others from the whole of the search."""
    found = [Judged("start", np.zeros_like(runs[0].best_x))]
    of = [f" of run {k}" if len(runs) > 1 else "" for k in range(len(runs))]
    earlier = []
    for run, own in zip(runs, of):
        found += [Judged(f"best{own}", run.best_x), Judged(f"mean{own}", run.mean)]
        earlier += [
            Judged(f"best of generation {r.generation}{own}", np.array(r.best_x))
            for r in run.history
            if r.best_x
        ]
    found = _distinct(found)[:most]
    earlier = _distinct([*found, *sorted(earlier, key=_generation)])[len(found) :]
    room = most - len(found)
    if len(earlier) > room:
        latest = room - room // 2
        before = earlier[: len(earlier) - latest]
        some = np.linspace(0, len(before) - 1, room // 2).round().astype(int)
        earlier = [before[k] for k in sorted({*some.tolist()})] + earlier[len(before) :]
    return [*found, *earlier]


def _generation(one: Judged) -> int:
    return int(one.name.split()[3])


def _distinct(members: Sequence[Judged]) -> list[Judged]:
    """Each x once, the first of them."""
    found: dict[bytes, Judged] = {}
    for one in members:
        found.setdefault(np.asarray(one.x, np.float32).tobytes(), one)
    return list(found.values())


def judge(
    search: Problem, fine: Problem, runs: Sequence[EvolutionResult], progress: bool
) -> Judgement:
    """The judgement of a search. fine: the problem as members are judged, under its precision;
    runs: the best one first. Ctrl-C ends it as KeyboardInterrupt."""
    motions = fine.trials * (1 + len(fine.also))
    asked = candidates(runs, max(LEAST, MOTIONS // motions))
    size = min(len(asked), max(1, TOGETHER // motions))
    values = np.stack([written_values(search, one.x) for one in asked])
    judged: list[Judged] = []
    with deferred() as check, _bar(len(asked), progress) as bar:
        for at in range(0, len(asked), size):
            rows = np.arange(at, at + size)
            rows[rows >= len(asked)] = 0
            found = fine.evaluate_values(values[rows])
            for k, one in enumerate(asked[at : at + size]):
                judged.append(_told(one, found, k, fine.objective.weights))
            bar.update(len(judged) - bar.n)
            check()
    chosen = min(judged, key=lambda one: one.worth)  # the first of equals: the start
    best = next((one for one in judged if one.name.startswith("best")), judged[0])
    return Judgement(judged[0], chosen, best, len(judged))


def _told(one: Judged, found: Any, k: int, weights: Mapping[str, float]) -> Judged:
    """With what it is worth."""
    total = float(np.asarray(found.fitness)[k])
    if np.asarray(found.failed)[k] or not np.isfinite(total):
        return one
    parts = {name: float(found.parts[name][k]) for name in weights if name in found.parts}
    return Judged(one.name, one.x, total, parts)


def _bar(count: int, progress: bool) -> tqdm:
    return tqdm(total=count, disable=not progress, unit="member", desc="judging")


def nothing_gained(judged: Judgement, how: str, search: tuple[Any, Any]) -> str:
    """What to say where the start is handed out. search: the objective before and after, as the
    search has them."""
    before, after = ("none" if x is None else f"{x:.5g}" for x in search)
    start, found = (
        "fails" if one.total is None else f"is {one.total:.5g}"
        for one in (judged.start, judged.found)
    )
    return (
        f"NOTHING GAINED: judged {how}, none of {judged.count - 1} members (the bests and means of"
        f" the search) is better than the start, whose numbers are handed out. The search went from"
        f" {before} to {after}; judged, its best {found} and the start {start}. A smaller step of"
        " the search (--dt), more --trials or a smaller --sigma may help"
    )
