"""Evolutionary search: ask, evaluate, tell, with a history and exact resume, for one or many runs.

The methods are those of optimize.tuning.methods, by default CMA-ES as in section 5.2 of Shen's
thesis. Fitness is minimised. A single generation is in optimize.tuning.generation, the state from
which a run is resumed in optimize.tuning.checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from optimize.interrupts import defer_interrupts
from optimize.problems.fitness import Evaluation
from optimize.results.folder import RunFolder
from optimize.results.lock import lock_folder
from optimize.tuning.checkpoint import (
    Checkpoint,
    CheckpointError,
    GenerationRecord,
    History,
    Settings,
    load_history,
)
from optimize.tuning.evaluators import Evaluators, GradientFunction, GradientVeto
from optimize.tuning.generation import advance, begin, distributions_of, initial, search_of
from optimize.tuning.names import stages

__all__ = ["EvolutionResult", "GenerationRecord", "evolve", "evolve_runs"]


@dataclasses.dataclass(frozen=True)
class EvolutionResult:
    """State of a search: best member, search distribution and history.

    best_x        (n,) best member so far (the initial mean while none was healthy)
    best_fitness  its fitness; infinite while none was healthy
    best_parts    its raw objective terms
    mean, sigma   (n,) and scalar, of the search distribution
    generations   number of generations that are complete
    history       one record per line of history.jsonl; the first, number -1, is the start
    interrupted   ended by Ctrl-C or SIGTERM
    """

    best_x: np.ndarray
    best_fitness: float
    best_parts: dict[str, float | None]
    mean: np.ndarray
    sigma: float
    generations: int
    history: tuple[GenerationRecord, ...]
    interrupted: bool


def evolve(
    evaluate: Callable[..., Evaluation],
    mean: np.ndarray,
    *,
    sigma: float,
    population: int,
    generations: int,
    seed: int,
    method: str = "cma",
    restarts: str | None = None,
    slopes: GradientFunction | None = None,
    doubt: GradientVeto | None = None,
    folder: str | os.PathLike | None = None,
    resume: bool = False,
    on_generation: Callable[[GenerationRecord, np.ndarray], None] | None = None,
    progress: bool = True,
    changes: Mapping[int, list[str]] | None = None,
    by_generation: bool = False,
) -> EvolutionResult:
    """Minimise the fitness of x (n,) from `mean`, in the optimiser's coordinates.

    evaluate     x (P, n) -> Evaluation. It always sees P = population rows, so that it compiles
                 once; for the start all rows are the mean, and the first counts. For an exact
                 resume it must give the same numbers for the same x.
    mean, sigma  centre (n,) and step size of the first search distribution
    generations  how many in all, those before a resume among them
    seed         0 <= seed < 2**32
    method       cma, sep-cma, openai-es, random, an optimiser of optax with its learning rate in
                 step sizes (adam, adam@0.1), or a chain, as cma:40,adam:20
    restarts     of the method cma: "ipop" or "bipop" (see optimize.tuning.restarts)
    slopes       x (P, n) -> loss (P,) and derivative (P, n), for optimisers of optax
    doubt        asked before a stage of a chain follows the derivative: the method, the best
                 members (R, n), sigma (R,) -> why it is not to be followed, and the stage before
                 goes on; an empty text where it is
    folder       where history.jsonl and checkpoint.msgpack are saved; None: nowhere
    resume       go on from the checkpoint in `folder`. Interrupted anywhere and resumed, a run
                 gives bit for bit the numbers of an unbroken one (on one machine, one precision).
    on_generation(record, best_x) is called after each generation is saved.
    changes      generation -> what was changed before it, for its line of the history
    by_generation  evaluate has the argument generation, too: its number, -1 for the start

    Ctrl-C and SIGTERM end the run after the generation that is under way, a second Ctrl-C at once;
    complete generations are saved (see optimize.interrupts).

    Raises ValueError for bad arguments, or settings that differ from those of the checkpoint;
    FileExistsError if the folder holds a run and resume is False; FileNotFoundError if there is
    nothing to resume; CheckpointError if it is damaged, gone, or changed by another process;
    FolderInUse if another process works there; FloatingPointError when the search distribution is
    no longer finite; OSError that names the file where it cannot be written. In all cases files
    that are there stay as they are.
    """

    def told(records: list[GenerationRecord], best_x: np.ndarray) -> None:
        if on_generation is not None:
            on_generation(records[0], best_x[0])

    return evolve_runs(
        lambda x, run, **told: evaluate(x, **told),
        mean,
        sigma=sigma,
        population=population,
        generations=generations,
        seed=[seed],
        method=method,
        restarts=restarts,
        slopes=slopes,
        doubt=doubt,
        folder=folder,
        resume=resume,
        on_generation=told,
        progress=progress,
        changes=changes,
        by_generation=by_generation,
    )[0]


def evolve_runs(
    evaluate: Callable[..., Evaluation],
    mean: np.ndarray,
    *,
    sigma: float | Sequence[float],
    population: int | Sequence[int],
    generations: int,
    seed: Sequence[int],
    method: str = "cma",
    restarts: str | None = None,
    slopes: GradientFunction | None = None,
    doubt: GradientVeto | None = None,
    target: float | None = None,
    folder: str | os.PathLike | None = None,
    resume: bool = False,
    on_generation: Callable[[list[GenerationRecord], np.ndarray], None] | None = None,
    progress: bool = True,
    changes: Mapping[int, list[str]] | None = None,
    by_generation: bool = False,
) -> tuple[EvolutionResult, ...]:
    """Run several searches together: a generation of all of them is one call of ``evaluate``.

    There are as many runs as ``seed`` has entries.

    evaluate     x (P, n), run (P,) -> Evaluation: members of all runs, and which each is of. P is
                 the sum of the populations; where these grow there are more calls of that size.
    sigma, population  of all runs, or a value for each; populations may differ for the method cma
    target       the search ends when every run has found a fitness as low
    on_generation(records, best_x) has a record and a best member (R, n) for each run.

    history.jsonl has a line for each run and generation. A run gives bit for bit the numbers that
    it would give alone, if ``evaluate`` does. The rest is as for ``evolve``; where the distribution
    of one run of several is no longer finite, the one before is restored, and its history says so.
    """
    settings = settings_of(mean, sigma, population, generations, seed, method, restarts)
    evaluators, store = Evaluators(evaluate, slopes, doubt), _Store(folder)
    with contextlib.ExitStack() as stack:
        if folder is not None:
            stack.enter_context(lock_folder(folder))
        if resume:
            checkpoint, history = store.resume(settings)
        else:
            checkpoint, history = store.begin(initial(settings)), []
        interrupted = False
        try:
            done = min(max(checkpoint.generation, 0), generations)
            with defer_interrupts() as check, Bar(generations, progress, done) as bar:
                while checkpoint.generation < generations and not _met(checkpoint, target):
                    current = evaluators
                    if by_generation:
                        evaluate_now = functools.partial(evaluate, generation=checkpoint.generation)
                        current = evaluators._replace(evaluate=evaluate_now)
                    advanced, records = advance(checkpoint, current)
                    noted = (changes or {}).get(records[0].generation, [])
                    records = [
                        dataclasses.replace(record, changes=[*noted, *record.changes])
                        for record in records
                    ]
                    advanced = store.save(advanced, records)
                    history.extend(records)
                    checkpoint = advanced
                    bar.show(records)
                    if on_generation is not None:
                        on_generation(records, checkpoint.best_x)
                    check()
        except KeyboardInterrupt:
            interrupted = True  # what is complete is saved; the rest is done again on resume
    if interrupted:
        print(store.interrupted_message(checkpoint, generations), file=sys.stderr)
    return _results(checkpoint, history, interrupted)


def _met(checkpoint: Checkpoint, target: float | None) -> bool:
    return target is not None and bool((checkpoint.best_fitness <= target).all())


def _results(
    checkpoint: Checkpoint, history: list[GenerationRecord], interrupted: bool
) -> tuple[EvolutionResult, ...]:
    mean, sigma = distributions_of(checkpoint)
    runs = checkpoint.settings.runs
    return tuple(
        EvolutionResult(
            best_x=checkpoint.best_x[run],
            best_fitness=float(checkpoint.best_fitness[run]),
            best_parts=checkpoint.best_parts[run],
            mean=mean[run],
            sigma=float(sigma[run]),
            generations=max(checkpoint.generation, 0),
            history=tuple(history[: checkpoint.history][run::runs]),
            interrupted=interrupted,
        )
        for run in range(runs)
    )


def settings_of(
    mean: np.ndarray,
    sigma: float | Sequence[float],
    population: int | Sequence[int],
    generations: int,
    seed: Sequence[int],
    method: str = "cma",
    restarts: str | None = None,
) -> Settings:
    """Checked settings that resumed runs must share, from the arguments of ``evolve_runs``.

    Raises ValueError for bad arguments.
    """
    precision = jnp.zeros(()).dtype.name  # float64 where jax_enable_x64 is set
    mean = np.array(mean, dtype=precision)
    if mean.ndim != 1 or not mean.size or not np.isfinite(mean).all():
        raise ValueError(f"mean must be finite and of shape (n,), got {mean}")
    seeds = np.array(seed, dtype=object).reshape(-1)
    if not len(seeds) or not all(0 <= s < 2**32 for s in seeds):
        raise ValueError(f"seed must be within 0 .. 2**32 - 1, got {seed}")
    sigmas, populations = (
        _for_each("sigma", sigma, seeds),
        _for_each("population", population, seeds),
    )
    if not (np.isfinite(sigmas).all() and (sigmas > 0.0).all()):
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    if (populations < 4).any():
        raise ValueError(f"population must be at least 4 (two parents), got {population}")
    if generations < 1:
        raise ValueError(f"generations must be at least 1, got {generations}")
    if restarts is None and len(set(populations.tolist())) > 1:
        restarts = "masked"
    settings = Settings(
        method=method,
        restarts=restarts or "",
        dimensions=mean.size,
        precision=precision,
        population=populations.astype(np.int32),
        seed=seeds.astype(np.uint32),
        sigma=sigmas.astype(float),
        mean=mean,
    )
    for stage in range(len(stages(method))):
        search_of(settings, stage)  # its errors show now
    return settings


def _for_each(name: str, value: float | Sequence[float], seeds: np.ndarray) -> np.ndarray:
    values = np.asarray(value)
    if values.shape not in ((), (1,), seeds.shape):
        raise ValueError(f"{name} has {values.size} values for {len(seeds)} runs")
    return np.broadcast_to(values, seeds.shape).copy()


# ---- files, the bar


class _Store:
    """Checkpoint and history files of a run, or none."""

    def __init__(self, folder: str | os.PathLike | None):
        self.folder = None if folder is None else RunFolder(Path(folder))
        self.history = None if self.folder is None else History(self.folder / RunFolder.HISTORY)

    def begin(self, checkpoint: Checkpoint) -> Checkpoint:
        if self.folder is not None:
            for name in (RunFolder.CHECKPOINT, RunFolder.HISTORY):
                if (self.folder / name).exists():
                    raise FileExistsError(
                        f"{self.folder / name} exists: go on with resume=True,"
                        " or start in a new folder. Nothing was changed"
                    )
            self.folder.path.mkdir(parents=True, exist_ok=True)
            checkpoint.save(self.folder / RunFolder.CHECKPOINT)
        return checkpoint

    def resume(self, settings: Settings) -> tuple[Checkpoint, list[GenerationRecord]]:
        if self.folder is None or self.history is None:
            raise ValueError("resume=True needs the folder of the run")
        path = self.folder / RunFolder.CHECKPOINT
        checkpoint = Checkpoint.load(path)
        checkpoint.settings.check(settings, path)
        mean = np.tile(settings.mean, (settings.runs, 1))
        expected = begin(settings, checkpoint.stage, mean, settings.sigma)
        if set(checkpoint.state) != set(expected):
            raise CheckpointError(f"{path} was written with another version of evosax or optax")
        history = load_history(self.folder, checkpoint)
        self.history.write(history)
        return checkpoint, history

    def save(self, checkpoint: Checkpoint, records: list[GenerationRecord]) -> Checkpoint:
        # History first: lines that the checkpoint does not count are dropped on resume.
        if self.folder is not None and self.history is not None:
            digest = self.history.append(records)
            checkpoint = dataclasses.replace(checkpoint, digest=digest)
            checkpoint.save(self.folder / RunFolder.CHECKPOINT)
        return checkpoint

    def interrupted_message(self, checkpoint: Checkpoint, generations: int) -> str:
        done = f"Interrupted after {max(checkpoint.generation, 0)} of {generations} generations."
        if self.folder is None:
            return f"{done} Without a folder the run cannot be resumed."
        return f"{done} All of them are saved: resume=True goes on in {self.folder.path}"


class Bar:
    """Progress bar of a search: best so far, median, failures, members a second."""

    def __init__(self, generations: int, progress: bool, done: int = 0):
        self.noted = ""
        self.bar = tqdm(
            total=generations, initial=done, disable=not progress, unit="gen", desc="compiling"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def note(self, text: str) -> None:
        """Set the text that stands before the numbers from now on."""
        self.noted = f"{text}, "

    def show(self, records: list[GenerationRecord]) -> None:
        """Update after a generation; the start has the number -1, a resumed run begins later."""
        record = min(records, key=lambda r: np.inf if r.best_ever is None else r.best_ever)
        self.bar.set_description("tuning", refresh=False)
        rate = sum(r.members for r in records) / max(record.seconds, 1e-9)
        numbers = ["none" if v is None else f"{v:.4g}" for v in (record.best_ever, record.median)]
        self.bar.set_postfix_str(
            f"{self.noted}best {numbers[0]}, median {numbers[1]},"
            f" failed {sum(r.failures for r in records)},"
            f" {rate:.3g} members/s",
            refresh=False,
        )
        if record.generation + 1 > self.bar.n:
            self.bar.update(record.generation + 1 - self.bar.n)
        else:
            self.bar.refresh()
