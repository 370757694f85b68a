"""Readers of the tables of a world file that hold and push: ``[[grip]]``, ``[[hold]]``,
``[[clasp]]``, ``[[push]]``."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.io.frames import turn_quaternion
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table
from jaxsim.io.world import ZERO, Clasp, Grip, Hold, Push
from jaxsim.io.world_tables import TURN, RepeatedKeys
from jaxsim.model import Shape
from jaxsim.options import REQUIRED, option

STRENGTH: dict[str, Any] = {"unit": "N", "shown": "never breaks", "above": 0.0}


@dataclass(frozen=True, kw_only=True)
class GripKeys(Keys):
    """Point of a link held at a point."""

    name: str = option(REQUIRED, "name of the grip", kind=str)
    link: str = option(REQUIRED, "link that is gripped; a body is a link of its own name", kind=str)
    point: tuple = option(ZERO, "point in the link's frame", unit="m")
    to: str = option("world", "`world`, or the link that it is fixed to")
    to_point: tuple | None = option(
        None,
        "point in the frame of `to`",
        unit="m",
        shown="where the point is at the start",
        kind=tuple,
    )
    strength: float = option(np.inf, "load above which the grip breaks for good", **STRENGTH)
    close: float = option(0.0, "time at which the grip closes", unit="s", least=0.0)
    open: float = option(np.inf, "time at which it opens", unit="s", shown="never", above=0.0)


@dataclass(frozen=True, kw_only=True)
class HoldKeys(RepeatedKeys):
    """Point or bar that hands and feet can hold, without contact."""

    name: str = option(REQUIRED, "name of the hold", kind=str)
    pos: tuple = option(REQUIRED, "position of its middle", unit="m", kind=tuple)
    half_length: float | None = option(
        None,
        "of a bar, along the x axis that `turn_deg` turns",
        unit="m",
        shown="a point",
        kind=float,
        above=0.0,
    )
    radius: float = option(0.02, "radius in the viewer", unit="m", above=0.0)
    turn_deg: tuple = option(ZERO, TURN, unit="deg")
    on: str = option(
        "world", "`world`, or the driven body that carries it; `pos` is then in its frame"
    )
    reach: float = option(
        Hold.reach, "distance within which an effector takes hold", unit="m", above=0.0
    )
    strength: float = option(np.inf, "load above which the hold breaks for good", **STRENGTH)
    lasts: float = option(
        np.inf, "time until which the hold exists", unit="s", shown="always", above=0.0
    )
    slides: bool = option(False, "true: hands slide along the bar")
    push: tuple = option(Hold.push, "direction of the contact force on a foot")
    friction: float | None = option(
        None, "friction of a foot on the hold", shown="the world's", kind=float, above=0.0
    )


@dataclass(frozen=True, kw_only=True)
class ClaspKeys(Keys):
    """Two hands of two characters that hold each other."""

    hand: str = option(
        REQUIRED,
        "hand of the character, as `leftHand`, or of a companion, as `child.rightHand`",
        kind=str,
    )
    to: str = option(REQUIRED, "hand of the other one", kind=str)
    reach: float = option(
        Clasp.reach, "distance within which the hand hold closes", unit="m", above=0.0
    )
    strength: float = option(np.inf, "load above which it opens for good", **STRENGTH)


@dataclass(frozen=True, kw_only=True)
class PushKeys(Keys):
    """Force on a link."""

    name: str | None = option(None, "name for `--set push.NAME.force`", kind=str)
    link: str = option(
        REQUIRED, "link of the push, by name or by a role such as `pelvis` or `leftFoot`", kind=str
    )
    force: Any = option(
        REQUIRED,
        "three numbers; or one, horizontal, with `direction_deg`",
        unit="N",
        kind=tuple,
        single=True,
    )
    direction_deg: float | None = option(
        None, "of a horizontal force: 0 forward, 90 to the left", unit="deg", shown="0", kind=float
    )
    start: float = option(0.0, "start of the push", unit="s", least=0.0)
    duration: float = option(np.inf, "duration of the push", unit="s", shown="always", above=0.0)
    point: tuple | None = option(
        None, "point in the link's frame", unit="m", shown="its centre of mass", kind=tuple
    )


def grip_of(table: Table) -> Grip:
    keys = GripKeys.read(table)
    table.done()
    if keys.open <= keys.close:
        raise table.error(f"is {keys.open:g} s, not after close ({keys.close:g} s)", "open")
    return Grip(
        name=keys.name,
        link=keys.link,
        point=keys.point,
        to=keys.to,
        to_point=keys.to_point,
        strength=keys.strength,
        close=keys.close,
        open=keys.open,
    )


def hold_of(keys: HoldKeys, suffix: str, offset: np.ndarray, friction: float) -> Hold:
    """Read a hold: a point, or with ``half_length`` a bar along its x axis."""
    name, half, radius = keys.name + suffix, keys.half_length, keys.radius
    pos = tuple((np.array(keys.pos) + offset).tolist())
    quat = turn_quaternion(keys.turn_deg)
    placed: dict[str, Any] = dict(pos=pos, quat=quat, name=name, group=0, mask=0)
    size: Any = (radius, 0.0, 0.0) if half is None else (radius, radius, half)
    kind = "sphere" if half is None else "capsule"
    return Hold(
        name=name,
        shape=Shape(kind, size, friction=keys.friction or friction, **placed),
        on=keys.on,
        reach=keys.reach,
        strength=keys.strength,
        lasts=keys.lasts,
        slides=keys.slides,
        push=keys.push,
    )


def clasp_of(table: Table) -> Clasp:
    keys = ClaspKeys.read(table)
    table.done()
    return Clasp(hand=keys.hand, to=keys.to, reach=keys.reach, strength=keys.strength)


def push_of(table: Table) -> Push:
    keys = PushKeys.read(table)
    table.done()
    force = keys.force
    if isinstance(force, tuple):
        if keys.direction_deg is not None:
            message = "is of a force that is one number; leave it out, or give one number"
            raise table.error(message, "direction_deg")
    else:  # a horizontal one, in a direction: 0 forward, 90 to the left
        angle = np.deg2rad(keys.direction_deg or 0.0)
        force = (force * np.cos(angle), force * np.sin(angle), 0.0)
    return Push(
        link=keys.link, force=force, start=keys.start, duration=keys.duration, point=keys.point
    )
