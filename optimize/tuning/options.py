"""Options of a tuning run, their defaults, and the checks of their values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from jaxsim.fused import choose_backend
from jaxsim.ranges import within
from optimize.problems.score import aggregate, successes
from optimize.problems.starts import ANGLE, RATE
from optimize.tuning.descent import optimiser
from optimize.tuning.front import check_front
from optimize.tuning.names import EVOLUTION, of_runs, stages
from optimize.tuning.pushes import Push

DEFAULTS: dict[str, Any] = {
    "set": {},
    "seconds": None,
    "generations": 60,
    "population": 20,
    "seed": 0,
    "sigma": 0.1,
    "dt": 0.001,
    "judge_dt": 0.00025,
    "free": "marked",
    "numbers": {},
    "variants": {},
    "pushes": (),
    "pushed_at": 0.5,
    "also": (),
    "method": "cma",
    "restarts": None,
    "runs": 1,
    "each": {},
    "trials": 1,
    "spread": (ANGLE, RATE),
    "draw": {},
    "fresh": False,
    "score": "mean",
    "racing": 0,
    "checks": 100,
    "sure": 0.97,
    "front": (),
    "trust": False,
    "chunk": None,
    "backend": None,
}


class TuneOptions(TypedDict, total=False):
    """Options of ``tune``; those left out, or None, have their defaults (``DEFAULTS``)."""

    set: Mapping[str, Any] | None  # keys of the scenario's file, or numbers by label or path
    seconds: float | None  # of a rollout [s]; by default those of the objective
    generations: int | None  # in all, those before a resume among them
    population: int | None  # members of a generation, at least 4
    seed: int | None
    sigma: float | None  # first step size, in the scales of the numbers' roles
    dt: float | None  # time step of the search [s]
    judge_dt: float | None  # time step of the final evaluation [s]
    free: str | None  # "marked": the numbers with '@'; "all": every number
    numbers: Mapping[str, Any] | None  # path or label -> (lower, upper[, scale or "log"])
    variants: Mapping[str, Any] | None  # path or label -> values that trials take in turn
    pushes: Sequence[Push] | None  # at the pelvis, in turn [N], from eight sides or its own [deg]
    pushed_at: float | None  # when they begin [s]
    also: Sequence[Mapping[str, Any]] | None  # {"set": settings, "pushes": forces}: see ``_also``
    method: str | None  # of ``optimize.tuning.methods.stages``: cma, adam@0.1, cma:40,adam:20 ...
    restarts: str | None  # of cma: "ipop" or "bipop", populations that grow
    runs: int | None  # that advance together, with the seeds from ``seed`` on
    each: Mapping[str, Any] | None  # sigma, population, weights.NAME or a path -> values by run
    trials: int | None  # motions a member is evaluated by; see ``Problem``
    spread: tuple[float, float] | None  # of their starts: joint angles [rad], speeds [rad/s]
    draw: Mapping[str, Any] | None  # path or label -> (lower, upper): sampled for each trial
    fresh: bool | None  # new trials in every generation; see ``optimize.tuning.chosen``
    score: str | None  # aggregation of the trials: "mean", "worst", "cvar:0.25", "success"
    racing: int | None  # trials after which the worse half of the members gets no more
    checks: int | None  # starts that evaluate a mean of a search with ``fresh``
    sure: float | None  # success rate over these that the chosen mean needs
    front: Sequence[str] | None  # terms of the objective: saves their Pareto front
    trust: bool | None  # follow a derivative whatever ``gradient_health`` says
    chunk: int | None  # members that XLA computes together; last digits of results depend on it
    backend: str | None  # "fused", a population as one kernel, or "xla"; None: the faster one


def check_number(what: str, value: float, expected: str) -> float:
    """Convert to a float; raises ValueError unless it is finite and positive."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} is {value!r}; give {expected}")
    return number


def check_names(options: Mapping[str, Any]) -> None:
    """Raise TypeError for names that are no options."""
    unknown = [name for name in options if name not in DEFAULTS]
    if unknown:
        raise TypeError(f"no option {', '.join(unknown)}; the options are: {', '.join(DEFAULTS)}")


def check_values(config: Mapping[str, Any]) -> None:
    """Raise ValueError for values that would otherwise fail late, or silently."""
    for name in ("seconds", "sigma", "dt", "judge_dt", "pushed_at"):
        check_number(name, config[name], "a positive number")
    if config["dt"] > config["seconds"]:
        raise ValueError(f"dt is {config['dt']} s, longer than a rollout of {config['seconds']} s")
    for name in ("seconds", "dt", "judge_dt"):
        within(name, config[name], of="dt" if name == "judge_dt" else "")
    least_of = {"generations": 1, "population": 4, "trials": 1, "chunk": 1, "seed": 0}
    least_of |= {"runs": 1, "racing": 0, "checks": 1}
    for name, least in least_of.items():
        value = config[name]
        if value is None and name == "chunk":
            continue  # chosen later
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
    if config["seed"] >= 2**32:
        raise ValueError(f"seed is {config['seed']}; it must be below 2**32")
    if config["backend"] is not None:
        choose_backend(config["backend"])
    for stage in stages(config["method"]):
        if stage.name not in EVOLUTION:
            optimiser(stage.name)  # its errors show now
    of_runs(config["each"], config["runs"])
    _check_trials(config)
    check_front(config)
    if config["free"] not in ("marked", "all"):
        raise ValueError(f"free is {config['free']!r}; choose 'marked' or 'all'")


def _check_trials(config: Mapping[str, Any]) -> None:
    """Check the options by which members are evaluated over their trials.

    An aggregation other than the mean needs all members to be of one run.
    """
    none = np.zeros((1, 1))
    aggregate(
        none, successes(dict.fromkeys(config["weights"], none)), config["score"]
    )  # its errors
    if len(config["spread"]) != 2 or not all(0 <= s < np.inf for s in config["spread"]):
        raise ValueError(f"spread {config['spread']}: give that of angles [rad] and speeds [rad/s]")
    if check_number("sure", config["sure"], "a share of the starts") > 1:
        raise ValueError(f"sure is {config['sure']}; give a share of the starts, at most 1")
    names = "fresh", "score", "racing", "checks", "sure"
    asked = [name for name in names if config[name] != DEFAULTS[name]]
    methods = [stage.name for stage in stages(config["method"])]
    alone = config["runs"] == 1 and not config["each"] and config["restarts"] is None
    if asked and not (alone and methods == ["cma"]):
        raise ValueError(
            f"{', '.join(asked)}: only for one run of the method cma; leave out other methods,"
            " chains, restarts, runs and each"
        )
