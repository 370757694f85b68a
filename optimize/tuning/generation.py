"""One generation of all runs of a search: ask, evaluate, tell.

Design choices:

- Members are passed on, and their fitness ranked, in float64, whatever the precision of a method:
  where the fitness has a large offset, float32 could not tell members apart.
- A method that uses only the order is given ranks: a failed simulation ranks last, no value can
  overflow float32, and equal fitness (of all failed members too) does not distort the weights. A
  method that compares generations as well is given two numbers, whose sum is the value.
- A generation in which every member of a run failed teaches nothing: its distribution stays as it
  is, and the next generation samples again.
- Runs go one after another through one loop of one program, so that a run does not depend on its
  neighbours, to the last bit. The methods always run on the CPU, where small eigenproblems are
  fast; what `evaluate` does is not affected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from optimize.tuning.checkpoint import Checkpoint, GenerationRecord, Settings, on_host
from optimize.tuning.evaluators import EvaluatedRun, Evaluators, assess
from optimize.tuning.methods import Method, method
from optimize.tuning.names import stages

SMALLEST = 1e-3  # of the first sigma, for a stage that goes on after another

# ---- programs of all runs


def _each(function: Callable, *trees: Any) -> Any:
    """Map a function over the runs in a loop of at least two rounds.

    A loop of one round would be compiled to another program.
    """
    runs = jax.tree.leaves(trees)[0].shape[0]
    index = jnp.arange(max(runs, 2)) % runs
    padded = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], trees)
    found = jax.lax.map(lambda one: function(*one), padded)
    return jax.tree.map(lambda leaf: leaf[:runs], found)


@functools.partial(jax.jit, static_argnames="search")
def init(search: Method, mean, sigma, population, seed):
    return _each(search.init, mean, sigma, population, seed)


@functools.partial(jax.jit, static_argnames="search")
def ask(search: Method, states):
    def one(state):
        size = search.size(state)
        x, asked = search.ask(state)
        return x, size, asked

    return _each(one, states)


@functools.partial(jax.jit, static_argnames="search")
def tell(search: Method, states, x, fitness, slope):
    """Update the method states of all runs.

    A run without a healthy member keeps the state that ``ask`` left.
    """

    def one(state, x, fitness, slope):
        told = search.tell(state, x, fitness, slope)
        if search.gradient_based:
            return told
        healthy = (fitness < jnp.inf).any()
        return jax.tree.map(lambda a, b: jnp.where(healthy, a, b), told, state)

    return _each(one, states, x, fitness, slope)


@functools.partial(jax.jit, static_argnames="search")
def figures(search: Method, states):
    """Mean (R, n), step size sigma (R,) and number of restarts (R,) of the runs."""
    return _each(lambda s: (search.mean(s), search.sigma(s), search.restarts(s)), states)


# ---- the state of all runs


def search_of(settings: Settings, stage: int) -> Method:
    """Search method of one stage of the chain."""
    return method(
        stages(settings.method)[stage].name,
        dimensions=settings.mean.shape[0],
        population=int(settings.population.max()),
        restarts=settings.restarts or None,
    )


def begin(settings: Settings, stage: int, mean: np.ndarray, sigma: np.ndarray) -> dict:
    """Method states by path of runs that begin a stage at mean (R, n) with step size sigma (R,)."""
    seed = settings.seed + np.uint32(stage)
    with _cpu():
        states = init(
            search_of(settings, stage),
            mean.astype(settings.precision),
            sigma.astype(settings.precision),
            settings.population,
            seed,
        )
    return by_path(on_host(states))


def initial(settings: Settings) -> Checkpoint:
    """Checkpoint before the first evaluation."""
    runs = settings.runs
    mean = np.tile(settings.mean, (runs, 1))
    return Checkpoint(
        settings=settings,
        stage=0,
        state=begin(settings, 0, mean, settings.sigma),
        generation=-1,
        best_x=mean,
        best_fitness=np.full(runs, np.inf),
        best_parts=[{} for _ in range(runs)],
        history=0,
    )


def by_path(tree: Any) -> dict[str, np.ndarray]:
    return {jax.tree_util.keystr(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(tree)}


@functools.lru_cache(maxsize=32)
def _structure(search: Method, dimensions: int, precision: str) -> Any:
    """Tree structure of a method's state, without values."""
    with _cpu():
        return jax.eval_shape(
            lambda mean: search.init(mean, 1.0, search.rows, 0),
            jax.ShapeDtypeStruct((dimensions,), precision),
        )


