"""Gradient check: is a derivative worth following before a search does so.

A derivative that agrees with small differences may still be useless: contacts come and go, phases
end on whole steps, and the loss is a sawtooth whose teeth have exact slopes. The measure is how
much the loss falls over a step such as the search takes, relative to what the slope predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.tuning.config import check_number
from optimize.tuning.descent import Descent, optimiser
from optimize.tuning.names import EVOLUTION, stages

REPORT = "report.txt"
POINTS = 16  # at which a derivative is tried
PAIRS = 8  # of members, for a smoothed slope
ENOUGH = 0.5  # of what it promises, in the median: it is followed
PART = 0.1  # of an optimiser's first step, over which it is tried
HORIZONS = (0.5,)  # shares of the motion after which the derivative's norm is reported


@dataclass(frozen=True)
class GradientHealth:
    """Predicted and actual decrease of the loss at P points, over a step of ``length``.

    kept      (P,) decrease over the step along the derivative, relative to what it predicts;
              minus infinite where the loss or its derivative is not finite
    norms     seconds of the motion -> (P,) norm of the derivative
    smoothed  (P,) as ``kept``, along the slope that ``smoothed_slopes`` estimates
    noise     (P,) standard error of that slope, relative to its norm
    """

    length: float
    kept: np.ndarray
    norms: dict[float, np.ndarray]
    smoothed: np.ndarray
    noise: np.ndarray

    @property
    def trusted(self) -> bool:
        """True if the median share of the predicted decrease exceeds ``ENOUGH``."""
        return bool(np.median(self.kept) > ENOUGH)

    @property
    def reason(self) -> str:
        """Explanation, for a user, of a derivative that is not trusted."""
        return (
            f"over a step of {self.length:.3g} the loss falls by {np.median(self.kept):.2g} of what"
            f" the derivative promises (median of {len(self.kept)} points; wanted: more than"
            f" {ENOUGH:g})"
        )

    def __str__(self) -> str:
        low, high = np.quantile(self.kept, (0.25, 0.75), method="nearest")
        count = len(self.kept)
        lines = [
            f"Derivative at {count} points near the best, a step of {self.length:.3g} along it",
            f"  decrease, of what it promises: median {np.median(self.kept):.2g}"
            f" ({low:.2g} to {high:.2g})",
            f"  members with more than {ENOUGH:g}: {(self.kept > ENOUGH).sum()} of {count};"
            f" finite: {np.isfinite(self.kept).sum()}",
            "  norm by the length of the motion: "
            + ", ".join(f"{np.median(n):.3g} at {s:.3g} s" for s, n in self.norms.items()),
            f"Smoothed slope of {PAIRS} pairs of members, as openai-es estimates it",
            f"  decrease, of what it promises: median {np.median(self.smoothed):.2g}",
            f"  standard error, of its norm: {np.median(self.noise):.2g}",
            "trusted" if self.trusted else f"not trusted: {self.reason}",
        ]
        return "\n".join(lines) + "\n"


def gradient_health(
    problem: Problem,
    z: np.ndarray,
    length: float | Callable[[np.ndarray, np.ndarray], float],
    *,
    points: int = POINTS,
    horizons: Sequence[float] = HORIZONS,
    seed: int = 0,
) -> GradientHealth:
    """Check whether the derivative of a problem's loss is worth following from z.

    z         (n,), or (R, n) which the points take in turn, in the optimiser's coordinates
    length    of the step that is meant; or a function of z (R, n) and the derivatives there (R, n)
    horizons  shares of the motion after which the norm is reported too; each compiles again
    Points are a step away from z, in directions sampled with ``seed``. Raises ValueError for an
    objective of survival, which has no derivative.
    """
    rng = np.random.default_rng(seed)
    around = np.atleast_2d(np.asarray(z, float))
    if callable(length):
        length = float(length(around, problem.values_and_slopes(around)[1]))
    check_number("length", length, "that of a step, in the optimiser's coordinates")
    around = around[np.arange(points) % len(around)]
    x = around + length * _unit(rng.standard_normal(around.shape))
    _, slopes = problem.values_and_slopes(x)
    share, fitness = _kept(problem, x, slopes, length)
    norms = {}
    for part in sorted({*horizons, 1.0}):
        seconds, own = part * problem.steps * float(problem.scenario.scheme.dt), slopes
        if part < 1.0:
            _, own = replace(problem, seconds=seconds).values_and_slopes(x)
        norms[seconds] = _norms(own)
    estimates, errors = smoothed_slopes(problem, x, length, PAIRS, seed + 1)
    smoothed, _ = _kept(problem, x, estimates, length, fitness)
    noise = _norms(errors) / np.maximum(_norms(estimates), np.finfo(float).tiny)
    return GradientHealth(length, share, norms, smoothed, noise)


def smoothed_slopes(
    problem: Problem, z: np.ndarray, length: float, pairs: int = PAIRS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes at z (P, n) of the loss averaged over a Gaussian, by antithetic pairs of members.

    length: root mean square distance of the members from z. Returns slopes (P, n) and their
    standard errors (P, n), not finite where a member failed.

    An unbiased estimate of a loss that need not be smooth; what evolution strategies follow (T.
    Salimans et al. 2017, Evolution strategies as a scalable alternative to reinforcement learning).
    """
    if pairs < 2:
        raise ValueError(f"pairs is {pairs}; a standard error needs at least 2")
    z = np.asarray(z, float)
    size, count = z.shape
    reach = length / np.sqrt(count)  # by coordinate
    ways = np.random.default_rng(seed).standard_normal((size, pairs, count))
    x = z[:, None, None] + reach * np.stack([ways, -ways], axis=2)
    found = problem.evaluate(x.reshape(-1, count))
    fitness = np.where(found.failed, np.nan, found.fitness).reshape(size, pairs, 2)
    each = (fitness[..., 0] - fitness[..., 1])[..., None] / (2 * reach) * ways
    return each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(pairs)


