"""Reader of clips in any format: by file name, with unit, axes, first rows and problems."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from jaxsim.mocap.amass import read_amass
from jaxsim.mocap.amc import read_amc
from jaxsim.mocap.asf import read_asf
from jaxsim.mocap.bvh import read_bvh
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.measures import not_human, pose_rows
from jaxsim.mocap.schemes import NamingScheme, detect_scheme
from jaxsim.mocap.settle import settle_clip

__all__ = ["read_clip"]

FORMATS = ".bvh, .amc (with its .asf), .npz (AMASS)"


def read_clip(
    path: str | os.PathLike[str],
    *,
    skeleton: str | os.PathLike[str] | None = None,
    rate: float | None = None,
    unit: str | float | None = None,
    up: str | None = None,
    all_rows: bool = False,
) -> Clip:
    """Read the clip in a BVH, AMC or AMASS file, in metres, z up, facing x in its zero pose.

    skeleton: the ASF file of an AMC file, else ``find_skeleton``. rate [Hz]: needed where the file
    states none (AMC), replaces the file's. unit: a name of ``settle.UNITS`` or its size [m]; up:
    "Y", "Z", "-X", ...; both are estimated where the file does not state them. all_rows: keep
    initial rows that are a pose and no motion (``pose_rows``). ``Clip.problems`` lists findings and
    corrections.

    Raises ClipError with file, line, expectation and remedy.
    """
    if rate is not None and not (math.isfinite(rate) and 0.01 <= rate <= 1e5):
        raise ClipError(f"rate is {rate}; give the frames a second of the recording, such as 120")
    kind = Path(path).suffix.lower()
    if kind == ".bvh":
        clip, unit_known = read_bvh(path, rate), False
    elif kind == ".amc":
        clip, unit_known = read_amc(path, skeleton, rate), True
    elif kind == ".npz":
        clip, unit_known = read_amass(path, rate), True
    elif kind == ".asf":
        read_asf(path)
        raise ClipError(f"{path} holds a skeleton and no motion; give the .amc file of a motion")
    elif kind == ".c3d":
        raise ClipError(
            f"{path} holds markers and no joints; read_markers of jaxsim.mocap.c3d reads them"
        )
    else:
        raise ClipError(f"{path} has an unknown kind {kind!r}; give a file of {FORMATS}")
    scheme = detect_scheme(clip.joint_names)
    clip = settle_clip(clip, scheme, unit, up, unit_known)
    rows = 0 if all_rows else pose_rows(clip, scheme)
    if rows:
        which = "row 0 is" if rows == 1 else f"rows 0 to {rows - 1} are"
        clip = clip.take(slice(rows, None)).noted(f"{which} a pose before the motion: left out")
    return clip.noted(*_told_of(clip, scheme))


def _told_of(clip: Clip, scheme: NamingScheme | None) -> list[str]:
    """Problems of the figure for the reader."""
    notes = [text for text in (not_human(clip, scheme),) if text]
    if scheme is not None:
        feet = [s for s in ("left", "right") if f"{s}Foot" not in scheme.joints]
        if feet:
            notes.append(f"no {' and no '.join(feet)} foot: it has no stance labels")
        apart = _helpers(clip)
        if apart:
            notes.append(
                f"helper joints off the body, which measure nothing: {', '.join(apart[:6])}"
            )
    return notes


def _helpers(clip: Clip) -> list[str]:
    """Names of joints that hang on the root by over twice the longest other bone."""
    size = np.linalg.norm(clip.offsets, axis=-1)
    other = np.array([0.0, *(size[j] for j, p in enumerate(clip.parents) if p > 0)])
    return [
        clip.joint_names[j]
        for j, p in enumerate(clip.parents)
        if p == 0 and size[j] > 2.0 * other.max()
    ]
