"""Scenarios by name or file: shipped ones, scripts, scenario files, characters by themselves.

    scenario("push", {"push.force": 350, "controller.gait.time": 0.6})

Settings are keys of the file (``push.force``, ``character.build``, ``world.seconds``) or numbers
of the built scenario (``controller.gait.time``, ``model.mass[3]``, ``scheme.dt``).
"""

import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from controllers.scl.load import shipped_scripts
from jaxsim.characters.registry import CHARACTERS
from jaxsim.io.toml_table import Table, WorldError, format_value, read_toml, suggestion
from jaxsim.io.world_character import MODEL_FILES
from jaxsim.io.world_file import world_of
from jaxsim.plugins import Registry
from optimize.scenarios.build import build
from optimize.scenarios.scenario import Scenario

TABLES = ("world", "character", "controller", "environment")
ARRAYS = ("fixed", "wall", "body", "driven", "grip", "hold", "push")
CHAIR_HEIGHT = 0.45  # of a chair that was asked for without its height [m]
SCRIPT_DT = 0.00025  # [s]
# where the motions of scripts begin, by how a script's name begins
STARTS_OF_SCRIPTS = {
    "sit_to_stand": "sitting",
    "walk": "standing",
    "kip_up": "supine",
    "prone_to_stand": "prone",
}


SCENARIOS: Registry[str | os.PathLike] = Registry("jaxsim.scenarios", {})  # name -> file


def shipped_scenarios() -> dict[str, str]:
    """Shipped scenario files: name -> title.

    >>> shipped_scenarios()["box_stack"]
    'Ten boxes stand, until a ball comes'
    """
    files = sorted((p for p in _shipped().iterdir() if p.suffix == ".toml"), key=lambda p: p.name)
    return {path.stem: read_toml(path).table("world").text("title") for path in files}  # type: ignore


def _shipped() -> Path:
    return Path(str(resources.files("optimize") / "scenarios" / "shipped"))


def known_scenarios() -> tuple[str, ...]:
    """Names that ``scenario`` takes: scenario files, scripts, characters."""
    return (*shipped_scenarios(), *SCENARIOS, *shipped_scripts(), *CHARACTERS)


def default_start(script: str | os.PathLike) -> str | None:
    """Start pose of a script by its name; None for a name that implies none.

    >>> default_start("walk"), default_start("mine/kip_up_high.scl"), default_start("dance")
    ('standing', 'supine', None)
    """
    name = Path(script).stem
    return next((s for prefix, s in STARTS_OF_SCRIPTS.items() if name.startswith(prefix)), None)


