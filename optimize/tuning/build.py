"""Problems of a tuning run, built from its configuration: searched, checked, finally evaluated."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.simulation.pushes import push
from optimize.problems.problem import Problem, default_numbers
from optimize.results.folder import RunFolder
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.config import PelvisPush, TuneConfig, resumed_config
from optimize.tuning.front import empty_front, load_front

TUNED_ON = 1000  # the first seed of starts: a map of the same seed has others
CHECKED_ON = 500_000  # what is added for the seed of the starts that choose
DIRECTIONS = 8  # of pushes, around the body
PUSH_TIME = 0.2  # how long each lasts [s]


def build_problem(config: TuneConfig, dt: float | None = None) -> Problem:
    """Build the optimisation problem of a run.

    dt: of a script, in place of the search's [s]. Raises ValueError where nothing is free.
    """
    first = scenario_of(config, dt=dt)
    numbers = dict(config.numbers)
    if numbers:
        numbers = {**first.number_source.marked(), **numbers}
    else:
        numbers = default_numbers(first)
    others = [
        _problem_of(config, scenario_of(config, dt=dt, changes=own.set), own.pushes, numbers)
        for own in config.variant
    ]
    problem = _problem_of(config, first, config.pushes, numbers)
    problem = replace(problem, others=tuple(others))
    problem.tunables  # noqa: B018 (errors in bounds and paths show now)
    for each in (problem, *others):
        each.varied()
    if config.front:
        empty_front(problem, config.front)
    return problem


def _problem_of(
    config: TuneConfig, scenario: Scenario, pushes: Sequence[PelvisPush], numbers: dict[str, tuple]
) -> Problem:
    """Problem of one scenario of the run, with its pushes."""
    vary: dict[str, Any] = dict(config.vary)
    if pushes:
        scenario, around = push_trials(scenario, pushes, config.trials, config.pushed_at)
        vary |= around
    return Problem(
        scenario,
        numbers,
        config.objective,
        trials=config.trials,
        vary=vary,
        backend=config.backend,
        chunk=config.chunk,
        seed=TUNED_ON + config.seed,
        spread=config.spread,
        sample=config.sample,
        resample=config.resample,
        aggregate=config.aggregate,
        halve_after=config.halve_after,
    )


def push_trials(
    scenario: Scenario,
    pushes: Sequence[PelvisPush | float | Sequence[float]],
    trials: int,
    at: float,
) -> tuple[Scenario, dict[str, np.ndarray]]:
    """Scenario with one push at the pelvis, and values of it for the trials, in turn.

    A push without a direction goes once around the body; one with a direction is one trial.
    """
    sides = 360.0 * np.arange(DIRECTIONS) / DIRECTIONS
    ways = [
        (one.force, side)
        for one in map(PelvisPush.of, pushes)
        for side in (sides if one.direction is None else [one.direction])
    ]
    force, direction = np.array([ways[k % len(ways)] for k in range(trials)]).T
    first = push(scenario.tree["model"], "pelvis", (force[0], 0.0, 0.0), at, PUSH_TIME)
    return scenario.with_tree({"forces": first}), {
        "forces.force[0,0]": force,
        "forces.direction": np.deg2rad(direction),
    }


def evaluation_context() -> contextlib.ExitStack:
    """Context of the final evaluation: float64 on the CPU."""
    stack = contextlib.ExitStack()
    stack.enter_context(jax.enable_x64(True))
    stack.enter_context(jax.default_device(jax.local_devices(backend="cpu")[0]))
    return stack


def selection_problem(config: TuneConfig, problem: Problem) -> Problem:
    """Problem with the starts that choose among means, and the settings of the final evaluation."""
    with evaluation_context():
        fine = problem if not config.coarse else build_problem(config, config.final_dt)
        first, *others = (
            replace(
                each, trials=config.checks, seed=each.seed + CHECKED_ON, resample=False,
                halve_after=0,
            )
            for each in (fine, *fine.others)
        )  # fmt: skip
        return replace(first, others=tuple(others))


def scenario_of(
    config: TuneConfig,
    text: str | None = None,
    dt: float | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Scenario:
    """Scenario of a run, with the run's script or another text of it.

    changes: settings beside those of the run. The scheme is that of searches
    (``Scheme.for_search``).
    """
    if config.python_scenario is not None:
        return replace(config.python_scenario, scheme=config.python_scenario.scheme.for_search())
    made = find_scenario(config.scenario, {**config.set, **(changes or {})}, text or config.script)
    scheme = replace(made.scheme, dt=float(config.dt if dt is None else dt))  # type: ignore
    return replace(made, scheme=scheme.for_search())


def with_numbers(problem: Problem, values: np.ndarray, seconds: float | None) -> Scenario:
    """Scenario of a problem with values (n,) of its tunables, in their units."""
    scenario = problem.scenario
    for name, value in zip(problem.tunables.names, values):
        scenario = scenario.set(name, jnp.asarray(value, scenario.model.mass.dtype))
    return replace(scenario, seconds=seconds or scenario.seconds)


# ---- saved runs


def load_run(
    folder: str | os.PathLike, scenario: Scenario | None = None, objective: Any = None
) -> tuple[TuneConfig, Problem]:
    """Configuration of a saved run, and its Problem.

    scenario, objective: where they were made in Python. Raises ValueError where these are needed,
    or the precision is another one, FileNotFoundError where there is no run.
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
    return with_numbers(problem, front.numbers[k], config.objective.seconds)
