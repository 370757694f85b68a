"""Readers of single tables of a world file: a body, a drive, a hold, a push, a character.

Each reader takes the keys that it knows of a table and raises WorldError, naming the key, for the
rest. docs/reference/scenarios.md has all keys.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxsim.io.height_maps import GENERATORS
from jaxsim.io.joint_angles import pose_of
from jaxsim.io.toml_table import Table, format_value, is_number
from jaxsim.io.world import (
    ZERO,
    Body,
    CharacterSpec,
    Clasp,
    Companion,
    DrivenBody,
    Grip,
    Hold,
    Push,
    Vector,
)
from jaxsim.model import Joint, Shape, hinge, slide
from jaxsim.model.drives import Drive

MOST_ROWS = 1024  # of heights that a generator makes
SOLIDS = ("sphere", "capsule", "tapered_capsule", "box")


def read_repeated(table: Table, read: Callable, friction: float) -> list:
    """Read a table once, or as often as its key ``repeat`` says, in a row."""
    repeat = table.table("repeat")
    count, offset = 1, np.zeros(3)
    if repeat is not None:
        count = repeat.whole("count", least=1, of="count")
        offset = np.array(repeat.vector("offset"))
        repeat.done()
    results = [
        read(table, friction, f"_{k + 1}" if repeat else "", k * offset) for k in range(count)
    ]
    table.done()
    return results


def fixed_of(table: Table, friction: float, suffix: str, offset: np.ndarray) -> Shape:
    pos = tuple((np.array(table.vector("pos", ZERO)) + offset).tolist())
    name = table.text("name", "")
    kinds = (*SOLIDS, "plane", "height_field")
    bits = int(table.flag("touch", True))
    placed: dict[str, Any] = dict(pos=pos, quat=_turn(table), name=name + suffix if name else "")
    return _shape(table, kinds, friction, group=bits, mask=bits, **placed)


def body_of(
    table: Table, friction: float, suffix: str, offset: np.ndarray, gravity: Vector
) -> Body:
    name = table.text("name") + suffix
    velocity = table.vector("velocity", ZERO)
    if table.has("target"):
        pos, velocity = _thrown(table, np.array(velocity), gravity)
    else:
        pos = table.vector("pos")
    body = Body(
        name=name,
        shape=_shape(table, SOLIDS, friction, name=name),
        mass=table.number("mass", above=0.0, of="mass"),
        pos=tuple((np.array(pos) + offset).tolist()),
        quat=_turn(table),
        velocity=tuple(velocity),
        angular_velocity=table.vector("angular_velocity", ZERO),
        throw_at=table.number("throw_at", None, above=0.0),
    )
    if body.throw_at is not None and any(body.angular_velocity):
        raise table.error(
            "a body with throw_at flies without turning; leave this out", "angular_velocity"
        )
    if body.throw_at is not None and not any(body.velocity):
        raise table.error("a body with throw_at needs the velocity it is thrown with", "velocity")
    return body


def _thrown(table: Table, velocity: np.ndarray, gravity: Vector) -> tuple[Vector, Vector]:
    """Start position and velocity of a body that flies to ``target``.

    It is there with the given velocity at the time ``arrives``.
    """
    target, arrives = np.array(table.vector("target")), table.number("arrives", above=0.0)
    for key in ("pos", "throw_at"):
        if table.has(key):
            raise table.error("a body with target flies from the start; leave this out", key)
    g = np.array(gravity)
    begin = target - velocity * arrives + g * arrives**2 / 2
    return tuple(begin.tolist()), tuple((velocity - g * arrives).tolist())


def driven_of(table: Table, friction: float) -> DrivenBody:
    name, on = table.text("name"), table.text("on", "world")
    motions = table.tables("motion")
    if not motions and on == "world":
        raise table.error("is missing; give at least one [[driven.motion]]", "motion")
    joints = tuple(_motion(each, f"{name}_{k}") for k, each in enumerate(motions, 1))
    # No force moves it: only the loose bodies that it is paired with touch it.
    shape = _shape(table, SOLIDS, friction, name=name, group=0, mask=0)
    body = DrivenBody(name, shape, joints, table.vector("pos", ZERO), _turn(table), on)
    table.done()
    return body


def _motion(table: Table, name: str) -> Joint:
    if table.has("turn") == table.has("slide"):
        raise table.error("give either turn or slide, with an axis, as in turn = [0, 0, 1]")
    turns = table.has("turn")
    axis = table.vector("turn" if turns else "slide")
    if not any(axis):
        raise table.error("an axis needs a length", "turn" if turns else "slide")
    unit = np.pi / 180 if turns else 1.0

    def number(key: str) -> float:
        return unit * table.number(key + "_deg" if turns else key, 0.0)

    drive = Drive(
        start=number("start"),
        rate=number("rate"),
        amplitude=number("amplitude"),
        frequency=table.number("frequency", 0.0, least=0.0),
        phase=np.deg2rad(table.number("phase_deg", 0.0)),
        begin=table.number("begin", 0.0),
        end=table.number("end", np.inf),
        acceleration=number("acceleration"),
    )
    table.done()
    return (hinge if turns else slide)(name, axis, drive=drive)


def grip_of(table: Table) -> Grip:
    grip = Grip(
        name=table.text("name"),
        link=table.text("link"),
        point=table.vector("point", ZERO),
        to=table.text("to", "world"),
        to_point=table.vector("to_point", None),
        strength=table.number("strength", np.inf, above=0.0),
        close=table.number("close", 0.0, least=0.0),
        open=table.number("open", np.inf, above=0.0),
    )
    if grip.open <= grip.close:
        raise table.error(f"is {grip.open:g} s, not after close ({grip.close:g} s)", "open")
    table.done()
    return grip


def hold_of(table: Table, friction: float, suffix: str, offset: np.ndarray) -> Hold:
    """Read a hold: a point, or with ``half_length`` a bar along its x axis."""
    name = table.text("name") + suffix
    half = table.number("half_length", None, above=0.0)
    radius = table.number("radius", 0.02, above=0.0)
    pos = tuple((np.array(table.vector("pos")) + offset).tolist())
    placed: dict[str, Any] = dict(pos=pos, quat=_turn(table), name=name, group=0, mask=0)
    size: Any = (radius, 0.0, 0.0) if half is None else (radius, radius, half)
    friction = table.number("friction", friction, above=0.0, of="friction")
    shape = Shape("sphere" if half is None else "capsule", size, friction=friction, **placed)
    return Hold(
        name=name,
        shape=shape,
        on=table.text("on", "world"),
        reach=table.number("reach", Hold.reach, above=0.0),
        strength=table.number("strength", np.inf, above=0.0),
        lasts=table.number("lasts", np.inf, above=0.0),
        slides=table.flag("slides", False),
        push=table.vector("push", Hold.push),
    )


def push_of(table: Table) -> Push:
    table.text("name", None)  # by which ``--set`` finds it
    force = table.take("force")
    if is_number(force):  # a horizontal one, in a direction: 0 forward, 90 to the left
        angle = np.deg2rad(table.number("direction_deg", 0.0))
        size = table.number("force")
        vector = (size * np.cos(angle), size * np.sin(angle), 0.0)
    else:
        vector = table.vector("force")
    push = Push(
        link=table.text("link"),
        force=vector,
        start=table.number("start", 0.0, least=0.0),
        duration=table.number("duration", np.inf, above=0.0),
        point=table.vector("point", None),
    )
    table.done()
    return push


def character_of(table: Table) -> CharacterSpec:
    options = {
        "build": table.text("build", None),
        "stature": table.number("stature", None, above=0.0),
        "mass": table.number("mass", None, above=0.0, of="mass"),
        "friction": table.number("friction", None, least=0.0, of="friction"),
        "chair_height": table.number("chair_height", None, above=0.0, of="chair_height"),
        "hands": table.flag("hands", False) or None,
    }
    spec = CharacterSpec(
        model=table.text("model"),
        options={key: value for key, value in options.items() if value is not None},
        start=table.text("start", None),
        pose=pose_of(table.table("pose")),
        pos=table.vector("pos", ZERO),
        quat=_turn(table),
        velocity=table.vector("velocity", ZERO),
        angular_velocity=table.vector("angular_velocity", ZERO),
        self_collision=table.flag("self_collision", None),
        bears=_texts(table, "bears"),
    )
    table.done()
    return spec


def _texts(table: Table, key: str) -> tuple[str, ...]:
    texts = table.take(key, [])
    if not (isinstance(texts, list) and all(isinstance(one, str) for one in texts)):
        raise table.error(f'is {format_value(texts)}; give names, ["pelvis", "chest"]', key)
    return tuple(texts)


def companion_of(table: Table) -> Companion:
    name, controller = table.text("name"), table.table("controller")
    if "." in name:
        raise table.error(f"is {name!r}; a name has no dot, which parts it from its links", "name")
    return Companion(name, character_of(table), controller)


def clasp_of(table: Table) -> Clasp:
    clasp = Clasp(
        hand=table.text("hand"),
        to=table.text("to"),
        reach=table.number("reach", Clasp.reach, above=0.0),
        strength=table.number("strength", np.inf, above=0.0),
    )
    table.done()
    return clasp


# ---- shapes and places


def _turn(table: Table) -> Vector:
    """Quaternion of turn_deg, an axis times an angle."""
    turn = np.deg2rad(table.vector("turn_deg", ZERO))
    angle = float(np.linalg.norm(turn))
    axis = turn / angle if angle > 0 else np.zeros(3)
    return (float(np.cos(angle / 2)), *(np.sin(angle / 2) * axis).tolist())


def _shape(table: Table, kinds: tuple[str, ...], friction: float, **placed) -> Shape:
    kind = table.choice("shape", kinds)
    surface: dict[str, Any] = dict(
        friction=table.number("friction", friction, least=0.0, of="friction"),
        restitution=table.number("restitution", 0.0, least=0.0, most=1.0),
    )
    size: Any = ZERO
    heights: tuple = ()
    if kind == "sphere":
        size = (table.number("radius", above=0.0), 0.0, 0.0)
    elif kind == "capsule":
        radius = table.number("radius", above=0.0)
        size = (radius, radius, table.number("half_length", above=0.0))
    elif kind == "tapered_capsule":
        radii = [table.number(name, above=0.0) for name in ("radius0", "radius1")]
        size = (*radii, table.number("half_length", above=0.0))
    elif kind == "box":
        size = table.vector("half_extents", above=0.0)
    elif kind == "height_field":
        size = (*table.vector("half_extents", size=2, above=0.0), 0.0)
        heights = _heights(table)
    return Shape(kind, size, heights=heights, **surface, **placed)


def _heights(table: Table) -> tuple[tuple[float, ...], ...]:
    """Heights of a height field, given as rows or made by a generator."""
    if table.has("heights") == table.has("generator"):
        raise table.error("give either heights or a generator")
    if table.has("generator"):
        make = GENERATORS[table.choice("generator", tuple(GENERATORS))]
        grid = make(
            rows=table.whole("rows", 16, least=2, most=MOST_ROWS),
            columns=table.whole("columns", 16, least=2, most=MOST_ROWS),
            height=table.number("height", above=0.0),
            seed=table.whole("seed", 0),
        )
    else:
        rows = table.take("heights")
        lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
        if not lists or not all(is_number(value) for row in rows for value in row):
            rows = []
        if len(rows) < 2 or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
            raise table.error("give at least 2 rows, along x, of equally many numbers", "heights")
        grid = np.array(rows, float)
    return tuple(map(tuple, grid.tolist()))