def scenario(
    what: str | os.PathLike | Scenario,
    set: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> Scenario:
    """Build a scenario by name, or from a file: a scenario (.toml), a script (.scl) or a model.

    A name may also be that of a built-in character, by itself. Arrays have JAX's default precision.
    set: keys of the file, or numbers of what is built, by path or label -> value. text: replaces
    the text of a script's file.

    Raises WorldError, ScriptError, ModelError (all of them ValueErrors) or KeyError.
    """
    changes = dict(set or {})
    if isinstance(what, Scenario):
        result = what
    else:
        values, folder, source = _values(os.fspath(what), text)
        for key in [key for key in changes if _is_of_file(key, values)]:
            _change(values, key, changes.pop(key))
        notes = _settled(values)
        name = os.fspath(what)
        table = Table(Path(name).name, "", values)
        if source is not None and set:
            source = None  # it is not what was simulated
        result = build(world_of(table, Path(name).stem, folder, source), name, tuple(notes))
    for key, value in changes.items():
        result = result.set(key, value)
    return result


def _values(name: str, text: str | None) -> tuple[dict[str, Any], Path, str | None]:
    """Tables of a scenario file, the folder of its files, and its text."""
    path = Path(name)
    shipped = Path(SCENARIOS[name]) if name in SCENARIOS else _shipped() / f"{name}.toml"
    if path.suffix == ".toml" or (path.suffix == "" and shipped.is_file() and not path.is_file()):
        file = path if path.suffix == ".toml" else shipped
        return read_toml(file).values(), file.parent, file.read_text("utf-8")
    if path.suffix.lower() in MODEL_FILES:
        return {"character": {"model": path.name}}, path.parent, None
    if path.suffix == "" and name in CHARACTERS:
        return {"character": {"model": name}}, Path(), None
    if path.suffix == ".scl" or path.is_file() or name in shipped_scripts() or text is not None:
        controller = {"name": "script", "file": name} | ({} if text is None else {"text": text})
        world = {"title": path.stem, "dt": SCRIPT_DT}
        return (
            {
                "world": world,
                "character": {"model": "planar_human"},
                "controller": controller,
            },
            Path(),
            None,
        )
    known = known_scenarios()
    raise WorldError(
        f"{name}: there is no such file, and no scenario, script or character of this name"
        f"{suggestion(name, known)}; there are: {', '.join(known)}"
    )


def _settled(values: dict[str, Any]) -> list[str]:
    """Fill in start and chair height for a script on the planar human; returns notes."""
    character, controller = values.get("character"), values.get("controller")
    if not isinstance(character, dict) or character.get("model") != "planar_human":
        return []
    notes = []
    if (
        isinstance(controller, dict)
        and controller.get("name") == "script"
        and "start" not in character
    ):
        file = str(controller.get("file", ""))
        character["start"] = default_start(file) or "standing"
        if default_start(file) is None:
            notes.append(f"{Path(file).name} begins standing; set character.start for another pose")
    if character.get("start") == "sitting" and "chair_height" not in character:
        character["chair_height"] = CHAIR_HEIGHT
        notes.append(f"the chair is {CHAIR_HEIGHT} m high; set character.chair_height for another")
    elif character.get("start") != "sitting" and character.pop("chair_height", None) is not None:
        notes.append(f"there is no chair: the start {character.get('start')!r} does not sit on one")
    return notes


def _is_of_file(key: str, values: Mapping[str, Any]) -> bool:
    """True if a key belongs to the scenario's file, rather than being the path of a number."""
    first, _, rest = key.partition(".")
    table = re.sub(r"\[\d+\]$", "", first)
    if table in ARRAYS:
        return bool(rest)
    if table == "controller":
        # Its numbers go by label or path; a plain word, or what the file has, is a key.
        own = values.get("controller")
        held = own if isinstance(own, Mapping) else {}
        return (
            re.sub(r"\[\d+\]$", "", rest.partition(".")[0]) in held
            or re.fullmatch(r"[^\W\d]\w*", rest) is not None
        )
    return table in TABLES and bool(rest)


def _change(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of the file.

    Raises KeyError where one of several tables would have to be named, and for a key below a value
    that is no table.
    """
    at, steps = values, key.split(".")
    while len(steps) > 1:
        name, _, index = steps[0].partition("[")
        table = _table(at, key)
        if at is values and name in ARRAYS:
            table.setdefault(name, [])
        if isinstance(table.get(name), list):
            at, steps = _entry(table[name], name, index, steps[1:], key)
        else:
            at, steps = table.setdefault(steps[0], {}), steps[1:]
    _table(at, key)[steps[0]] = value


def _entry(
    tables: Any, name: str, index: str, steps: list[str], key: str
) -> tuple[dict[str, Any], list[str]]:
    """One of the tables of an array, by index, name or kind, and the steps of the key within it.

    Raises KeyError where one of several tables would have to be named.
    """
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise KeyError(f"{key}: {name} is no list of [[{name}]] tables")
    labels = [str(t.get("name", t.get("kind", f"{name}[{k}]"))) for k, t in enumerate(tables)]
    if index:
        number = int(index.rstrip("]"))
        if number >= len(tables):
            raise KeyError(f"{key}: there are {len(tables)} [[{name}]] tables, counted from 0")
        return tables[number], steps
    if len(steps) > 1 and labels.count(steps[0]) == 1:
        return tables[labels.index(steps[0])], steps[1:]
    if len(tables) == 1:
        return tables[0], steps
    raise KeyError(
        f"{key}: there are {len(tables)} [[{name}]] tables"
        + (f"; name one of {', '.join(labels)}" if labels else ", and none to change")
    )


def _table(value: Any, key: str) -> dict[str, Any]:
    """Check that a value of the file is a table. Raises KeyError where it is none."""
    if not isinstance(value, dict):
        raise KeyError(f"{key}: the file has {format_value(value)} there, which has no keys")
    return value
