"""Checkpoint and history of an evolution run, from which it is resumed exactly.

A checkpoint is a MessagePack file (flax.serialization) around its own SHA-256 digest: a file that
was cut short or changed is recognised, not resumed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import serialization

from jaxsim.io.files import naming, write_bytes
from optimize.results.folder import RESTORE, RunFolder

_FORMAT = 2


class CheckpointError(RuntimeError):
    """A checkpoint, or the history beside it, that cannot be used."""


@dataclasses.dataclass(frozen=True)
class GenerationRecord:
    """One line of history.jsonl, of one run; None for a number without a healthy member.

    generation  -1 is the start: the initial mean alone
    best, median, mean, worst   fitness of the healthy members of this generation
    failures    members that failed or whose fitness is not finite
    sigma       step size after the update
    best_parts  raw objective terms of the best member of this generation
    best_ever   the lowest fitness so far
    steps       simulated steps of this generation
    seconds     wall time of the evaluation, of all runs together [s]
    changes     what was changed before this generation in a run that went on all the same
    run         of those that advance together
    members     that were evaluated
    restarts    so far
    first_quartile, third_quartile   of the fitness, beside the median
    centre      (n,) mean of the search distribution after the update, in its coordinates, to six
                digits
    best_x      (n,) the best member of this generation, where it is the best so far
    """

    generation: int
    best: float | None
    median: float | None
    mean: float | None
    worst: float | None
    failures: int
    sigma: float
    best_parts: dict[str, float | None]
    best_ever: float | None
    steps: int
    seconds: float
    steps_per_second: float
    changes: list[str] = dataclasses.field(default_factory=list)
    run: int = 0
    members: int = 0
    restarts: int = 0
    first_quartile: float | None = None
    third_quartile: float | None = None
    centre: list[float] = dataclasses.field(default_factory=list)
    best_x: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that a resumed search must share; (R,) arrays have one entry for each run.

    method    a chain, see ``optimize.tuning.methods.stages``
    restarts  "ipop", "bipop", "masked"; "" for none
    mean      (n,) of all runs
    """

    method: str
    restarts: str
    dimensions: int
    precision: str
    population: np.ndarray
    seed: np.ndarray
    sigma: np.ndarray
    mean: np.ndarray

    @property
    def runs(self) -> int:
        return len(self.seed)

    def check(self, new_settings: Settings, path: Path) -> None:
        """Raise ValueError that names every setting in which the resumed run differs."""
        differences = []
        if self.runs != new_settings.runs:
            differences.append(f"runs {self.runs} (now {new_settings.runs})")
        for field in dataclasses.fields(self):
            old, new = getattr(self, field.name), getattr(new_settings, field.name)
            if isinstance(old, np.ndarray):
                if old.shape == new.shape and (old != new).any():
                    i = int(np.argmax(old != new))
                    place = f"[{i}]" if len(old) > 1 or field.name == "mean" else ""
                    differences.append(f"{field.name}{place} {old[i]} (now {new[i]})")
            elif old != new:
                differences.append(f"{field.name} {old} (now {new})")
        if differences:
            hint = ""
            if self.precision != new_settings.precision:
                hint = "; jax_enable_x64 must be set as it was in the first run"
            raise ValueError(
                f"{path} belongs to another run: {', '.join(differences)}."
                f" Resume with its settings, or start in a new folder{hint}"
            )


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """State of R runs of a search between two generations; all arrays are on the host.

    stage       of the chain, that the state belongs to
    state       arrays of the method's state by path, with a leading axis of R
    generation  the next one to run; -1: the start is not yet evaluated
    best_x      (R, n), with best_fitness (R,) (infinite: no healthy member yet) and best_parts
    history     number of lines of history.jsonl that belong to it
    digest      SHA-256 of these lines; "" where they were never written
    """

    settings: Settings
    stage: int
    state: dict[str, np.ndarray]
    generation: int
    best_x: np.ndarray
    best_fitness: np.ndarray
    best_parts: list[dict[str, float | None]]
    history: int
    digest: str = ""

    def save(self, path: str | os.PathLike) -> None:
        """Write the checkpoint atomically (see `write_bytes`)."""
        payload = serialization.msgpack_serialize(dataclasses.asdict(self))
        digest = hashlib.sha256(payload).hexdigest()
        envelope = {"format": _FORMAT, "sha256": digest, "payload": payload}
        write_bytes(path, serialization.msgpack_serialize(envelope))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Checkpoint:
        """Read a checkpoint.

        Raises FileNotFoundError where there is none, CheckpointError for a damaged file or one of
        another format.
        """
        path = Path(path)
        if not path.is_file():
            raise _gone(path)
        try:
            envelope: Any = serialization.msgpack_restore(path.read_bytes())
            payload, digest, version = (envelope[k] for k in ("payload", "sha256", "format"))
            whole = hashlib.sha256(payload).hexdigest() == digest
        except Exception as error:  # a damaged file breaks the decoder in many ways
            raise _damaged(path, type(error).__name__) from error
        if not whole:
            raise _damaged(path, "its digest does not match")
        if version != _FORMAT:
            raise CheckpointError(f"{path} has format {version}, this version reads {_FORMAT}")
        try:
            content: Any = jax.tree.map(_writable, serialization.msgpack_restore(payload))
            return cls(**{**content, "settings": Settings(**content["settings"])})
        except Exception as error:
            raise _damaged(path, type(error).__name__) from error


