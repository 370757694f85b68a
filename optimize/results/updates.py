"""Folder of a learning run: a line of history for each update, a folder for each seed."""

from collections.abc import Mapping
from typing import Any

from optimize.results.folder import RESTORE, RunFolder

UPDATES = 400  # in all, by default
SUMMARY = "runs.json"  # of several seeds
WRITTEN = ("update", "actions", "seconds", "cpu_seconds")  # numbers of every line


def kept_history(folder: RunFolder) -> list[dict[str, Any]]:
    """Saved lines of a run's history, [] before the first check.

    Raises ValueError, with the line at fault, for what no run writes.
    """
    path = folder / RunFolder.HISTORY
    lines = folder.read_history() if path.is_file() else []
    for number, line in enumerate(lines):
        missing = [key for key in WRITTEN if not _is_number(line.get(key))]
        missing += ["worth"] if not _is_number(line.get("worth", 0.0)) else []
        if missing or line["update"] != number:
            what = f"it has no number {missing[0]!r}" if missing else f"update {line['update']!r}"
            raise ValueError(f"{path}, line {number + 1}: {what}; {RESTORE}")
    return lines


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def seeds_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Seeds of the runs that the options in a folder describe."""
    return tuple(range(config["seed"], config["seed"] + config["runs"]))


def seed_folder(folder: RunFolder, seed: int) -> RunFolder:
    """Folder of the run with a seed, which may not exist yet."""
    return RunFolder(folder / f"seed_{seed}")
