"""BVH files: the hierarchy as lines with braces, then a row of channel values a frame.

Read as the dialects of common exporters are (``bvh_dialects``): keywords in any case, braces on
lines of their own or not, any line ending, position channels on any joint, any number and order of
rotation channels.
Where a joint has position channels, they replace its OFFSET.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jaxsim.mocap.bvh_dialects import plain_lines, whole_rows
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import quote_text, wrong
from jaxsim.mocap.rotations import AXES, continuous, from_angles
from jaxsim.mocap.text import number, numbers, read_lines, table

__all__ = ["read_bvh"]

CHANNELS = {
    f"{axis}{kind}".lower(): (axis, kind) for kind in ("position", "rotation") for axis in AXES
}
_NAMES = "Xposition, Yposition, Zposition, Xrotation, Yrotation or Zrotation"
_AGAIN = "correct the line, or export the file again"
_RATES = (0.5, 100_000.0)  # [Hz]
_MOST_JOINTS = 2000


@dataclass
class _Joint:
    name: str
    parent: int
    line: int
    offset: list[float] | None = None
    channels: list[tuple[str, str]] | None = None  # (axis, "position" or "rotation")
    ends: list[list[float]] = field(default_factory=list)


def read_bvh(path: str | os.PathLike[str], rate: float | None = None) -> Clip:
    """Read a BVH file without conversion: its unit is taken as a metre, its axes are unchanged.

    rate [Hz]: replaces the file's. ``read_clip`` finds unit and axes as well. Raises ClipError with
    file, line, expectation and remedy.
    """
    lines, notes = plain_lines(read_lines(path, "BVH"))
    joints, motion = _hierarchy(path, lines)
    columns = sum(len(joint.channels or ()) for joint in joints)
    frames, step, first = _motion_header(path, lines, motion, rate)
    places = [k for k in range(first, len(lines)) if lines[k].strip()]
    rows = [lines[k] for k in places]
    joined = whole_rows(rows, frames, columns)
    if joined is not rows:
        notes.append("its frames are written over several lines")
        places = places[: len(joined)]
    values = table(path, joined, [k + 1 for k in places], columns, "the channels of a frame")
    if len(values) > frames:
        notes.append(f"Frames says {frames}, and there are {len(values)} rows: all are read")
    if len(values) < frames:
        got = f"{len(values)} rows of numbers"
        remedy = "correct the count, or restore the rows from a copy"
        raise wrong(path, motion + 2, f"{frames} frames, as Frames says", got, remedy)
    return _clip(Path(path).stem, joints, values, step).noted(*notes)


def _words(lines: list[str]) -> Iterator[tuple[int, list[str], int]]:
    """Tuples (index of the line, words, indentation), with every brace apart."""
    for k, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        for part in line.replace("{", "\n{\n").replace("}", "\n}\n").split("\n"):
            if part.strip():
                yield k, part.split(), indent


def _hierarchy(path: str | os.PathLike[str], lines: list[str]) -> tuple[list[_Joint], int]:
    """Joints of the hierarchy, and the index of the line MOTION."""
    words = _words(lines)
    k, first, _ = next(words, (0, ["an empty file"], 0))
    if first[0].upper() != "HIERARCHY":
        got = quote_text(" ".join(first))
        raise wrong(path, k + 1, "HIERARCHY, with which a BVH file begins", got, "give a BVH file")
    joints: list[_Joint] = []
    stack: list[int] = []  # open blocks: indices of joints, -1 for an end site
    opening: int | None = None  # the block whose brace comes next
    opened: list[tuple[int, int]] = []  # line and indentation of its brace
    odd: int | None = None  # the first line whose brace does not stand below the one it closes
    for k, line, indent in words:
        key = line[0].upper()
        if (opening is not None) != (key == "{"):
            raise wrong(
                path,
                k + 1,
                "'{'" if key != "{" else "a joint before '{'",
                quote_text(" ".join(line)),
                _AGAIN,
            )
        if key == "{":
            assert opening is not None
            stack.append(opening)
            opened.append((k, indent))
            opening = None
        elif key == "}":
            if not stack:
                raise wrong(path, k + 1, "MOTION after the last joint", "one '}' too many", _AGAIN)
            odd = k if odd is None and opened[-1][1] != indent else odd
            opened.pop()
            _finished(path, joints, stack.pop())
        elif key == "MOTION":
            if stack:
                _unclosed(path, k, joints, stack, opened, odd)
            if not joints:
                raise wrong(path, k + 1, "a ROOT joint before MOTION", "none", _AGAIN)
            return joints, k
        elif key in ("ROOT", "JOINT") or (key == "END" and len(line) > 1):
            opening = _opened(path, k, line, joints, stack)
        else:
            _property(path, k, line, joints, stack)
    raise wrong(
        path,
        len(lines),
        "MOTION after the hierarchy",
        "the end of the file",
        "the file is cut short: restore it from a copy",
    )


def _unclosed(path, k, joints, stack, opened, odd):
    inner = "an End Site" if stack[-1] < 0 else joints[stack[-1]].name
    remedy = _AGAIN
    if odd is not None:
        remedy = f"add it: by the indentation one is missing before line {odd + 1}"
    raise wrong(
        path, k + 1, f"'}}' for {inner}, opened at line {opened[-1][0] + 1}", "MOTION", remedy
    )


def _opened(path, k: int, line: list[str], joints: list[_Joint], stack: list[int]) -> int:
    """Open the block of a line ROOT, JOINT or End Site."""
    key, name = line[0].upper(), " ".join(line[1:])
    if stack and stack[-1] < 0:
        raise wrong(path, k + 1, "OFFSET or '}' in an End Site", quote_text(" ".join(line)), _AGAIN)
    if key == "END":
        if not stack:
            raise wrong(path, k + 1, "an End Site inside a joint", "one outside", _AGAIN)
        return -1
    if not name:
        raise wrong(path, k + 1, f"a name after {key}", "none", _AGAIN)
    if key == "ROOT" and joints:
        remedy = "split the file: one figure each"
        raise wrong(path, k + 1, "one ROOT", f"a second one, {quote_text(name)}", remedy)
    if key == "JOINT" and not stack:
        raise wrong(path, k + 1, "JOINT inside a joint", "one outside", _AGAIN)
    if len(joints) >= _MOST_JOINTS:
        raise wrong(path, k + 1, f"at most {_MOST_JOINTS} joints", "more", "split the file")
    joints.append(_Joint(name, stack[-1] if stack else -1, k))
    return len(joints) - 1


def _property(path, k: int, line: list[str], joints: list[_Joint], stack: list[int]) -> None:
    """Read a line OFFSET or CHANNELS of the open block."""
    key = line[0].upper()
    if key not in ("OFFSET", "CHANNELS") or not stack:
        wanted = "OFFSET, CHANNELS, JOINT, End Site, '}' or MOTION" if stack else "ROOT or MOTION"
        raise wrong(path, k + 1, wanted, quote_text(" ".join(line)), _AGAIN)
    end = stack[-1] < 0
    joint = joints[-1] if end else joints[stack[-1]]
    if key == "OFFSET":
        offset = numbers(path, k + 1, line[1:], 3, "OFFSET")
        if end:
            joints[next(j for j in reversed(stack) if j >= 0)].ends.append(offset)
        elif joint.offset is not None:
            raise wrong(path, k + 1, f"one OFFSET for {joint.name}", "a second one", _AGAIN)
        else:
            joint.offset = offset
        return
    if end or joint.channels is not None:
        what = "an End Site" if end else f"{joint.name}, which has them"
        raise wrong(path, k + 1, "no CHANNELS here", f"CHANNELS of {what}", _AGAIN)
    joint.channels = _channels(path, k, line, joint.name)


def _channels(path, k: int, line: list[str], name: str) -> list[tuple[str, str]]:
    for word in line[2:]:
        if word.lower() not in CHANNELS:
            raise wrong(path, k + 1, f"a channel {_NAMES} of {name}", quote_text(word), _AGAIN)
    channels = [CHANNELS[word.lower()] for word in line[2:]]
    count = line[1] if len(line) > 1 else "nothing"
    if count != str(len(channels)):
        got = f"{quote_text(count)} and {len(channels)} names"
        raise wrong(
            path, k + 1, f"the count of channels of {name}, then as many names", got, _AGAIN
        )
    if len(set(channels)) != len(channels):
        raise wrong(path, k + 1, f"different channels of {name}", "one twice", _AGAIN)
    return channels


def _finished(path, joints: list[_Joint], block: int) -> None:
    if block < 0:
        return
    joint = joints[block]
    for value, what in ((joint.offset, "OFFSET"), (joint.channels, "CHANNELS")):
        if value is None:
            got = "none before its '}'"
            raise wrong(path, joint.line + 1, f"{what} for joint {joint.name}", got, _AGAIN)


def _motion_header(
    path: str | os.PathLike[str], lines: list[str], motion: int, rate: float | None
) -> tuple[int, float, int]:
    """Number of frames, rate [Hz], and the index of the first row."""
    entries: list[tuple[int, str]] = []
    k = motion + 1
    for key in ("frames", "frame time"):
        while k < len(lines) and not lines[k].strip():
            k += 1
        text = " ".join((lines[k] if k < len(lines) else "the end of the file").split())
        name = text[: len(key) + 1].replace(":", " ").strip().lower()
        value = text[len(key) :].lstrip(": ")
        if name != key:
            raise wrong(
                path,
                min(k + 1, len(lines)),
                f"'{key.capitalize()}:' after MOTION",
                quote_text(text),
                _AGAIN,
            )
        entries.append((k, value.strip()))
        k += 1
    (at, count), (place, step) = entries
    if not (count.isascii() and count.isdigit() and 0 < len(count) < 10 and int(count) > 0):
        raise wrong(path, at + 1, "a whole number of frames above zero", quote_text(count), _AGAIN)
    if rate is not None:
        return int(count), rate, k
    remedy = "give the rate of the recording, rate= or --rate, in frames a second"
    try:
        seconds = number(path, place + 1, step, "Frame Time")
    except ValueError:
        seconds = math.nan
    if not _RATES[0] <= (1.0 / seconds if seconds > 0 else 0.0) <= _RATES[1]:
        what = "seconds above zero for Frame Time, 2 at most"
        if seconds > 1:
            remedy = f"{remedy}; if {step} is that, --rate {step}"
        raise wrong(path, place + 1, what, quote_text(step), remedy)
    return int(count), 1.0 / seconds, k


def _clip(name: str, joints: list[_Joint], values: np.ndarray, rate: float) -> Clip:
    offsets = np.array([joint.offset for joint in joints], dtype=np.float64)
    rotations = np.zeros((len(values), len(joints), 4))
    places = np.repeat(offsets[None], len(values), axis=0)
    moved, orders, column = [], [], 0
    for j, joint in enumerate(joints):
        angles, order = [], ""
        for axis, kind in joint.channels or ():
            if kind == "position":
                places[:, j, AXES.index(axis)] = values[:, column]
                moved.append(j)
            else:
                order += axis
                angles.append(values[:, column])
            column += 1
        orders.append(order)
        turned = np.radians(np.stack(angles, -1) if angles else np.zeros((len(values), 0)))
        rotations[:, j] = from_angles(order, turned)
    slid = tuple(sorted(set(moved) - {0}))
    names, problems = _distinct([joint.name for joint in joints])
    if not any(kind == "position" for _, kind in joints[0].channels or ()):
        problems.append(f"{names[0]} has no position channels: the figure stays in its place")
    return Clip(
        name=name,
        joint_names=tuple(names),
        parents=tuple(joint.parent for joint in joints),
        offsets=offsets,
        orders=tuple(orders),
        rotations=continuous(rotations),
        root_pos=places[:, 0],
        rate=rate,
        end_parents=tuple(j for j, joint in enumerate(joints) for _ in joint.ends),
        end_offsets=np.array([end for joint in joints for end in joint.ends]).reshape(-1, 3),
        moved=slid,
        moved_pos=places[:, list(slid)],
        problems=tuple(problems),
    )


def _distinct(names: list[str]) -> tuple[list[str], list[str]]:
    """Names made distinct by numbers, and notes on the changed ones."""
    result: list[str] = []
    for name in names:
        other, k = name, 2
        while other in result:
            other, k = f"{name}_{k}", k + 1
        result.append(other)
    changed = [f"a second joint {a} is called {b}" for a, b in zip(names, result) if a != b]
    return result, changed
