"""TOML tables whose every key is checked; an error names file, table, key and remedy."""

import math
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jaxsim.options import REQUIRED
from jaxsim.ranges import RANGES


class WorldError(ValueError):
    """A world file that is invalid."""


def suggestion(name: str, known: Collection[str]) -> str:
    """'; did you mean 'mass'?' where a known name is near, else ""."""
    near = get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def read_toml(path: Path) -> "Table":
    """Read a whole file. Raises WorldError for a file that does not exist or is no TOML."""
    if not path.is_file():
        raise WorldError(f"{path}: there is no such world file")
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except RecursionError as error:
        raise WorldError(f"{path}: this is nested too deeply; a world needs no such") from error
    except (ValueError, MemoryError) as error:  # TOMLDecodeError and UnicodeDecodeError among them
        raise WorldError(f"{path}: this is not TOML: {error}") from error
    except OSError as error:
        raise WorldError(f"{path}: the file cannot be read: {error.strerror}") from error
    return Table(path.name, "", values)


class Table:
    """A table; readers take a key each, and ``done`` raises for keys that none has taken."""

    def __init__(self, file: str, where: str, values: Any):
        self.file, self.where = file, where
        if not isinstance(values, Mapping):
            raise self.error(f"is {format_value(values)}; a table is needed")
        self._values = dict(values)
        self._known: list[str] = []

    def error(self, message: str, key: str = "") -> WorldError:
        """Error at this table, or at a key of it."""
        place = ", ".join(part for part in (self.where, key and f"key {key!r}") if part)
        return WorldError(f"{self.file}: {place + ': ' if place else ''}{message}")

    def take(self, key: str, default: Any = REQUIRED) -> Any:
        """Value of a key, unchecked."""
        self._known.append(key)
        if key in self._values:
            return self._values[key]
        if default is REQUIRED:
            near = get_close_matches(key, [k for k in self._values if k not in self._known], 1, 0.6)
            hint = f" (is {near[0]!r} meant to be it?)" if near else ""
            raise self.error(f"is missing{hint}", key)
        return default

    def keys(self) -> list[str]:
        """Keys that the table gives."""
        return list(self._values)

    def values(self) -> dict[str, Any]:
        """Keys and values of the table, unchecked."""
        return self._values

    def has(self, key: str) -> bool:
        """True if the table has the key."""
        return key in self._values

    def number(
        self,
        key: str,
        default: Any = REQUIRED,
        above: float = -math.inf,
        least: float = -math.inf,
        most: float = math.inf,
        of: str = "number",
    ) -> Any:
        """Finite number within bounds, and in the range ``of`` jaxsim.ranges."""
        value = self.take(key, default)
        if value is default:
            return value
        if not is_number(value) or value <= above or not least <= value <= most:
            bounds = [
                f"above {above:g}" if above > -math.inf else "",
                f"of at least {least:g}" if least > -math.inf else "",
                f"of at most {most:g}" if most < math.inf else "",
            ]
            wanted = " ".join(["a finite number", " and ".join(filter(None, bounds))]).strip()
            raise self.error(f"is {format_value(value)}; give {wanted}", key)
        self.within(key, value, of)
        return float(value)

    def within(self, key: str, value: Any, of: str) -> None:
        """Raise WorldError unless a value is in the range ``of`` jaxsim.ranges."""
        if not RANGES[of].contains(value):
            raise self.error(f"is {format_value(value)}; {RANGES[of].wanted}", key)

    def whole(
        self,
        key: str,
        default: Any = REQUIRED,
        least: int = 0,
        most: int | None = None,
        of: str = "number",
    ) -> Any:
        """Whole number within bounds, and in the range ``of`` jaxsim.ranges."""
        value = self.take(key, default)
        if value is default:
            return value
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not good or (most is not None and value > most):
            upper = "" if most is None else f" and at most {most}"
            raise self.error(
                f"is {format_value(value)}; give a whole number of at least {least}{upper}", key
            )
        self.within(key, value, of)
        return value

    def vector(
        self,
        key: str,
        default: Any = REQUIRED,
        size: int = 3,
        above: float = -math.inf,
        single: bool = False,
    ) -> Any:
        """``size`` finite numbers; with ``single`` one number may stand for them."""
        value = self.take(key, default)
        if value is default:
            return value
        if single and is_number(value):
            return self.number(key, above=above)
        numbers = isinstance(value, list) and all(map(is_number, value))
        if not numbers or len(value) != size or min(value) <= above:
            more = f", each above {above:g}" if above > -math.inf else ""
            raise self.error(
                f"is {format_value(value)}; give {size} numbers in brackets{more}", key
            )
        for number in value:
            self.within(key, number, "number")
        return tuple(map(float, value))

    def text(self, key: str, default: Any = REQUIRED) -> Any:
        """Text that is not empty."""
        value = self.take(key, default)
        if value is not default and not (isinstance(value, str) and value):
            raise self.error(f"is {format_value(value)}; give a text in quotes", key)
        return value

    def choice(self, key: str, known: Collection[str], default: Any = REQUIRED) -> Any:
        """One of the ``known`` names."""
        value = self.text(key, default)
        if value is not default and value not in known:
            hint = suggestion(value, known)
            raise self.error(f"is {format_value(value)}{hint}; choose from {', '.join(known)}", key)
        return value

    def names(self, key: str, default: Any = REQUIRED, known: Collection[str] = ()) -> Any:
        """Names (n,), each of the ``known`` ones, or any without these."""
        value = self.take(key, default)
        if value is default:
            return value
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            such = ", ".join(f'"{name}"' for name in [*known][:2] or ("pelvis", "chest"))
            raise self.error(f"is {format_value(value)}; give names, [{such}]", key)
        for name in value:
            if known and name not in known:
                hint = suggestion(name, known)
                raise self.error(f"there is no {name!r}{hint}; there are: {', '.join(known)}", key)
        return tuple(value)

    def numbers(self, key: str) -> dict[str, float]:
        """Table of numbers by name; empty if it is absent."""
        value = self.take(key, {})
        if not isinstance(value, Mapping) or not all(map(is_number, value.values())):
            raise self.error("give numbers by name, as { alive = 1.0 }", key)
        return {name: float(number) for name, number in value.items()}

    def ranges(self, key: str) -> dict[str, tuple[float, float]]:
        """Table of ranges by name; a single number is a range of no width."""
        value = self.take(key, {})
        if not isinstance(value, Mapping):
            raise self.error("give ranges by name, as { speed = [0.8, 1.2] }", key)
        ranges = {}
        for name, entry in value.items():
            pair = [entry, entry] if is_number(entry) else entry
            if not (isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair))):
                raise self.error("give [lower, upper]", f"{key}.{name}")
            ranges[name] = (float(pair[0]), float(pair[1]))
        return ranges

    def flag(self, key: str, default: Any) -> Any:
        """Value true or false."""
        value = self.take(key, default)
        if value is not default and not isinstance(value, bool):
            raise self.error(f"is {format_value(value)}; give true or false", key)
        return value

    def table(self, key: str) -> "Table | None":
        """Table within this one; None if it is absent."""
        value = self.take(key, None)
        return None if value is None else Table(self.file, self._place(f"[{key}]"), value)

    def tables(self, key: str) -> "list[Table]":
        """Array of tables within this one; empty if it is absent."""
        value = self.take(key, [])
        if not isinstance(value, list):
            raise self.error(f"one of them begins with [[{key}]], in double brackets", key)
        return [
            Table(self.file, self._place(f"[[{key}]] {k}{_called(each)}"), each)
            for k, each in enumerate(value, 1)
        ]

    def _place(self, name: str) -> str:
        return f"{self.where}, {name}" if self.where else name

    def done(self) -> None:
        """Raise WorldError for a key that nothing has taken."""
        for key in self._values:
            if key not in self._known:
                known = sorted(set(self._known))
                hint = suggestion(key, known)
                raise self.error(f"is not known here{hint}; the keys are: {', '.join(known)}", key)


def is_number(value: Any) -> bool:
    """True for a finite number that a float can hold."""
    try:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(float(value))
        )
    except OverflowError:
        return False


def format_value(value: Any) -> str:
    """Value as text for a message, shortened if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 200 else f"{text[:197]}..."


def _called(values: Any) -> str:
    name = values.get("name") if isinstance(values, Mapping) else None
    return f" {name!r}" if isinstance(name, str) else ""
