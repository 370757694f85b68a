"""Successive halving: members that do badly in their first trials get no more."""

from dataclasses import replace

import numpy as np

from optimize.problems.evaluation import Evaluation


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
