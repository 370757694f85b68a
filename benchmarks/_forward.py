"""Pushes in forward simulation: how many stand, by force, with a controller by goals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks._machine import table
from jaxsim.simulation.measures import largest
from optimize.problems.problem import Problem
from optimize.problems.survival import standing_measure, while_standing
from optimize.results.intervals import wilson
from optimize.running.objectives import Objective, Term
from optimize.studies.push_map import DIRECTION, FORCE, PUSHED_AT, map_scenario
from optimize.studies.push_options import MapOptions

SCHEME = {"world.scheme": "time_stepping", "world.dt": 0.002}
DURATION, AFTER = 0.2, 4.0  # of a push, and until when one stands after it [s]
COUNTS = ("asked", "unsolved")  # in the controller's memory, see ``GoalTorquesState``
CHUNK = 16  # members that a device simulates together
HEADER = ["", "force [N]", "stand", "95 %", "largest torque over its limit"]
HEADER += ["unsolved optimisations, most of a run"]


def forward_problem(changes: Mapping[str, Any], starts: int, seed: int) -> Problem:
    """Problem of pushed starts in forward simulation; changes: of the scenario ``push``.

    Under XLA, and to the end, so that all members of a batch optimise in the same steps.
    """
    options = MapOptions(set={**SCHEME, **changes}, starts=starts, durations=(DURATION,))
    made = map_scenario(options)

    def until_a_fall(name: str) -> Term:
        number = largest(lambda sample: 1.0 * getattr(sample.memory, name), 0.0)
        measure = lambda model: while_standing(number, standing_measure(model, made.scheme))  # noqa: E731
        return Term(name, "1", measure, lambda folded: folded[1])

    seconds = PUSHED_AT + DURATION + AFTER
    weights: dict[str, float] = dict.fromkeys(("survived", *COUNTS), 0.0)
    terms = tuple(map(until_a_fall, COUNTS))
    objective = Objective("forward", seconds, weights, terms=terms, to_the_end=True)
    return Problem(made, None, objective, trials=starts, seed=seed, backend="xla", chunk=CHUNK)


def forward_rows(
    label: str,
    changes: Mapping[str, Any],
    forces: Sequence[float],
    directions: int,
    starts: int,
    seed: int,
) -> Iterator[list[str]]:
    """Rows of the table, by force, over directions and starts."""
    problem = forward_problem(changes, starts, seed)
    angle = 2 * np.pi * np.arange(directions) / directions
    for force in forces:
        parts, _ = problem.outcomes_at({FORCE: np.full(directions, force), DIRECTION: angle})
        good, runs = int(parts["survived"].sum()), parts["survived"].size
        low, high = (100 * share for share in wilson(good, runs))
        most, unsolved = (f"{parts[name].max():.{k}f}" for k, name in zip((2, 0), COUNTS))
        share = f"{low:.0f} to {high:.0f} %"
        yield [label, f"{force:g}", f"{good} of {runs}", share, most, unsolved]


VARIANTS = {
    "within limits": {},
    "without limits": {"world.torque_limits": False},
}


def forward_table(
    forces: Sequence[float], directions: int, starts: int, seed: int, changes: Mapping[str, Any]
) -> str:
    """Table of the variants: within limits of torques and without."""
    rows = []
    for label, own in VARIANTS.items():
        for row in forward_rows(label, {**changes, **own}, forces, directions, starts, seed):
            print(*row, sep=" | ", flush=True)
            rows.append(row)
    return table(HEADER, rows)
