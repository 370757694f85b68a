"""MJCF and URDF files as Models, read by MuJoCo's own reader (the extra ``models``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsim.io.character_file import with_roles
from jaxsim.io.model_text import find_source, idle_joints, is_urdf
from jaxsim.io.mujoco_file import compile_source, load_mujoco
from jaxsim.io.mujoco_links import add_links
from jaxsim.io.mujoco_motors import joint_motors
from jaxsim.io.mujoco_report import Report, element_names
from jaxsim.io.mujoco_shapes import add_shapes, wanted_pairs
from jaxsim.io.mujoco_support import list_unsupported
from jaxsim.io.mujoco_switches import remove_disabled
from jaxsim.model.builder import ModelBuilder
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model
from jaxsim.model.state import State, neutral_state

__all__ = ["Imported", "load_model"]


@dataclass(frozen=True)
class Imported:
    """Contents of a model file. ``q`` and ``qd`` of its states are MuJoCo's qpos and qvel."""

    model: Model
    state: State  # the file's initial pose (qpos0), at rest
    keyframes: Mapping[str, State]  # by name; "key0", ... where the file gives none
    timestep: float  # of the file [s]; the simulator's own step is set by its config
    unsupported: tuple[str, ...]  # what the file uses and the model lacks, a line a kind
    notes: tuple[str, ...]  # what is done in another way, or ignored without harm

    def report(self) -> str:
        """Lines of the report as one text; empty if there are none."""
        parts = [_listed("left out", self.unsupported), _listed("notes", self.notes)]
        return "\n".join(part for part in parts if part)


def load_model(
    source: str | Path | Any, *, strict: bool = True, self_collision: bool = True
) -> Imported:
    """Read an MJCF or URDF model.

    source: a path, the text itself, or a ``mujoco.MjModel``. strict: raise an error if the file
    uses features that the simulator lacks; otherwise they are left out and listed in
    ``unsupported``. self_collision: let links touch one another where the file does.

    The model is in JAX's default float precision, its positions and velocities in MuJoCo's order
    and meaning. docs/reference/models.md lists how elements are converted. Its roles are those of
    NAME.roles.toml beside it, else those that its names suggest, see
    docs/explanation/characters.md.

    Raises ModelError if the file does not exist, MuJoCo cannot read it (with its reason), the model
    has no moving body, and, if strict, for unsupported features, with a list of all; WorldError for
    an invalid roles file; ImportError without MuJoCo.
    """
    mujoco = load_mujoco()
    report = Report()
    title, mj, path = _read(mujoco, source, report)
    mj = remove_disabled(mujoco, mj, report)
    model = _build(mujoco, mj, title, self_collision, report)
    model = with_roles(mujoco, mj, model, path)
    unsupported = report.unsupported()
    if strict and unsupported:
        raise ModelError(
            f"{title} " + _listed("uses what jaxsim does not have", unsupported) + "\n"
            "load_model(..., strict=False) loads the rest"
        )
    return Imported(
        model=model,
        state=_state(model, mj.qpos0, np.zeros(mj.nv), 0.0),
        keyframes=_keyframes(mujoco, mj, model),
        timestep=float(mj.opt.timestep),
        unsupported=unsupported,
        notes=report.notes(),
    )


def _read(mujoco: Any, source: Any, report: Report) -> tuple[str, Any, Path | None]:
    """Title for messages, MuJoCo's compiled model, and path of the file."""
    if isinstance(source, mujoco.MjModel):
        return "the MjModel", source, None
    text_source = find_source(source)
    mj = compile_source(text_source, report)
    if is_urdf(text_source):
        if "<mimic" in text_source.text and not mj.neq:
            report.lacks("joints that follow others (mimic)")  # dropped by older versions of MuJoCo
        for name in idle_joints(text_source.text):
            report.note("joints whose effort is 0 have no motor", name)
    return text_source.title, mj, text_source.path


def _build(mujoco: Any, mj: Any, title: str, self_collision: bool, report: Report) -> Model:
    weightless = mj.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    builder = ModelBuilder([0.0] * 3 if weightless else mj.opt.gravity.tolist())
    pairs = wanted_pairs(mujoco, mj)
    list_unsupported(mujoco, mj, pairs, report)
    motors = joint_motors(mujoco, mj, report)
    try:
        places = add_links(mujoco, mj, builder, motors, report)
        if all(place.link == "world" for place in places):
            gone = _listed("\nleft out", report.unsupported())
            raise ModelError(f"no body of it moves; give one a joint{gone}")
        add_shapes(mujoco, mj, builder, places, pairs, self_collision, report)
        return builder.build()
    except ModelError as error:
        raise ModelError(f"{title}: {error}") from None


def _keyframes(mujoco: Any, mj: Any, model: Model) -> dict[str, State]:
    names = element_names(mujoco, mj, "key", [f"key{k}" for k in range(mj.nkey)])
    return {
        name: _state(model, mj.key_qpos[k], mj.key_qvel[k], mj.key_time[k])
        for k, name in enumerate(names)
    }


def _state(model: Model, q: np.ndarray, qd: np.ndarray, time: float) -> State:
    dtype = model.mass.dtype
    state = neutral_state(model)
    return state.replace(
        q=jnp.asarray(q, dtype), qd=jnp.asarray(qd, dtype), time=jnp.asarray(time, dtype)
    )


def _listed(heading: str, lines: tuple[str, ...]) -> str:
    return "\n  ".join([f"{heading}:", *lines]) if lines else ""
