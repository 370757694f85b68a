"""Reader of world files: TOML that describes a character and its surroundings.

`read_world` checks a file and gives a `World`; `jaxsim.io.world_model` builds the Model and State
from it. docs/reference/scenarios.md has all tables and keys.
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jaxsim.io.character_table import CharacterKeys, CompanionKeys, character_of, companion_of
from jaxsim.io.climbing_wall import WallKeys, climbing_wall
from jaxsim.io.grip_tables import (
    ClaspKeys,
    GripKeys,
    HoldKeys,
    PushKeys,
    clasp_of,
    grip_of,
    hold_of,
    push_of,
)
from jaxsim.io.keys import Keys, read_option
from jaxsim.io.toml_table import Table, read_toml
from jaxsim.io.world import World
from jaxsim.io.world_tables import (
    BodyKeys,
    DrivenKeys,
    FixedKeys,
    body_of,
    driven_of,
    fixed_of,
    read_repeated,
)
from jaxsim.options import option, options_of
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.step import TimeStepping
from jaxsim.synthesis.config import SynthesisConfig

FRICTION = 0.8
SCHEMES: dict[str, type] = {
    "time_stepping": TimeStepping,
    "event_driven": EventDriven,
    "per_step_optimisation": SynthesisConfig,
}
OF_A_WINDOW = ("window_sweeps", "announced")
# options of per-step optimisation that its forward simulation by other schemes has as well
OF_GOALS = ("torque_limits",)


@dataclass(frozen=True, kw_only=True)
class WorldKeys(Keys):
    """World as a whole; the options of a scheme are keys here as well."""

    title: str = option("", "title of the page", shown="the file's name")
    gravity: tuple = option(World.gravity, "acceleration of free fall", unit="m/s^2")
    seconds: float = option(
        World.seconds, "simulated time; `--seconds` changes it", unit="s", above=0.0
    )
    dt: float | None = option(
        None,
        "time step; `--dt` changes it",
        unit="s",
        shown="0.001; `event_driven` 1/240, `per_step_optimisation` 0.01",
        kind=float,
        above=0.0,
    )
    scheme: str = option(
        World.scheme,
        "[time stepping](../explanation/physics.md), [event-driven](../explanation/constraints.md),"
        " or [per-step optimisation](../explanation/synthesis.md) for controllers by goals",
        choices=SCHEMES,
    )
    ground: bool | None = option(
        None,
        "true: the character keeps its own ground",
        shown="true where nothing is fixed",
        kind=bool,
    )
    friction: float = option(FRICTION, "friction of shapes without a value of their own", least=0.0)


@dataclass(frozen=True, kw_only=True)
class WorldFileKeys(Keys):
    """Tables of a world file."""

    world: WorldKeys = option(None, "world as a whole", kind=dict, entries=WorldKeys)
    fixed: Any = option(None, "shapes of the world", kind=list, entries=FixedKeys)
    body: Any = option(None, "loose solids", kind=list, entries=BodyKeys)
    driven: Any = option(None, "shapes with prescribed motion", kind=list, entries=DrivenKeys)
    grip: Any = option(None, "points of links held at points", kind=list, entries=GripKeys)
    hold: Any = option(
        None, "points and bars that hands and feet can hold", kind=list, entries=HoldKeys
    )
    wall: Any = option(None, "walls with random holds", kind=list, entries=WallKeys)
    push: Any = option(None, "forces on links", kind=list, entries=PushKeys)
    character: Any = option(None, "the character", kind=dict, entries=CharacterKeys)
    companion: Any = option(None, "further characters", kind=list, entries=CompanionKeys)
    clasp: Any = option(None, "hands that hold each other", kind=list, entries=ClaspKeys)
    controller: Any = option(None, "what drives the character", kind=dict)
    environment: Any = option(None, "what a policy observes and does", kind=dict)


def read_world(path: str | os.PathLike[str]) -> World:
    """Read and check a world file.

    Raises WorldError, naming the file, the table, the key and the remedy, for a file that does not
    exist or is no TOML, unknown or missing keys, and values of the wrong type or size. Checks that
    need the whole scenario (names of links, overlaps, the keys of the controller) are made when it
    is built.
    """
    path = Path(path)
    return world_of(read_toml(path), path.stem, path.parent, path.read_text("utf-8"))


def world_of(file: Table, name: str, folder: Path, source: str | None = None) -> World:
    """World from a table, as ``read_world`` reads it.

    folder: where model files and scripts are; source: the text that is saved with results. Raises
    WorldError.
    """
    tables: dict[str, Any] = {
        o.key: file.tables(o.key) if o.kind is list else file.table(o.key)
        for o in options_of(WorldFileKeys)
    }
    general = tables["world"] or Table(file.file, "[world]", {})
    friction, values = _general(general)
    fixed = partial(fixed_of, friction=friction)
    body = partial(body_of, friction=friction, gravity=values["gravity"])
    hold = partial(hold_of, friction=friction)
    walls = [climbing_wall(t, friction) for t in tables["wall"]]
    character = tables["character"]
    world = World(
        name=name,
        folder=folder,
        source=source,
        **values,
        fixed=(
            *(shape for t in tables["fixed"] for shape in read_repeated(t, FixedKeys, fixed)),
            *(wall for wall, _ in walls),
        ),
        bodies=tuple(each for t in tables["body"] for each in read_repeated(t, BodyKeys, body)),
        driven=tuple(driven_of(t, friction) for t in tables["driven"]),
        grips=tuple(map(grip_of, tables["grip"])),
        holds=(
            *(each for t in tables["hold"] for each in read_repeated(t, HoldKeys, hold)),
            *(each for _, holds in walls for each in holds),
        ),
        pushes=tuple(map(push_of, tables["push"])),
        character=None if character is None else character_of(character),
        companions=tuple(map(companion_of, tables["companion"])),
        clasps=tuple(map(clasp_of, tables["clasp"])),
        controller=tables["controller"],
        environment=tables["environment"],
    )
    file.done()
    _check_names(file, world)
    return world


def _general(table: Table) -> tuple[float, dict[str, Any]]:
    """Read friction, and the fields of World, from ``[world]``."""
    keys = WorldKeys.read(table)
    values = {o.field: getattr(keys, o.field) for o in options_of(WorldKeys)}
    values["settings"] = _settings(table, keys.scheme)
    table.done()
    return values.pop("friction"), values


def _settings(table: Table, scheme: str) -> dict[str, Any]:
    """Read the options that schemes declare. Raises WorldError for one of another scheme."""
    settings: dict[str, Any] = {}
    owners: dict[str, list[str]] = {}
    for name, kind in SCHEMES.items():
        for each in options_of(kind):
            owners.setdefault(each.key, []).append(name)
            value = read_option(table, each, None)
            if value is not None and (name == scheme or each.key in OF_GOALS):
                settings[each.field] = value
    for key, names in owners.items():
        if table.has(key) and scheme not in names and key not in OF_GOALS:
            belongs = " or ".join(f'"{name}"' for name in names)
            raise table.error(f"belongs to the scheme {belongs}; leave it out", key)
    for key in OF_A_WINDOW:
        if table.has(key) and settings.get("window", 1) == 1:
            raise table.error("is of a window; give window = 5, or leave it out", key)
    return settings


def _check_names(file: Table, world: World) -> None:
    shapes = [shape.name for shape in world.fixed if shape.name]
    movers = [body.name for body in (*world.bodies, *world.driven, *world.companions)]
    holds = [hold.name for hold in world.holds]
    for names in ([*shapes, *holds], movers, [grip.name for grip in world.grips]):
        for name in names:
            if names.count(name) > 1:
                raise file.error(f"the name {name!r} is given twice; give each its own")
