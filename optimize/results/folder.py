"""The result folder of a tuning run: everything that is needed to look at it and to do it again.

    script.scl          the controller script that was tuned, as it was given
    objective.py        the user's own objective, as it was given
    config.json         every option: seed, dt, seconds, objective, weights, command ...
    digest.json         what the run began with, for a resume to compare (optimize.results.digest)
    versions.json       the versions and the machine it ran on
    history.jsonl       one line per generation (optimize.tuning.evolution)
    checkpoint.msgpack  the state of the optimiser (optimize.tuning.checkpoint)
    best.scl, best.json the best member: as a script, and as numbers with its objective terms
    motion.html         the motion of the best member
    history.png         the plot of history.jsonl

Files are replaced as a whole or not at all: a reader never meets half a file.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.io.files import naming, write_bytes
from optimize.results.lock import LOCK

# Without these a run cannot be done again; a config may hold any more.
REQUIRED_OPTIONS = ("seed", "dt", "seconds", "command")

RESTORE = "restore the file from a copy, or begin a new run in another folder"

_DISTRIBUTIONS = ("jaxsim-characters", "jax", "jaxlib", "evosax", "flax", "numpy", "drjit")


@dataclasses.dataclass(frozen=True)
class RunFolder(os.PathLike):
    """A result folder; `create` or `open` one. Passes as a path."""

    path: Path

    SCRIPT = "script.scl"
    OBJECTIVE = "objective.py"
    CONFIG = "config.json"
    DIGEST = "digest.json"
    VERSIONS = "versions.json"
    HISTORY = "history.jsonl"
    CHECKPOINT = "checkpoint.msgpack"
    BEST_SCRIPT = "best.scl"
    BEST = "best.json"
    MOTION = "motion.html"
    HISTORY_PLOT = "history.png"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: Mapping[str, Any],
        script: str | None = None,
        digest: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """Make a new folder with config.json, versions.json and, if given, script.scl, digest.json.

        config  every option of the run; REQUIRED_OPTIONS must be among them. `command_line` gives
                the value of "command".
        digest  of `optimize.results.digest.digest`

        Raises FileExistsError where the folder already holds anything, ValueError for a config
        with missing options or values that JSON cannot hold. Then nothing is written.
        """
        missing = [option for option in REQUIRED_OPTIONS if option not in config]
        if missing:
            raise ValueError(f"the config lacks {', '.join(missing)}: the run could not be redone")
        folder = cls(Path(path))
        text = to_json(config, "config")
        if folder.path.exists() and (not folder.path.is_dir() or folder.contents()):
            raise FileExistsError(
                f"{folder.path} already exists and is not empty: choose another folder,"
                " or resume the run that it holds"
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        if script is not None:
            folder.write_text(cls.SCRIPT, script)
        if digest is not None:
            folder.write_json(cls.DIGEST, digest)
        folder.write_json(cls.VERSIONS, versions())
        folder.write_text(cls.CONFIG, text)  # last: it marks the folder as complete
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike) -> RunFolder:
        """An existing folder. Raises FileNotFoundError where there is none, or no config.json."""
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise FileNotFoundError(f"there is no run folder at {folder.path}")
        if not (folder / cls.CONFIG).is_file():
            held = ", ".join(folder.contents()[:8]) or "nothing"
            raise FileNotFoundError(
                f"{folder.path} is not a run folder: {cls.CONFIG} is missing (it holds {held})"
            )
        return folder

    def contents(self) -> list[str]:
        """Names of what is in the folder, but for the lock of a process that works there."""
        return sorted(item.name for item in self.path.iterdir() if item.name != LOCK)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write_text(self, name: str, text: str) -> Path:
        """Write a UTF-8 file as a whole."""
        return write_bytes(self / name, text.encode())

    def write_json(self, name: str, value: Any) -> Path:
        """Write a value (dicts, sequences, numbers, NumPy and JAX arrays, dataclasses) as JSON.

        Raises ValueError for what JSON cannot hold, NaN and infinity among it.
        """
        return self.write_text(name, to_json(value, name))

    def read_text(self, name: str) -> str:
        """A file's text.

        Raises FileNotFoundError that lists what the folder holds instead, ValueError for what is
        no text.
        """
        try:
            with naming(self / name):
                return (self / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            held = ", ".join(self.contents()) if self.path.is_dir() else ""
            raise FileNotFoundError(
                f"{self.path} has no {name}; it holds {held or 'nothing'}"
            ) from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{self / name} is damaged: {error}; {RESTORE}") from None

    def read_json(self, name: str) -> Any:
        """A JSON file's value. Raises ValueError with the line where the file is damaged."""
        return _parsed(self.read_text(name), f"{self / name}")

    def read_config(self) -> dict[str, Any]:
        """config.json. Raises ValueError where it holds anything but options."""
        config = self.read_json(self.CONFIG)
        if not isinstance(config, dict):
            raise ValueError(
                f"{self / self.CONFIG} holds a {type(config).__name__} in the place of options;"
                f" {RESTORE}"
            )
        return config

    def read_history(self) -> list[dict[str, Any]]:
        """The lines of history.jsonl. Raises as `read_json` does.

        A last line without its line end was cut off while it was written, and is left out.
        """
        return [
            _line(line, f"{self / self.HISTORY}, line {number}")
            for number, line in enumerate(self.read_text(self.HISTORY).splitlines(True), start=1)
            if line.endswith("\n")
        ]


