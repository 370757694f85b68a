"""Reader of world files: TOML that describes a character and its surroundings.

`read_world` checks a file and gives a `World`; `jaxsim.io.world_model` builds the Model and State
from it. docs/reference/scenarios.md has all tables and keys.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from jaxsim.io.climbing_wall import climbing_wall
from jaxsim.io.keys import read_option
from jaxsim.io.toml_table import Table, read_toml
from jaxsim.io.world import World
from jaxsim.io.world_tables import (
    body_of,
    character_of,
    clasp_of,
    companion_of,
    driven_of,
    fixed_of,
    grip_of,
    hold_of,
    push_of,
    read_repeated,
)
from jaxsim.options import options_of
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
    general = file.table("world") or Table(file.file, "[world]", {})
    friction = general.number("friction", FRICTION, least=0.0, of="friction")
    values = _general(general)
    character = file.table("character")
    walls = [climbing_wall(t, friction) for t in file.tables("wall")]
    world = World(
        name=name,
        folder=folder,
        source=source,
        **values,
        fixed=(
            *(
                shape
                for t in file.tables("fixed")
                for shape in read_repeated(t, fixed_of, friction)
            ),
            *(wall for wall, _ in walls),
        ),
        bodies=tuple(
            body
            for t in file.tables("body")
            for body in read_repeated(t, partial(body_of, gravity=values["gravity"]), friction)
        ),
        driven=tuple(driven_of(t, friction) for t in file.tables("driven")),
        grips=tuple(map(grip_of, file.tables("grip"))),
        holds=(
            *(hold for t in file.tables("hold") for hold in read_repeated(t, hold_of, friction)),
            *(hold for _, holds in walls for hold in holds),
        ),
        pushes=tuple(map(push_of, file.tables("push"))),
        character=None if character is None else character_of(character),
        companions=tuple(map(companion_of, file.tables("companion"))),
        clasps=tuple(map(clasp_of, file.tables("clasp"))),
        controller=file.table("controller"),
        environment=file.table("environment"),
    )
    file.done()
    _check_names(file, world)
    return world


def _general(table: Table) -> dict[str, Any]:
    """Read the keys of [world] that concern the world as a whole."""
    values: dict[str, Any] = dict(
        title=table.text("title", ""),
        gravity=table.vector("gravity", World.gravity),
        seconds=table.number("seconds", World.seconds, above=0.0, of="seconds"),
        dt=table.number("dt", None, above=0.0, of="dt"),
        scheme=table.choice("scheme", tuple(SCHEMES), World.scheme),
        ground=table.flag("ground", None),
    )
    values["settings"] = _settings(table, values["scheme"])
    table.done()
    return values


def _settings(table: Table, scheme: str) -> dict[str, Any]:
    """Read the options that schemes declare. Raises WorldError for one of another scheme."""
    settings: dict[str, Any] = {}
    owners: dict[str, list[str]] = {}
    for name, kind in SCHEMES.items():
        for option in options_of(kind):
            owners.setdefault(option.key, []).append(name)
            value = read_option(table, option, None)
            if value is not None and name == scheme:
                settings[option.field] = value
    for key, names in owners.items():
        if table.has(key) and scheme not in names:
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
