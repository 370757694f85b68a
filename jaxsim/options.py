"""Options of a scheme that scenario files may give, declared where the scheme has its fields.

    sweeps: int = option(6, "Gauss-Seidel sweeps a step, at least", static=True, least=1)

The reader of ``[world]``, ``--set``, and the table of keys in the documentation follow from that.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """Key of a scenario file for one field of a scheme."""

    field: str
    key: str
    kind: type  # bool, int, float, or str with choices
    meaning: str
    unit: str
    default: str  # as the documentation shows it
    bounds: dict[str, Any]  # above, least, most, known: arguments of the readers of ``Table``


def option(
    default: Any,
    meaning: str,
    *,
    key: str = "",
    unit: str = "",
    shown: str = "",
    kind: type | None = None,
    static: bool = False,
    choices: Sequence[str] = (),
    **bounds: Any,
) -> Any:
    """Field of a dataclass that scenario files may set.

    key: its name there, by default the field's; shown: the default in the documentation, where
    the value says little; kind: where the default is None; bounds: above, least, most.
    """
    known = {"known": tuple(choices)} if choices else {}
    declared = {
        "key": key,
        "kind": kind or type(default),
        "meaning": meaning,
        "unit": unit,
        "default": shown or _shown(default),
        "bounds": {**known, **bounds},
    }
    return dataclasses.field(default=default, metadata={"static": static, "option": declared})


def options_of(scheme: type) -> tuple[Option, ...]:
    """Options that a scheme declares, in the order of its fields."""
    declared = [(f.name, f.metadata.get("option")) for f in dataclasses.fields(scheme)]
    return tuple(
        Option(**{**entry, "field": name, "key": entry["key"] or name})
        for name, entry in declared
        if entry is not None
    )


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else f"{default:g}"
