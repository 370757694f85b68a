"""What racing, and trials that end with a fall, save of a generation: the same members with and
without, in turn, and whether who goes on is worth the same to the last bit."""

import time
from dataclasses import replace
from unittest.mock import patch

import jax
import numpy as np

from benchmarks._machine import table
from jaxsim.simulation import rollout
from optimize.problems.fitness import Evaluation
from optimize.problems.problem import Problem
from optimize.running.objectives import objective
from optimize.scenarios.find import scenario

SEED = 4100  # of generations that no search has seen
MEMBERS, TRIALS, RACING = 24, 8, 2
SIGMAS = (0.04, 0.2)  # of a search for sure motions, and of one that begins
DT = {"scheme.dt": 0.001}
HEAD = [
    *("what is left out", "scenario, objective", "sigma", "generations", "all [s]", "saved [s]"),
    *("time saved [%]", "steps saved [%]", "same scores", "best kept"),
]


Pair = tuple[Problem, Problem]
Sides = list[tuple[Evaluation, ...]]


def raced(backend: str) -> Problem:
    """A kip-up from starts that differ, on grounds that differ."""
    return Problem(
        scenario("kip_up", DT), None, objective("athletic-kip-up"), trials=TRIALS,
        spread=(0.0, 0.05), sample={"model.friction": (0.5, 0.8)}, resample=True, seed=SEED,
        backend=backend,
    )  # fmt: skip


def fallen(backend: str) -> Problem:
    """A walk with other gains, that counts until it falls."""
    return Problem(
        scenario("walk", DT), {"model.gain_p[3:]": (10.0, 5000.0, "log")}, objective("survive"),
        trials=TRIALS, spread=(0.05, 0.3), resample=True, seed=SEED, backend=backend,
    )  # fmt: skip


def judged(pair: Pair, sigma: float, generations: int) -> tuple[Sides, np.ndarray]:
    """Of generations around the scenario's own numbers: what both sides say, and their seconds
    (generations, 2), taken in turn, since other programs use the machine too."""
    found, seconds = [], []
    for number in range(-1, generations):  # the first compiles
        draw = np.random.default_rng([SEED, number + 1])
        z = sigma * draw.normal(size=(MEMBERS, pair[0].tunables.size))
        both, took = [], []
        for problem in pair:
            began = time.perf_counter()
            both.append(problem.evaluate(z, number))
            took.append(time.perf_counter() - began)
        if number >= 0:
            found.append(tuple(both))
            seconds.append(took)
    return found, np.array(seconds)


def spread_of(values: np.ndarray) -> str:
    """A median, and its interval of 95% by resampling."""
    draws = np.random.default_rng(0).choice(values, (4000, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return f"{np.median(values):.3g} ({low:.3g} to {high:.3g})"


def row(what: str, sigma: float, generations: int, backend: str) -> list[str]:
    """Raises SystemExit where who goes on is not worth the same."""
    whole = raced(backend) if what == "racing" else fallen(backend)
    if what == "racing":
        pair, least = (whole, replace(whole, halve_after=RACING)), (MEMBERS + 1) // 2
    else:
        with patch.object(rollout, "goes_on", lambda step, steps, stands: step < steps):
            whole.evaluate(np.zeros((MEMBERS, whole.tunables.size)))  # which makes its program
        pair, least = (whole, replace(whole)), MEMBERS
    found, seconds = judged(pair, sigma, generations)
    same = [a.fitness == b.fitness for a, b in found]
    if min(each.sum() for each in same) < least:
        raise SystemExit(f"{what}, sigma {sigma}: scores have changed")
    kept = sum(np.argmin(a.fitness) == np.argmin(b.fitness) for a, b in found)
    steps = sum(b.steps for _, b in found) / (generations * MEMBERS * TRIALS * whole.steps)
    long, short = seconds.T
    name = f"{whole.scenario.name}, {whole.objective.name}"
    return [
        what, name, f"{sigma:g}", str(generations), spread_of(long), spread_of(short),
        spread_of(100 * (1 - short / long)), f"{100 * (1 - steps):.0f}",
        f"{min(e.sum() for e in same)} to {max(e.sum() for e in same)} of {MEMBERS}",
        f"{kept} of {generations}",
    ]  # fmt: skip


def racing_table(generations: int, backend: str) -> str:
    """All rows, printed as they come."""
    rows = []
    with jax.enable_x64(False):
        for what in ("racing", "falls"):
            for sigma in SIGMAS:
                rows.append(row(what, sigma, generations, backend))
                print(*rows[-1], sep=" | ", flush=True)
    return table(HEAD, rows)
