"""Files and viewer motions of retargeted clips."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.figure import PHASES
from jaxsim.mocap.fit_angles import in_blocks
from jaxsim.mocap.retarget import Retargeted
from jaxsim.model import Model

LARGEST_TEXT = 16 * 2**20  # bytes

__all__ = ["about", "character_motion", "save_reference", "sha256"]


def save_reference(
    path: str | os.PathLike[str],
    motion: Retargeted,
    source: str | os.PathLike[str] | None = None,
    licence: str = "",
    more: Mapping[str, object] | None = None,
) -> None:
    """Write a retargeted clip as npz, as a whole or not at all.

    q (T, nq), rate () [Hz], stance and slides (T, 2) bool, soles (T, ne, 3) [m], joint_names and
    q_start of the character, and "about", a text in JSON: character, scale, floor [m], joint map,
    alignment (row by row), source file with its SHA-256, its licence, problems; and ``more``, which
    JSON can hold. Needs no pickle.
    """
    top = motion.model.topology
    about = {
        "clip": motion.name,
        "character": top.roles.character,
        "scale": motion.scale,
        "floor": motion.floor,
        "joints": motion.joints.joints,
        "scheme": motion.joints.name,
        "aligned_by": motion.aligned_by,
        "alignment": {role: A.ravel().tolist() for role, A in motion.alignment.items()},
        "source": None if source is None else Path(source).name,
        "sha256": None if source is None else sha256(source),
        "licence": licence,
        "problems": motion.problems,
        **(more or {}),
    }
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        q=motion.q,
        rate=np.float64(motion.rate),
        stance=motion.stance,
        slides=motion.slides,
        soles=motion.soles,
        joint_names=np.array(top.joint_names),
        q_start=np.array(top.q_start),
        about=np.array(json.dumps(about)),
    )
    write_bytes(path, buffer.getvalue())


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Description in a file that ``save_reference`` wrote.

    Raises ClipError for another kind of file.
    """
    try:
        stored = read_arrays(path, {"about": LARGEST_TEXT})
        return json.loads(str(stored["about"]))
    except (OSError, ValueError, KeyError, RecursionError) as error:
        raise ClipError(
            f"{path}: it holds no retargeted clip; jaxsim mocap writes such files"
        ) from error


def character_motion(motion: Retargeted, shapes: Sequence[MotionShape]) -> Motion:
    """Motion of the character in a retargeted clip, for the viewer.

    shapes: of the character as drawn. The stance is its phases.
    """

    def some(q):
        return link_poses(motion.model, jnp.asarray(q, motion.model.mass.dtype))

    pos, quat, com = in_blocks(some, len(motion.q), motion.q)
    top, frames = motion.model.topology, len(motion.q)
    heights = {
        role: pos[:, top.part(role), 2]
        for role in ("head", "leftFoot", "rightFoot")
        if top.roles.link(role) is not None
    }
    return Motion(
        title=f"{motion.name} on {top.roles.character or 'a character'}",
        link_names=top.link_names,
        joint_names=(),
        phase_names=PHASES,
        shapes=tuple(shapes),
        time=motion.time,
        q=motion.q,
        qd=np.zeros((frames, top.nv)),
        link_pos=pos,
        link_quat=quat,
        contact_pos=np.zeros((frames, 0, 3)),
        contact_force=np.zeros((frames, 0, 3)),
        phase=motion.stance @ np.array([1, 2]),
        torque=np.zeros((frames, 0)),
        torque_limit=np.zeros(0),
        heights=heights,
        com=com,
        link_roles=("character",) * top.n_links,
    )


@jax.jit
def link_poses(model: Model, q: Array) -> tuple[Array, Array, Array]:
    """Link poses and centre of mass of frames q (N, nq).

    Origins (N, nl, 3) [m] and orientations (N, nl, 4) of links, and the centre of mass (N, 3) [m].
    """
    still = jnp.zeros(model.topology.nv, q.dtype)
    kin = jax.vmap(partial(forward_kinematics, model, qd=still))(q=q)
    com = (kin.com * model.mass[:, None]).sum(axis=-2) / model.mass.sum()
    return kin.link_pos, matrix_to_quat(kin.link_rot), com
