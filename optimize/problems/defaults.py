"""Numbers of a scenario that vary by default."""

from dataclasses import fields

import numpy as np

from controllers.goals.controller import GoalController
from controllers.scl.ast import Script
from controllers.scl.load import vocabulary
from controllers.scl.parser import parse
from optimize.problems.ranges import around, number_range
from optimize.scenarios.scenario import Scenario


def script_in(scenario: Scenario) -> Script | None:
    """Parsed script that controls a scenario; None for other controllers."""
    text = scenario.files.get("script.scl")
    return None if text is None else parse(text, vocabulary(scenario.model), scenario.name)


def default_numbers(scenario: Scenario) -> dict[str, tuple]:
    """Default tunables: the '@' numbers of a script, or the nonzero weights of goals and the gait.

    The bounds of script numbers follow from their roles. Raises ValueError where there are none.
    """
    script, numbers = script_in(scenario), {}
    if script is not None:
        free = script.free_indices()
        numbers = {f"controller.values[{k}]": number_range(script, k) for k in free}
    elif isinstance(scenario.controller, GoalController):
        weights = np.asarray(scenario.controller.weights)
        numbers = {
            f"controller.weights[{s},{g}]": around(weights[s, g]) for s, g in np.argwhere(weights)
        }
        gait = getattr(scenario.controller.variables, "gait", None)
        for own in fields(gait) if gait is not None else ():
            numbers[f"controller.variables.gait.{own.name}"] = around(getattr(gait, own.name))
    if not numbers:
        raise ValueError(
            f"{scenario.name}: no number is free; mark those of a script with '@', as in"
            " [waist @30], free every one with free='all' (--free all), or name some, as in"
            " numbers={'model.friction': (0.4, 1.2)} (--tune model.friction=0.4:1.2)"
        )
    return numbers
