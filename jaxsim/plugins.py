"""Registries that installed packages add to, by Python entry points.

A package declares, for example, in its pyproject.toml:

    [project.entry-points."jaxsim.controllers"]
    sway = "my_package.sway:build"

The groups are jaxsim.characters, jaxsim.controllers, jaxsim.goals, jaxsim.objectives, jaxsim.terms
and jaxsim.scenarios. An entry is loaded when it is first asked for.
"""

from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

T = TypeVar("T")


class PluginError(ValueError):
    """Entry of an installed package that cannot be loaded."""


class Registry(dict[str, T]):
    """Names of this package's entries, and of those that installed packages declare in a group.

    An entry of this package hides one of the same name. Iteration gives the names of both.
    """

    def __init__(self, group: str, entries: dict[str, T]):
        super().__init__(entries)
        self.group = group

    def __missing__(self, name: str) -> T:
        return load(self.group, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Entry by name, or the default."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in entry_points(self.group)

    def __iter__(self) -> Iterator[str]:
        yield from self.keys()
        yield from (name for name in entry_points(self.group) if name not in self.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Entries that installed packages declare in a group, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=group)}


@cache
def load(group: str, name: str) -> Any:
    """Object of an entry. Raises KeyError for an unknown name, PluginError where loading fails."""
    entry = entry_points(group)[name]
    try:
        return entry.load()
    except Exception as error:  # code of another package: anything may go wrong
        package = entry.dist.name if entry.dist else entry.value
        raise PluginError(
            f"{name!r} of {group}, which the package {package} declares as {entry.value!r}, cannot"
            f" be loaded: {type(error).__name__}: {error}; mend that package, or uninstall it"
        ) from error