def states_of(checkpoint: Checkpoint) -> tuple[Method, Any]:
    """Search method of a checkpoint, and the states of all runs as it takes them."""
    settings = checkpoint.settings
    search = search_of(settings, checkpoint.stage)
    tree = _structure(search, settings.mean.shape[0], settings.precision)
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(tree)]
    leaves = [checkpoint.state[path] for path in paths]
    return search, jax.tree.unflatten(jax.tree.structure(tree), leaves)


def distributions_of(checkpoint: Checkpoint) -> tuple[np.ndarray, np.ndarray]:
    """Mean (R, n) and step size sigma (R,) of the runs' search distributions."""
    search, states = states_of(checkpoint)
    with _cpu():
        mean, sigma, _ = on_host(figures(search, states))
    return mean, sigma


# ---- a generation


def advance(
    checkpoint: Checkpoint, evaluators: Evaluators
) -> tuple[Checkpoint, list[GenerationRecord]]:
    """Advance all runs by one generation, or evaluate the start.

    Pure apart from `evaluators` and the clock.
    """
    checkpoint, vetoes = _in_its_stage(checkpoint, evaluators)
    settings = checkpoint.settings
    search, states = states_of(checkpoint)
    if checkpoint.generation < 0:
        x = [np.tile(settings.mean, (int(_rows(search, p)), 1)) for p in settings.population]
        assessed = assess(evaluators, search.gradient_based, x, _calls(settings, search))
        if search.gradient_based and not any(one.healthy.any() for one in assessed):
            raise FloatingPointError("the loss or its derivative is not finite at the start")
        first, none = [one.first() for one in assessed], np.zeros(settings.runs, int)
        new_states = np.tile(settings.mean, (settings.runs, 1)), settings.sigma, none
        return _commit(checkpoint, checkpoint.state, first, new_states, [[]] * settings.runs)
    with _cpu():
        x, size, asked = on_host(ask(search, states))
    members = [rows[:count] for rows, count in zip(x, size)]
    assessed = assess(evaluators, search.gradient_based, members, _calls(settings, search))
    fitness, slope = _told(search, x, assessed, settings.precision)
    with _cpu():
        new_states = on_host(tell(search, asked, x, fitness, slope))
        new_states, notes = _sound(search, new_states, asked, assessed, checkpoint.generation)
        now = on_host(figures(search, new_states))
    notes = [[*vetoes, *own] for own in notes]
    return _commit(checkpoint, by_path(new_states), assessed, now, notes)


def _in_its_stage(checkpoint: Checkpoint, evaluators: Evaluators) -> tuple[Checkpoint, list[str]]:
    """Checkpoint in the stage of the chain that is due.

    A new stage begins at the best member of each run. A stage along a derivative that is not worth
    following is left out: the one before goes on, and a note says why.
    """
    settings, ends, notes = checkpoint.settings, 0, []
    for number, stage in enumerate(stages(settings.method)[:-1], start=1):
        ends += stage.generations or 0
        if number <= checkpoint.stage or checkpoint.generation != ends:
            continue
        search, (_, sigma) = search_of(settings, number), distributions_of(checkpoint)
        sigma = np.clip(sigma, SMALLEST * settings.sigma, settings.sigma)
        if search.gradient_based and evaluators.veto is not None:
            notes = [
                reason for reason in [evaluators.veto(search, checkpoint.best_x, sigma)] if reason
            ]
        if not notes:
            state = begin(settings, number, checkpoint.best_x, sigma)
            checkpoint = dataclasses.replace(checkpoint, stage=number, state=state)
    return checkpoint, notes


def _rows(search: Method, population: int) -> int:
    return 1 if search.gradient_based else population


def _calls(settings: Settings, search: Method) -> int:
    """Rows in one call of `evaluate`."""
    return int(sum(_rows(search, p) for p in settings.population))


def _told(search: Method, x: np.ndarray, assessed: list[EvaluatedRun], precision: str):
    """Fitness and slopes of the members in the form that the method takes.

    fitness (R, rows), infinite for failed members and rows that do not count, or (R, rows, 2) where
    the method takes two parts; slope (R, rows, n), or None.
    """
    fitness = np.full(x.shape[:2], np.inf)
    slope = np.zeros_like(x) if search.gradient_based else None
    most = float(np.finfo(precision).max)
    for number, one in enumerate(assessed):
        values = np.where(one.healthy, one.fitness, np.inf)
        if search.ranked and one.healthy.any():
            values = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
        elif not search.ranked:
            values = np.where(one.healthy, np.clip(values, -most, most), np.inf)
        fitness[number, : len(values)] = values
        if slope is not None and one.slope is not None:
            slope[number, : len(values)] = one.slope
    return _parted(fitness, precision) if search.parted else fitness.astype(precision), slope