def to_json(value: Any, label: str) -> str:
    """JSON text, indented. Raises ValueError, naming `label`, for what JSON cannot hold."""
    try:
        return json.dumps(value, indent=2, default=_plain, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} cannot be written as JSON: {error}") from None


def command_line(argv: Sequence[str] | None = None) -> list[str]:
    """The command with its arguments; of the program only the name, not where it lies."""
    argv = sys.argv if argv is None else argv
    return [Path(argv[0]).name, *argv[1:]] if argv else []


def versions() -> dict[str, Any]:
    """What the run depends on: libraries (None: not installed), Python, machine, commit.

    `commit` is None unless this file is tracked by git; `uncommitted_changes` says whether the
    commit is the whole truth.
    """
    return {
        **library_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "backend": jax.default_backend(),
        "device": jax.devices()[0].device_kind,
        "x64": np.dtype(jnp.zeros(()).dtype) == np.float64,
        **_commit(),
    }


def library_versions() -> dict[str, str | None]:
    """Of the libraries that results depend on; None: not installed."""
    return {name: _version(name) for name in _DISTRIBUTIONS}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> dict[str, Any]:
    unknown = {"commit": None, "uncommitted_changes": None}
    here = Path(__file__)
    # An installed copy may lie inside some other project's repository.
    if _git(here, "ls-files", "--error-unmatch", here.name) is None:
        return unknown
    commit = _git(here, "rev-parse", "HEAD")
    changes = _git(here, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return unknown
    return {"commit": commit, "uncommitted_changes": bool(changes)}


def _git(here: Path, *arguments: str) -> str | None:
    """Output of a git command, None where it fails or git is missing."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=here.parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _plain(value: Any) -> Any:
    """What json.dumps does not know itself."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} is no number, text, list or mapping")


def _parsed(text: str, label: str) -> Any:
    """The value of JSON text. Raises ValueError, naming `label`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if "\n" in text.strip() or error.lineno > 1 else ""
        raise ValueError(f"{label}{line}: {error.msg}; {RESTORE}") from None
    except (RecursionError, MemoryError, ValueError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{label} is damaged: {reason}; {RESTORE}") from None


def _line(line: str, label: str) -> dict[str, Any]:
    value = _parsed(line, label)
    if not isinstance(value, dict):
        raise ValueError(f"{label}: expected an object, got {type(value).__name__}; {RESTORE}")
    return value
