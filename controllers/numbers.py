"""Numbers of a controller by label or path: read, change, list.

A controller is a pytree, so each of its numbers has a path (``values[17]``,
``variables.gait.time``). Where numbers have names it offers ``labels``, a mapping from label to
path.
"""

import difflib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxsim.tree_paths import leaves_by_path

TUNED = Path(__file__).parent / "goals" / "tuned"  # what comes with the package


def shipped_numbers() -> list[str]:
    """Names of the sets of numbers that come with the package."""
    return sorted(path.stem for path in TUNED.glob("*.json"))


def read_numbers(name: str, folder: Path | None = None) -> dict[str, float]:
    """Numbers by label or path, from a file or from a set shipped with the package.

    name: a file (best.json of ``jaxsim tune``) in a folder, by default the current one, or the name
    of a shipped set. Raises ValueError for a file that is missing or holds no numbers.
    """
    shipped = shipped_numbers()
    path = TUNED / f"{name}.json" if name in shipped else (folder or Path()) / name
    if not path.is_file():
        raise ValueError(f"there is no file {path}; those that are shipped: {', '.join(shipped)}")
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is not JSON, or is damaged: {reason}") from None
    numbers = content.get("numbers") if isinstance(content, dict) else None
    if not (isinstance(numbers, dict) and numbers):
        raise ValueError(f"{path} holds no numbers; best.json of jaxsim tune does")
    values: dict[str, Any] = {
        n: v.get("after") if isinstance(v, dict) else v for n, v in numbers.items()
    }
    for label, value in values.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ValueError(f"{path}: {label} is {value!r}, which is no number")
    return values


def path_of(controller: Any, name: str) -> str:
    """Path of a number of a controller, from its label or path."""
    return path_in(controller, getattr(controller, "labels", {}), name)


def path_in(tree: Any, labels: Mapping[str, str], name: str) -> str:
    """Path of a number in a tree, from its label or path.

    Raises KeyError for an unknown name, with the nearest labels and paths.
    """
    if name in labels:
        return labels[name]
    paths = leaves_by_path(tree)
    if any(name == path or name.startswith((f"{path}[", f"{path}.")) for path in paths):
        return name
    known = [*labels, *paths]
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.3) or known[:5]
    raise KeyError(f"no number {name!r}; nearest are: {', '.join(map(repr, near))}")


def __getattr__(name: str) -> Any:
    if name == "Numbered":
        from controllers.controller import Controller

        text = "controllers.numbers.Numbered is now controllers.Controller; derive from that"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
