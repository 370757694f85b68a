"""CMA-ES with a population that may grow: unused rows are masked, so that nothing is recompiled.

The equations are those of N. Hansen, "The CMA Evolution Strategy: A Tutorial" (arXiv:1604.00772v1),
numbers in brackets. A search that has converged is restarted: IPOP (Auger and Hansen, CEC 2005)
with twice the population; BIPOP (Hansen, GECCO BBOB 2009) alternates that with a smaller population
and a smaller step, whichever has cost less so far. Restarts begin around the first mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from optimize.tuning.keys import generation_keys, run_key, wrap_key

KINDS = ("ipop", "bipop", "masked")
DOUBLINGS = 6  # of the population: then it stays
AROUND = 2.0  # standard deviation of where restarts begin, in initial step sizes
FLAT = 1e-11  # change of fitness below which a search has come to its end
STILL = 1e-11  # and of the distribution, in initial step sizes
GROWN = 1e4  # times its first size: it diverges


class Weights(NamedTuple):
    """Recombination weights by rank (rows,) and learning rates (equations 48 to 58)."""

    w: jax.Array
    mu_eff: jax.Array
    c_sigma: jax.Array
    d_sigma: jax.Array
    c_c: jax.Array
    c_1: jax.Array
    c_mu: jax.Array
    chi: jax.Array


class Distribution(NamedTuple):
    mean: jax.Array  # (n,)
    sigma: jax.Array
    p_sigma: jax.Array  # (n,)
    p_c: jax.Array  # (n,)
    C: jax.Array  # (n, n)
    B: jax.Array  # (n, n) eigenvectors, set by ask
    D: jax.Array  # (n,) roots of the eigenvalues
    count: jax.Array  # generations since the restart
    best: jax.Array  # (window,) of the latest generations, in a ring
    median: jax.Array  # (window,)
    best_rest: jax.Array  # (window,) what the precision leaves of these
    median_rest: jax.Array  # (window,)


class Regime(NamedTuple):
    """Bookkeeping of population size and evaluations over the restarts."""

    population: jax.Array
    first: jax.Array  # population
    doubled: jax.Array  # how often
    restarts: jax.Array
    spent: jax.Array  # evaluations since the restart
    large: jax.Array  # evaluations of the runs with the large population
    small: jax.Array  # and of those with a small one
    is_small: jax.Array
    most: jax.Array  # evaluations that a small one may take


class CMAState(NamedTuple):
    now: Distribution
    regime: Regime
    key: jax.Array  # (2,)
    asked: jax.Array  # generations
    origin: jax.Array  # (n,)
    scale: jax.Array  # the first sigma


@dataclass(frozen=True)
class CMA:
    """CMA-ES of at most ``largest`` members before any restart; see ``KINDS``."""

    dimensions: int
    largest: int
    kind: str
    ranked: bool = False
    gradient_based: bool = False
    parted: bool = True

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"restarts {self.kind!r}: there are {', '.join(KINDS)}")

    @property
    def rows(self) -> int:
        return self.largest * 2 ** (0 if self.kind == "masked" else DOUBLINGS)

    def init(self, mean, sigma, population, seed) -> CMAState:
        mean = jnp.asarray(mean, float)
        scale = jnp.asarray(sigma, mean.dtype)
        size, none = jnp.asarray(population, jnp.int32), jnp.zeros((), jnp.int32)
        regime = Regime(size, size, none, none, none, none, none, none > 0, none)
        return CMAState(self._fresh(mean, scale), regime, run_key(seed), none, mean, scale)

    def ask(self, state: CMAState):
        """Sample a generation (equations 38 to 40)."""
        now, (key, _) = state.now, generation_keys(state)
        squares, B = jnp.linalg.eigh(now.C)
        least = jnp.finfo(squares.dtype).eps * jnp.abs(squares).max()
        now = now._replace(B=B, D=jnp.sqrt(jnp.maximum(squares, least)))
        z = jax.random.normal(key, (self.rows, self.dimensions))
        x = now.mean + now.sigma * ((z * now.D) @ B.T)
        return x, state._replace(now=now, asked=state.asked + 1)

    def tell(self, state: CMAState, x, fitness, slope=None) -> CMAState:
        live = (jnp.arange(self.rows) < state.regime.population)[:, None]
        fitness = jnp.where(live, fitness, jnp.inf)
        order = jnp.lexsort((fitness[:, 1], fitness[:, 0]))  # rows that are not live come last
        ranks = jnp.argsort(order)
        now = update_distribution(state.now, x, ranks, state.regime.population)
        now = self._noted(now, fitness[order], state.regime.population)
        regime = state.regime
        regime = regime._replace(spent=regime.spent + regime.population)
        state = state._replace(now=now, regime=regime)
        if self.kind == "masked":
            return state
        ended = self._ended(state, fitness[order])
        return jax.tree.map(lambda a, b: jnp.where(ended, a, b), self._anew(state), state)

    def mean(self, state: CMAState):
        return state.now.mean

    def sigma(self, state: CMAState):
        return state.now.sigma

    def size(self, state: CMAState):
        return state.regime.population

    def restarts(self, state: CMAState):
        return state.regime.restarts

    # ---- the end of a search

    @property
    def _window(self) -> int:
        """Generations that are remembered, enough for the smallest population."""
        return 100 + math.ceil(100 * self.dimensions**1.5 / 4)

    def _fresh(self, mean, sigma) -> Distribution:
        n, dtype = self.dimensions, mean.dtype
        zero, one, none = jnp.zeros(n, dtype), jnp.ones(n, dtype), jnp.zeros((), jnp.int32)
        past = jnp.full(self._window, jnp.inf, dtype)
        eye = jnp.eye(n, dtype=dtype)
        return Distribution(mean, sigma, zero, zero, eye, eye, one, none, past, past, past, past)

    def _noted(self, now: Distribution, ordered, population) -> Distribution:
        """Store best and median fitness in the ring of past generations.

        ordered: (rows, 2) fitness, the best first.
        """
        at = (now.count - 1) % self._window
        best, middle = ordered[0], ordered[(population - 1) // 2]
        return now._replace(
            best=now.best.at[at].set(best[0]),
            median=now.median.at[at].set(middle[0]),
            best_rest=now.best_rest.at[at].set(best[1]),
            median_rest=now.median_rest.at[at].set(middle[1]),
        )

    def _ended(self, state: CMAState, ordered):
        """Termination tests of appendix B.3 of the tutorial.

        ordered: (rows, 2) fitness, the best first; it is compared by the differences from that best
        one, which have few digits to lose.
        """
        now, regime, n = state.now, state.regime, self.dimensions
        size, eps = regime.population.astype(now.mean.dtype), jnp.finfo(now.mean.dtype).eps
        age = (now.count - 1 - jnp.arange(self._window)) % self._window  # of each place

        def beyond(value, rest):
            found = (value - ordered[0, 0]) + (rest - ordered[0, 1])
            return jnp.where(jnp.isinf(value), jnp.inf, found)

        bests, medians = beyond(now.best, now.best_rest), beyond(now.median, now.median_rest)
        recent = age < jnp.minimum(10 + jnp.ceil(30 * n / size), now.count)
        low = jnp.where(recent, bests, jnp.inf).min()
        high = jnp.where(recent, bests, -jnp.inf).max()
        worst = beyond(*ordered[jnp.maximum(regime.population - 1, 0)])
        rounded = ~jnp.any((ordered[:, 1] != 0) & jnp.isfinite(ordered[:, 1]))
        unit = jnp.where(rounded, eps, float(np.finfo(np.float64).eps))
        least = FLAT + 10 * unit * jnp.abs(ordered[0, 0])
        flat = (now.count >= 10 + jnp.ceil(30 * n / size)) & (
            jnp.maximum(high, worst) - low < least
        )

        wanted = 100 + jnp.ceil(100 * n**1.5 / size)
        third = jnp.ceil(0.3 * wanted)
        stagnant = now.count >= wanted
        for past in (bests, medians):
            new = jnp.nanmedian(jnp.where(age < third, past, jnp.nan))
            old = jnp.nanmedian(jnp.where((age >= wanted - third) & (age < wanted), past, jnp.nan))
            stagnant &= new >= old

        spread = now.sigma * jnp.sqrt(jnp.diag(now.C))
        still = (spread < STILL * state.scale).all() & (
            now.sigma * jnp.abs(now.p_c) < STILL * state.scale
        ).all()
        axis = now.count % n
        no_axis = (now.mean + 0.1 * now.sigma * now.D[axis] * now.B[:, axis] == now.mean).all()
        no_coordinate = (now.mean + 0.2 * spread == now.mean).any()
        thin = (now.D.max() / now.D.min()) ** 2 > min(1e14, 0.1 / float(eps))
        grown = now.sigma * now.D.max() > GROWN * state.scale
        spent = regime.is_small & (regime.spent >= regime.most)
        return flat | stagnant | still | no_axis | no_coordinate | thin | grown | spent

    def _anew(self, state: CMAState) -> CMAState:
        old = state.regime
        key = jax.random.fold_in(wrap_key(state.key), state.asked)
        where, chosen, width = jax.random.split(jax.random.fold_in(key, 1), 3)
        large = old.large + jnp.where(old.is_small, 0, old.spent)
        small = old.small + jnp.where(old.is_small, old.spent, 0)
        is_small = (small < large) & (old.restarts > 0) & (self.kind == "bipop")
        doubled = jnp.where(is_small, old.doubled, jnp.minimum(old.doubled + 1, DOUBLINGS))
        most = old.first * 2**doubled
        u = jax.random.uniform(chosen)
        ratio = jnp.maximum(0.5 * most / old.first, 1.0) ** (u**2)
        reduced = jnp.floor(old.first * ratio).astype(jnp.int32)
        scale = jnp.where(is_small, 10 ** (-2 * jax.random.uniform(width)), 1.0) * state.scale
        regime = Regime(
            population=jnp.where(is_small, reduced, most),
            first=old.first,
            doubled=doubled,
            restarts=old.restarts + 1,
            spent=jnp.zeros_like(old.spent),
            large=large,
            small=small,
            is_small=is_small,
            most=jnp.where(old.is_small, old.most, old.spent // 2),
        )
        shift = AROUND * state.scale * jax.random.normal(where, (self.dimensions,))
        return state._replace(now=self._fresh(state.origin + shift, scale), regime=regime)


def update_distribution(now: Distribution, x, ranks, population) -> Distribution:
    """Update the distribution after a generation x (rows, n) with ranks (rows,).

    The first ``population`` rows count.
    """
    n = now.mean.shape[0]
    p = weights(x.shape[0], n, population, now.mean.dtype)
    w = p.w[ranks]
    live = (jnp.arange(x.shape[0]) < population)[:, None]
    y = jnp.where(live, (x - now.mean) / now.sigma, 0.0)
    y_w = jnp.where(w < 0, 0.0, w) @ y  # (41)
    white = (now.B / now.D) @ now.B.T
    p_sigma = (1 - p.c_sigma) * now.p_sigma + jnp.sqrt(p.c_sigma * (2 - p.c_sigma) * p.mu_eff) * (
        white @ y_w
    )  # (43)
    length = jnp.linalg.norm(p_sigma)
    sigma = now.sigma * jnp.exp((p.c_sigma / p.d_sigma) * (length / p.chi - 1))  # (44)
    grown = 1 - (1 - p.c_sigma) ** (2.0 * (now.count + 1))
    h = jnp.where(length / jnp.sqrt(grown) < (1.4 + 2 / (n + 1)) * p.chi, 1.0, 0.0)
    p_c = (1 - p.c_c) * now.p_c + h * jnp.sqrt(p.c_c * (2 - p.c_c) * p.mu_eff) * y_w  # (45)
    norms = jnp.maximum(((y @ white) ** 2).sum(axis=1), 1e-8)
    w_o = w * jnp.where(w >= 0, 1.0, n / norms)  # (46)
    kept = 1 + p.c_1 * (1 - h) * p.c_c * (2 - p.c_c) - p.c_1 - p.c_mu * p.w.sum()
    C = kept * now.C + p.c_1 * jnp.outer(p_c, p_c) + p.c_mu * ((y.T * w_o) @ y)  # (47)
    return now._replace(
        mean=now.mean + now.sigma * y_w,  # (42)
        sigma=sigma,
        p_sigma=p_sigma,
        p_c=p_c,
        C=(C + C.T) / 2,
        count=now.count + 1,
    )


def weights(rows: int, n: int, population, dtype) -> Weights:
    """Weights and rates for a population size that may be traced; rows beyond it weigh zero."""
    size, i = jnp.asarray(population, dtype), jnp.arange(1, rows + 1, dtype=dtype)
    w = jnp.where(i <= size, jnp.log((size + 1) / 2) - jnp.log(i), 0.0)  # (49)
    better = i <= jnp.floor(size / 2)
    plus, minus = jnp.where(better, w, 0.0), jnp.where(better, 0.0, w)
    mu_eff = plus.sum() ** 2 / (plus**2).sum()  # (8)
    mu_minus = minus.sum() ** 2 / (minus**2).sum()
    c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)  # (56)
    c_1 = 2 / ((n + 1.3) ** 2 + mu_eff)  # (57)
    c_mu = jnp.minimum(1 - c_1 - 1e-8, 2 * (mu_eff + 1 / mu_eff - 2) / ((n + 2) ** 2 + mu_eff))
    least = jnp.minimum(1 + c_1 / c_mu, 1 + 2 * mu_minus / (mu_eff + 2))  # (50), (51)
    least = jnp.minimum(least, (1 - c_1 - c_mu) / (n * c_mu))  # (52)
    scaled = jnp.where(w >= 0, w / plus.sum(), least * w / jnp.abs(minus.sum()))  # (53)
    c_sigma = (mu_eff + 2) / (n + mu_eff + 5)  # (55)
    d_sigma = 1 + 2 * jnp.maximum(0, jnp.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma
    chi = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2)) * jnp.ones((), dtype)
    return Weights(scaled, mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu, chi)
