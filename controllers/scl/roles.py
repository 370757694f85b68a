"""Kinds of a script's numbers, which determine unit and bounds."""

from collections.abc import Iterator
from typing import Literal

from controllers.scl.ast import (
    IK,
    PD,
    BalanceFeedback,
    Number,
    Primitive,
    Relax,
    Script,
    VirtualForce,
)

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
    """Kind of every number, in the order of the text."""
    roles: list[Role] = ["time"] * len(script.numbers)
    for phase in script.phases:
        for primitive in phase.primitives:
            for number, role in _numbers(primitive):
                roles[number.index] = role
    return tuple(roles)


def _numbers(primitive: Primitive) -> Iterator[tuple[Number, Role]]:
    """Numbers of a primitive that are not times, with their kinds."""
    if isinstance(primitive, PD):
        for target in primitive.targets:
            yield target.angle, "angle"
    elif isinstance(primitive, Relax):
        yield primitive.strength, "strength"
    elif isinstance(primitive, IK):
        for x, z in primitive.targets:
            yield x, "position"
            yield z, "position"
    elif isinstance(primitive, VirtualForce):
        force = primitive.force
        if isinstance(force, BalanceFeedback):
            yield force.kp, "gain"
            yield force.kd, "gain"
        else:
            yield force[0], "force"
            yield force[1], "force"
