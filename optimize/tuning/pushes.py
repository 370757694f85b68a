"""Pushes at the pelvis, varied over the trials of a search."""

from collections.abc import Iterable, Sequence

import numpy as np

from jaxsim.simulation.pushes import push
from optimize.scenarios.scenario import Scenario

DIRECTIONS = 8  # of pushes, around the body
PUSH_TIME = 0.2  # how long each lasts [s]


# A force, from all sides in turn, or that and a direction [deg]: 0 pushes forward, 90 to the left.
Push = float | Sequence[float]


def plain(pushes: Iterable[Push]) -> list[float | list[float]]:
    """Pushes as JSON stores them. Raises ValueError naming one that is no push."""
    return [_plain(entry) for entry in pushes]


def _plain(entry: Push) -> float | list[float]:
    of = np.asarray(entry, float)
    if of.shape not in ((), (2,)) or not np.isfinite(of).all() or of.flat[0] <= 0:
        raise ValueError(
            f"push {entry}: give a force of more than zero [N], or such a force and a direction"
            " [deg]"
        )
    return of.tolist()


def push_trials(
    scenario: Scenario, pushes: Sequence[Push], trials: int, at: float
) -> tuple[Scenario, dict[str, np.ndarray]]:
    """Scenario with one push at the pelvis, and variants of it for the trials, in turn.

    A force without a direction goes once around the body; one with a direction is one variant.
    """
    sides = 360.0 * np.arange(DIRECTIONS) / DIRECTIONS
    each = [np.atleast_1d(one) for one in plain(pushes)]
    all_ = [(own[0], side) for own in each for side in (own[1:] if len(own) > 1 else sides)]
    force, direction = np.array([all_[k % len(all_)] for k in range(trials)]).T
    one = push(scenario.tree["model"], "pelvis", (force[0], 0.0, 0.0), at, PUSH_TIME)
    return scenario.with_tree({"forces": one}), {
        "forces.force[0,0]": force,
        "forces.direction": np.deg2rad(direction),
    }
