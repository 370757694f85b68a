"""Action that sets the numbers of a problem, which the scenario's own controller obeys."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxsim.model import Model
from optimize.problems.problem import Problem
from optimize.scenarios.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Numbers:
    """Action over the tunables of a problem, in the optimiser's coordinates.

    0 is what the scenario has, 1 a scale away from it (by default their whole range), within their
    bounds. Raises ValueError where they are not all the controller's.
    """

    problem: Problem

    def __post_init__(self):
        others = [n for n in self.problem.tunables.names if not n.startswith("controller.")]
        if others:
            raise ValueError(
                f"the action 'numbers' sets numbers of the controller, not {', '.join(others)};"
                " let the problem draw these"
            )

    def size(self, model: Model) -> int:
        """Number of tunables."""
        return self.problem.tunables.size

    def controller(self, scenario: Scenario, action: Array) -> Any:
        """The scenario's controller with the numbers of an action (n,)."""
        tunables = self.problem.tunables
        x = tunables.decode(jnp.clip(action, -1.0, 1.0))
        return tunables.write(scenario.tree, jnp.asarray(x))["controller"]