def health_of(
    problem: Problem, search: Descent, z: np.ndarray, sigma: float, **options: Any
) -> GradientHealth:
    """Check the gradient from z (R, n), over a tenth (``PART``) of an optimiser's first step.

    options: further ones of ``gradient_health``. An optimiser's steps become shorter where slopes
    change their signs, so that it makes use of a derivative that holds over a tenth of the first:
    docs/results/tuning.md.
    """

    def first_step(x: np.ndarray, slopes: np.ndarray) -> float:
        lengths = []
        for point, slope in zip(x, slopes):
            if np.isfinite(slope).all():
                state = search.init(jnp.asarray(point), sigma, 1, 0)
                state = search.tell(state, state.x[None], jnp.zeros(1), jnp.asarray(slope)[None])
                lengths.append(float(jnp.linalg.norm(state.x - state.last)))
        return PART * ((float(np.median(lengths)) if lengths else 0.0) or search.rate * sigma)

    return gradient_health(problem, z, first_step, **options)


def health_at_start(
    problem: Problem, method: str, sigma: float, trust: bool
) -> GradientHealth | None:
    """Check the gradient at the start, where the first stage of a chain follows it; None otherwise.

    Raises ValueError where it is not worth following, unless ``trust`` forces it.
    """
    first = stages(method)[0].name
    if first in EVOLUTION:
        return None
    health = health_of(problem, optimiser(first), np.zeros((1, problem.tunables.size)), sigma)
    if not (health.trusted or trust):
        raise ValueError(
            f"method {first}: {health.reason}; choose cma or openai-es, a smaller sigma, or trust"
            " it all the same (--trust-derivative)"
        )
    return health


class GradientChecks:
    """Gradient check of a search before a stage follows the derivative, saved to report.txt."""

    def __init__(self, problem: Problem, folder: RunFolder, trust: bool):
        self.problem, self.folder, self.trust = problem, folder, trust
        self.told: list[str] = []

    def __call__(self, search: Descent, x: np.ndarray, sigma: np.ndarray) -> str:
        health = health_of(self.problem, search, x, float(np.median(sigma)))
        self.folder.write_text(REPORT, str(health))
        if self.trust or health.trusted:
            return ""
        self.told.append(f"{search.name} is left out: {health.reason}")
        return self.told[-1]


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(_norms(rows), np.finfo(float).tiny)[:, None]


def _norms(rows: np.ndarray) -> np.ndarray:
    """Euclidean norm of each row, infinite where it is too large to be squared."""
    with np.errstate(over="ignore"):
        return np.linalg.norm(rows, axis=1)


def _kept(problem: Problem, x, slopes, length: float, before=None) -> tuple[np.ndarray, np.ndarray]:
    """Decrease along the slopes relative to the predicted one, and the fitness at x (P,)."""
    sound = np.isfinite(slopes).all(axis=1)
    slopes = np.where(sound[:, None], slopes, 0.0).astype(float)
    if before is None:
        before = _fitness(problem, x)
    after = _fitness(problem, x - length * _unit(slopes))
    promised = length * _norms(slopes)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(promised > 0, (before - after) / promised, 0.0)
    sound &= np.isfinite(before) & np.isfinite(after)
    return np.where(sound, share, -np.inf), before


def _fitness(problem: Problem, x: np.ndarray) -> np.ndarray:
    found = problem.evaluate(x)
    return np.where(found.failed, np.inf, found.fitness)
