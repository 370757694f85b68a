"""One generation of CMA-ES: ask, evaluate, tell.

Three choices of our own:

- The strategy is told ranks, not fitness values. CMA-ES uses nothing but the order, so nothing is
  lost; a failed simulation is simply last, no value can overflow float32, and equal fitness (all
  failed members among it) does not distort the weights.
- A generation in which every member failed teaches nothing: mean, step size and covariance stay
  as they are, and the next generation samples anew.
- The optimiser itself always runs on the CPU, where small eigenproblems are at home; what
  `evaluate` does is not affected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import CMA_ES

from optimize.problems.evaluation import Evaluate, Evaluation
from optimize.tuning.checkpoint import Checkpoint, GenerationRecord, Settings, on_host

_SMALLEST_STEP = 1e-12  # of the initial sigma: a converged run idles, and never divides by zero
_KEY_KIND = "threefry2x32"  # the same numbers whatever the default generator is


class _Strategy(NamedTuple):
    algorithm: CMA_ES
    params: Any
    state: Any  # a state of the right structure


@functools.lru_cache(maxsize=16)
def _strategy(population: int, dimensions: int, precision: str) -> _Strategy:
    """evosax's CMA-ES; one object per size, because its jitted methods are cached per object."""
    with _cpu():
        origin = jnp.zeros(dimensions, dtype=precision)
        algorithm = CMA_ES(population, origin, metrics_fn=lambda *_: {})
        params = on_host(algorithm.default_params)
        state = on_host(algorithm.init(_key(0), origin, params))
    return _Strategy(algorithm, params, state)


def initial(settings: Settings) -> Checkpoint:
    """The state before anything was evaluated."""
    template = _strategy(settings.population, settings.dimensions, settings.precision).state
    start = template.replace(
        mean=settings.mean, std=np.asarray(settings.sigma, dtype=settings.precision)
    )
    return Checkpoint(
        settings=settings,
        state={field.name: getattr(start, field.name) for field in dataclasses.fields(start)},
        key=np.asarray(jax.random.key_data(_key(settings.seed))),
        generation=-1,
        best_x=settings.mean,
        best_fitness=math.inf,
        best_parts={},
        history=0,
    )


def advance(checkpoint: Checkpoint, evaluate: Evaluate) -> tuple[Checkpoint, GenerationRecord]:
    """The next generation, or the start. Pure apart from `evaluate` and the clock."""
    settings = checkpoint.settings
    if checkpoint.generation < 0:
        x = np.tile(settings.mean, (settings.population, 1))
        return _commit(checkpoint, checkpoint.state, x, _assess(evaluate, x, rows=1))

    algorithm, params, template = _strategy(
        settings.population, settings.dimensions, settings.precision
    )
    smallest = np.asarray(_SMALLEST_STEP * settings.sigma, dtype=settings.precision)
    params = params.replace(std_min=smallest)
    with _cpu():
        ask_key, tell_key = _generation_keys(checkpoint.key, np.int32(checkpoint.generation))
        before = type(template)(**checkpoint.state)
        x, asked = on_host(algorithm.ask(ask_key, before, params))
    assessed = _assess(evaluate, x, rows=settings.population)
    state = checkpoint.state
    if assessed.healthy.any():
        ranks = _ranks(assessed).astype(settings.precision)
        with _cpu():
            told, _ = on_host(algorithm.tell(tell_key, x, ranks, asked, params))
        state = {name: getattr(told, name) for name in state}
        _check_finite(state, checkpoint.generation)
    return _commit(checkpoint, state, x, assessed)


class _Assessed(NamedTuple):
    fitness: np.ndarray  # (P,) float64
    parts: dict[str, np.ndarray]  # (P,) float64 each
    healthy: np.ndarray  # (P,) bool
    steps: int
    seconds: float


