"""A push at the pelvis, and others in the trials of a search."""

from collections.abc import Sequence

import numpy as np

from jaxsim.simulation.pushes import push
from optimize.scenarios.scenario import Scenario

DIRECTIONS = 8  # of pushes, around the body
PUSH_TIME = 0.2  # how long each lasts [s]


def pushed(
    scenario: Scenario, forces: Sequence[float], trials: int, at: float
) -> tuple[Scenario, dict[str, np.ndarray]]:
    """The scenario with one push at the pelvis, and variants of it: around the body, the forces [N]
    in turn after each round."""
    k = np.arange(trials)
    one = push(scenario.tree["model"], "pelvis", (forces[0], 0.0, 0.0), at, PUSH_TIME)
    return scenario.with_tree({"forces": one}), {
        "forces.force[0,0]": np.asarray(forces, float)[(k // DIRECTIONS) % len(forces)],
        "forces.direction": 2 * np.pi * (k % DIRECTIONS) / DIRECTIONS,
    }
