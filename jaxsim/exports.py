"""Public names of a package that are loaded when they are first used (PEP 562).

The names are listed once, in ``__init__.pyi`` beside ``__init__.py``, as ``from package.module
import Name as Name``, where type checkers find them too:

    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make a package's ``__getattr__``, ``__dir__`` and ``__all__``; file: its ``__init__``."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    place_of = {
        name.asname or name.name: (line.module, name.name)
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }

    def get(name: str) -> Any:
        if name in place_of:
            module, attribute = place_of[name]
            return getattr(importlib.import_module(str(module)), attribute)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *place_of})

    return get, names, sorted(place_of)
