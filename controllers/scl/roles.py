"""Kinds of a script's numbers, which determine unit and bounds."""

import math
from typing import Literal

from controllers.scl.ast import Script

Role = Literal["angle", "time", "force", "gain", "position", "strength"]
UNITS: dict[Role, str] = {
    "angle": "deg",
    "time": "s",
    "force": "N",
    "gain": "N/m or N s/m",
    "position": "m",
    "strength": "1",
}
LIMITS: dict[Role, tuple[float, float]] = {"time": (0.0, math.inf), "strength": (0.0, 1.0)}


def number_roles(script: Script) -> tuple[Role, ...]:
    """Kind of every number, in the order of the text."""
    roles: list[Role] = ["time"] * len(script.numbers)
    for phase in script.phases:
        for primitive in phase.primitives:
            for number, role in primitive.numbers():
                roles[number.index] = role
    return tuple(roles)
