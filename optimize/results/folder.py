"""Result folder of a run: everything that is needed to look at it and to repeat it.

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

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.io.files import naming, write_bytes
from jaxsim.renamed import present_names
from optimize.results.lock import LOCK

# Without these a run cannot be done again; a config may hold any more.
REQUIRED_OPTIONS = ("seed", "dt", "seconds", "command")

RESTORE = "restore the file from a copy, or begin a new run in another folder"

# The kinds of values that options have in config.json, whatever the run; None is another one where
# it stands here, and options that are not named here are checked by those who read them.
NUMBER, TEXTS = "a number", "a list of texts"
OPTION_KINDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("seed", "runs", "generations", "population", "updates"), (int,)),
    **dict.fromkeys(("dt", "seconds"), (NUMBER,)),
    **dict.fromkeys(("precision", "method", "objective"), (str,)),
    **dict.fromkeys(("scenario", "backend", "restarts", "scenario_digest"), (str, None)),
    **dict.fromkeys(("set", "by_run", "weights", "units", "sweep", "push_map"), (dict,)),
    **dict.fromkeys(("compatibility", "options", "numbers", "sample"), (dict,)),
    "chunk": (int, None),
    "edge": (dict, None),
    "measures": (TEXTS, None),
    "command": (TEXTS,),
}
# Earlier names of options of a tuning run; folders that have them still resume.
EARLIER = {
    "variants": "vary",
    "also": "variant",
    "each": "by_run",
    "draw": "sample",
    "fresh": "resample",
    "score": "aggregate",
    "racing": "halve_after",
    "sure": "success_rate",
    "judge_dt": "final_dt",
    "trust": "trust_derivative",
}
_NAMES = {int: "a whole number", str: "a text", dict: "a table", None: "null"}
_PART = re.compile(r"\.[^/]+\.[0-9a-f]{32}\.part")  # of a file that was being written

_DISTRIBUTIONS = ("jaxsim-characters", "jax", "jaxlib", "evosax", "flax", "numpy", "drjit")


@dataclasses.dataclass(frozen=True)
class RunFolder(os.PathLike):
    """Result folder; `create` or `open` one. Passes as a path."""

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
    _CREATED = frozenset((VERSIONS, SCRIPT, OBJECTIVE, DIGEST, CONFIG))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: Mapping[str, Any],
        script: str | None = None,
        digest: Mapping[str, Any] | None = None,
        objective: str | None = None,
    ) -> RunFolder:
        """Create a folder with config.json, versions.json and, if given, the other files.

        config     every option of the run; REQUIRED_OPTIONS must be among them. `command_line`
                   gives the value of "command".
        script     text of script.scl
        digest     of `optimize.results.digest.digest`
        objective  text of objective.py

        A folder of a run that ended before it added anything to these files is new as well.
        config.json is written last: a folder that has it can be resumed.

        Raises FileExistsError where the folder already holds anything else, ValueError for a config
        with missing options or values that JSON cannot hold. Then nothing is written.
        """
        missing = [option for option in REQUIRED_OPTIONS if option not in config]
        if missing:
            raise ValueError(f"the config lacks {', '.join(missing)}: the run could not be redone")
        folder = cls(Path(path))
        text = to_json(config, "config")
        if folder.path.exists() and not (folder.path.is_dir() and folder._only_created()):
            raise FileExistsError(
                f"{folder.path} already exists and is not empty: choose another folder,"
                " or resume the run that it holds"
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        folder._clear()
        folder.write_json(cls.VERSIONS, versions())  # first: the files after it are of a run
        for name, content in ((cls.SCRIPT, script), (cls.OBJECTIVE, objective)):
            if content is not None:
                folder.write_text(name, content)
        if digest is not None:
            folder.write_json(cls.DIGEST, digest)
        folder.write_text(cls.CONFIG, text)
        return folder

    def _only_created(self) -> bool:
        """True if the folder holds nothing but what `create` writes, in its order."""
        held = self.contents()
        return not held or (self.VERSIONS in held and set(held) <= self._CREATED)

    def _clear(self) -> None:
        """Remove what `create` has written, config.json first, and partially written files."""
        parts = [item.name for item in self.path.iterdir() if _PART.fullmatch(item.name)]
        for name in (self.CONFIG, self.DIGEST, self.OBJECTIVE, self.SCRIPT, self.VERSIONS, *parts):
            (self / name).unlink(missing_ok=True)

    @classmethod
    def open(cls, path: str | os.PathLike) -> RunFolder:
        """Open an existing folder.

        Raises FileNotFoundError where there is none, or no config.json.
        """
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise FileNotFoundError(f"there is no run folder at {folder.path}")
        if not (folder / cls.CONFIG).is_file():
            held = ", ".join(folder.contents()[:8]) or "nothing"
            again = "; begin the run again, in the same folder" if folder._only_created() else ""
            raise FileNotFoundError(
                f"{folder.path} is not a run folder: {cls.CONFIG} is missing (it holds {held})"
                + again
            )
        return folder

    def contents(self) -> list[str]:
        """Names of the files in the folder, without locks and partially written files."""
        names = (item.name for item in self.path.iterdir())
        return sorted(n for n in names if n != LOCK and not _PART.fullmatch(n))

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
        """Read the text of a file.

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
        """Read the value of a JSON file.

        Raises ValueError with the line where the file is damaged.
        """
        return _parsed(self.read_text(name), f"{self / name}")

    def read_config(self) -> dict[str, Any]:
        """Read config.json.

        Raises ValueError, naming the file and the option, for what no run writes; so does an option
        of it that is looked up and is missing.
        """
        path = self / self.CONFIG
        config = self.read_json(self.CONFIG)
        if not isinstance(config, dict):
            raise ValueError(
                f"{path} holds a {type(config).__name__} in the place of options; {RESTORE}"
            )
        config = present_options(config)
        for name in OPTION_KINDS.keys() & config.keys():
            kinds = OPTION_KINDS[name]
            if not any(_is_kind(config[name], kind) for kind in kinds):
                wanted = " or ".join(str(_NAMES.get(kind, kind)) for kind in kinds)
                raise ValueError(
                    f"{path}: {name} is {_shown(config[name])}, where a run writes {wanted};"
                    f" {RESTORE}"
                )
        return _Options(config, path)

    def read_history(self) -> list[dict[str, Any]]:
        """Read the lines of history.jsonl. Raises as `read_json` does.

        A last line without its line end was cut off while it was written, and is left out.
        """
        return [
            _line(line, f"{self / self.HISTORY}, line {number}")
            for number, line in enumerate(self.read_text(self.HISTORY).splitlines(True), start=1)
            if line.endswith("\n")
        ]


