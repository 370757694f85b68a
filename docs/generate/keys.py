"""The tables of keys in docs/reference/scenarios.md, from what the reader of scenarios asks for.

    python docs/generate/keys.py             writes them anew
    python docs/generate/keys.py --check     exit code 1 if they are not those of the code

The reader runs on scenarios that use every table, with a notebook in the place of its tables that
writes down each key, its kind, default and bounds. keys.toml adds units and meanings.
"""

import ast
import math
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from jaxsim.io import world_file, world_tables  # noqa: E402
from jaxsim.io.keys import kind_text  # noqa: E402
from jaxsim.io.toml_table import REQUIRED, Table, read_toml  # noqa: E402
from jaxsim.options import options_of  # noqa: E402
from optimize.environments.table import environment_of  # noqa: E402
from optimize.scenarios.find import scenario  # noqa: E402
from optimize.scenarios.keys import KeyTable, controller_tables, scheme_tables  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "scenarios.md"
MEANINGS = tomllib.loads(Path(__file__).with_name("keys.toml").read_text("utf-8"))
SHAPE = MEANINGS["shape"]
SAMPLE = """
[[fixed]]
name = "a"
shape = "sphere"
radius = 1
repeat = { count = 2, offset = [1, 0, 0] }
[[fixed]]
shape = "capsule"
radius = 1
half_length = 1
[[fixed]]
shape = "tapered_capsule"
radius0 = 1
radius1 = 1
half_length = 1
[[fixed]]
shape = "box"
half_extents = [1, 1, 1]
[[fixed]]
shape = "height_field"
half_extents = [1, 1]
generator = "rough"
height = 1
[[body]]
name = "b"
shape = "sphere"
radius = 1
mass = 1
pos = [0, 0, 0]
[[body]]
name = "c"
shape = "sphere"
radius = 1
mass = 1
target = [0, 0, 0]
arrives = 1
[[driven]]
name = "d"
shape = "sphere"
radius = 1
[[driven.motion]]
turn = [0, 0, 1]
[[driven.motion]]
slide = [0, 0, 1]
[[grip]]
name = "e"
link = "b"
[[hold]]
name = "g"
pos = [0, 0, 0]
[[wall]]
pos = [0, 0, 0]
width = 2
height = 2
density = 3
[[companion]]
name = "h"
model = "planar_human"
[companion.controller]
name = "balance"
[[clasp]]
hand = "a"
to = "h.b"
[[push]]
link = "b"
force = 1
name = "f"
[[push]]
link = "b"
force = [0, 0, 1]
[character]
model = "planar_human"
[controller]
name = "pd"
"""
READERS = ("number", "whole", "vector", "text", "choice", "flag", "table", "tables", "take", "has")
Asked = dict[str, dict[str, dict[str, Any]]]  # table -> key -> kind, default, bounds


def asked() -> Asked:
    """Every key that the reader of scenarios asks for, in its order."""

    def read() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sample.toml"
            path.write_text(SAMPLE, "utf-8")
            world_file.world_of(read_toml(path), "sample", path.parent)

    return asked_by(read)


def asked_by(run: Callable[[], Any]) -> Asked:
    """Every key that is asked for while something runs."""
    found: Asked = {}
    original = {name: getattr(Table, name) for name in READERS}
    asking: list[str] = []  # a reader that is called by another one adds nothing

    def noting(kind: str) -> Callable:
        def read(table: Table, key: str, *args: Any, **kwargs: Any) -> Any:
            if not asking:
                entry = found.setdefault(_name(table.where), {}).setdefault(key, {"kind": kind})
                if kind not in ("take", "has"):
                    entry |= {"kind": kind, **_arguments(kind, args, kwargs)}
            asking.append(kind)
            try:
                return original[kind](table, key, *args, **kwargs)
            finally:
                asking.pop()

        return read

    for name in READERS:
        setattr(Table, name, noting(name))
    try:
        run()
    finally:
        for name, function in original.items():
            setattr(Table, name, function)
    return found


def _name(where: str) -> str:
    """ "[[body]] 1 'crate', [repeat]" -> "[[body]], [repeat]"; of the file itself ""."""
    return re.sub(r"(\]\]) \d+( '[^']*')?", r"\1", where)


def _arguments(kind: str, args: tuple, kwargs: dict) -> dict[str, Any]:
    names = {
        "number": ("default", "above", "least", "most", "of"),
        "whole": ("default", "least", "most", "of"),
        "vector": ("default", "size", "above"),
        "text": ("default",),
        "choice": ("known", "default"),
        "flag": ("default",),
    }.get(kind, ())
    return {"default": REQUIRED, **dict(zip(names, args)), **kwargs}


