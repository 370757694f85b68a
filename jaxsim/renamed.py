"""Earlier names of keywords, fields and keys, readable for one version with a warning."""

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Record = TypeVar("Record", bound=type)


def present_names(values: Mapping[str, Any], earlier: Mapping[str, str]) -> dict[str, Any]:
    """Copy of a mapping with present names in the place of earlier ones, without a warning.

    >>> present_names({"fresh": True, "runs": 2}, {"fresh": "resample"})
    {'resample': True, 'runs': 2}
    """
    return {earlier.get(name, name): value for name, value in values.items()}


def read_earlier(
    values: Mapping[str, Any], earlier: Mapping[str, str], place: str, level: int = 3
) -> dict[str, Any]:
    """Copy of keyword arguments with present names; a DeprecationWarning for each earlier one.

    place: what takes them, for the message; level: of the caller, as ``warnings.warn`` counts.
    """
    for name in values.keys() & earlier.keys():
        warnings.warn(
            f"{place}: {name} is now {earlier[name]}; use that",
            DeprecationWarning,
            stacklevel=level,
        )
    return present_names(values, earlier)


def renamed_fields(**earlier: str) -> Callable[[Record], Record]:
    """Class decorator: a dataclass takes and shows earlier names of its fields, with a warning.

    ``@renamed_fields(fresh="resample")`` takes ``fresh=True``, and has ``.fresh``.
    """

    def decorate(record: Record) -> Record:
        plain_init = record.__init__

        @functools.wraps(plain_init)
        def init(self, *args: Any, **fields: Any) -> None:
            if fields.keys() & earlier.keys():
                # dataclasses.replace passes all other fields too, the present name among them
                present = {name: v for name, v in fields.items() if name not in earlier}
                changed = {name: v for name, v in fields.items() if name in earlier}
                fields = present | read_earlier(changed, earlier, record.__name__)
            plain_init(self, *args, **fields)

        record.__init__ = init
        for name, present in earlier.items():
            setattr(record, name, property(_reader(record.__name__, name, present)))
        return record

    return decorate


def _reader(place: str, name: str, present: str) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        warnings.warn(
            f"{place}.{name} is now {present}; use that", DeprecationWarning, stacklevel=2
        )
        return getattr(self, present)

    return read