class _Options(dict):
    """Options by name; a missing one raises ValueError with the file that lacks it."""

    def __init__(self, values: Mapping[str, Any], path: Path):
        super().__init__(values)
        self._path = path

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"{self._path} lacks {name!r}; {RESTORE}")


def present_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy of a run's options by their present names, those of other kinds of runs as they are."""
    return present_names(config, EARLIER) if "judge_dt" in config else dict(config)


def _is_kind(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind is TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    kinds = (int, float) if kind is NUMBER else kind
    return isinstance(value, kinds) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextlib.contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Context that turns errors of values that no run writes into a ValueError naming the file."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{os.fspath(path)} holds what no run writes ({what}); {RESTORE}"
        ) from error


def to_json(value: Any, label: str) -> str:
    """Format a value as indented JSON.

    Raises ValueError, naming `label`, for what JSON cannot hold.
    """
    try:
        return json.dumps(value, indent=2, default=_plain, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} cannot be written as JSON: {error}") from None


def command_line(argv: Sequence[str] | None = None) -> list[str]:
    """Command with its arguments; of the program only the name, without its folder."""
    argv = sys.argv if argv is None else argv
    return [Path(argv[0]).name, *argv[1:]] if argv else []


def versions() -> dict[str, Any]:
    """Versions that a run depends on: libraries (None: not installed), Python, machine, commit.

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
    """Versions of the libraries that results depend on; None: not installed."""
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
    """Convert values that json.dumps does not know."""
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
    """Parse JSON text. Raises ValueError, naming `label`."""
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
