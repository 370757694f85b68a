"""Unit and axes of a clip: found, reported, and converted to metres, z up and x forward.

BVH files state neither. Findings are added to the clip's problems; an argument replaces them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.measures import height
from jaxsim.mocap.schemes import NamingScheme

__all__ = ["UNITS", "in_axes", "in_unit", "settle_clip"]

UNITS = {  # [m]
    "m": 1.0,
    "cm": 0.01,
    "mm": 0.001,
    "inch": 0.0254,
    "foot": 0.3048,
    "cmu": 0.0254 / 0.45,  # of CMU's skeletons and what was made from them
}
LEG = (0.62, 1.05)  # [m] of thigh and shank of a grown human; the next unit is out of it
STATURE = 1.7  # [m]
UPS = ("X", "Y", "Z", "-X", "-Y", "-Z")
_SAMPLES = 200  # frames that are looked at


def settle_clip(
    clip: Clip,
    scheme: NamingScheme | None,
    unit: str | float | None,
    up: str | None,
    unit_told: bool,
) -> Clip:
    """Clip in metres and jaxsim's axes.

    unit: [m] a unit of the file, or one of UNITS; up: the axis of the file that points up, one of
    UPS. None: estimated from the figure. unit_told: the file states its unit, and the clip is in
    metres.
    """
    pos, _ = poses_of(clip.some(_SAMPLES))
    axes, notes = _axes(clip, pos, scheme, up)
    clip = in_axes(clip, axes).noted(*notes)
    if unit is not None:
        scale = unit_size(unit)
        return in_unit(replace(clip, unit=1.0), scale / (clip.unit if unit_told else 1.0), scale)
    if unit_told:
        return clip
    scale, notes = _unit(clip, scheme)
    return in_unit(clip, scale, scale).noted(*notes)


def unit_size(unit: str | float) -> float:
    """Size [m] of a unit by name or number. Raises ClipError."""
    try:
        size = UNITS[unit] if isinstance(unit, str) and unit in UNITS else float(unit)
    except ValueError:
        size = math.nan
    if not 1e-6 <= size <= 1e3:
        known = ", ".join(UNITS)
        raise ClipError(f"unit is {unit!r}; give one of {known}, or the metres that it is")
    return size


def in_unit(clip: Clip, factor: float, unit: float) -> Clip:
    """Clip with all lengths times ``factor``; unit: its new ``Clip.unit``."""
    return replace(
        clip,
        offsets=clip.offsets * factor,
        end_offsets=clip.end_offsets * factor,
        root_pos=clip.root_pos * factor,
        moved_pos=clip.moved_pos * factor,
        unit=unit,
    )


def axes_matrix(axes: tuple[str, str, str]) -> np.ndarray:
    """Matrix (3, 3) whose rows are x, y and z in the file's axes; from its vectors to ours."""
    rows = np.zeros((3, 3))
    for k, axis in enumerate(axes):
        rows[k, UPS.index(axis[-1])] = -1.0 if axis.startswith("-") else 1.0
    return rows


def in_axes(clip: Clip, axes: tuple[str, str, str]) -> Clip:
    """Clip in our axes, from one in a file's axes; axes: of the file, that are ours."""
    M = axes_matrix(axes)
    turned = {
        k: getattr(clip, k) @ M.T for k in ("offsets", "end_offsets", "root_pos", "moved_pos")
    }
    rotations = np.concatenate([clip.rotations[..., :1], clip.rotations[..., 1:] @ M.T], axis=-1)
    return replace(clip, rotations=rotations, axes=axes, **turned)


def _main_axis(vector: np.ndarray) -> tuple[str, float]:
    """Signed axis nearest to a vector, and the cosine between them."""
    k = int(np.argmax(np.abs(vector)))
    size = float(np.linalg.norm(vector))
    sign = "-" if vector[k] < 0 else ""
    return sign + "XYZ"[k], abs(float(vector[k])) / size if size else 0.0


