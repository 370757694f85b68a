"""Options that scenario files may give, declared as fields of a dataclass.

    sweeps: int = option(6, "Gauss-Seidel sweeps a step, at least", static=True, least=1)

A scheme declares its options at its fields, a controller in a dataclass beside its reader. The
reader of scenario files, ``--set``, ``jaxsim list --keys`` and the documentation follow.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

REQUIRED: Any = object()
T = TypeVar("T", bound=Callable)


@dataclass(frozen=True)
class Option:
    """Key of a scenario file for one field."""

    field: str
    key: str
    kind: type  # bool, int, float, str, tuple (a vector), dict and list of ``entries``, or object
    meaning: str
    unit: str
    default: Any  # REQUIRED for a key that has to be there
    shown: str  # the default, as the documentation shows it
    bounds: dict[str, Any]  # arguments of the readers of ``Table``: above, least, most, known, size
    entries: Any = None  # of a table, or tables: what declares its keys, or kind -> that; of a
    # list str (names), of a table float (numbers by name) or tuple (ranges by name)
    was: str = ""  # earlier name of the key, which still works with a warning


def option(
    default: Any,
    meaning: str,
    *,
    key: str = "",
    unit: str = "",
    shown: str = "",
    kind: type | None = None,
    static: bool = False,
    choices: Collection[str] = (),
    entries: Any = None,
    was: str = "",
    **bounds: Any,
) -> Any:
    """Field of a dataclass that scenario files may set.

    key: its name there, by default the field's; shown: the default in the documentation, where
    the value says little; kind: where the default is None or REQUIRED; entries: of a table (kind
    dict) or an array of tables (kind list), or where each has a ``kind``, a mapping from that, or
    the type of plain entries: list with str is names, dict with float numbers by name, dict with
    tuple ranges by name; choices: names that a text or each name of a list may be, where a mapping
    may get further ones later; was: an earlier name of the key, which is read with a warning;
    bounds: above, least, most, of a vector its size, and ``single`` where one number may stand for
    it, and of kind object, which its reader checks, ``values`` for the documentation.
    """
    live = isinstance(choices, Mapping)
    known = {"known": choices if live else tuple(choices)} if live or choices else {}
    declared = {
        "key": key,
        "kind": kind or type(default),
        "meaning": meaning,
        "unit": unit,
        "default": default,
        "shown": shown or _shown(default),
        "bounds": {**known, **bounds},
        "entries": entries,
        "was": was,
    }
    value = dataclasses.MISSING if default is REQUIRED else default
    return dataclasses.field(default=value, metadata={"static": static, "option": declared})


def unit(text: str) -> Callable[[T], T]:
    """Decorate a function of a registry with the unit of its value, "1" without one."""

    def decorate(function: T) -> T:
        function.unit = text  # type: ignore[attr-defined]
        return function

    return decorate


def options_of(record: type) -> tuple[Option, ...]:
    """Options that a dataclass declares, in the order of its fields."""
    declared = [(f.name, f.metadata.get("option")) for f in dataclasses.fields(record)]
    return tuple(
        Option(**{**entry, "field": name, "key": entry["key"] or name})
        for name, entry in declared
        if entry is not None
    )


def _shown(default: Any) -> str:
    if default is REQUIRED:
        return "needed"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, tuple) and all(isinstance(x, str) for x in default) and default:
        return f"[{', '.join(map(_shown, default))}]"
    if isinstance(default, tuple):
        return f"[{', '.join(f'{x:g}' for x in default)}]" if default else "none"
    return "none" if default is None else f"{default:g}"
