"""Digest of what a run started with, so that a resumed run reports what has changed.

A search whose problem changes half-way has a history of two problems. So the folder saves the
options, the script, a digest of each array of the model, of the code of each package, and the
versions of the libraries whose last digits results depend on; a resume compares.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jax
import numpy as np

from jaxsim.model import Model
from optimize.results.folder import (
    RESTORE,
    RunFolder,
    library_versions,
    present_options,
    to_json,
)

FREE = ("generations", "updates", "command")  # options that a resumed run may change
PACKAGES = ("jaxsim", "controllers", "optimize")
LISTED = 12  # differences that a message shows
HASHED = ("model", "arrays", "code")  # parts of which only digests are saved

Digest = dict[str, Any]


class RunChanged(ValueError):
    """Error of a run that would be resumed with another problem than it started with."""


def digest(
    config: Mapping[str, Any],
    script: str | None = None,
    model: Model | None = None,
    arrays: Any = None,
) -> Digest:
    """Digest of the parts that are given, for comparison. arrays: a pytree."""
    kept = {name: value for name, value in config.items() if name not in FREE}
    parts: Digest = {"config": json.loads(to_json(kept, "config"))}
    if script is not None:
        parts["script"] = script
    if model is not None:
        parts["model"] = model_digest(model)
    if arrays is not None:
        parts["arrays"] = _arrays_digest(arrays)
    return {**parts, "code": dict(code_digest()), "libraries": library_versions()}


def model_digest(model: Model) -> dict[str, str]:
    """Digests of a model: one for each array, and one for the structure."""
    return {"topology": _short(repr(model.topology).encode()), **_arrays_digest(model)}


def _arrays_digest(tree: Any) -> dict[str, str]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    found = {}
    for path, leaf in leaves:
        array = np.asarray(leaf)
        head = f"{array.dtype} {array.shape} ".encode()
        found[jax.tree_util.keystr(path).lstrip(".")] = _short(head + array.tobytes())
    return found


@cache
def code_digest() -> tuple[tuple[str, str], ...]:
    """Digests of the code: one for each package, of its modules and its grammar."""
    out = []
    for package in PACKAGES:
        hashed = hashlib.sha256()
        for path, data in sorted(_sources(resources.files(package), "")):
            hashed.update(path.encode() + b"\0" + data + b"\0")
        out.append((package, hashed.hexdigest()[:16]))
    return tuple(out)


def _sources(folder: Any, prefix: str):
    for item in folder.iterdir():
        if item.is_dir():
            yield from _sources(item, f"{prefix}{item.name}/")
        elif item.name.endswith((".py", ".lark")):
            yield prefix + item.name, item.read_bytes()


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences of two digests, a line for each key; parts that one lacks are not compared."""
    out: list[str] = []
    for part in now:
        if part == "script" and part in before:
            out += _lines(str(before[part]), now[part])
        elif part in before and isinstance(now[part], Mapping):
            old = before[part] if isinstance(before[part], Mapping) else {}
            out += _keys(_PLACES.get(part, part), old, now[part], part in HASHED)
    return out


_PLACES = {"config": RunFolder.CONFIG}


def _keys(place: str, old: Mapping, new: Mapping, hashed: bool) -> list[str]:
    out = []
    for key in sorted({*old, *new}):
        a, b = old.get(key, "missing"), new.get(key, "missing")
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out += _keys(f"{place}: {key}", a, b, hashed)
        elif a != b:
            values = "differs" if hashed else f"was {_cut(a)}, is {_cut(b)}"
            out.append(f"{place}: {key} {values}")
    return out


def _lines(old: str, new: str) -> list[str]:
    """Lines of the script that differ; their numbers only where none were added or removed."""
    a, b = old.splitlines(), new.splitlines()
    if len(a) != len(b):
        return [f"{RunFolder.SCRIPT}: had {len(a)} lines, has {len(b)}"]
    found = [
        f"{RunFolder.SCRIPT}, line {n}: was {_cut(x.strip())}, is {_cut(y.strip())}"
        for n, (x, y) in enumerate(zip(a, b), 1)
        if x != y
    ]
    return found or ([f"{RunFolder.SCRIPT}: its line ends differ"] if old != new else [])


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def changes_since(folder: RunFolder, now: Digest, accept: bool) -> list[str]:
    """Differences to what the run in the folder started with; [] if there are none.

    Raises RunChanged, which lists them, unless ``accept``.
    """
    changed = differences(_read(folder), now) if (folder / RunFolder.DIGEST).is_file() else [_NONE]
    if changed and not accept:
        more = len(changed) - LISTED
        shown = [*changed[:LISTED], *([f"and {more} more"] if more > 0 else [])]
        raise RunChanged(
            "\n  ".join([f"{folder.path} holds a run that began with something else:", *shown])
            + "\nPut that back, begin a new run in another folder, or go on all the same with"
            " --accept-changes (accept_changes=True), which the history notes"
        )
    return changed


def began(folder: RunFolder) -> Digest:
    """Digest of what the run in the folder started with; {} where that was not saved.

    Raises ValueError for a damaged file.
    """
    kept = _read(folder) if (folder / RunFolder.DIGEST).is_file() else {}
    return {part: value for part, value in kept.items() if part != "accepted"}


_NONE = f"{RunFolder.DIGEST} is missing, so nobody can say what it began with"


def accept(folder: RunFolder, now: Digest, changed: list[str], at: int) -> None:
    """Save the new digest, and the accepted changes with their generation (or round)."""
    if changed:
        kept = _read(folder) if (folder / RunFolder.DIGEST).is_file() else {}
        entry = {"at": at, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "changes": changed}
        entries = [*kept.get("accepted", []), entry]
        folder.write_json(RunFolder.DIGEST, {**now, "accepted": entries})


def accepted_changes(folder: RunFolder) -> dict[int, list[str]]:
    """Changes that a run has accepted, by the generation before which they were."""
    found: dict[int, list[str]] = {}
    if (folder / RunFolder.DIGEST).is_file():
        for entry in _read(folder).get("accepted", []):
            found.setdefault(entry["at"], []).extend(map(str, entry["changes"]))
    return found


def _read(folder: RunFolder) -> Digest:
    kept = folder.read_json(RunFolder.DIGEST)
    entries = kept.get("accepted", []) if isinstance(kept, dict) else None
    good = isinstance(entries, list) and all(
        isinstance(e, dict) and isinstance(e.get("at"), int) and isinstance(e.get("changes"), list)
        for e in entries
    )
    if not good:
        raise ValueError(f"{folder / RunFolder.DIGEST} is damaged; {RESTORE}")
    if isinstance(kept.get("config"), dict):
        kept["config"] = present_options(kept["config"])
    return kept
