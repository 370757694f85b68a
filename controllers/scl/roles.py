"""What each number of a script stands for, which decides its unit and a sensible range."""

from collections.abc import Iterator
from typing import Literal

from controllers.scl.ast import IK, PD, Balance, Number, Relax, Script, VirtualForce

Role = Literal["angle", "time", "force", "gain", "position", "strength"]
UNITS: dict[Role, str] = {
    "angle": "deg",
    "time": "s",
    "force": "N",
    "gain": "N/m or N s/m",
    "position": "m",
    "strength": "1",
}


def number_roles(script: Script) -> tuple[Role, ...]:
    """The role of every number, in the order of the text."""
    roles: list[Role] = ["time"] * len(script.numbers)
    for phase in script.phases:
        for primitive in phase.primitives:
            for number, role in _numbers(primitive):
                roles[number.index] = role
    return tuple(roles)


def _numbers(primitive) -> Iterator[tuple[Number, Role]]:
    """Numbers of a primitive that are not times."""
    if isinstance(primitive, PD):
        yield from ((target.angle, "angle") for target in primitive.targets)
    elif isinstance(primitive, Relax):
        yield primitive.strength, "strength"
    elif isinstance(primitive, IK):
        yield from ((n, "position") for pair in primitive.targets for n in pair)
    elif isinstance(primitive, VirtualForce) and isinstance(primitive.force, Balance):
        yield from ((n, "gain") for n in (primitive.force.kp, primitive.force.kd))
    elif isinstance(primitive, VirtualForce):
        yield from ((n, "force") for n in primitive.force)
