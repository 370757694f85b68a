"""Parsers of option values, with argparse's errors that say what is expected."""

import argparse
import math
import re
from collections.abc import Callable

from jaxsim.ranges import RANGES


def positive(text: str) -> float:
    return _number(text, lambda x: x > 0, "a positive number")


def coefficient(text: str) -> float:
    return _number(text, lambda x: x >= 0, "a number of at least 0")


def _number(text: str, good: Callable[[float], bool], expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and good(value)):
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return value


def within(name: str) -> Callable[[str], float]:
    """Parser of a number in the range of this name in ``jaxsim.ranges``."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not RANGES[name].contains(value):
            raise argparse.ArgumentTypeError(f"got {text!r}; {RANGES[name].wanted}")
        return value

    return number


def at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            message = f"expected a whole number of at least {least}, got {text!r}"
            raise argparse.ArgumentTypeError(message)
        return value

    return whole


def several(text: str) -> tuple[float, ...]:
    """Parse positive numbers with commas between them."""
    return tuple(positive(part) for part in text.split(","))


def pushes(text: str) -> tuple[float | tuple[float, float], ...]:
    """Parse forces with commas between them, each N or N@DEGREES."""
    return tuple(map(_push, text.split(",")))


def _push(text: str) -> float | tuple[float, float]:
    force, at, direction = text.partition("@")
    if not at:
        return positive(force)
    try:
        angle = float(direction)
    except ValueError:
        angle = math.nan
    if not math.isfinite(angle):
        raise argparse.ArgumentTypeError(f"expected degrees after @, as in 350@180, got {text!r}")
    return positive(force), angle


def deviations(text: str) -> tuple[float, ...]:
    """Parse two numbers of at least zero."""
    parts = tuple(coefficient(part) for part in text.split(","))
    if len(parts) != 2:
        raise argparse.ArgumentTypeError(f"expected two numbers, as in 0,0.05, got {text!r}")
    return parts


def bounds(text: str) -> tuple[str, tuple[float | str, ...]]:
    """Parse PATH=LOWER:UPPER[:SCALE], the scale a number or "log"."""
    path, equals, numbers = text.partition("=")
    scale = ("log",) if numbers.endswith(":log") else ()
    try:
        values = tuple(float(number) for number in numbers.removesuffix(":log").split(":"))
    except ValueError:
        values = ()
    many = len(values) + len(scale)
    good = len(values) >= 2 and many in (2, 3) and all(map(math.isfinite, values))
    if not (path and equals and good):
        raise argparse.ArgumentTypeError(
            f"expected PATH=LOWER:UPPER, as in model.friction=0.4:1.2, got {text!r}"
        )
    return path, (*values, *scale)


def variants(text: str) -> tuple[str, tuple[float, ...]]:
    """Parse PATH=V,V,..."""
    path, equals, numbers = text.partition("=")
    try:
        values = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        values = ()
    if not (path and equals and values and all(map(math.isfinite, values))):
        raise argparse.ArgumentTypeError(
            f"expected PATH=V,V,..., as in model.friction=0.4,1.0, got {text!r}"
        )
    return path, values


def spread(text: str) -> tuple[str, object]:
    """Parse the values or the distribution of a number.

    PATH=V,V,... or PATH=A:B:N[:log], values; PATH=A:B[:log] or PATH=MEAN~DEVIATION, a distribution.
    """
    path, equals, numbers = text.rpartition("=")
    try:
        if not (path and equals):
            raise ValueError
        return path, _spread(numbers)
    except ValueError as error:
        why = f" ({error})" if error.args and "low" in str(error) else ""
        raise argparse.ArgumentTypeError(
            "expected PATH=V,V,... or PATH=A:B:N for values, PATH=A:B or PATH=MEAN~DEVIATION for a"
            f" distribution, as in model.friction=0.4:1.2:9, got {text!r}{why}"
        ) from None


def edge(text: str) -> tuple[str, float, float, int]:
    """Parse PATH=START:END:PARTS."""
    path, equals, numbers = text.rpartition("=")
    try:
        start, end, parts = numbers.split(":")
        if not (path and equals):
            raise ValueError
        return path, *_finite([float(start), float(end)]), int(parts)  # type: ignore
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected PATH=START:END:PARTS, as in model.friction=1:0.1:18, got {text!r}"
        ) from None


def _spread(numbers: str) -> object:
    import numpy as np

    from optimize.sweeps.distributions import LogUniform, Normal, Uniform

    if "~" in numbers:
        mean, deviation = map(float, numbers.split("~"))
        return Normal(mean, deviation)
    if ":" not in numbers:
        return _finite([float(number) for number in numbers.split(",")])
    by_factors = numbers.endswith(":log")
    low, high, *more = numbers.removesuffix(":log").split(":")
    first, last = ends = _finite([float(low), float(high)])
    if not more:
        return (LogUniform if by_factors else Uniform)(first, last)
    (count,) = map(int, more)
    if count < 2 or (by_factors and min(ends) <= 0):
        raise ValueError
    return (np.geomspace if by_factors else np.linspace)(first, last, count).tolist()


def _finite(values: list[float]) -> list[float]:
    if not all(map(math.isfinite, values)):
        raise ValueError
    return values


def coordinates(text: str) -> dict[str, float]:
    """Parse NAME=X,NAME=X; a name may have commas."""
    try:
        if not re.fullmatch(r"(?:[^=]+=[^,=]+(?:,(?=.)|$))+", text):
            raise ValueError
        return {name.strip(): float(x) for name, x in re.findall(r"([^=]+)=([^,=]+),?", text)}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected NAME=X,NAME=X, as in friction=0.4,start=2, got {text!r}"
        ) from None