class History:
    """Writer of history.jsonl that notices when another process has changed the file."""

    def __init__(self, path: Path):
        self.path = path
        self.size = 0  # [bytes]
        self.hashed = hashlib.sha256()

    def write(self, records: Sequence[GenerationRecord]) -> None:
        """Replace the file by these records."""
        data = "".join(history_line(record) for record in records).encode()
        write_bytes(self.path, data)
        self.size, self.hashed = len(data), hashlib.sha256(data)

    def append(self, records: Sequence[GenerationRecord]) -> str:
        """Append records and flush them to the disk; returns the digest of all lines.

        Raises CheckpointError, and appends nothing, where the file has another size than this run
        has written. OSError where the disk is full names the file.
        """
        there = self.path.stat().st_size if self.path.is_file() else 0
        if there != self.size:
            raise CheckpointError(
                f"{self.path} has {there} bytes in the place of the {self.size} that this run"
                f" wrote: another process has changed it. Generation"
                f" {records[0].generation} was not kept; end the other process, and resume"
            )
        lines = "".join(history_line(record) for record in records).encode()
        with naming(self.path), open(self.path, "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self.size += len(lines)
        self.hashed.update(lines)
        return self.hashed.hexdigest()


def history_line(record: GenerationRecord) -> str:
    """Format a record as one line of strict JSON, numbers without loss."""
    return json.dumps(dataclasses.asdict(record), allow_nan=False) + "\n"


def load_history(folder: RunFolder, checkpoint: Checkpoint) -> list[GenerationRecord]:
    """Load the records that belong to a checkpoint; lines written after it are left out.

    Raises CheckpointError where the history is shorter than the checkpoint says, where its
    generations do not follow on each other, or where it is damaged.
    """
    path = folder / RunFolder.HISTORY
    try:
        lines = folder.read_history() if path.is_file() else []
        records = [_record(line, n) for n, line in enumerate(lines, start=1)]
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): start in a new folder") from error
    if len(records) < checkpoint.history:
        raise CheckpointError(
            f"{path} has {len(records)} lines, the checkpoint beside it counts"
            f" {checkpoint.history}: restore the file, or start in a new folder"
        )
    runs = checkpoint.settings.runs
    for number, record in enumerate(records):
        due, run = number // runs - 1, number % runs
        if (record.generation, record.run) != (due, run):
            of = f" of run {record.run}, {due} of run {run}" if runs > 1 else f", {due}"
            raise CheckpointError(
                f"{path}, line {number + 1} is of generation {record.generation}{of} was to"
                " follow: two processes wrote to it, or lines are missing. Restore the file, or"
                " start in a new folder"
            )
    if checkpoint.history != (checkpoint.generation + 1) * runs:
        raise CheckpointError(
            f"{folder / RunFolder.CHECKPOINT} counts {checkpoint.history} lines of history before"
            f" generation {checkpoint.generation}: {RESTORE}"
        )
    if checkpoint.digest and checkpoint.digest != _digest(path, checkpoint.history):
        raise CheckpointError(
            f"{path} is not what this run wrote: numbers in its lines have changed. Restore the"
            " file, or start in a new folder"
        )
    return records[: checkpoint.history]


