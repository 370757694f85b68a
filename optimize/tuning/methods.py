"""Search methods behind one interface: ``init``, ``ask``, ``tell`` on arrays.

A state is a tree of arrays, so that it can be saved and a run resumed exactly; all three functions
are traceable, so that many runs advance in one program (optimize.tuning.generation). CMA-ES, its
separable form, OpenAI-ES and random search are evosax's; CMA-ES with restarts is in
optimize.tuning.restarts, optimisers along the gradient in optimize.tuning.descent.

>>> import numpy as np
>>> search = method("cma", dimensions=3, population=8)
>>> state = search.init(np.zeros(3), 0.5, 8, 0)
>>> for _ in range(40):
...     x, state = search.ask(state)
...     state = search.tell(state, x, (x**2).sum(axis=1))
>>> bool(np.abs(search.mean(state)).max() < 0.1)
True
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypedDict

import jax
import jax.numpy as jnp
import optax
from evosax.algorithms import CMA_ES, Open_ES, RandomSearch, Sep_CMA_ES

from optimize.tuning.descent import optimiser
from optimize.tuning.keys import generation_keys, run_key, strong, wrap_key
from optimize.tuning.names import EVOLUTION
from optimize.tuning.restarts import CMA

SMALLEST_STEP = 1e-12  # of the initial sigma: a converged run idles, and never divides by zero
RATE = 0.2  # of OpenAI-ES, in initial step sizes


class Method(Protocol):
    """Search method of one run; all of it is traceable, and fitness is minimised.

    rows    members that ``ask`` gives; those from ``size(state)`` on are not to be evaluated
    ranked  ``tell`` takes ranks, 0 the best: only the order matters, and no value overflows
    gradient_based  ``tell`` takes derivatives too, and handles failed members itself
    parted  ``tell`` takes fitness (rows, 2): its value, and the remainder beyond the precision
    """

    @property
    def rows(self) -> int: ...
    @property
    def ranked(self) -> bool: ...
    @property
    def gradient_based(self) -> bool: ...
    @property
    def parted(self) -> bool: ...

    def init(self, mean: Any, sigma: Any, population: Any, seed: Any) -> Any:
        """State of a run that begins at mean (n,) with step size sigma."""
        ...

    def ask(self, state: Any) -> tuple[Any, Any]:
        """Sample members (rows, n); returned with the state that ``tell`` takes."""
        ...

    def tell(self, state: Any, x: Any, fitness: Any, slope: Any = None) -> Any:
        """Update the state. fitness (rows,), infinite where a member failed; slope (rows, n)."""
        ...

    def mean(self, state: Any) -> Any:
        """Mean (n,) of the search distribution."""
        ...

    def sigma(self, state: Any) -> Any:
        """Step size of the search distribution."""
        ...

    def size(self, state: Any) -> Any:
        """Number of rows of ``ask`` that are to be evaluated."""
        ...

    def restarts(self, state: Any) -> Any:
        """Number of restarts so far."""
        ...


class EvosaxState(NamedTuple):
    inner: Any  # of evosax
    key: jax.Array  # (2,) of the run; each generation folds its number in
    asked: jax.Array  # generations
    origin: jax.Array  # (n,) the first mean
    scale: jax.Array  # the first sigma


@dataclass(frozen=True)
class Evosax:
    """Algorithm of evosax as a ``Method``.

    ``scaled``: it works in units of the first sigma around the first mean, for its step size is
    built in.
    """

    kind: str
    dimensions: int
    rows: int
    ranked: bool = True
    gradient_based: bool = False
    parted: bool = False

    @property
    def scaled(self) -> bool:
        return self.kind in ("openai-es", "random")

    def init(self, mean, sigma, population, seed) -> EvosaxState:
        mean = jnp.asarray(mean, float)
        scale = jnp.asarray(sigma, mean.dtype)
        algorithm, params = self._made(scale)
        key = run_key(seed)
        first = jnp.zeros_like(mean) if self.scaled else mean
        inner = algorithm.init(wrap_key(key), first, params)
        if not self.scaled:
            inner = inner.replace(std=scale)
        return EvosaxState(strong(inner), key, jnp.zeros((), jnp.int32), mean, scale)

    def ask(self, state: EvosaxState):
        algorithm, params = self._made(state.scale)
        key, _ = generation_keys(state)
        x, inner = algorithm.ask(key, state.inner, params)
        x = state.origin + state.scale * x if self.scaled else x
        return x, state._replace(inner=strong(inner), asked=state.asked + 1)

    def tell(self, state: EvosaxState, x, fitness, slope=None) -> EvosaxState:
        algorithm, params = self._made(state.scale)
        _, key = generation_keys(state._replace(asked=state.asked - 1))
        x = (x - state.origin) / state.scale if self.scaled else x
        fitness = jnp.minimum(fitness, jnp.finfo(state.scale.dtype).max)
        inner, _ = algorithm.tell(key, x, fitness, state.inner, params)
        return state._replace(inner=strong(inner))

    def mean(self, state: EvosaxState):
        mean = state.inner.mean
        return state.origin + state.scale * mean if self.scaled else mean

    def sigma(self, state: EvosaxState):
        return state.scale if self.scaled else state.inner.std

    def size(self, state: EvosaxState):
        return jnp.full((), self.rows, jnp.int32)

    def restarts(self, state: EvosaxState):
        return jnp.zeros((), jnp.int32)

    def _made(self, scale):
        precision = jnp.zeros(()).dtype.name
        algorithm, params = _algorithm(self.kind, self.rows, self.dimensions, precision)
        if not self.scaled:
            params = params.replace(std_min=SMALLEST_STEP * scale)
        return algorithm, params


class _Plain(TypedDict):
    metrics_fn: Any


@functools.lru_cache(maxsize=32)
def _algorithm(kind: str, population: int, dimensions: int, precision: str) -> tuple[Any, Any]:
    """Algorithm of evosax with its parameters, cached by size.

    evosax caches its compiled methods per object.
    """
    with jax.ensure_compile_time_eval():
        origin, plain = jnp.zeros(dimensions, precision), _Plain(metrics_fn=lambda *_: {})
        if kind == "random":
            made = RandomSearch(
                population, origin, lambda key: jax.random.normal(key, (dimensions,)), **plain
            )
        elif kind == "openai-es":
            made = Open_ES(population, origin, optimizer=optax.adam(RATE), **plain)
        else:
            made = {"cma": CMA_ES, "sep-cma": Sep_CMA_ES}[kind](population, origin, **plain)
        return made, made.default_params


def method(name: str, *, dimensions: int, population: int, restarts: str | None = None) -> Method:
    """Create a method by name: one of ``EVOLUTION``, or an optimiser of optax as adam or adam@0.1.

    A number after '@' is the learning rate in step sizes.

    restarts: "ipop" or "bipop", or "masked" for CMA-ES whose population differs between runs
    (``population`` is then the largest). Raises ValueError.
    """
    if restarts is not None:
        if name != "cma":
            raise ValueError(f"restarts and populations by run are of the method cma, not {name}")
        return CMA(dimensions, population, restarts)
    if name not in EVOLUTION:
        return optimiser(name)
    if name == "openai-es" and population % 2:
        raise ValueError(f"openai-es samples pairs: its population is even, not {population}")
    return Evosax(name, dimensions, population, ranked=name != "random")
