"""Scripts by file or name, and controllers for a character from them."""

from importlib.resources import files
from pathlib import Path

import jax.numpy as jnp

from controllers.scl.controller import ScriptController
from controllers.scl.errors import ScriptError, suggest
from controllers.scl.names import vocabulary
from controllers.scl.parser import parse, parse_file
from controllers.scl.program import compile_script
from controllers.scl.script import Script
from jaxsim.model import Model


def load_script(source: str | Path, model: Model) -> Script:
    """Script from a file, or a shipped one by name ("walk"). Raises ScriptError."""
    return parse_file(script_path(source), vocabulary(model))


def script_path(source: str | Path) -> Path:
    """Path of a script file, or of the shipped script of that name."""
    path = Path(source)
    shipped = files("controllers") / "scripts" / f"{source}.scl"
    if not path.exists() and not path.suffix and shipped.is_file():
        return Path(str(shipped))
    return path


def find_script(
    name: str | Path, model: Model, folder: Path = Path(), text: str | None = None
) -> Script:
    """Script from a file, from the package by name, or from a text in place of the file.

    folder: where the file may be. Raises ScriptError.
    """
    if text is not None:
        return parse(text, vocabulary(model), str(name))
    own = folder / name
    if own.is_file():
        return load_script(own, model)
    if not script_path(name).exists() and not Path(name).suffix:
        hint = suggest(str(name), shipped_scripts(), "shipped scripts")
        message = "there is no such file, and no shipped script of this name"
        raise ScriptError(message, str(name), hint=hint)
    return load_script(name, model)


def shipped_scripts() -> tuple[str, ...]:
    """Names of the scripts that come with the package."""
    folder = files("controllers") / "scripts"
    return tuple(sorted(p.name[:-4] for p in folder.iterdir() if p.name.endswith(".scl")))


def script_controller(script: Script | str, model: Model) -> ScriptController:
    """Controller of a parsed script, or of a script's text."""
    if isinstance(script, str):
        script = parse(script, vocabulary(model))
    values = jnp.asarray(script.values(), model.mass.dtype)
    return ScriptController(compile_script(script, model.topology), values, script.labels)
