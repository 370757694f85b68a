"""Python files of users, which scenarios and run folders name: run only if trusted.

Such a file runs with all the rights of the person who opens the scenario. Code that has decided
about it opens a block of ``deciding``; the command line asks about files that are not below the
working folder. In Python, without a block, they are run.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

Decision = Callable[[Path], None]  # raises UntrustedCode for a file that is not to run
_decision: ContextVar[Decision | None] = ContextVar("decision", default=None)


class UntrustedCode(ValueError):
    """A Python file that may not be run."""


@contextlib.contextmanager
def deciding(decision: Decision) -> Iterator[None]:
    """Apply a decision to the Python files that are run within the block."""
    token = _decision.set(decision)
    try:
        yield
    finally:
        _decision.reset(token)


def check_code(path: Path) -> None:
    """Raise UntrustedCode for a file that may not be run."""
    decision = _decision.get()
    if decision is not None:
        decision(path)


def run_file(path: Path, text: str | None = None) -> ModuleType:
    """Run a Python file as a module.

    text: runs instead of the file's content, where it was saved and the decision about it was made
    before. Raises UntrustedCode, FileNotFoundError, ValueError for a file that cannot be run.
    """
    if text is None:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        check_code(path)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    # While it runs dataclasses look there for their annotations. Later its functions are sent to
    # workers as they are: no worker could import them.
    mine = sys.modules.setdefault(path.stem, module) is module
    try:
        source = path.read_text("utf-8") if text is None else text
        exec(compile(source, str(path), "exec"), vars(module))
    except Exception as error:
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    finally:
        if mine:
            del sys.modules[path.stem]
    return module


def found_in(module: ModuleType, name: str) -> object:
    """Attribute of a user's module by name. Raises ValueError, with the names that it has."""
    if not hasattr(module, name):
        own = ", ".join(k for k in vars(module) if not k.startswith("_"))
        raise ValueError(f"{module.__file__} has no {name!r}; it has {own or 'nothing'}")
    return getattr(module, name)


# ---- decisions


def never(command: str) -> Decision:
    """Decision that no file runs."""

    def decide(path: Path) -> None:
        raise UntrustedCode(f"{path} is a Python file, and {command} runs none")

    return decide


def below(folder: Path, ask: Callable[[Path], bool], remedy: str) -> Decision:
    """Decision that files below a folder run; about others ``ask`` decides, once for each."""
    trusted: set[Path] = set()

    def decide(path: Path) -> None:
        real = path.resolve()
        if real in trusted or real.is_relative_to(folder.resolve()):
            return
        if not ask(path):
            raise UntrustedCode(
                f"{path} is a Python file outside of the working folder; it would run with all"
                f" your rights. Read it, and {remedy}"
            )
        trusted.add(real)

    return decide