def check_complete(found: Asked) -> None:
    """Every key that the source of the reader names was asked for, and every one has a meaning."""
    files = (world_file, world_tables)
    trees = [ast.parse(Path(str(file.__file__)).read_text("utf-8")) for file in files]
    named = {
        node.args[0].value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    missing = named - {key for keys in found.values() for key in keys}
    if missing:
        sys.exit(f"docs/generate/keys.py: SAMPLE does not make the reader ask for {missing}")


def tables() -> dict[str, str]:
    """The tables by their names, in Markdown."""
    found = asked()
    check_complete(found)
    options = {option.key for kind in world_file.SCHEMES.values() for option in options_of(kind)}
    own = {
        "[world]": {k: v for k, v in found["[world]"].items() if k not in options},
        "[[fixed]]": found["[[fixed]]"],
        "[[body]]": found["[[body]]"],
        "[[driven]]": found["[[driven]]"],
        "[[driven.motion]]": found["[[driven]], [[motion]]"],
        "repeat": found["[[fixed]], [repeat]"],
        "[[grip]]": found["[[grip]]"],
        "[[hold]]": found["[[hold]]"],
        "[[wall]]": found["[[wall]]"],
        "[[companion]]": {key: found["[[companion]]"][key] for key in ("name", "controller")},
        "[[clasp]]": found["[[clasp]]"],
        "[[push]]": found["[[push]]"],
        "[character]": found["[character]"],
    }
    shape = found["[[fixed]]"]
    own = {
        name: {k: v for k, v in keys.items() if k not in SHAPE or k in MEANINGS[name]}
        for name, keys in own.items()
    }
    own["shape"] = {key: shape[key] for key in SHAPE}
    own["[controller]"] = {
        "name": {"kind": "text", "default": REQUIRED},
        "numbers": {"kind": "table"},
    }
    own["[environment]"] = _of_environments()
    for name, keys in own.items():
        if keys.keys() != MEANINGS[name].keys():
            sys.exit(f"docs/generate/keys.toml, {name}: {keys.keys() ^ MEANINGS[name].keys()}")
    made = {name: _table(name, keys) for name, keys in own.items()}
    for table in scheme_tables():
        made[f"scheme {table.name}"] = _options(table)
    made["controllers"] = "\n\n".join(map(_controller, controller_tables()))
    return made


def _controller(table: KeyTable) -> str:
    """Section of a controller, or of a table within one."""
    named = f"`{table.name}`" if table.name.startswith("[") else f'`"{table.name}"`'
    about = f"{table.about[0].upper()}{table.about[1:].rstrip('.')}."
    return f"**{named}** {about}" + (f"\n\n{_options(table)}" if table.options else "")


def _options(table: KeyTable) -> str:
    """Options that a scheme or a controller declares."""
    rows = [(o.key, kind_text(o), o.unit, o.shown, o.meaning) for o in table.options]
    return _markdown(rows)


def _of_environments() -> dict[str, dict[str, Any]]:
    """The keys of [environment], that a reader of its own asks for."""
    text = '[character]\nmodel = "planar_human"\n[environment]\nreward = { alive = 1.0 }\n'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.toml"
        path.write_text(text, "utf-8")
        made = scenario(path)
        found = asked_by(lambda: environment_of(made))["[environment]"]
    lists = ("observation", "done")
    taken = [key for key, entry in found.items() if entry["kind"] == "take"]
    return found | {key: {"kind": "names" if key in lists else "table"} for key in taken}


def _table(name: str, keys: dict[str, dict[str, Any]]) -> str:
    rows = []
    for key in MEANINGS[name]:
        unit, meaning, *default = MEANINGS[name][key]
        shown = default[0] if default else _default(keys[key])
        rows.append((key, _value(keys[key]), unit, shown, meaning))
    return _markdown(rows)


def _markdown(rows: list[tuple[str, ...]]) -> str:
    lines = ["| key | value | unit | default | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{key}` | {value} | {unit} | {default} | {meaning} |"
        for key, value, unit, default, meaning in rows
    ]
    return "\n".join(lines)


def _value(entry: dict[str, Any]) -> str:
    kind = entry["kind"]
    if kind == "choice":
        return ", ".join(f'`"{name}"`' for name in entry["known"])
    if kind == "vector":
        size = "numbers" if "size" in entry else "3 numbers"
        return size + (f" above {entry['above']:g}" if "above" in entry else "")
    if kind in ("number", "whole"):
        text = "number" if kind == "number" else "whole number"
        bounds = []
        if entry.get("above", -math.inf) > -math.inf:
            bounds.append(f"above {entry['above']:g}")
        if entry.get("least", 0 if kind == "whole" else -math.inf) > -math.inf:
            bounds.append(f"from {entry.get('least', 0):g}")
        if entry.get("most", math.inf) not in (None, math.inf):
            bounds.append(f"to {entry['most']:g}")
        return " ".join([text, *bounds])
    return {
        "text": "text",
        "flag": "true, false",
        "take": "rows of numbers",
        "names": "names in brackets",
        "has": "rows of numbers",
    }.get(kind, "table")


def _default(entry: dict[str, Any]) -> str:
    default = entry.get("default")
    if default is REQUIRED:
        return "needed"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return f"`[{', '.join(f'{x:g}' for x in default)}]`"
    if isinstance(default, (int, float)):
        return f"{default:g}"
    return f'`"{default}"`' if default else "none"


def renewed(text: str) -> str:
    """The page with its tables made anew."""
    made = tables()
    mark = re.compile(r"(<!-- keys: (.*?) -->\n).*?(<!-- end -->)", re.S)
    return mark.sub(lambda m: f"{m[1]}\n{made[m[2]]}\n\n{m[3]}", text)


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    after = renewed(before)
    if "--check" in sys.argv:
        sys.exit(before != after and f"{PAGE}: make it anew with python docs/generate/keys.py")
    PAGE.write_text(after, "utf-8")
