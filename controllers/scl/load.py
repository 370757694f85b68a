"""Scripts by file or name, and controllers for a character from them."""

from importlib.resources import files
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from controllers.scl.ast import Script
from controllers.scl.controller import ScriptController
from controllers.scl.errors import ScriptError, suggest
from controllers.scl.names import Vocabulary, plural
from controllers.scl.parser import parse, parse_file
from controllers.scl.program import compile_script
from jaxsim.model import Model, Topology
from jaxsim.model.roles import PAIRS, SIDES, side_role
from jaxsim.model.topology import WORLD


def vocabulary(model: Model) -> Vocabulary:
    """Names that scripts may use for a model: actuated joints, links, and groups of them.

    Of a character also its ``necks``, and its roles ("chest", "leftFoot", "feet") for links with
    other names.
    """
    top = model.topology
    joints = [top.joint_names[j] for j in top.actuated_joints]
    lower, upper = np.rad2deg(model.joint_lower), np.rad2deg(model.joint_upper)
    ranges = {
        top.joint_names[j]: (round(float(lower[j]), 3), round(float(upper[j]), 3))
        for j in top.actuated_joints
        if top.joint_limited[j]
    }
    necks = tuple(top.joint_names[j] for j in _between(top, "head", "chest"))
    groups = {"necks": necks} if necks and "necks" not in joints else {}
    return Vocabulary.build(joints, top.link_names, ranges, groups, _role_words(top))


def _between(top: Topology, role: str, other: str) -> list[int]:
    """Actuated joints between two links of a character, by role."""
    ways = []
    for link in top.parts((role, other)):
        ways.append({link})
        while (link := top.link_parent[link]) != WORLD:
            ways[-1].add(link)
    between = ways[0] ^ ways[1] if len(ways) == 2 else set()
    return [j for j in top.actuated_joints if top.joint_link[j] in between]


def _role_words(top: Topology) -> dict[str, tuple[str, ...]]:
    """Roles, and their plurals, as words for links with other names."""
    words: dict[str, tuple[str, ...]] = {role: (link,) for role, link in top.roles.links}
    for part in PAIRS.values():
        pair = [link for side in SIDES for link in words.get(side_role(side, part), ())]
        if pair:
            words[part if part == "toes" else plural(part)] = tuple(pair)
    return {word: links for word, links in words.items() if word not in top.link_names}


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


def free_all(text: str, vocabulary: Vocabulary, file: str = "<script>") -> str:
    """Text with '@' before every number that has none. Raises ScriptError."""
    pieces, end = [], 0
    for number in parse(text, vocabulary, file).numbers:
        if not number.free:
            pieces += [text[end : number.span.start], "@"]
            end = number.span.start
    return "".join([*pieces, text[end:]])


def script_controller(script: Script | str, model: Model) -> ScriptController:
    """Controller of a parsed script, or of a script's text."""
    if isinstance(script, str):
        script = parse(script, vocabulary(model))
    values = jnp.asarray(script.values(), model.mass.dtype)
    return ScriptController(compile_script(script, model.topology), values, script.labels)
