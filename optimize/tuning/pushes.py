"""A push at the pelvis, and others in the trials of a search."""

from collections.abc import Sequence

import jax
import numpy as np

from optimize.scenarios.scenario import Scenario
from optimize.studies.push_survival import Trial, trial_push

DIRECTIONS = 8  # of pushes, around the body
PUSH_TIME = 0.2  # how long each lasts [s]


def pushed(
    scenario: Scenario, forces: Sequence[float], trials: int, at: float
) -> tuple[Scenario, dict[str, np.ndarray]]:
    """The scenario with one push at the pelvis, and variants of it: around the body, the forces [N]
    in turn after each round."""
    k, dtype = np.arange(trials), scenario.model.mass.dtype
    one = Trial(scenario.state, *np.asarray([forces[0], 0.0, PUSH_TIME], dtype))
    direction = (2 * np.pi * (k % DIRECTIONS) / DIRECTIONS).astype(dtype)
    force = np.asarray(forces, dtype)[(k // DIRECTIONS) % len(forces)]
    made = jax.vmap(
        lambda f, d: trial_push(scenario.model, Trial(scenario.state, f, d, f), at).force
    )(force, direction)
    own = scenario.with_tree({"forces": trial_push(scenario.tree["model"], one, at)})
    return own, {"forces.force": np.asarray(made)}
