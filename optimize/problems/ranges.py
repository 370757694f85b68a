"""Default bounds of tuned numbers."""

from typing import Any

from controllers.scl.ast import Script
from controllers.scl.roles import number_roles

FACTOR = 100.0  # that a weight of a goal may change by, either way
OFFSET = 0.1  # one unit of the optimiser for a number of a gait that is not positive


def around(value: Any) -> tuple:
    """Bounds around a value: a factor for a positive number, else an offset."""
    value = float(value)
    if value > 0:
        return value / FACTOR, value * FACTOR, "log"
    return value - 10 * OFFSET, value + 10 * OFFSET, OFFSET


def number_range(script: Script, index: int) -> tuple[float, float, float]:
    """Bounds and scale (lower, upper, scale) of a script's number, from its role.

    Angles may leave the printed value by 90 degrees, forces by 500 N, points by 0.5 m; times lie
    between 0 and 3 s, strengths between 0 and 1. One unit of the optimiser is one scale.
    """
    value = script.values()[index]
    role = number_roles(script)[index]
    if role == "angle":
        return value - 90.0, value + 90.0, 45.0
    if role == "force":
        return value - 500.0, value + 500.0, 200.0
    if role == "gain":
        return 0.0, max(2 * value, 200.0), max(value / 2, 50.0)
    if role == "time":
        return 0.0, max(3.0, 2 * value), 0.3
    if role == "strength":
        return 0.0, 1.0, 0.2
    return value - 0.5, value + 0.5, 0.1
