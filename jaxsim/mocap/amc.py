"""AMC files (Acclaim): for each frame a line a bone, with the values of its dofs.

They state neither skeleton nor, mostly, rate: the first is in an ASF file, the second is an
argument.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from jaxsim.math.rotation import quat_conjugate, quat_multiply
from jaxsim.mocap.asf import ROOT, Skeleton, read_asf
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError, quote_text, wrong
from jaxsim.mocap.rotations import AXES, continuous, from_angles
from jaxsim.mocap.text import number, numbers, read_lines, table

__all__ = ["find_skeleton", "read_amc"]

_AGAIN = "restore the file from a copy"


def read_amc(
    path: str | os.PathLike[str],
    skeleton: str | os.PathLike[str] | None = None,
    rate: float | None = None,
) -> Clip:
    """Read a motion on a skeleton, in metres, with the axes of the files.

    skeleton: the ASF file; by default ``find_skeleton``. rate [Hz]: needed if the file does not
    state it, replaces the file's. Raises ClipError with file, line, expectation and remedy, also
    without a rate.
    """
    lines = read_lines(path, "AMC")
    bones = read_asf(find_skeleton(path) if skeleton is None else skeleton)
    file_rate, degrees, first = _head(path, lines)
    if rate is None and file_rate is None:
        raise wrong(
            path,
            None,
            "a rate, ':SAMPLES-PER-SECOND'",
            "none",
            "give the frames a second of the recording, rate= or --rate; those of CMU are"
            " 120, of some subjects 60",
        )
    rows = _fast(lines, first, bones)
    if rows is None:
        rows = _careful(path, lines, first, bones)
    turned = bones.degrees if degrees is None else degrees
    return _clip(Path(path).stem, bones, rows, float(rate or file_rate or 0.0), turned)


def find_skeleton(path: str | os.PathLike[str]) -> Path:
    """Find the ASF file beside an AMC file.

    Of the same name, else of the longest name with which that of the AMC file begins, else the only
    one in the folder. Raises ClipError if there is none.
    """
    path = Path(path)
    beside = [p for p in sorted(path.parent.iterdir()) if p.suffix.lower() == ".asf"]
    fitting = [p for p in beside if path.stem.startswith(p.stem)]
    if fitting:
        return max(fitting, key=lambda p: len(p.stem))
    if len(beside) == 1:
        return beside[0]
    names = ", ".join(p.name for p in beside[:8])
    others = f" (there are {names})" if names else ""
    raise ClipError(
        f"{path.name}: no ASF file beside it has its name{others};"
        " give its skeleton, skeleton= or --skeleton"
    )


def _head(path, lines: list[str]) -> tuple[float | None, bool | None, int]:
    """Rate [Hz] and flag of degrees, None if not stated, and the index of the first frame."""
    rate, degrees = None, None
    for k, line in enumerate(lines):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key = words[0].upper()
        if not key.startswith(":"):
            return rate, degrees, k
        if key in (":DEGREES", ":RADIANS"):
            degrees = key == ":DEGREES"
        elif key in (":SAMPLES-PER-SECOND", ":SAMPLES_PER_SECOND"):
            rate = numbers(path, k + 1, words[1:], 1, "frames a second")[0]
            if not 0.01 <= rate <= 1e5:
                raise wrong(path, k + 1, "frames a second above zero", words[1], "correct the line")
    raise wrong(path, len(lines), "frames", "none", _AGAIN)


def _fast(lines: list[str], first: int, skeleton: Skeleton) -> dict[str, np.ndarray] | None:
    """Values by bone, if all frames have the same lines in the same order.

    None otherwise, also for any error.
    """
    rows = lines[first:]
    while rows and not rows[-1].strip():
        rows.pop()
    period = next((k for k in range(1, len(rows)) if rows[k].strip().isdigit()), len(rows))
    if not rows or len(rows) % period or not rows[0].strip().isdigit():
        return None
    counts = [row.strip() for row in rows[::period]]
    start = int(counts[0]) if len(counts[0]) < 10 else -1
    if start < 0 or counts != [str(start + k) for k in range(len(counts))]:
        return None
    channels = {bone.name: len(bone.channels) for bone in skeleton.bones if bone.channels}
    values: dict[str, np.ndarray] = {}
    for k in range(1, period):
        name = rows[k].split(None, 1)[0] if rows[k].strip() else ""
        size, mine = len(name), rows[k::period]
        if name not in channels or name in values:
            return None
        if not all(row.startswith(name) and row[size : size + 1] in (" ", "\t") for row in mine):
            return None
        try:
            values[name] = table(
                "", [row[size:] for row in mine], [0] * len(mine), channels[name], ""
            )
        except ClipError:
            return None
    return values if values.keys() == channels.keys() else None


def _careful(path, lines: list[str], first: int, skeleton: Skeleton) -> dict[str, np.ndarray]:
    """Values by bone, line by line, in any order of the bones of a frame."""
    bones = {bone.name: bone for bone in skeleton.bones}
    movable = {name for name, bone in bones.items() if bone.channels}
    frames: list[dict[str, list[float]]] = []
    at, frame_line = 0, 0

    def done() -> None:
        lacking = [name for name in bones if name in movable and name not in frames[-1]]
        if lacking:
            channels = " ".join(bones[lacking[0]].channels)
            raise wrong(
                path,
                frame_line,
                f"a line {lacking[0]!r} ({channels}) in frame {at}",
                "none",
                "add it, or cut the file before this frame",
            )

    for k in range(first, len(lines)):
        words = lines[k].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 1 and words[0].isascii() and words[0].isdigit() and words[0] not in bones:
            count = int(number(path, k + 1, words[0], "a frame"))
            if frames:
                done()
                if count != at + 1:
                    raise wrong(path, k + 1, f"frame {at + 1}", f"frame {count}", _AGAIN)
            frames.append({})
            at, frame_line = count, k + 1
            continue
        name = words[0]
        if not frames:
            raise wrong(
                path, k + 1, "the number of the first frame", quote_text(lines[k].strip()), _AGAIN
            )
        if name not in bones:
            remedy = f"give the skeleton of this motion; {Path(skeleton.path).name} is another"
            raise wrong(
                path,
                k + 1,
                "the number of a frame, or a bone of the skeleton",
                quote_text(name),
                remedy,
            )
        if name in frames[-1]:
            raise wrong(path, k + 1, f"one line {name!r} in frame {at}", "a second one", _AGAIN)
        channels = bones[name].channels
        what = f"{name} ({' '.join(channels) or 'none'})"
        frames[-1][name] = numbers(path, k + 1, words[1:], len(channels), what)
    done()
    return {name: np.array([frame[name] for frame in frames]) for name in movable}


def _clip(
    name: str, skeleton: Skeleton, rows: dict[str, np.ndarray], rate: float, degrees: bool
) -> Clip:
    bones = skeleton.bones
    frames = len(rows[ROOT]) if ROOT in rows else len(next(iter(rows.values())))
    rotations = np.zeros((frames, len(bones), 4))
    rotations[..., 0] = 1.0
    root_pos = np.repeat(skeleton.origin[None], frames, axis=0)
    orders = []
    for j, bone in enumerate(bones):
        values = rows.get(bone.name, np.zeros((frames, 0)))
        turns = [k for k, channel in enumerate(bone.channels) if channel[0] == "r"]
        order = "".join(bone.channels[k][1].upper() for k in turns)[::-1]
        angles = values[:, turns[::-1]]
        local = from_angles(order, np.radians(angles) if degrees else angles)
        rotations[:, j] = quat_multiply(
            quat_multiply(bone.frame[None], local), quat_conjugate(bone.frame[None])
        )
        orders.append(order)
        for k, channel in enumerate(bone.channels):
            if channel[0] == "t":
                root_pos[:, AXES.index(channel[1].upper())] += values[:, k]
    parents = skeleton.parents
    leaves = tuple(j for j in range(1, len(bones)) if j not in parents)
    return Clip(
        name=name,
        joint_names=tuple(bone.name for bone in bones),
        parents=parents,
        offsets=skeleton.unit
        * np.stack([bones[p].vector if p >= 0 else np.zeros(3) for p in parents]),
        orders=tuple(orders),
        rotations=continuous(rotations),
        root_pos=skeleton.unit * root_pos,
        rate=rate,
        end_parents=leaves,
        end_offsets=skeleton.unit * np.array([bones[j].vector for j in leaves]).reshape(-1, 3),
        unit=skeleton.unit,
        problems=skeleton.problems,
    )
