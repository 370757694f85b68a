"""The numbers of a controller by label or path: read, changed, listed.

A controller is a pytree, so each of its numbers has a path (``values[17]``,
``variables.gait.time``). Where it has names for them it offers ``labels``, a mapping from label to
path.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from jaxsim.tree_paths import leaves_by_path, read, write

TUNED = Path(__file__).parent / "goals" / "tuned"  # what comes with the package


def read_numbers(name: str, folder: Path | None = None) -> dict[str, float]:
    """Numbers by label or path, from a file (best.json of ``jaxsim tune``) in a folder, by default
    where the program runs, or those that come with the package by their name.

    Raises ValueError for what is no such file.
    """
    shipped = sorted(path.stem for path in TUNED.glob("*.json"))
    path = TUNED / f"{name}.json" if name in shipped else (folder or Path()) / name
    if not path.is_file():
        raise ValueError(f"there is no file {path}; those that are shipped: {', '.join(shipped)}")
    try:
        held = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is not JSON, or is damaged: {reason}") from None
    numbers = held.get("numbers") if isinstance(held, dict) else None
    if not (isinstance(numbers, dict) and numbers):
        raise ValueError(f"{path} holds no numbers; best.json of jaxsim tune does")
    values: dict[str, Any] = {
        n: v.get("after") if isinstance(v, dict) else v for n, v in numbers.items()
    }
    for label, value in values.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ValueError(f"{path}: {label} is {value!r}, which is no number")
    return values


class Numbered:
    """For controllers: ``get`` and ``set`` by label or path."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Label -> path."""
        return {}

    def get(self, name: str) -> Any:
        """The number, or numbers, of a label or path. Raises as ``set`` does."""
        return read(self, path_of(self, name))

    def set(self, name: str, value: Any) -> Self:
        """A copy with the numbers of a label or path changed; value may be traced.

        Raises KeyError for what is neither, with the nearest labels and paths, IndexError for an
        element out of range, ValueError for a value of another shape.
        """
        return write(self, path_of(self, name), value)


def path_of(controller: Any, name: str) -> str:
    """The path of a label; a path is its own."""
    return path_in(controller, getattr(controller, "labels", {}), name)


def path_in(tree: Any, labels: Mapping[str, str], name: str) -> str:
    """The path in a tree of what is a label, or a path already.

    Raises KeyError for what is neither, with the nearest labels and paths.
    """
    if name in labels:
        return labels[name]
    paths = leaves_by_path(tree)
    if any(name == path or name.startswith((f"{path}[", f"{path}.")) for path in paths):
        return name
    known = [*labels, *paths]
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.3) or known[:5]
    raise KeyError(f"no number {name!r}; nearest are: {', '.join(map(repr, near))}")