def _axes(
    clip: Clip, pos: np.ndarray, scheme: NamingScheme | None, up: str | None
) -> tuple[tuple[str, str, str], list[str]]:
    """Axes of the file that are x, y and z, and notes on them. pos (n, J, 3)."""
    notes: list[str] = []
    if up is not None and up not in UPS:
        raise ClipError(f"up is {up!r}; give one of {', '.join(UPS)}")
    if up is None and scheme is None:
        notes.append("the file does not tell which axis is up: taken as Y; up= or --up gives it")
    if up is None and scheme is not None:
        upward = np.median(_across(clip, pos, scheme, "head", "Foot", "Shank"), axis=0)
        up, sure = _main_axis(upward)
        notes = [f"up is {up}, as the figure stands"]
        if sure < 0.75:
            notes = [f"up seems to be {up}, but the figure mostly lies; up= or --up gives it"]
    up = up or "Y"
    left = "X" if up[-1] != "X" else "Y"
    if scheme is not None:  # in the zero pose, where it is upright
        places, _ = poses_of(replace(clip.take(slice(0, 1)), rotations=_identity(clip)))
        upright = _main_axis(_across(clip, places, scheme, "head", "Foot", "Shank")[0])
        a, b = (clip.joint(scheme.joints[f"{side}Thigh"]) for side in ("left", "right"))
        side, sure = _main_axis(places[0, a] - places[0, b])
        if upright[0] == up and sure > 0.9 and side[-1] != up[-1]:
            left = side
    y, z = axes_matrix((left, left, up))[1:]
    forward, _ = _main_axis(np.cross(y, z))
    return (forward, left, up), notes


def _identity(clip: Clip) -> np.ndarray:
    return np.broadcast_to(np.array([1.0, 0.0, 0.0, 0.0]), (1, clip.n_joints, 4))


def _across(
    clip: Clip, pos: np.ndarray, scheme: NamingScheme, top: str, bottom: str, instead: str
) -> np.ndarray:
    """Vector (n, 3) from the mean of the two feet, or of the knees without feet, to the head."""
    low = (
        bottom
        if f"left{bottom}" in scheme.joints and f"right{bottom}" in scheme.joints
        else instead
    )
    pair = [clip.joint(scheme.joints[f"{side}{low}"]) for side in ("left", "right")]
    return pos[:, clip.joint(scheme.joints[top])] - pos[:, pair].mean(axis=1)


def _unit(clip: Clip, scheme: NamingScheme | None) -> tuple[float, list[str]]:
    """Size [m] of a unit, and notes on it; of a clip in our axes and the file's unit."""
    size = height(clip.some(_SAMPLES), scheme) or 1.0
    if scheme is None:
        fitting = [u for u in ("m", "cm", "mm") if 0.2 <= size * UNITS[u] <= 3.0]
        name = fitting[0] if fitting else "m"
        return UNITS[name], [f"the file tells no unit: taken as {name}; unit= or --unit gives it"]
    leg = leg_length(clip, scheme)
    fitting = [u for u in UNITS if LEG[0] <= leg * UNITS[u] <= LEG[1]]
    if fitting:
        name = fitting[0]
        return UNITS[name], [f"a unit is {UNITS[name]:.6g} m ({name}), by the legs"]
    scale = STATURE / size
    return scale, [
        f"no known unit fits the legs: a unit is taken as {scale:.4g} m, so that the figure is"
        f" {STATURE} m high; unit= or --unit gives it"
    ]


def leg_length(clip: Clip, scheme: NamingScheme) -> float:
    """Length [m] of thigh and shank, mean of both sides; twice the thigh for legs without feet."""
    total = 0.0
    for side in ("left", "right"):
        thigh, shank = (clip.joint(scheme.joints[f"{side}{limb}"]) for limb in ("Thigh", "Shank"))
        upper = chain_length(clip, thigh, shank)
        foot = scheme.joints.get(f"{side}Foot")
        lower = upper if foot is None else chain_length(clip, shank, clip.joint(foot))
        total += 0.5 * (upper + lower)
    return total


def chain_length(clip: Clip, above: int, below: int) -> float:
    """Length [m] of the bones from a joint down to one below it; 0 if it is not below."""
    length, joint = 0.0, below
    while joint != above:
        if joint < 0:
            return 0.0
        length += float(np.linalg.norm(clip.offsets[joint]))
        joint = clip.parents[joint]
    return length