def _parted(fitness: np.ndarray, precision: str) -> np.ndarray:
    """Split values into a coarse part in a precision and the remainder: (..., 2).

    Both are infinite where the value is.
    """
    coarse = fitness.astype(precision)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(coarse), np.inf, fitness - coarse)
    return np.stack([coarse, rest.astype(precision)], axis=-1)


def _sound(
    search: Method, new_states: Any, old_states: Any, assessed: list[EvaluatedRun], generation: int
):
    """Replace method states that are no longer finite by those before, with a note for each run.

    Raises FloatingPointError where that is so of every run.
    """
    leaves = by_path(new_states)
    floats = {p: v for p, v in leaves.items() if v.dtype.kind == "f"}
    runs = len(assessed)
    lost = {p: np.isnan(v).reshape(runs, -1).any(axis=1) for p, v in floats.items()}
    mean, sigma, _ = on_host(figures(search, new_states))
    lost["mean"] = ~np.isfinite(mean).all(axis=1)
    lost["sigma"] = ~(np.isfinite(sigma) & (sigma > 0))
    told_any = np.array([search.gradient_based or one.healthy.any() for one in assessed])
    broken = np.any([*lost.values()], axis=0) & told_any
    if not broken.any():
        return new_states, [[]] * runs
    names = ", ".join(sorted({p.rpartition(".")[2] for p, bad in lost.items() if bad.any()}))
    told_of = f"{names} of the search distribution is no longer sound"
    if broken.all():
        raise FloatingPointError(
            f"generation {generation}: {told_of}. The last checkpoint is from before; a new run may"
            " need a smaller sigma, better scales, or 64-bit floats"
        )

    def mended(new, old):
        return np.where(broken.reshape(-1, *[1] * (new.ndim - 1)), old, new)

    notes = [[f"{told_of}: the one before was kept"] if bad else [] for bad in broken]
    return jax.tree.map(mended, new_states, old_states), notes


# ---- what is written down


def _commit(
    checkpoint: Checkpoint, state: dict, assessed: list[EvaluatedRun], figures: Any, notes: list
) -> tuple[Checkpoint, list[GenerationRecord]]:
    """Update the best members, and record the generation. figures: see ``figures``."""
    mean, sigma, restarts = figures
    best_x, best_fitness = checkpoint.best_x.copy(), checkpoint.best_fitness.copy()
    best_parts, records = list(checkpoint.best_parts), []
    for run, members in enumerate(assessed):
        parts: dict[str, float | None] = {}
        improved: list[float] = []
        if members.healthy.any():
            i = int(np.argmin(np.where(members.healthy, members.fitness, np.inf)))
            parts = {name: _finite(column[i]) for name, column in members.parts.items()}
            if members.fitness[i] < best_fitness[run]:
                best_x[run], best_fitness[run] = members.x[i], members.fitness[i]
                best_parts[run] = parts
                improved = best_x[run].tolist()
        fields = {"sigma": float(sigma[run]), "restarts": int(restarts[run]), "changes": notes[run]}
        fields |= {"best_parts": parts, "best_ever": _finite(best_fitness[run])}
        fields["best_x"] = improved
        fields["centre"] = [float(f"{value:.6g}") for value in mean[run]]
        records.append(_record(checkpoint.generation, run, members, fields))
    advanced = dataclasses.replace(
        checkpoint,
        state=state,
        generation=checkpoint.generation + 1,
        history=checkpoint.history + len(records),
        best_x=best_x,
        best_fitness=best_fitness,
        best_parts=best_parts,
    )
    return advanced, records


def _record(
    generation: int, run: int, members: EvaluatedRun, fields: dict[str, Any]
) -> GenerationRecord:
    healthy = members.fitness[members.healthy]
    reductions = {"best": np.min, "median": np.median, "mean": np.mean, "worst": np.max}
    numbers: Any = {n: _finite(f(healthy)) if healthy.size else None for n, f in reductions.items()}
    if healthy.size:
        low, high = np.quantile(healthy, (0.25, 0.75))
        numbers |= {"first_quartile": _finite(low), "third_quartile": _finite(high)}
    return GenerationRecord(
        generation=generation,
        **numbers,
        **fields,
        run=run,
        members=len(members.fitness),
        failures=len(members.fitness) - healthy.size,
        steps=members.steps,
        seconds=members.seconds,
        steps_per_second=members.steps / max(members.seconds, 1e-9),
    )


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _cpu() -> contextlib.AbstractContextManager:
    """Context that places computations on the CPU; anywhere if JAX has no CPU backend."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        return contextlib.nullcontext()
