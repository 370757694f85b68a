"""World files: TOML that says what stands, lies, moves and flies around a character.

`read_world` checks a file and gives a `World`; `jaxsim.io.world_model` builds the Model and State
from it. docs/reference/scenarios.md has all tables and keys.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.climbing_wall import climbing_wall
from jaxsim.io.height_maps import GENERATORS
from jaxsim.io.joint_angles import pose_of
from jaxsim.io.toml_table import Table, is_number, read_toml
from jaxsim.io.world import (
    ZERO,
    Body,
    CharacterSpec,
    Clasp,
    Companion,
    DrivenBody,
    Grip,
    Hold,
    KeyPose,
    Push,
    Vector,
    World,
)
from jaxsim.model import Joint, Shape, hinge, slide
from jaxsim.model.drives import Drive

FRICTION = 0.8
MOST_ROWS = 1024  # of heights that a generator makes
SCHEMES = ("time_stepping", "event_driven", "per_step_optimisation")
SCHEME_OF = {
    **dict.fromkeys(("sweeps", "warm_start", "stabilization_time"), "time_stepping"),
    **dict.fromkeys(
        ("torque_limits", "window", "window_sweeps", "announced"), "per_step_optimisation"
    ),
}
SOLIDS = ("sphere", "capsule", "tapered_capsule", "box")


def read_world(path: str | os.PathLike[str]) -> World:
    """Read and check a world file.

    Raises WorldError, naming the file, the table, the key and what to give instead, for a file that
    is not there or no TOML, unknown or missing keys, and values of the wrong kind or size. What
    needs the whole scene (names of links, overlaps, the keys of the controller) is checked when it
    is built.
    """
    path = Path(path)
    return world_of(read_toml(path), path.stem, path.parent, path.read_text("utf-8"))


def world_of(file: Table, name: str, folder: Path, source: str | None = None) -> World:
    """The world in a table as ``read_world`` reads it. folder: where model files and scripts are
    looked for; source: the text that is kept with results. Raises WorldError."""
    general = file.table("world") or Table(file.file, "[world]", {})
    friction = general.number("friction", FRICTION, least=0.0, of="friction")
    values: dict[str, Any] = dict(
        name=name,
        title=general.text("title", ""),
        gravity=general.vector("gravity", World.gravity),
        seconds=general.number("seconds", World.seconds, above=0.0, of="seconds"),
        dt=general.number("dt", None, above=0.0, of="dt"),
        scheme=general.choice("scheme", SCHEMES, World.scheme),
        sweeps=general.whole("sweeps", None, least=1, of="sweeps"),
        warm_start=general.number("warm_start", None, least=0.0, most=1.0),
        stabilization_time=general.number(
            "stabilization_time", None, above=0.0, of="stabilization_time"
        ),
        contacts=general.whole("contacts", None, least=1, of="contacts"),
        torque_limits=general.flag("torque_limits", None),
        window=general.whole("window", None, least=1),
        window_sweeps=general.whole("window_sweeps", None, least=1),
        announced=general.flag("announced", None),
        ground=general.flag("ground", None),
        folder=folder,
        source=source,
    )
    for key, scheme in SCHEME_OF.items():
        if values[key] is not None and values["scheme"] != scheme:
            raise general.error(f'belongs to the scheme "{scheme}"; leave it out', key)
    for key in ("window_sweeps", "announced"):
        if values[key] is not None and (values["window"] or 1) == 1:
            raise general.error("is of a window; give window = 5, or leave it out", key)
    if values["contacts"] is not None and values["scheme"] == "per_step_optimisation":
        raise general.error("does not belong to this scheme; leave it out", "contacts")
    general.done()
    character = file.table("character")
    walls = [climbing_wall(t, friction) for t in file.tables("wall")]
    world = World(
        **values,
        fixed=(
            *(shape for t in file.tables("fixed") for shape in _repeated(t, _fixed, friction)),
            *(wall for wall, _ in walls),
        ),
        bodies=tuple(
            body
            for t in file.tables("body")
            for body in _repeated(t, partial(_body, gravity=values["gravity"]), friction)
        ),
        driven=tuple(_driven(t, friction) for t in file.tables("driven")),
        grips=tuple(map(_grip, file.tables("grip"))),
        holds=(
            *(hold for t in file.tables("hold") for hold in _repeated(t, _hold, friction)),
            *(hold for _, holds in walls for hold in holds),
        ),
        pushes=tuple(map(_push, file.tables("push"))),
        character=None if character is None else _character(character),
        companions=tuple(map(_companion, file.tables("companion"))),
        clasps=tuple(map(_clasp, file.tables("clasp"))),
        controller=file.table("controller"),
        environment=file.table("environment"),
    )
    file.done()
    _check_names(file, world)
    return world


def _check_names(file: Table, world: World) -> None:
    shapes = [shape.name for shape in world.fixed if shape.name]
    movers = [body.name for body in (*world.bodies, *world.driven, *world.companions)]
    holds = [hold.name for hold in world.holds]
    for names in ([*shapes, *holds], movers, [grip.name for grip in world.grips]):
        for name in names:
            if names.count(name) > 1:
                raise file.error(f"the name {name!r} is given twice; give each its own")


# ---- tables


def _repeated(table: Table, read: Callable, friction: float) -> list:
    """What a table declares, once or several times in a row."""
    repeat = table.table("repeat")
    count, offset = 1, np.zeros(3)
    if repeat is not None:
        count = repeat.whole("count", least=1, of="count")
        offset = np.array(repeat.vector("offset"))
        repeat.done()
    found = [read(table, friction, f"_{k + 1}" if repeat else "", k * offset) for k in range(count)]
    table.done()
    return found


def _fixed(table: Table, friction: float, suffix: str, offset: np.ndarray) -> Shape:
    pos = tuple((np.array(table.vector("pos", ZERO)) + offset).tolist())
    name = table.text("name", "")
    kinds = (*SOLIDS, "plane", "height_field")
    bits = int(table.flag("touch", True))
    placed: dict[str, Any] = dict(pos=pos, quat=_turn(table), name=name + suffix if name else "")
    return _shape(table, kinds, friction, group=bits, mask=bits, **placed)


def _body(table: Table, friction: float, suffix: str, offset: np.ndarray, gravity: Vector) -> Body:
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
    """Where a body is at the start that flies so that it would be at ``target`` with its velocity
    at the time ``arrives``, and its velocity there."""
    target, arrives = np.array(table.vector("target")), table.number("arrives", above=0.0)
    for key in ("pos", "throw_at"):
        if table.has(key):
            raise table.error("a body with target flies from the start; leave this out", key)
    g = np.array(gravity)
    begin = target - velocity * arrives + g * arrives**2 / 2
    return tuple(begin.tolist()), tuple((velocity - g * arrives).tolist())


def _driven(table: Table, friction: float) -> DrivenBody:
    name, on = table.text("name"), table.text("on", "world")
    motions = table.tables("motion")
    if not motions and on == "world":
        raise table.error("is missing; give at least one [[driven.motion]]", "motion")
    joints = tuple(_motion(each, f"{name}_{k}") for k, each in enumerate(motions, 1))
    # It gives way to nothing: only what it is paired with, loose bodies, touches it.
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


def _grip(table: Table) -> Grip:
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


def _hold(table: Table, friction: float, suffix: str, offset: np.ndarray) -> Hold:
    """A point, or with ``half_length`` a bar along the x axis that ``turn_deg`` turns."""
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


def _push(table: Table) -> Push:
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


def _character(table: Table) -> CharacterSpec:
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
        self_collision=table.flag("self_collision", False),
    )
    table.done()
    return spec


def _companion(table: Table) -> Companion:
    name, controller = table.text("name"), table.table("controller")
    if "." in name:
        raise table.error(f"is {name!r}; a name has no dot, which parts it from its links", "name")
    return Companion(name, _character(table), controller)


def _clasp(table: Table) -> Clasp:
    clasp = Clasp(
        hand=table.text("hand"),
        to=table.text("to"),
        reach=table.number("reach", Clasp.reach, above=0.0),
        strength=table.number("strength", np.inf, above=0.0),
    )
    table.done()
    return clasp


def key_pose(table: Table) -> KeyPose:
    """A pose of joints and its time, as controllers that follow poses read them."""
    key = KeyPose(table.number("time", above=0.0), pose_of(table.table("pose")))
    table.done()
    return key


# ---- shapes and places


def _turn(table: Table) -> Vector:
    """The quaternion of turn_deg, an axis times an angle."""
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
    """Given as rows, or made by a generator."""
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
