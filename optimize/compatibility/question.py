"""Question of whether an action is compatible with a situation: a simulation, and yes or no."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimize.compatibility.space import Space
from optimize.problems.problem import Problem
from optimize.running.objectives import Objective
from optimize.scenarios.scenario import Scenario
from optimize.scenarios.seated import CHAIR, TILT, as_seated

STANDS = Objective("stands", 2.5, {"final_state": 1.0}, "ends with the head at standing height")
SURVIVES = Objective("survives", 2.5, {"toppled": 1.0}, "is never as low as who has fallen")
OUTCOMES = {each.name: each for each in (STANDS, SURVIVES)}
YES = 0.5  # at most, of the objective: terms that say yes or no are 0 or at least 1
CHAIR_KEY = f"character.{CHAIR}"  # the key of a scenario's file that may vary here too


@dataclass(frozen=True)
class Question:
    """Problem whose answer is yes or no, over a space of its numbers.

    Yes: in all trials the motion is finite and physical, and the objective at most ``YES``. A point
    outside the space is a no without a simulation (thesis, 6.4).
    """

    problem: Problem
    space: Space

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        state: Mapping[str, Sequence],
        action: Mapping[str, Sequence],
        objective: Objective = STANDS,
        **options,
    ) -> "Question":
        """Question over ranges by label or path.

        Of a seated character ``character.chair_height`` and ``shank_tilt`` may vary, too. options:
        more of ``Problem``. Raises KeyError for an unknown number (with the nearest), ValueError
        for an invalid range, or one that excludes the scenario's own value.
        """
        if any(name in (CHAIR, CHAIR_KEY, TILT) for name in (*state, *action)):
            scenario = as_seated(scenario)
        state, action = (
            {CHAIR if name == CHAIR_KEY else name: spec for name, spec in given.items()}
            for given in (state, action)
        )
        space = Space.of(state, action)
        bounds = {
            name: (low, high) for name, low, high in zip(space.names, space.lower, space.upper)
        }
        question = cls(Problem(scenario, bounds, objective, **options), space)
        if question.problem.tunables.size != space.size:
            raise ValueError(
                f"each name is of one number, but {', '.join(space.names)} select"
                f" {', '.join(question.problem.names)}; name an element, as gain_p[6]"
            )
        return question

    @cached_property
    def start(self) -> np.ndarray:
        """Point (d,) of the scenario's own numbers."""
        return np.array(self.problem.tunables.initial)

    def answers(self, points: np.ndarray) -> np.ndarray:
        """Simulate points (n, d): (n,) bool, True where action and situation are compatible."""
        points = np.asarray(points, float)
        inside = self.space.inside(points)
        # all are simulated, so that every batch has one size: those outside as the start
        parts, whole = self.problem.outcomes(np.where(inside[:, None], points, self.start))
        total = np.asarray(self.problem.objective.total(parts))
        with np.errstate(invalid="ignore"):
            return inside & np.all(whole & (total <= YES), axis=1)

    def scenario_at(self, point: np.ndarray) -> Scenario:
        """Scenario of a point (d,)."""
        made = self.problem.scenario
        for name, value in zip(self.space.names, point):
            made = made.set(name, float(value))
        return made
