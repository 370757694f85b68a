"""JSON Schema of scenario files, for completion and checks in editors.

    jaxsim list --schema > scenario.schema.json

Tables whose keys are declared (schemes, controllers) are complete; others take any key.
"""

from collections.abc import Mapping
from typing import Any

from controllers.registry import CONTROLLERS, builder
from jaxsim.io.world_file import SCHEMES
from jaxsim.options import REQUIRED, Option, options_of
from optimize.scenarios.keys import first_sentence, plain

KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", tuple: "array"}
BOUNDS = {"above": "exclusiveMinimum", "least": "minimum", "most": "maximum"}


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file."""
    options = {o.key: o for scheme in SCHEMES.values() for o in options_of(scheme)}
    world = {key: _property(option) for key, option in options.items()}
    world["scheme"] = {"enum": list(SCHEMES)}
    custom = {"properties": {"name": {"type": "string", "pattern": r"\.py:"}}, "required": ["name"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jaxsim scenario",
        "type": "object",
        "properties": {
            "world": {"type": "object", "properties": world},
            "controller": {"oneOf": [*map(_controller, CONTROLLERS), custom]},
        },
    }


def _controller(name: str) -> dict[str, Any]:
    build = builder(name)
    own = _table(build.keys)  # type: ignore[attr-defined]
    own["description"] = plain(first_sentence(build))
    own["properties"] |= {"name": {"const": name}, "numbers": {"type": ["object", "string"]}}
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


def _property(option: Option) -> dict[str, Any]:
    unit = f" [{option.unit}]" if option.unit else ""
    described = {"description": f"{plain(option.meaning)}{unit}; default: {option.shown}"}
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
        numbers = {"items": {"type": "number"}, "minItems": size, "maxItems": size}
        return described | {"type": "array"} | numbers
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
