"""Problems that a run's configuration defines: searched, checked and finally evaluated."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from optimize.problems.defaults import default_numbers, script_in
from optimize.problems.problem import Problem
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.config import RunConfig
from optimize.tuning.front import empty_front
from optimize.tuning.names import of_runs
from optimize.tuning.pushes import Push, push_trials

TUNED_ON = 1000  # the first seed of starts: a map of the same seed has others
CHECKED_ON = 500_000  # what is added for the seed of the starts that choose


def build_problem(config: RunConfig, dt: float | None = None) -> Problem:
    """Build the optimisation problem of a run.

    dt: of a script, in place of the search's [s]. Raises ValueError where nothing is free.
    """
    first = scenario_of(config, dt=dt)
    numbers = {name: tuple(spec) for name, spec in config["numbers"].items()}
    script = script_in(first)
    if not numbers or (script is not None and script.free_indices()):
        numbers = {**default_numbers(first), **numbers}
    others = [
        _problem_of(config, scenario_of(config, dt=dt, also=own["set"]), own["pushes"], numbers)
        for own in config["also"]
    ]
    problem = _problem_of(config, first, config["pushes"], numbers)
    problem = dataclasses.replace(problem, also=tuple(others))
    problem.tunables  # noqa: B018 (errors in bounds and paths show now)
    for own in (problem, *others):
        own.varied()
    if config["front"]:
        empty_front(problem, config["front"])
    return problem


def _problem_of(
    config: RunConfig, scenario: Scenario, pushes: Sequence[Push], numbers: dict[str, tuple]
) -> Problem:
    """Problem of one scenario of the run, with its pushes."""
    variants = dict(config["variants"])
    if pushes:
        scenario, around = push_trials(scenario, pushes, config["trials"], config["pushed_at"])
        variants |= around
    return Problem(
        scenario,
        numbers,
        config.objective,
        trials=config["trials"],
        variants=variants,
        backend=config["backend"],
        chunk=config["chunk"],
        seed=TUNED_ON + config["seed"],
        spread=tuple(config["spread"]),
        drawn={name: tuple(spec) for name, spec in config["draw"].items()},
        fresh=config["fresh"],
        score=config["score"],
        racing=config["racing"],
    )


def evaluation_context() -> contextlib.ExitStack:
    """Context of the final evaluation: float64 on the CPU."""
    stack = contextlib.ExitStack()
    stack.enter_context(jax.enable_x64(True))
    stack.enter_context(jax.default_device(jax.local_devices(backend="cpu")[0]))
    return stack


def selection_problem(config: RunConfig, problem: Problem) -> Problem:
    """Problem with the starts that choose among means, and the settings of the final evaluation."""
    with evaluation_context():
        fine = problem if config.text is None else build_problem(config, config["judge_dt"])
        first, *others = (
            dataclasses.replace(
                own, trials=config["checks"], seed=own.seed + CHECKED_ON, fresh=False, racing=0
            )
            for own in (fine, *fine.also)
        )
        return dataclasses.replace(first, also=tuple(others))


def search_of(config: RunConfig, problem: Problem) -> dict[str, Any]:
    """Arguments of ``evolve_runs`` for a run's configuration."""
    runs = config["runs"]
    own = {name: np.full(runs, config[name]) for name in ("sigma", "population")}
    own |= of_runs(config["each"], runs)
    return {
        "mean": np.zeros(problem.tunables.size),
        "seed": [config["seed"] + k for k in range(runs)],
        "sigma": own["sigma"],
        "population": own["population"].astype(int),
        **{name: config[name] for name in ("generations", "method", "restarts")},
    }


def scenario_of(
    config: RunConfig,
    text: str | None = None,
    dt: float | None = None,
    also: Mapping[str, Any] | None = None,
) -> Scenario:
    """Scenario of a run, with the run's script or another text of it.

    also: settings besides those of the run. The scheme is that of searches (``Scheme.for_search``).
    """
    if config.given is not None:
        return dataclasses.replace(config.given, scheme=config.given.scheme.for_search())
    made = find_scenario(config["scenario"], {**config["set"], **(also or {})}, text or config.text)
    scheme = dataclasses.replace(made.scheme, dt=float(config["dt"] if dt is None else dt))  # type: ignore
    return dataclasses.replace(made, scheme=scheme.for_search())


def with_numbers(problem: Problem, values: np.ndarray, seconds: float | None) -> Scenario:
    """Scenario of a problem with values (n,) of its tunables, in their units."""
    found = problem.scenario
    for name, value in zip(problem.tunables.names, values):
        found = found.set(name, jnp.asarray(value, found.model.mass.dtype))
    return dataclasses.replace(found, seconds=seconds or found.seconds)
