"""Fitness of members from their trials: aggregation, successive halving, what a search receives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

AGGREGATIONS = ("mean", "worst", "cvar:SHARE", "success")


@dataclass(frozen=True)
class Evaluation:
    """Fitness of a population; any field may be what NumPy can read as an array.

    fitness  (P,) to be minimised
    parts    name -> (P,) raw objective terms, each in its own unit
    failed   (P,) bool, members whose simulation broke down
    steps    simulated steps in all, for the report of speed
    """

    fitness: Any
    parts: dict[str, Any] = field(default_factory=dict)
    failed: Any = False
    steps: int = 0


def check_aggregation(name: str) -> None:
    """Raise ValueError for an unknown aggregation."""
    kind, colon, share = str(name).partition(":")
    if kind in ("mean", "worst", "success") and not colon:
        return
    try:
        good = kind == "cvar" and 0 < float(share) <= 1
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            f"aggregate is {name!r}; choose from {', '.join(AGGREGATIONS)}, with a share of the"
            " trials above 0 and up to 1, as cvar:0.25"
        )


def aggregate(totals: np.ndarray, ok: np.ndarray | None, name: str) -> np.ndarray:
    """Fitness (P,) of members by the totals of their trials (P, K), all to be minimised.

    "mean"; "worst"; "cvar:0.25", the mean of the worst quarter; "success": (k + t) / K with k the
    trials that failed, by ok (P, K) bool, and t between 0 and 1 the larger the mean is, so that
    members with as many failures are told apart. Source of CVaR: Rockafellar, Uryasev (2000).
    """
    check_aggregation(name)
    if name == "mean":
        return totals.mean(axis=1)
    if name == "worst":
        return totals.max(axis=1)
    trials = totals.shape[1]
    if name == "success":
        if ok is None:
            raise ValueError(
                "the aggregation success needs an objective that says which trials end standing:"
                " with the term final_state or toppled"
            )
        mean = totals.mean(axis=1)
        within = 0.5 * (1.0 + mean / (1.0 + np.abs(mean)))
        return (np.sum(~ok, axis=1) + within) / trials
    counted = math.ceil(float(name.partition(":")[2]) * trials)
    return np.sort(totals, axis=1)[:, trials - counted :].mean(axis=1)


def successes(parts: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Trials that end standing, by an objective's raw terms; None where no term says so."""
    for name in ("final_state", "toppled"):
        if name in parts:
            return np.asarray(parts[name]) == 0
    return None


# ---- successive halving: members that do badly in their first trials get no more


def better_half(early: Evaluation) -> np.ndarray:
    """Indices, in their order, of the better half of the members; failed members are the worst."""
    worth = np.where(early.failed | np.isnan(early.fitness), np.inf, early.fitness)
    order = np.argsort(worth, kind="stable")
    return np.sort(order[: (len(order) + 1) // 2])


def merge_evaluations(early: Evaluation, late: Evaluation, survivors: np.ndarray) -> Evaluation:
    """Evaluation of all members: the better half by all its trials, the others ranked behind it.

    The others keep their own order.
    """
    fitness, failed = np.array(early.fitness, float), np.array(early.failed)
    out = np.setdiff1d(np.arange(len(fitness)), survivors)
    sound = late.fitness[~late.failed]
    if sound.size and not failed[out].all():
        fitness += max(0.0, sound.max() - fitness[out][~failed[out]].min())
    fitness[survivors], failed[survivors] = late.fitness, late.failed
    parts = {name: part.copy() for name, part in early.parts.items()}
    for name, part in parts.items():
        part[survivors] = late.parts[name]
    return replace(late, fitness=fitness, parts=parts, failed=failed)
