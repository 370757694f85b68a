"""Robust search: new trials in every generation, and a mean chosen by many other starts.

The best member of such a generation was also lucky in its trials. The result is therefore a mean of
the search distribution: every ``EVERY`` generations it is evaluated from many starts, with the time
step of the final evaluation in float64, and of those that end standing in nearly all of them the
best is chosen. That one is evaluated again from as many other starts.
"""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from optimize.problems.fitness import successes
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.tuning.checkpoint import has_begun
from optimize.tuning.evolution import EvolutionResult, evolve_runs
from optimize.tuning.names import CHECKS

EVERY = 20  # generations


@dataclass(frozen=True)
class Check:
    """Evaluation of a mean of the search distribution from many starts.

    ``ok`` of ``starts`` end standing; total: the median of the objective over these, parts: of its
    terms (infinite and empty where none does). x: (n,) in the optimiser's coordinates.
    """

    generation: int
    ok: int
    starts: int
    total: float | None
    parts: dict[str, float]
    x: list[float]


def evaluate_mean(problem: Problem, x: np.ndarray, generation: int) -> Check:
    """Evaluate a mean by the trials of a problem, in its own precision, on the CPU.

    All that stayed finite count as successes where the objective has no term for that.
    """
    precise = problem.scenario.model.mass.dtype == np.float64
    with jax.enable_x64(precise), jax.default_device(jax.local_devices(backend="cpu")[0]):
        values = np.asarray(problem.tunables.decode(np.asarray(x, float)))
        parts, good = problem.outcomes(values[None])
    ok = successes(parts)
    ok = (good if ok is None else ok & good)[0]
    own = {name: parts[name][0][ok] for name in problem.objective.weights}
    totals = np.asarray(problem.objective.total(own))
    return Check(
        generation,
        int(ok.sum()),
        problem.trials,
        float(np.median(totals)) if ok.any() else None,
        {name: float(np.median(part)) for name, part in own.items()} if ok.any() else {},
        np.asarray(x, float).tolist(),
    )


def choose(checks: list[Check], success_rate: float) -> Check:
    """Check with the lowest total of those with a share ``success_rate`` of successes.

    Where none has that share: the check with the most successes.
    """
    enough = [c for c in checks if c.total is not None and c.ok >= success_rate * c.starts]
    if enough:
        return min(enough, key=lambda c: c.total or 0.0)
    return max(checks, key=lambda c: c.ok)


def robust_search(
    problem: Problem,
    fine: Problem,
    folder: RunFolder,
    generations: int,
    resume: bool,
    success_rate: float,
    on_check: Callable[[Check], None],
    **search: Any,
) -> tuple[EvolutionResult, Check | None, Check | None]:
    """Run ``evolve_runs`` over a problem with new trials in every generation, and choose a mean.

    Once the search is over, the mean that it began with and the chosen one are evaluated from the
    same other starts.

    fine: the same numbers, as they are evaluated. The checks are saved in the folder, and are not
    made again on resume. success_rate: see ``choose``. search: further arguments of
    ``evolve_runs``.
    """
    path = folder / CHECKS
    checks = [Check(**c) for c in json.loads(path.read_text("utf-8"))] if path.is_file() else []
    ends = [*range(EVERY, generations, EVERY), generations]
    started, result = resume and has_begun(folder), None
    for end in ends:
        if end != generations and checks and checks[-1].generation >= end:
            continue
        (result,) = evolve_runs(
            lambda x, run, generation: problem.evaluate(x, generation),
            generations=end,
            folder=folder,
            resume=started or result is not None,
            by_generation=True,
            progress=False,
            **search,
        )
        if result.interrupted:
            return result, None, None
        if not checks or checks[-1].generation < end:
            checks.append(evaluate_mean(fine, result.mean, end))
            folder.write_json(CHECKS, [dataclasses.asdict(c) for c in checks])
            on_check(checks[-1])
    assert result is not None
    chosen = choose(checks, success_rate)
    other = dataclasses.replace(fine, seed=fine.seed + 1)
    begun_with = evaluate_mean(other, search["mean"], 0)
    return result, begun_with, evaluate_mean(other, np.array(chosen.x), chosen.generation)
