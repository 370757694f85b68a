"""Keys of scenario files that schemes and controllers declare, by table."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controllers.registry import CONTROLLERS, builder
from jaxsim.io.keys import Keys, kind_text
from jaxsim.io.world_file import SCHEMES
from jaxsim.options import Option, options_of

NESTED = "[[controller.{}]]"


@dataclass(frozen=True)
class KeyTable:
    """Keys of one table, or of one scheme or controller in it."""

    name: str  # such as "balance", or "[[controller.reach]]"
    about: str
    options: tuple[Option, ...]


def scheme_tables() -> list[KeyTable]:
    """Options of each scheme, which stand in ``[world]``."""
    return [KeyTable(name, "", options_of(scheme)) for name, scheme in SCHEMES.items()]


def controller_tables() -> list[KeyTable]:
    """Keys of each registered controller, then those of the tables within.

    Raises TypeError for a controller whose function declares none (``jaxsim.io.keys.reads``).
    """
    tables, nested = [], {}
    for name in CONTROLLERS:
        build = builder(name)
        keys = getattr(build, "keys", None)
        if keys is None or not build.__doc__:
            raise TypeError(
                f"the controller {name!r} declares no keys, or lacks a docstring; decorate its"
                " function with @reads(KEYS), where KEYS is a jaxsim.io.keys.Keys"
            )
        tables.append(KeyTable(name, first_sentence(build), options_of(keys)))
        nested |= dict(_within(keys))
    return [*tables, *nested.values()]


def first_sentence(function: object) -> str:
    """First paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _within(keys: type[Keys]) -> Iterator[tuple[type, KeyTable]]:
    for option in options_of(keys):
        if option.entries is None:
            continue
        name = (NESTED if option.kind is list else "{}").format(option.key)
        if isinstance(option.entries, Mapping):
            for kind, entry in option.entries.items():
                about = first_sentence(entry)
                yield entry, KeyTable(f'{name} kind = "{kind}"', about, options_of(entry))
        else:
            yield option.entries, KeyTable(name, option.meaning, options_of(option.entries))


def text(table: KeyTable) -> str:
    """Table for a terminal, a key a line."""
    lines = [f"{table.name}: {plain(table.about)}".rstrip(": ")]
    for o in table.options:
        unit = f" [{o.unit}]" if o.unit else ""
        kind = kind_text(o).replace("`", "")
        lines.append(f"  {o.key:<18} {kind}{unit}, {o.shown}: {plain(o.meaning)}")
    return "\n".join(lines)


def plain(markdown: str) -> str:
    """Text of a meaning without its links and code marks."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", markdown).replace("`", "")