def _digest(path: Path, lines: int) -> str:
    """SHA-256 digest of the first ``lines`` lines of a file."""
    whole = path.read_bytes().splitlines(True) if path.is_file() else []
    return hashlib.sha256(b"".join(whole[:lines])).hexdigest()


def _record(line: dict[str, Any], number: int) -> GenerationRecord:
    """Record of a history line.

    Raises TypeError for other fields, ValueError for values of other types.
    """
    record = GenerationRecord(**line)
    for field in dataclasses.fields(record):
        value, kinds = getattr(record, field.name), _KINDS[str(field.type)]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"line {number}: {field.name} is {value!r}")
    numbers = (v for v in record.best_parts.values() if v is not None)
    if not all(isinstance(v, (int, float)) for v in numbers):
        raise ValueError(f"line {number}: best_parts are {record.best_parts}")
    for name in ("centre", "best_x"):
        if not all(isinstance(v, (int, float)) for v in getattr(record, name)):
            raise ValueError(f"line {number}: {name} is {getattr(record, name)}")
    return record


_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "dict[str, float | None]": (dict,),
    "list[str]": (list,),
    "list[float]": (list,),
}


def has_begun(folder: RunFolder) -> bool:
    """True if a folder holds a checkpoint or a history, so that its search has to be resumed."""
    return any((folder / name).is_file() for name in (RunFolder.CHECKPOINT, RunFolder.HISTORY))


def next_generation(folder: RunFolder, settings: Settings) -> int:
    """Generation that a resumed search continues with; -1 before the first evaluation.

    Raises ValueError where its settings are not those of the checkpoint, CheckpointError where that
    or the history is damaged or gone.
    """
    if not has_begun(folder):
        return -1
    path = folder / RunFolder.CHECKPOINT
    checkpoint = Checkpoint.load(path)
    checkpoint.settings.check(settings, path)
    load_history(folder, checkpoint)
    return checkpoint.generation


def on_host(tree: Any) -> Any:
    """Copy every leaf to a NumPy array of its own dtype.

    A fresh evosax state holds weakly typed values, for which `tell` would be compiled once more
    than for its own output; NumPy arrays have no weak type.
    """
    return jax.tree.map(lambda leaf: np.array(jax.device_get(leaf)), tree)


def _writable(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def damaged_state(path: Path, error: Exception) -> CheckpointError:
    """CheckpointError for damaged arrays that a search saves between its rounds."""
    return CheckpointError(
        f"{path} is damaged ({error}): restore the file from a copy, or delete it, and the search"
        " begins anew with the options of the run"
    )


def _gone(path: Path) -> Exception:
    """Error for a missing checkpoint: CheckpointError if a history shows that there was one."""
    if (path.parent / RunFolder.HISTORY).is_file():
        return CheckpointError(
            f"the checkpoint {path} is gone, and without it the search cannot go on: restore the"
            " file from a copy, or begin a new run in another folder. What was found so far is in"
            f" {RunFolder.HISTORY} and, if a script was tuned, in {RunFolder.BEST_SCRIPT} beside it"
        )
    return FileNotFoundError(
        f"there is no checkpoint at {path}: no run has begun there; start one without resume"
    )


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {path} is damaged ({reason}): restore the file from a copy,"
        " or start again in a new folder; history.jsonl beside it can still be read"
    )
