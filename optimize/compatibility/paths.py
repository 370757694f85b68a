"""Sampling along paths: distributions that move apart within what is compatible.

Source: Shen, section 6.1. Each of d + 1 paths is a CMA-ES; the fitness of its points grows with
their distance from the best points of the other paths (equation 6.1) and with their spread across
the direction of their own path (equation 6.2). Path after path updates in turn, as there; because
what a path samples depends on its own past alone, the points of all paths are simulated as one
batch.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import CMA_ES

from optimize.compatibility.space import Space

K, K2 = 5.0, 2.0  # weights of the smallest distance, and of the breadth
C = 1e6  # what an incompatible point loses
POPULATION = 7  # of a path, in each generation
SIGMA = 0.5  # of the first distribution, in the units of distances; the thesis has no number


class Path(NamedTuple):
    """Previous and current best point of a path, scaled."""

    last: np.ndarray  # (d,) the best point of the generation before
    best: np.ndarray  # (d,) of the last generation


def depth(z: np.ndarray, yes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Depth (n,) of points z (n, d) beside the best ones of other paths (m, d), equation 6.1."""
    distance = np.linalg.norm(z[:, None] - others[None], axis=-1)
    return distance.sum(axis=1) + K * distance.min(axis=1) - C * ~yes


def worth(z: np.ndarray, yes: np.ndarray, deep: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Fitness (n,) of points z (n, d), equation 6.2, with ``deep`` of equation 6.1.

    A compatible point that is not the best gains ``K2`` times its distance from the line through
    ``last`` (d,) and the best, and loses the square of its distance from the best along that line.
    """
    k = int(np.argmax(deep))
    best = z[k]
    way = best - last
    length = np.linalg.norm(way)
    along = way / length if length > 0 else np.zeros_like(way)
    projected = best + ((z - best) @ along)[:, None] * along
    breadth = np.linalg.norm(z - projected, axis=1)
    behind = np.linalg.norm(projected - best, axis=1)
    out = np.where(
        yes,
        np.maximum(0.0, deep + K2 * breadth - behind**2),
        -np.linalg.norm(z - best, axis=1),
    )
    out[k] = deep[k]
    return out


class _Strategy(NamedTuple):
    algorithm: CMA_ES
    params: Any
    ask: Any  # of all paths at once
    tell: Any


@cache
def _strategy(population: int, dimensions: int, dtype: str) -> _Strategy:
    algorithm = CMA_ES(population, jnp.zeros(dimensions, dtype), metrics_fn=lambda *_: {})
    ask = jax.jit(jax.vmap(algorithm.ask, (0, 0, None)))
    tell = jax.jit(jax.vmap(algorithm.tell, (0, 0, 0, 0, None)))
    return _Strategy(algorithm, algorithm.default_params, ask, tell)


def _cpu():
    """Context on the CPU, where small eigenproblems are fast, wherever the simulations run."""
    return jax.default_device(jax.devices("cpu")[0])


class PathSampler:
    """Sampler along paths: ``ask`` for points, ``tell`` their answers; reproducible by its seed.

    n: paths, by default d + 1. A batch is the ``POPULATION`` points of each path in turn.
    """

    def __init__(
        self,
        space: Space,
        start: np.ndarray,
        seed: int,
        n: int | None = None,
        sigma: float = SIGMA,
        population: int = POPULATION,
    ):
        self.space, self.population = space, population
        self.n = space.size + 1 if n is None else n
        if not self.n >= 2:
            raise ValueError(f"paths move apart, so there are at least 2 of them; got {self.n}")
        z = space.scaled(start)
        self.paths = [Path(z, z)] * self.n
        self.key = jax.random.key(seed, impl="threefry2x32")
        self.round = 0
        with _cpu():
            mean = jnp.asarray(z)
            self._cma = _strategy(population, space.size, str(mean.dtype))
            states = [self._cma.algorithm.init(self.key, mean, self._cma.params)] * self.n
            state: Any = jax.tree.map(lambda *x: jnp.stack(x), *states)
            self.state = state.replace(std=jnp.full_like(state.std, sigma))

    def _keys(self, what: int) -> Any:
        return jax.random.split(jax.random.fold_in(self.key, 2 * self.round + what), self.n)

    def ask(self) -> np.ndarray:
        """Sample points (n * population, d)."""
        with _cpu():
            self._z, self.state = self._cma.ask(self._keys(0), self.state, self._cma.params)
        return self.space.points(np.asarray(self._z)).reshape(-1, self.space.size)

    def tell(self, yes: np.ndarray) -> None:
        """Update by the answers to the points of the last ``ask``."""
        z, yes = np.asarray(self._z, float), np.asarray(yes).reshape(self.n, -1)
        ranks = np.empty(yes.shape)
        for m in range(self.n):
            others = np.stack([path.best for j, path in enumerate(self.paths) if j != m])
            deep = depth(z[m], yes[m], others)
            valued = worth(z[m], yes[m], deep, self.paths[m].best)
            ranks[m] = np.argsort(np.argsort(-valued, kind="stable"), kind="stable")
            self.paths[m] = Path(self.paths[m].best, z[m][int(np.argmax(deep))])
        with _cpu():
            told = self._z, jnp.asarray(ranks, self._z.dtype), self.state, self._cma.params
            self.state, _ = self._cma.tell(self._keys(1), *told)
        self.round += 1
