"""Entries of registries with their units: terms, observations, rewards, terminations.

An entry declares its unit by ``jaxsim.options.unit`` (a term by its field), and its meaning by the
first paragraph of its docstring (a term by its field).
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controllers.policy.observations import OBSERVATIONS
from optimize.environments.rewards import REWARDS
from optimize.environments.terminations import TERMINATIONS
from optimize.running.objectives import TERMS, Term


@dataclass(frozen=True)
class RegistryEntry:
    """RegistryEntry of a registry, as the reference shows it."""

    name: str
    unit: str
    meaning: str


def entry_tables() -> dict[str, list[RegistryEntry]]:
    """Entries of each registry. Raises TypeError for one without unit or meaning."""
    registries: dict[str, Mapping[str, Any]] = {
        "terms": TERMS,
        "observations": OBSERVATIONS,
        "rewards": REWARDS,
        "terminations": TERMINATIONS,
    }
    return {
        kind: [entry_of(kind, name, registry[name]) for name in registry]
        for kind, registry in registries.items()
    }


def entry_of(kind: str, name: str, entry: Any) -> RegistryEntry:
    """Unit and meaning of an entry. Raises TypeError, with the remedy, where it lacks one."""
    if isinstance(entry, Term):
        unit, meaning, remedy = entry.unit, entry.meaning, "give Term its unit and meaning"
    else:
        unit = getattr(entry, "unit", "")
        meaning = " ".join((inspect.getdoc(entry) or "").split("\n\n")[0].split())
        remedy = "decorate it with jaxsim.options.unit, and write a docstring"
    if not unit or not meaning:
        raise TypeError(f"{name!r} of the {kind} lacks a unit or a meaning; {remedy}")
    meaning = meaning.replace("``", "`").rstrip(".")
    return RegistryEntry(name, unit, meaning[0].lower() + meaning[1:])
