"""Final evaluation of a search: the best of its members under fine settings, the start among them.

A search simulates with coarser steps and fewer digits than its result is evaluated with, and
exploits what these make of a motion. So the start, the means and the latest best members are
evaluated alike, by the trials of the search, and the best of them is returned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from optimize.interrupts import defer_interrupts
from optimize.problems.problem import Problem
from optimize.tuning.best import values_of
from optimize.tuning.evolution import EvolutionResult

MOTIONS, LEAST = 32, 8  # simulated motions in all, and members at least
TOGETHER = 16  # motions in a call


@dataclass(frozen=True)
class Candidate:
    """Member x (n,) of the optimiser, with its objective in the final evaluation.

    name: "start", or which of the search's members. total: None where its motion failed.
    """

    name: str
    x: np.ndarray
    total: float | None = None
    parts: Mapping[str, float | None] | None = None

    @property
    def worth(self) -> float:
        """Objective for ranking; infinite where the motion failed."""
        return np.inf if self.total is None else self.total

    def as_json(self, objective: str) -> dict[str, Any]:
        """Dictionary for result.json."""
        return {"name": objective, "total": self.total, "parts": dict(self.parts or {})}


@dataclass(frozen=True)
class FinalEvaluation:
    """Result of the final evaluation: the start and the best, which may be the start.

    start, chosen: among all evaluated members; chosen is the start where none is better. found: the
    member that the search ranked best.
    """

    start: Candidate
    chosen: Candidate
    found: Candidate
    count: int

    @property
    def gained(self) -> bool:
        """True if a member is better than the start."""
        return self.chosen is not self.start


def candidates(runs: Sequence[EvolutionResult], most: int) -> list[Candidate]:
    """Members to evaluate, at most ``most``: start, best and mean of each run, then earlier bests.

    Runs keep their order; of the earlier best members half are the latest, the others spread over
    the whole search.
    """
    members = [Candidate("start", np.zeros_like(runs[0].best_x))]
    of = [f" of run {k}" if len(runs) > 1 else "" for k in range(len(runs))]
    earlier = []
    for run, own in zip(runs, of):
        members += [Candidate(f"best{own}", run.best_x), Candidate(f"mean{own}", run.mean)]
        earlier += [
            Candidate(f"best of generation {r.generation}{own}", np.array(r.best_x))
            for r in run.history
            if r.best_x
        ]
    members = _distinct(members)[:most]
    earlier = _distinct([*members, *sorted(earlier, key=_generation)])[len(members) :]
    room = most - len(members)
    if len(earlier) > room:
        latest = room - room // 2
        before = earlier[: len(earlier) - latest]
        some = np.linspace(0, len(before) - 1, room // 2).round().astype(int)
        earlier = [before[k] for k in sorted({*some.tolist()})] + earlier[len(before) :]
    return [*members, *earlier]


def _generation(member: Candidate) -> int:
    return int(member.name.split()[3])


def _distinct(members: Sequence[Candidate]) -> list[Candidate]:
    """Members without duplicates of x, the first of each kept."""
    distinct: dict[bytes, Candidate] = {}
    for member in members:
        distinct.setdefault(np.asarray(member.x, np.float32).tobytes(), member)
    return list(distinct.values())


def evaluate_candidates(
    search: Problem, fine: Problem, runs: Sequence[EvolutionResult], progress: bool
) -> FinalEvaluation:
    """Evaluate the candidates of a search and return the best.

    fine: the problem with the settings of the evaluation, under its precision; runs: the best one
    first. Ctrl-C ends it as KeyboardInterrupt.
    """
    motions = fine.trials * (1 + len(fine.others))
    members = candidates(runs, max(LEAST, MOTIONS // motions))
    size = min(len(members), max(1, TOGETHER // motions))
    source = search.scenario.number_source
    rows_of = (values_of(search, source, member.x).values() for member in members)
    values = np.array([list(row) for row in rows_of])
    evaluated: list[Candidate] = []
    with defer_interrupts() as check, _bar(len(members), progress) as bar:
        for at in range(0, len(members), size):
            rows = np.arange(at, at + size)
            rows[rows >= len(members)] = 0
            evaluation = fine.evaluate_values(values[rows])
            for k, member in enumerate(members[at : at + size]):
                evaluated.append(_told(member, evaluation, k, fine.objective.weights))
            bar.update(len(evaluated) - bar.n)
            check()
    chosen = min(evaluated, key=lambda member: member.worth)  # the first of equals: the start
    best = next((member for member in evaluated if member.name.startswith("best")), evaluated[0])
    return FinalEvaluation(evaluated[0], chosen, best, len(evaluated))


def _told(member: Candidate, evaluation: Any, k: int, weights: Mapping[str, float]) -> Candidate:
    """Candidate k with its total and terms; unchanged where its motion failed."""
    total = float(np.asarray(evaluation.fitness)[k])
    if np.asarray(evaluation.failed)[k] or not np.isfinite(total):
        return member
    parts = {name: float(evaluation.parts[name][k]) for name in weights if name in evaluation.parts}
    return Candidate(member.name, member.x, total, parts)


def _bar(count: int, progress: bool) -> tqdm:
    return tqdm(total=count, disable=not progress, unit="member", desc="final evaluation")


def nothing_gained(evaluation: FinalEvaluation, how: str, search: tuple[Any, Any]) -> str:
    """Message for a search whose start is returned because no member is better.

    search: the objective before and after, as the search computed them.
    """
    before, after = ("none" if x is None else f"{x:.5g}" for x in search)
    start, best = (
        "fails" if member.total is None else f"is {member.total:.5g}"
        for member in (evaluation.start, evaluation.found)
    )
    return (
        f"NOTHING GAINED: evaluated {how}, none of {evaluation.count - 1} candidates (the bests and"
        " means of the search) is better than the start, whose numbers are the result. The search"
        f" went from {before} to {after}; in this evaluation its best {best} and the start {start}."
        " A smaller step of the search (--dt), more --trials or a smaller --sigma may help"
    )
