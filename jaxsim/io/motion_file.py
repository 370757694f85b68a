"""Motions in files: one .npz each, without pickled objects."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np

from jaxsim.io.archive import LARGEST, ArchiveError, read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import FLOAT_FIELDS, GRIP_FIELDS, NAMED, OPTIONAL, Motion, MotionShape

FORMAT_NAME = "jaxsim-motion"
FORMAT_VERSION = 4  # 4: shares; 3: gauges, a ghost; a file is written as the first that holds it
PLAIN_VERSION = 2  # 2: height fields, grips, roles of links; 1 lacks them and is read too
_OUTER = "contact_outer"
_NEW_META = ("link_roles", "grip_names")
_META_FIELDS = ("title", "link_names", "joint_names", "phase_names", "planar", "phase_events")
_LISTS = ("link_names", "joint_names", "phase_names", "link_roles", "grip_names")
_ARRAYS = {"format": 1000, "version": 1000, "meta": 64 * 2**20}  # the most bytes of each
_ARRAYS |= dict.fromkeys((*FLOAT_FIELDS, "phase", *GRIP_FIELDS, _OUTER, *OPTIONAL), LARGEST)
_ARRAYS |= dict.fromkeys(("height_*", "gauge_*", "share_*"), LARGEST)
_REMEDY = "restore the file from a copy, or simulate the motion again"


class MotionFileError(ValueError):
    """A file that is not a motion, is damaged, or has another format version."""


def save_motion(path: str | os.PathLike[str], motion: Motion) -> None:
    """Write a motion as compressed .npz, atomically; number types are unchanged.

    Raises FileNotFoundError if the folder does not exist.
    """
    arrays = {
        name: getattr(motion, name) for name in (*FLOAT_FIELDS, "phase", *GRIP_FIELDS, _OUTER)
    }
    arrays |= {name: getattr(motion, name) for name in OPTIONAL}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    arrays |= {f"height_{i}": v for i, v in enumerate(motion.heights.values())}
    meta = {name: getattr(motion, name) for name in (*_META_FIELDS, *_NEW_META)}
    meta["shapes"] = [vars(shape) for shape in motion.shapes]
    meta["heights"] = list(motion.heights)
    if motion.gauges:
        meta["gauges"] = {k: [v.unit, v.thresholds] for k, v in motion.gauges.items()}
        arrays |= {f"gauge_{i}": v.values for i, v in enumerate(motion.gauges.values())}
    version = PLAIN_VERSION
    if motion.gauges or motion.ghost_pos is not None:
        version = 3
    if motion.shares:
        version, meta["shares"] = 4, list(motion.shares)
        arrays |= {f"share_{i}": v for i, v in enumerate(motion.shares.values())}
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        format=np.array(FORMAT_NAME),
        version=np.array(version),
        meta=np.array(json.dumps(meta)),
        **arrays,
    )
    write_bytes(path, buffer.getvalue())


def load_motion(path: str | os.PathLike[str]) -> Motion:
    """Read a motion that `save_motion` wrote.

    Raises FileNotFoundError if there is no such file, and MotionFileError if the file is not a
    motion, is damaged, is of another format version, or holds arrays that do not agree.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no motion file {path}")
    try:
        stored = read_arrays(path, _ARRAYS)
    except ArchiveError as error:
        raise MotionFileError(f"{path} is not a motion file, or is damaged: {error}") from error
    if str(stored.get("format")) != FORMAT_NAME:
        raise MotionFileError(f"{path} is an .npz file, but not a motion")
    try:
        version = int(stored.get("version", np.array(-1)))
    except (TypeError, ValueError, OverflowError):
        version = -1
    if not 1 <= version <= FORMAT_VERSION:
        raise MotionFileError(
            f"{path} has motion format {stored.get('version')}, this jaxsim reads 1 to"
            f" {FORMAT_VERSION}"
        )
    try:
        return _motion(stored, version)
    except KeyError as error:
        raise MotionFileError(f"{path} lacks {error}; {_REMEDY}") from error
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise MotionFileError(
            f"{path} holds a motion that does not agree: {error or type(error).__name__}; {_REMEDY}"
        ) from error


def _motion(stored: dict[str, np.ndarray], version: int) -> Motion:
    """Motion from the arrays of a file. Raises various errors for arrays that do not fit."""
    meta = json.loads(str(stored["meta"]))
    if not isinstance(meta["title"], str):
        raise TypeError(f"the title is {meta['title']!r}, a text is needed")
    for name in (*_LISTS, *NAMED):
        texts = meta.get(name, [])
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            raise TypeError(f"{name} are {texts!r}, texts are needed")
    for name in (*FLOAT_FIELDS, "phase"):
        if stored[name].dtype.kind not in "biuf":
            raise TypeError(f"{name} is of the type {stored[name].dtype}, numbers are needed")
    values = {name: meta[name] for name in _META_FIELDS}
    values["shapes"] = tuple(MotionShape(**shape) for shape in meta["shapes"])
    values["heights"] = {k: stored[f"height_{i}"] for i, k in enumerate(meta["heights"])}
    values |= {name: stored[name] for name in (*FLOAT_FIELDS, "phase")}
    if version > 1:
        values |= {name: meta[name] for name in _NEW_META}
        values |= {name: stored[name] for name in (*GRIP_FIELDS, _OUTER)}
    values |= {name: stored.get(name) for name in OPTIONAL}
    if version > 2:
        values["gauges"] = {
            name: Gauge(unit, limits, stored[f"gauge_{i}"])
            for i, (name, (unit, limits)) in enumerate(meta.get("gauges", {}).items())
        }
    if version > 3:
        values["shares"] = {k: stored[f"share_{i}"] for i, k in enumerate(meta["shares"])}
    return Motion(**values)
