"""Problem of a saved tuning run, rebuilt from its folder; and members of its front as scenarios."""

import os
from typing import Any

from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.scenarios.scenario import Scenario
from optimize.tuning.config import RunConfig, resumed_config
from optimize.tuning.front import load_front
from optimize.tuning.posed import build_problem, with_numbers


def load_run(
    folder: str | os.PathLike, scenario: Scenario | None = None, objective: Any = None
) -> tuple[RunConfig, Problem]:
    """Options of a saved run, and its Problem. scenario, objective: where they were made in Python.

    Raises ValueError where these are needed, or the precision is another one, FileNotFoundError
    where there is no run.
    """
    config = resumed_config(RunFolder.open(folder), scenario, objective, {})
    return config, build_problem(config)


def front_member(
    folder: str | os.PathLike, k: int, scenario: Scenario | None = None, objective: Any = None
) -> Scenario:
    """Scenario of the k-th member of a run's front, to be simulated with the steps of the search.

    It begins at the scenario's own start. Raises as ``load_run``, IndexError for another k.
    """
    front = load_front(folder)
    if not -front.size <= k < front.size:
        raise IndexError(f"no member {k}: the front in {os.fspath(folder)} has {front.size}")
    config, problem = load_run(folder, scenario, objective)
    return with_numbers(problem, front.numbers[k], config["seconds"])
