"""Readers of the tables of a world file with shapes: ``[[fixed]]``, ``[[body]]``, ``[[driven]]``.

Each reader takes the keys that its dataclass declares and raises WorldError, naming the key, for
the rest. docs/reference/scenarios.md has all keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.io.frames import turn_quaternion
from jaxsim.io.keys import Keys
from jaxsim.io.shape_table import KIND, SHAPES, ShapedKeys
from jaxsim.io.toml_table import Table
from jaxsim.io.world import ZERO, Body, DrivenBody, Vector
from jaxsim.model import Joint, Shape, hinge, slide
from jaxsim.model.drives import Drive
from jaxsim.options import REQUIRED, option

TURN = "rotation, as an axis times an angle"


@dataclass(frozen=True, kw_only=True)
class RepeatKeys(Keys):
    """Copies in a row, with `_1`, `_2` after the name."""

    count: int = option(REQUIRED, "number of copies", kind=int, least=1)
    offset: tuple = option(REQUIRED, "from one copy to the next", unit="m", kind=tuple)


@dataclass(frozen=True, kw_only=True)
class RepeatedKeys(Keys):
    """Table that may be repeated."""

    repeat: RepeatKeys | None = option(
        None, "copies in a row, `{ count, offset }`", shown="once", kind=dict, entries=RepeatKeys
    )


@dataclass(frozen=True, kw_only=True)
class FixedKeys(RepeatedKeys, ShapedKeys):
    """Shape of the world, with the keys of [shapes](#shapes)."""

    shape: str = option(REQUIRED, KIND, kind=str, choices=SHAPES)
    name: str = option("", "name in contacts and results", shown="none")
    pos: tuple = option(ZERO, "position", unit="m")
    turn_deg: tuple = option(ZERO, f"{TURN}: `[0, 90, 0]` makes a capsule upright", unit="deg")
    touch: bool = option(True, "false: visible only, without contact")


@dataclass(frozen=True, kw_only=True)
class BodyKeys(RepeatedKeys, ShapedKeys):
    """Loose solid of uniform density, with the keys of [shapes](#shapes)."""

    name: str = option(REQUIRED, "name of the body", kind=str)
    mass: float = option(REQUIRED, "mass of the body", unit="kg", kind=float, above=0.0)
    pos: tuple | None = option(
        None, "position at the start", unit="m", shown="needed, or `target`", kind=tuple
    )
    turn_deg: tuple = option(ZERO, TURN, unit="deg")
    velocity: tuple = option(
        ZERO,
        "at the start, in the world's axes; with `target` the velocity at the target",
        unit="m/s",
    )
    angular_velocity: tuple = option(ZERO, "at the start, in the world's axes", unit="rad/s")
    target: tuple | None = option(
        None,
        "instead of `pos`: the body flies from the start so that it would be here at the time"
        " `arrives`",
        unit="m",
        kind=tuple,
    )
    arrives: float | None = option(
        None, "time at `target`", unit="s", shown="needed with `target`", kind=float, above=0.0
    )
    throw_at: float | None = option(
        None,
        "the body is fixed until 0.05 s before this time, and then accelerated to `velocity`,"
        " which it has at this time",
        unit="s",
        shown="never held",
        kind=float,
        above=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class DrivenMotionKeys(Keys):
    """Joint of a body with prescribed motion: start + rate s + amplitude sin(2 pi frequency s +
    phase) + acceleration s^2 / 2, with s the time since `begin`."""

    turn: tuple | None = option(None, "axis of a rotation", shown="needed, or `slide`", kind=tuple)
    slide: tuple | None = option(
        None, "axis of a translation", shown="needed, or `turn`", kind=tuple
    )
    start: float = option(0.0, "of a slide: position at the start", unit="m")
    rate: float = option(0.0, "of a slide: constant velocity", unit="m/s")
    amplitude: float = option(0.0, "of a slide: amplitude of an added sine", unit="m")
    acceleration: float = option(0.0, "of a slide: constant acceleration", unit="m/s^2")
    start_deg: float = option(0.0, "of a turn: angle at the start", unit="deg")
    rate_deg: float = option(0.0, "of a turn: constant rate", unit="deg/s")
    amplitude_deg: float = option(0.0, "of a turn: amplitude of an added sine", unit="deg")
    acceleration_deg: float = option(0.0, "of a turn: constant acceleration", unit="deg/s^2")
    frequency: float = option(0.0, "of the sine", unit="Hz", least=0.0)
    phase_deg: float = option(0.0, "of the sine", unit="deg")
    begin: float = option(0.0, "start of the motion; the body is at rest before", unit="s")
    end: float = option(
        np.inf, "end of the motion; the body is at rest after", unit="s", shown="never"
    )


@dataclass(frozen=True, kw_only=True)
class DrivenKeys(ShapedKeys):
    """Shape with prescribed motion, with the keys of [shapes](#shapes)."""

    name: str = option(
        REQUIRED, "name of the body; it touches moving bodies, not fixed shapes", kind=str
    )
    motion: tuple[DrivenMotionKeys, ...] = option(
        None, "joints in a chain", shown="needed, or `on`", kind=list, entries=DrivenMotionKeys
    )
    pos: tuple = option(ZERO, "position at the start", unit="m")
    turn_deg: tuple = option(ZERO, TURN, unit="deg")
    on: str = option(
        "world",
        "`world`, or an earlier driven body that carries this one: its motion is relative to the"
        " carrier, or it is fixed to it if it has no motion",
    )


def read_repeated(table: Table, record: type[RepeatedKeys], read: Callable) -> list:
    """Read a table once, or as often as its key ``repeat`` says, in a row.

    read: from the keys, the end of the name and the offset [m] of a copy.
    """
    keys = record.read(table)
    count, offset = 1, np.zeros(3)
    if keys.repeat is not None:
        count, offset = keys.repeat.count, np.array(keys.repeat.offset)
    results = [read(keys, f"_{k + 1}" if keys.repeat else "", k * offset) for k in range(count)]
    table.done()
    return results


def fixed_of(keys: FixedKeys, suffix: str, offset: np.ndarray, friction: float) -> Shape:
    pos = tuple((np.array(keys.pos) + offset).tolist())
    bits = int(keys.touch)
    quat = turn_quaternion(keys.turn_deg)
    placed: dict[str, Any] = dict(pos=pos, quat=quat, name=keys.name and keys.name + suffix)
    return keys.shape_of(friction, group=bits, mask=bits, **placed)


def body_of(
    keys: BodyKeys, suffix: str, offset: np.ndarray, friction: float, gravity: Vector
) -> Body:
    table, name = keys.table, keys.name + suffix
    pos, velocity = _thrown(keys, gravity) if keys.target else (keys.pos, keys.velocity)
    if pos is None:
        pos = table.vector("pos")  # raises: it is needed
    body = Body(
        name=name,
        shape=keys.shape_of(friction, name=name),
        mass=keys.mass,
        pos=tuple((np.array(pos) + offset).tolist()),
        quat=turn_quaternion(keys.turn_deg),
        velocity=velocity,
        angular_velocity=keys.angular_velocity,
        throw_at=keys.throw_at,
    )
    if keys.arrives and not keys.target:
        raise table.error("is the time at target; give this too, or leave it out", "arrives")
    if body.throw_at is not None and any(body.angular_velocity):
        raise table.error(
            "a body with throw_at flies without turning; leave this out", "angular_velocity"
        )
    if body.throw_at is not None and not any(body.velocity):
        raise table.error("a body with throw_at needs the velocity it is thrown with", "velocity")
    return body


def _thrown(keys: BodyKeys, gravity: Vector) -> tuple[Vector, Vector]:
    """Start position and velocity of a body that flies to ``target``.

    It is there with the given velocity at the time ``arrives``.
    """
    for key in ("pos", "throw_at"):
        if keys.table.has(key):
            message = "a body with target flies from the start; leave this out"
            raise keys.table.error(message, key)
    target, velocity, g = (np.array(x) for x in (keys.target, keys.velocity, gravity))
    arrives = keys.table.number("arrives", above=0.0)
    begin = target - velocity * arrives + g * arrives**2 / 2
    return tuple(begin.tolist()), tuple((velocity - g * arrives).tolist())


def driven_of(table: Table, friction: float) -> DrivenBody:
    keys = DrivenKeys.read(table)
    name = keys.name
    if not keys.motion and keys.on == "world":
        raise table.error("is missing; give at least one [[driven.motion]]", "motion")
    joints = tuple(_motion(each, f"{name}_{k}") for k, each in enumerate(keys.motion, 1))
    # No force moves it: only the loose bodies that it is paired with touch it.
    shape = keys.shape_of(friction, name=name, group=0, mask=0)
    table.done()
    return DrivenBody(name, shape, joints, keys.pos, turn_quaternion(keys.turn_deg), keys.on)


def _motion(keys: DrivenMotionKeys, name: str) -> Joint:
    table = keys.table
    if (keys.turn is None) == (keys.slide is None):
        raise table.error("give either turn or slide, with an axis, as in turn = [0, 0, 1]")
    turns = keys.turn is not None
    own, other = ("turn", "slide") if turns else ("slide", "turn")
    values = {}
    for key in ("start", "rate", "amplitude", "acceleration"):
        mine, wrong = (f"{key}_deg", key) if turns else (key, f"{key}_deg")
        if table.has(wrong):
            raise table.error(f"is of a {other}; give {mine}", wrong)
        values[key] = getattr(keys, mine) * (np.pi / 180 if turns else 1.0)
    axis = getattr(keys, own)
    if not any(axis):
        raise table.error("an axis needs a length", own)
    drive = Drive(
        frequency=keys.frequency,
        phase=np.deg2rad(keys.phase_deg),
        begin=keys.begin,
        end=keys.end,
        **values,
    )
    return (hinge if turns else slide)(name, axis, drive=drive)