def _assess(evaluate: Evaluate, x: np.ndarray, rows: int) -> _Assessed:
    """Evaluate, check the shapes, and keep the first `rows` members."""
    began = time.perf_counter()
    evaluation = evaluate(x.copy())
    if not isinstance(evaluation, Evaluation):
        raise TypeError(f"evaluate returned {type(evaluation).__name__}, not an Evaluation")
    size = len(x)
    fitness = _column("fitness", evaluation.fitness, size)
    failed = np.asarray(evaluation.failed, dtype=bool)
    if failed.shape not in ((), (size,)):
        raise ValueError(f"evaluate gave failed of shape {failed.shape}, expected ({size},)")
    parts = {name: _column(name, value, size)[:rows] for name, value in evaluation.parts.items()}
    seconds = time.perf_counter() - began
    healthy = np.isfinite(fitness) & ~failed
    return _Assessed(fitness[:rows], parts, healthy[:rows], int(evaluation.steps), seconds)


def _column(name: str, value: Any, size: int) -> np.ndarray:
    column = np.asarray(value, dtype=np.float64)
    if column.shape != (size,):
        raise ValueError(f"evaluate gave {name} of shape {column.shape}, expected ({size},)")
    return column


def _ranks(assessed: _Assessed) -> np.ndarray:
    """(P,) 0 for the best; failed members last; equals in the order of their sampling."""
    order = np.argsort(np.where(assessed.healthy, assessed.fitness, np.inf), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return ranks


def _check_finite(state: dict[str, np.ndarray], generation: int) -> None:
    bad = [name for name in ("mean", "std", "C") if not np.isfinite(state[name]).all()]
    if bad or not state["std"] > 0.0:
        raise FloatingPointError(
            f"generation {generation}: {', '.join(bad) or 'std'} of the search distribution is"
            " no longer sound. The last checkpoint is from before; a new run may need a smaller"
            " sigma, better scales, or 64-bit floats"
        )


def _commit(
    checkpoint: Checkpoint, state: dict[str, np.ndarray], x: np.ndarray, assessed: _Assessed
) -> tuple[Checkpoint, GenerationRecord]:
    """Update the best member, and write down the generation."""
    healthy = assessed.fitness[assessed.healthy]
    best_parts: dict[str, float | None] = {}
    archive = {}
    if healthy.size:
        i = int(np.argmin(np.where(assessed.healthy, assessed.fitness, np.inf)))
        best_parts = {name: _finite(column[i]) for name, column in assessed.parts.items()}
        if assessed.fitness[i] < checkpoint.best_fitness:
            archive = {
                "best_x": x[i].copy(),
                "best_fitness": float(assessed.fitness[i]),
                "best_parts": best_parts,
            }
    advanced = dataclasses.replace(
        checkpoint,
        state=state,
        generation=checkpoint.generation + 1,
        history=checkpoint.history + 1,
        **archive,
    )
    reductions = {"best": np.min, "median": np.median, "mean": np.mean, "worst": np.max}
    numbers: Any = {
        name: _finite(f(healthy)) if healthy.size else None for name, f in reductions.items()
    }
    record = GenerationRecord(
        generation=checkpoint.generation,
        **numbers,
        failures=len(assessed.healthy) - healthy.size,
        sigma=float(state["std"]),
        best_parts=best_parts,
        best_ever=_finite(advanced.best_fitness),
        steps=assessed.steps,
        seconds=assessed.seconds,
        steps_per_second=assessed.steps / max(assessed.seconds, 1e-9),
    )
    return advanced, record


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


# ---- keys, devices


def _key(seed: int) -> jax.Array:
    return jax.random.key(np.uint32(seed), impl=_KEY_KIND)


@jax.jit
def _generation_keys(key_data: np.ndarray, generation: np.ndarray) -> tuple[jax.Array, jax.Array]:
    key = jax.random.wrap_key_data(jnp.asarray(key_data), impl=_KEY_KIND)
    ask_key, tell_key = jax.random.split(jax.random.fold_in(key, generation))
    return ask_key, tell_key


def _cpu() -> contextlib.AbstractContextManager:
    """Place what follows on the CPU; anywhere, if JAX was told to know no CPU."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        return contextlib.nullcontext()
