"""A script set on its scene: the character, flat ground or a chair, and the pose it begins in."""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import jax

from controllers.scl.ast import Script
from controllers.scl.errors import ScriptError, suggest
from controllers.scl.load import load_script, script_path, shipped_scripts
from controllers.scl.names import Vocabulary
from controllers.scl.parser import parse
from jaxsim.characters.planar_human import FRICTION, planar_human
from jaxsim.characters.planar_human import start as start_pose
from jaxsim.model import Model, ModelError, State
from jaxsim.ranges import within
from jaxsim.simulation.checks import check_kind, check_model, check_state_fits

CHAIR_HEIGHT = 0.45  # of a chair that was asked for without its height [m]
# where the motions begin, by how a script's name begins
STARTS_OF_SCRIPTS = {
    "sit_to_stand": "sitting",
    "walk": "standing",
    "kip_up": "supine",
    "prone_to_stand": "prone",
}


@dataclass(frozen=True)
class Scene:
    """What a simulation begins from."""

    name: str  # of the script, as it was asked for
    script: Script
    model: Model
    state: State
    start: str  # name of the pose; "given" for a State
    chair_height: float | None  # [m]; None without a chair
    friction: float | None  # coefficient; None where the model was given
    notes: tuple[str, ...]  # what was decided for the user


def default_start(script: str | os.PathLike) -> str | None:
    """The pose in which a script of this name begins; None for a name that says nothing.

    >>> default_start("walk"), default_start("mine/kip_up_high.scl"), default_start("dance")
    ('standing', 'supine', None)
    """
    name = Path(script).stem
    return next((s for prefix, s in STARTS_OF_SCRIPTS.items() if name.startswith(prefix)), None)


def set_scene(
    script: Script | str | os.PathLike,
    start: str | State | None = None,
    chair_height: float | None = None,
    friction: float | None = None,
    model: Model | None = None,
) -> Scene:
    """Read the script and build what it acts on, in JAX's default precision.

    script: a path, the name of a shipped script, or a parsed one. start: "standing", "supine",
    "prone", "sitting", or a State; by default what the script's name says, else standing.
    chair_height [m]: only for the start "sitting" (default 0.45). friction: coefficient, default
    that of the character. model: another planar model; then no chair and no friction are given.

    Raises ScriptError for a script that cannot be used, ModelError or ValueError for the rest.
    """
    check_kind("script", script, Script, str, os.PathLike, how=": a path, or a shipped one's name")
    if start is not None:
        check_kind("start", start, str, State, how=": the name of a pose, or a state")
    if model is not None:
        check_model(model)
    notes: list[str] = []
    name = script.file if isinstance(script, Script) else os.fspath(script)
    if start is None:
        start = default_start(name)
        if start is None:
            start = "standing"
            notes.append(
                f"{Path(name).name} begins standing; choose another pose with start (--start)"
            )
    if friction is not None:
        within("friction", friction)
    if chair_height is not None:
        within("chair_height", chair_height, "chair height")
    if model is None:
        chair_height = _chair(start, chair_height, notes)
        friction = FRICTION if friction is None else float(friction)
        model = planar_human(chair_height, friction)
    elif chair_height is not None or friction is not None:
        raise ModelError("a model has its own chair and friction; give either those or the model")
    if not isinstance(script, Script):
        script = read_script(name, model)
    state = _state(model, start)
    pose = start if isinstance(start, str) else "given"
    return Scene(name, script, model, state, pose, chair_height, friction, tuple(notes))


def read_script(script: str | os.PathLike, model: Model) -> Script:
    """The script in a file, or the shipped one of that name. Raises ScriptError."""
    name = os.fspath(script)
    if not script_path(name).exists() and not Path(name).suffix:
        hint = suggest(name, shipped_scripts(), "shipped scripts")
        message = "there is no such file, and no shipped script of this name"
        raise ScriptError(message, name, hint=hint)
    return load_script(name, model)


def check_number(what: str, value: float, wanted: str) -> float:
    """The value as a float; ValueError unless it is finite and positive."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} is {value!r}; give {wanted}")
    return number


def free_all(text: str, vocabulary: Vocabulary, file: str = "<script>") -> str:
    """The text with '@' before every number that has none; all else stays. Raises ScriptError."""
    pieces, end = [], 0
    for number in parse(text, vocabulary, file).numbers:
        if not number.free:
            pieces += [text[end : number.span.start], "@"]
            end = number.span.start
    return "".join([*pieces, text[end:]])


def _chair(start: str | State, height: float | None, notes: list[str]) -> float | None:
    """The height of the chair to build, None for none."""
    if start == "sitting" and height is None:
        notes.append(
            f"the chair is {CHAIR_HEIGHT} m high; choose with chair_height (--chair-height)"
        )
        return CHAIR_HEIGHT
    if isinstance(start, str) and start != "sitting" and height is not None:
        notes.append(f"there is no chair: the start {start!r} does not sit on one")
        return None
    return None if height is None else float(height)


_posed = jax.jit(start_pose, static_argnames="name")


def _state(model: Model, start: str | State) -> State:
    if isinstance(start, str):
        return _posed(model, name=start)
    check_state_fits(model, start, values=True)
    return start
