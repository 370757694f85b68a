"""Roles of a script's numbers, which determine unit, bounds and the range of a search."""

import math
from collections.abc import Callable
from dataclasses import dataclass

SearchRange = Callable[[float], tuple[float, float, float]]


@dataclass(frozen=True)
class Role:
    """Role of a number: its unit and bounds, and the default range of a search.

    search_range: from the number's value to (lower, upper, scale), where one unit of the optimiser
    is one scale.
    """

    name: str
    unit: str
    search_range: SearchRange
    least: float = -math.inf
    most: float = math.inf


def within(width: float, scale: float) -> SearchRange:
    """Search range of a width to either side of the value."""
    return lambda value: (value - width, value + width, scale)


def from_zero(least: float, scale: float) -> SearchRange:
    """Search range from zero to twice the value, or ``least`` if that is more.

    The scale is at least half the value.
    """
    return lambda value: (0.0, max(2 * value, least), max(value / 2, scale))


ANGLE = Role("angle", "deg", within(90.0, 45.0))
FORCE = Role("force", "N", within(500.0, 200.0))
POSITION = Role("position", "m", within(0.5, 0.1))
GAIN = Role("gain", "N/m or N s/m", from_zero(200.0, 50.0))
TIME = Role("time", "s", lambda value: (0.0, max(3.0, 2 * value), 0.3), least=0.0)
STRENGTH = Role("strength", "1", lambda _: (0.0, 1.0, 0.2), least=0.0, most=1.0)
