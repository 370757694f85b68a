"""Tables of scenario files, read by the dataclass that declares their keys."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Self

from jaxsim.io.toml_table import Table
from jaxsim.options import Option, options_of
from jaxsim.ranges import RANGES


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Base of what a table of a scenario file gives; fields are declared with ``option``."""

    table: Table  # for errors that name the place

    @classmethod
    def read(cls, table: Table) -> Self:
        """Values of a table. Raises WorldError for wrong or missing ones; unknown keys are left
        to ``Table.done``."""
        return cls(table=table, **{o.field: read_option(table, o) for o in options_of(cls)})


def reads(keys: type[Keys]) -> Callable:
    """Decorate ``build(keys, setup)`` as a function of ``[controller]``'s table, with ``keys``
    for the documentation."""

    def decorate(build: Callable) -> Callable:
        @wraps(build)
        def read(table: Table, setup: Any) -> Any:
            return build(keys.read(table), setup)

        read.keys = keys  # type: ignore[attr-defined]
        return read

    return decorate


def read_option(table: Table, option: Option, default: Any = ...) -> Any:
    """Value of an option; default: in the place of the declared one."""
    key = _key(table, option)
    default = option.default if default is ... else default
    if option.kind is object:
        return table.take(key, default)
    if option.entries is str:
        return table.names(key, default, **option.bounds)
    if option.entries is float:
        return table.numbers(key)
    if option.entries is tuple:
        return table.ranges(key)
    if option.kind in (dict, list):
        return _entries(table, option, key)
    if option.kind is bool:
        return table.flag(key, default)
    if option.kind is str:
        read = table.choice if "known" in option.bounds else table.text
        return read(key, default=default, **option.bounds)
    if option.kind is tuple:
        return table.vector(key, default, **option.bounds)
    infinite = isinstance(option.default, float) and math.isinf(option.default)
    if infinite and table.has(key) and table.take(key, default) == option.default:
        return option.default
    number = table.whole if option.kind is int else table.number
    bounds = {"of": key if key in RANGES else "number", **option.bounds}
    return number(key, default, **bounds)


def _key(table: Table, option: Option) -> str:
    """Key under which a file gives an option: its earlier name, with a warning, where that is
    there."""
    if not option.was or not table.has(option.was):
        return option.key
    if table.has(option.key):
        raise table.error(f"is the earlier name of {option.key!r}; give that alone", option.was)
    place = f"{table.file}: {table.where}"
    text = f"{place}: the key {option.was!r} is now {option.key!r}; rename it"
    warnings.warn(text, FutureWarning, stacklevel=2)
    return option.was


def _entries(table: Table, option: Option, key: str) -> Any:
    """Keys of a table, None where it is missing, or of each of an array of tables; the table
    itself where its keys are names."""
    if option.entries is None:
        return table.table(key)
    given = table.tables(key) if option.kind is list else [table.table(key)]
    read = []
    for each in filter(None, given):
        record = option.entries
        if isinstance(record, Mapping):
            record = record[each.choice("kind", tuple(record))]
        read.append(record.read(each))
        each.done()
    return tuple(read) if option.kind is list else next(iter(read), None)


def kind_text(option: Option) -> str:
    """Kind and bounds of an option, for the documentation: "number above 0"."""
    bounds = option.bounds
    if "known" in bounds and option.kind is str:
        return ", ".join(f'`"{name}"`' for name in bounds["known"])
    if option.kind is tuple:
        above = f" above {bounds['above']:g}" if "above" in bounds else ""
        single = ", or one" if "single" in bounds else ""
        return f"{bounds.get('size', 3)} numbers{above}{single}"
    if option.kind is object:
        return bounds["values"]
    plain = ((str, "names"), (float, "numbers by name"), (tuple, "ranges by name"))
    for entries, text in plain:
        if option.entries is entries:
            return text
    names = {bool: "true, false", str: "text", dict: "table", list: "tables"}
    if option.kind in names:
        return names[option.kind]
    words = ["whole number" if option.kind is int else "number"]
    words += [
        f"{word} {bounds[name]:g}"
        for name, word in (("above", "above"), ("least", "from"), ("most", "to"))
        if name in bounds
    ]
    return " ".join(words)
