"""Tuning by CMA-ES: ask, evaluate, tell, with a history and an exact resume.

Covariance matrix adaptation evolution strategy as in section 5.2 of the thesis on scripted
controllers, after N. Hansen, "The CMA Evolution Strategy: A Tutorial" (arXiv:1604.00772), from
evosax. Fitness is minimised. What happens within a generation is in optimize.tuning.generation,
what a run needs in order to go on in optimize.tuning.checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from optimize.interrupts import deferred
from optimize.problems.evaluation import Evaluation
from optimize.results.folder import RunFolder
from optimize.results.lock import locked
from optimize.tuning.checkpoint import (
    Checkpoint,
    CheckpointError,
    GenerationRecord,
    History,
    Settings,
    load_history,
)
from optimize.tuning.generation import advance, initial

__all__ = ["EvolutionResult", "GenerationRecord", "evolve"]


@dataclasses.dataclass(frozen=True)
class EvolutionResult:
    """Where a run stands.

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
    folder       where history.jsonl and checkpoint.msgpack are kept; None: nowhere
    resume       go on from the checkpoint in `folder`. Interrupted anywhere and resumed, a run
                 gives bit for bit the numbers of an unbroken one (on one machine, one precision).
    on_generation(record, best_x) is called after each generation is saved.
    changes      generation -> what was changed before it, for its line of the history
    by_generation  evaluate is called with the number of the generation, too, -1 for the start

    Ctrl-C and SIGTERM end the run after the generation that is under way, a second Ctrl-C at once;
    what is complete is kept (see optimize.interrupts).

    Raises ValueError for bad arguments, or settings that differ from those of the checkpoint;
    FileExistsError if the folder holds a run and resume is False; FileNotFoundError if there is
    nothing to resume; CheckpointError if it is damaged, gone, or changed by another process;
    FolderInUse if another process works there; FloatingPointError when the search distribution is
    no longer finite; OSError that names the file where it cannot be written. In all cases files
    that are there stay as they are.
    """
    settings = settings_of(mean, sigma, population, generations, seed)
    store = _Store(folder)
    with contextlib.ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder))
        if resume:
            checkpoint, history = store.resume(settings)
        else:
            checkpoint, history = store.begin(initial(settings)), []
        interrupted = False
        try:
            with deferred() as check, _bar(generations, checkpoint, progress) as bar:
                while checkpoint.generation < generations:
                    own = evaluate
                    if by_generation:
                        own = functools.partial(evaluate, generation=checkpoint.generation)
                    advanced, record = advance(checkpoint, own)
                    noted = (changes or {}).get(record.generation, [])
                    record = dataclasses.replace(record, changes=noted)
                    store.save(advanced, record)
                    history.append(record)
                    checkpoint = advanced
                    _show(bar, record)
                    if on_generation is not None:
                        on_generation(record, checkpoint.best_x)
                    check()
        except KeyboardInterrupt:
            interrupted = True  # what is complete is saved; the rest is done again on resume
    if interrupted:
        print(store.interrupted_message(checkpoint, generations), file=sys.stderr)
    return EvolutionResult(
        best_x=checkpoint.best_x,
        best_fitness=checkpoint.best_fitness,
        best_parts=checkpoint.best_parts,
        mean=checkpoint.state["mean"],
        sigma=float(checkpoint.state["std"]),
        generations=max(checkpoint.generation, 0),
        history=tuple(history[: checkpoint.history]),
        interrupted=interrupted,
    )


def settings_of(
    mean: np.ndarray, sigma: float, population: int, generations: int, seed: int
) -> Settings:
    """What a run must go on with, of the checked arguments of ``evolve``. Raises ValueError."""
    precision = jnp.zeros(()).dtype.name  # float64 where jax_enable_x64 is set
    mean = np.array(mean, dtype=precision)
    if mean.ndim != 1 or not mean.size or not np.isfinite(mean).all():
        raise ValueError(f"mean must be finite and of shape (n,), got {mean}")
    if not (math.isfinite(sigma) and sigma > 0.0):
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    if population < 4:
        raise ValueError(f"population must be at least 4 (two parents), got {population}")
    if generations < 1:
        raise ValueError(f"generations must be at least 1, got {generations}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be within 0 .. 2**32 - 1, got {seed}")
    return Settings(int(population), mean.size, int(seed), float(sigma), precision, mean)


# ---- files, the bar


class _Store:
    """The two files of a run, or none."""

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
        expected = initial(settings)
        if set(checkpoint.state) != set(expected.state):
            raise CheckpointError(f"{path} was written with another version of evosax")
        history = load_history(self.folder, checkpoint)
        self.history.write(history)
        return checkpoint, history

    def save(self, checkpoint: Checkpoint, record: GenerationRecord) -> None:
        # History first: lines that the checkpoint does not count are dropped on resume.
        if self.folder is not None and self.history is not None:
            digest = self.history.append(record)
            checkpoint = dataclasses.replace(checkpoint, digest=digest)
            checkpoint.save(self.folder / RunFolder.CHECKPOINT)

    def interrupted_message(self, checkpoint: Checkpoint, generations: int) -> str:
        done = f"Interrupted after {max(checkpoint.generation, 0)} of {generations} generations."
        if self.folder is None:
            return f"{done} Without a folder the run cannot be resumed."
        return f"{done} All of them are saved: resume=True goes on in {self.folder.path}"


def _bar(generations: int, checkpoint: Checkpoint, progress: bool) -> tqdm:
    done = min(max(checkpoint.generation, 0), generations)
    return tqdm(total=generations, initial=done, disable=not progress, unit="gen", desc="evolving")


def _show(bar: tqdm, record: GenerationRecord) -> None:
    bar.set_postfix_str(
        f"best {_text(record.best_ever)}, median {_text(record.median)},"
        f" failed {record.failures}, {record.steps_per_second:.2g} steps/s",
        refresh=record.generation < 0,  # later ones are shown by update, and less often
    )
    if record.generation >= 0:
        bar.update()


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
