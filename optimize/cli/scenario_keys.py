"""Keys of scenario files, by table, from the dataclasses that declare them beside their readers."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controllers.registry import CONTROLLERS, ControllerKeys, builder
from jaxsim.io.keys import Keys, kind_text
from jaxsim.io.shape_table import SHAPES, ShapeKeys
from jaxsim.io.world_file import SCHEMES, WorldFileKeys
from jaxsim.options import Option, options_of
from optimize.environments.table import EnvironmentKeys

NESTED = {"repeat": "repeat"}  # tables that stand in several ones
RECORDS = {"controller": ControllerKeys, "environment": EnvironmentKeys}  # whose readers are here


@dataclass(frozen=True)
class KeyTable:
    """Keys of one table, or of one scheme or controller in it."""

    name: str  # such as "[[body]]", "balance", or "[[controller.reach]]"
    about: str
    options: tuple[Option, ...]


def file_records() -> dict[str, type[Keys]]:
    """Table of a file -> the dataclass that declares its keys.

    Raises TypeError for a table that declares none.
    """
    records: dict[str, Any] = {
        o.key: o.entries or RECORDS.get(o.key) for o in options_of(WorldFileKeys)
    }
    for key, record in records.items():
        check_documented(f"the table {key!r}", record)
    return records


def check_documented(what: str, record: object) -> None:
    """Raise TypeError, with the remedy, unless a dataclass declares keys, with a meaning each."""
    if not isinstance(record, type) or not issubclass(record, Keys):
        raise TypeError(
            f"{what} declares no keys; read it by a dataclass derived from jaxsim.io.keys.Keys"
        )
    if not first_sentence(record):
        raise TypeError(f"{what}: {record.__name__} lacks a docstring; write one")
    for o in options_of(record):
        if not o.meaning:
            raise TypeError(f"{what}: the key {o.key!r} lacks a meaning; give option() one")


def file_tables() -> list[KeyTable]:
    """Keys of each table of a file, then those of the tables within; inherited ones are left out
    where the base is a table itself."""
    records, tables, nested = file_records(), [], {}
    for o in options_of(WorldFileKeys):
        record = records[o.key]
        base = {x.key for b in record.__mro__[1:] if b in records.values() for x in options_of(b)}
        own = tuple(x for x in options_of(record) if x.key not in base)
        name = f"[[{o.key}]]" if o.kind is list else f"[{o.key}]"
        tables.append(KeyTable(name, first_sentence(record), own))
        nested |= dict(_within(record, o.key))
    return [*tables, *nested.values()]


def shape_tables() -> list[KeyTable]:
    """Keys that a table with a shape has besides, for any kind and for each."""
    common = options_of(ShapeKeys)
    known = {o.key for o in common}
    own = [
        KeyTable(
            f'shape = "{kind}"',
            first_sentence(record),
            tuple(o for o in options_of(record) if o.key not in known),
        )
        for kind, record in SHAPES.items()
    ]
    return [KeyTable("shape", first_sentence(ShapeKeys), common), *own]


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
        nested |= dict(_within(keys, "controller"))
    return [*tables, *nested.values()]


def first_sentence(function: object) -> str:
    """First paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _within(keys: type[Keys], outer: str) -> Iterator[tuple[type, KeyTable]]:
    for option in options_of(keys):
        if not isinstance(option.entries, Mapping) and not hasattr(option.entries, "read"):
            continue
        name = NESTED.get(option.key) or f"{outer}.{option.key}"
        name = f"[[{name}]]" if option.kind is list else f"[{name}]"
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
