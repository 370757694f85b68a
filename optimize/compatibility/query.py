"""Queries of a volume: different actions for a situation, or different situations for an action.

Source: Shen, section 6.3. First a CMA-ES leads from a nearby support vector to the point of the
volume nearest to the query; then one for each answer, in turn, moves the answers apart. The printed
sum of the diversity has its penalty with the wrong sign (a minimum would then be incompatible);
here incompatible answers cost, and distances are rewarded.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import CMA_ES
from jax import Array

from optimize.compatibility.space import Space
from optimize.compatibility.volume import Volume

K = 5.0  # weight of the distance to the nearest other answer
NEAR = 1.0  # a support vector this near to what is asked may be the first point (delta), scaled
APPROACH, ITERATIONS = 50, 50  # generations of the two searches
SIGMA = 0.3  # of the first distributions, scaled
OUT = 1e3  # what a point outside the volume costs, and each unit of decision that it lacks
MARGIN = 1.0  # decision that an answer must have; 0 is the boundary, 1 the margin of the machine
ROUNDING = 0.01  # of a decision in float32, at most; what the search asks for beyond the margin


class Answers(NamedTuple):
    """Answers to one query, or with a leading axis to several.

    points: (n, d). decision: (n,) of the volume at these points, in float64. known: (n,) bool, at
    least the margin.
    """

    points: np.ndarray
    decision: np.ndarray
    known: np.ndarray


@dataclass(frozen=True)
class Diverse:
    """Options of a query. margin: the least decision that counts as compatible (thesis: 0)."""

    count: int = 3
    margin: float = MARGIN
    iterations: int = ITERATIONS
    seed: int = 0

    def __post_init__(self):
        if self.count < 1 or self.iterations < 1:
            raise ValueError("a query is for at least one answer, by at least one iteration")
        if not np.isfinite(self.margin):
            raise ValueError(f"the margin must be a number, got {self.margin}")


def diverse(
    space: Space, volume: Volume, given: Mapping[str, Any], options: Diverse | None = None
) -> tuple[Answers, float]:
    """Diverse answers to queries that fix the numbers of ``given``; and the seconds that it took.

    given: name -> value, or k values for k queries at once (all numbers with equally many). The
    numbers of the state, and actions are answered, or the other way round; any others will do.
    Raises KeyError for an unknown number, ValueError where none or all are given, a value is
    outside its range, or the volume has no compatible support vector.
    """
    options = options or Diverse()
    fixed, queries = _asked(space, given)
    seeds = _first_points(space, volume, fixed, queries, options)
    low, high = (space.scaled(bound) for bound in (space.lower, space.upper))
    wide = tuple(jnp.asarray(x) for x in (seeds, space.scaled(queries)))
    keys = jax.random.split(jax.random.key(options.seed, impl="threefry2x32"), len(queries))
    search = _search(fixed, options.count, options.iterations)
    began = time.perf_counter()
    least = options.margin + ROUNDING
    z = jax.block_until_ready(
        search(keys, *wide, volume, jnp.asarray(low), jnp.asarray(high), least)
    )
    took = time.perf_counter() - began
    points = np.clip(space.points(np.asarray(z)), space.lower, space.upper)
    points[..., fixed] = queries[:, None, fixed]
    with jax.enable_x64(True):
        decision = np.asarray(volume.decision(space.scaled(points)))
    answers = Answers(points, decision, decision >= options.margin)
    if all(np.ndim(value) == 0 for value in given.values()):
        answers = Answers(*(x[0] for x in answers))
    return answers, took


def _asked(space: Space, given: Mapping[str, Any]) -> tuple[tuple[int, ...], np.ndarray]:
    """Indices of the given numbers, and points (k, d) that hold them, elsewhere the middle."""
    columns = {space.index(name): np.atleast_1d(np.asarray(v, float)) for name, v in given.items()}
    sizes = {len(column) for column in columns.values()}
    if not columns or len(columns) == space.size:
        raise ValueError("give some numbers and leave some to be answered, as the state's")
    if len(sizes) != 1:
        raise ValueError(f"all numbers need equally many values, got {sorted(sizes)}")
    points = np.tile((space.lower + space.upper) / 2, (sizes.pop(), 1))
    for k, column in columns.items():
        bad = ~((column >= space.lower[k]) & (column <= space.upper[k]))
        if bad.any():
            raise ValueError(
                f"{space.names[k]} = {column[bad][0]:g} is outside of what was sampled,"
                f" {space.lower[k]:g} to {space.upper[k]:g}"
            )
        points[:, k] = column
    return tuple(sorted(columns)), points


def _first_points(space: Space, volume: Volume, fixed, queries, options: Diverse) -> np.ndarray:
    """First point (k, d), scaled, of each query: a random nearby compatible support vector."""
    arrays = volume.arrays
    vectors = arrays["support"][arrays["weight"] > 0]
    vectors = vectors[space.inside(space.points(vectors))]
    if not len(vectors):
        raise ValueError("the volume has no compatible support vector within the ranges")
    rng, own = np.random.default_rng(options.seed), list(fixed)
    out = []
    for z in space.scaled(queries):
        distance = np.linalg.norm(vectors[:, own] - z[own], axis=1)
        near = np.flatnonzero(distance < NEAR)
        out.append(vectors[rng.choice(near) if len(near) else int(np.argmin(distance))])
    return np.array(out)


@cache
def _strategy(dimensions: int, dtype: str) -> tuple[CMA_ES, Any]:
    population = 4 + int(3 * np.log(dimensions))
    with jax.ensure_compile_time_eval():  # cached, so nothing in it may be traced
        algorithm = CMA_ES(population, jnp.zeros(dimensions, dtype), metrics_fn=lambda *_: {})
        return algorithm, algorithm.default_params


def _begun(key: Array, mean: Array) -> tuple[CMA_ES, Any, Any]:
    algorithm, params = _strategy(mean.shape[0], str(mean.dtype))
    state = algorithm.init(key, mean, params)
    return algorithm, params, state.replace(std=jnp.full_like(state.std, SIGMA))


@cache
def _search(fixed: tuple[int, ...], count: int, iterations: int):
    """Program for all queries of one kind: answers (k, count, d), scaled."""

    def one(key, seed, query, volume, low, high, margin):
        def penalty(z):
            lacks = jnp.maximum(margin - volume.decision(z), 0.0)
            beyond = jnp.sum(jnp.maximum(low - z, 0.0) + jnp.maximum(z - high, 0.0), axis=-1)
            return jnp.where((lacks > 0) | (beyond > 0), OUT * (1 + lacks + beyond), 0.0)

        own = np.array(fixed)
        free = np.setdiff1d(np.arange(seed.shape[0]), own)
        first, second = jax.random.split(key)
        near = _approach(first, seed, query[own], own, penalty)

        def whole(part):
            return jnp.zeros((*part.shape[:-1], len(seed)), part.dtype).at[..., own].set(
                query[own]
            ).at[..., free].set(part)  # fmt: skip

        part = _apart(second, near[free], count, iterations, lambda part: penalty(whole(part)))
        return whole(part)

    return jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None, None, None, None)))


def _approach(key: Array, seed: Array, target: Array, fixed: np.ndarray, penalty) -> Array:
    """Point (d,) of least |s - asked| + penalty that a CMA-ES finds from ``seed``."""

    def cost(z):
        return jnp.linalg.norm(z[..., fixed] - target, axis=-1) + penalty(z)

    algorithm, params, state = _begun(key, seed)

    def generation(carry, key):
        state, best, least = carry
        ask, tell = jax.random.split(key)
        z, state = algorithm.ask(ask, state, params)
        costs = cost(z)
        state, _ = algorithm.tell(tell, z, costs, state, params)
        k = jnp.argmin(costs)
        better = costs[k] < least
        return (state, jnp.where(better, z[k], best), jnp.minimum(costs[k], least)), None

    first = (state, seed, cost(seed))
    (_, best, _), _ = jax.lax.scan(generation, first, jax.random.split(key, APPROACH))
    return best


def _apart(key: Array, start: Array, count: int, iterations: int, penalty) -> Array:
    """Answers (count, free) of least diversity cost, each moved by its own CMA-ES in turn."""

    def cost(answers):  # (count, free) -> (), section 6.3
        distance = jnp.linalg.norm(answers[:, None] - answers[None] + 1e-30, axis=-1)
        alone = jnp.where(jnp.eye(count, dtype=bool), jnp.inf, distance).min(axis=1)
        alone = jnp.where(jnp.isfinite(alone), alone, 0.0)
        return penalty(answers).sum() - distance.sum() - K * count * alone.sum()

    algorithm, params, state = _begun(key, start)
    states = jax.tree.map(lambda x: jnp.stack([x] * count), state)

    def turn(i, carry, key):
        states, answers, least = carry
        ask, tell = jax.random.split(key)
        own = jax.tree.map(lambda x: x[i], states)
        tried, own = algorithm.ask(ask, own, params)
        costs = jax.vmap(lambda one: cost(answers.at[i].set(one)))(tried)
        own, _ = algorithm.tell(tell, tried, costs, own, params)
        states = jax.tree.map(lambda all, one: all.at[i].set(one), states, own)
        k = jnp.argmin(costs)
        better = costs[k] < least
        answers = jnp.where(better, answers.at[i].set(tried[k]), answers)
        return states, answers, jnp.minimum(costs[k], least)

    def generation(carry, key):
        keys = jax.random.split(key, count)
        body = partial(jax.lax.fori_loop, 0, count)
        return body(lambda i, carry: turn(i, carry, keys[i]), carry), None

    answers = jnp.stack([start] * count)
    begun = (states, answers, cost(answers))
    (_, answers, _), _ = jax.lax.scan(generation, begun, jax.random.split(key, iterations))
    return answers
