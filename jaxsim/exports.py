"""Public names of a package that are loaded when they are first used (PEP 562).

__getattr__, __dir__ = lazy(__name__, {"simulate": "package.module"})
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, place_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The package's ``__getattr__`` and ``__dir__``; place_of: public name -> its module."""

    def get(name: str) -> Any:
        if name in place_of:
            return getattr(importlib.import_module(place_of[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *place_of})

    return get, names
