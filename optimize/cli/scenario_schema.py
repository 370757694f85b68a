"""JSON Schema of scenario files, for completion and checks in editors.

jaxsim list --schema > scenario.schema.json
"""

from collections.abc import Mapping
from typing import Any

from controllers.registry import CONTROLLERS, builder
from jaxsim.io.shape_table import SHAPES, ShapedKeys
from jaxsim.io.world_file import SCHEMES, WorldFileKeys
from jaxsim.options import REQUIRED, Option, options_of
from optimize.cli.scenario_keys import file_records, first_sentence, plain

KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", tuple: "array"}
PAIR = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
RANGE = {"oneOf": [PAIR, {"type": "number"}]}
BOUNDS = {"above": "exclusiveMinimum", "least": "minimum", "most": "maximum"}


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file."""
    records = file_records()
    tables: dict[str, Any] = {}
    for o in options_of(WorldFileKeys):
        record = records[o.key]
        table = _shaped(record) if issubclass(record, ShapedKeys) else _table(record)
        tables[o.key] = {"type": "array", "items": table} if o.kind is list else table
    options = {o.key: _property(o) for scheme in SCHEMES.values() for o in options_of(scheme)}
    tables["world"]["properties"] |= options
    custom = {"properties": {"name": {"type": "string", "pattern": r"\.py:"}}, "required": ["name"]}
    tables["controller"] = {"oneOf": [*map(_controller, CONTROLLERS), custom]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jaxsim scenario",
        "type": "object",
        "properties": tables,
        "additionalProperties": False,
    }


def _controller(name: str) -> dict[str, Any]:
    build = builder(name)
    own = _table(build.keys)  # type: ignore[attr-defined]
    own["description"] = plain(first_sentence(build))
    numbers = {"type": ["object", "string"]}
    own["properties"] |= {"name": {"const": name}, "numbers": numbers}
    own["required"] = ["name", *own["required"]]
    return own


def _table(record: type) -> dict[str, Any]:
    """Schema of a table whose keys a dataclass declares, earlier names of keys among them."""
    options = options_of(record)
    properties = {o.key: _property(o) for o in options}
    properties |= {o.was: {**properties[o.key], "deprecated": True} for o in options if o.was}
    return {
        "type": "object",
        "properties": properties,
        "required": [o.key for o in options if o.default is REQUIRED],
        "additionalProperties": False,
    }


def _shaped(record: type[ShapedKeys]) -> dict[str, Any]:
    """Schema of a table with a shape: one for each kind that it may have."""
    (shape,) = (o for o in options_of(record) if o.key == "shape")
    kinds = []
    for kind in shape.bounds["known"]:
        own, sizes = _table(record), _table(SHAPES[kind])
        own["properties"] |= {**sizes["properties"], "shape": {"const": kind}}
        own["required"] += sizes["required"]
        kinds.append(own)
    return {"oneOf": kinds}


def _property(option: Option) -> dict[str, Any]:
    unit = f" [{option.unit}]" if option.unit else ""
    described = {"description": f"{plain(option.meaning)}{unit}; default: {option.shown}"}
    if option.kind is object:
        return described
    if option.entries is str:
        known = option.bounds.get("known")
        names = {"enum": list(known)} if known else {"type": "string"}
        return described | {"type": "array", "items": names}
    if option.entries is float:
        return described | {"type": "object", "additionalProperties": {"type": "number"}}
    if option.entries is tuple:
        return described | {"type": "object", "additionalProperties": RANGE}
    if option.kind in (dict, list):
        entry = _entries(option.entries)
        return described | (
            {"type": "array", "items": entry} if option.kind is list else dict(entry)
        )
    bounds = {BOUNDS[k]: v for k, v in option.bounds.items() if k in BOUNDS}
    if "known" in option.bounds:
        return described | {"enum": list(option.bounds["known"])}
    if option.kind is tuple:
        size = option.bounds.get("size", 3)
        vector = {"type": "array", "items": {"type": "number"}, "minItems": size, "maxItems": size}
        if "single" in option.bounds:
            return described | {"oneOf": [vector, {"type": "number"}]}
        return described | vector
    return described | {"type": KINDS[option.kind]} | bounds


def _entries(entries: Any) -> dict[str, Any]:
    if entries is None:
        return {"type": "object"}
    if isinstance(entries, Mapping):
        kinds = []
        for kind, record in entries.items():
            own = _table(record)
            own["properties"]["kind"] = {"const": kind}
            own["required"] = ["kind", *own["required"]]
            kinds.append(own)
        return {"oneOf": kinds}
    return _table(entries)
