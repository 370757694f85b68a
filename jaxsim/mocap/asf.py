"""ASF skeletons (Acclaim): bones with a direction, a length, an axis frame and their dofs.

A joint stands at the start of each bone, has its name, and turns it: the bone's rotation is
C L C^-1 with C from ``axis`` and L from the row of the AMC file, each about fixed axes, first named
first. Lengths are of ``0.0254 / length`` metres, as ``length`` divides and what results is inches.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from jaxsim.mocap.errors import quote_text, wrong
from jaxsim.mocap.rotations import from_angles
from jaxsim.mocap.text import number, numbers, read_lines

__all__ = ["Skeleton", "read_asf"]

INCH = 0.0254  # [m]
ROOT = "root"
_TURNS, _SHIFTS = ("rx", "ry", "rz"), ("tx", "ty", "tz")
_AGAIN = "correct the line, or restore the file from a copy"


@dataclass(frozen=True)
class Bone:
    """A bone, or the root, whose vector is zero."""

    name: str
    line: int  # where it begins, from 1
    vector: np.ndarray  # (3,) from its start to its end, in file units
    frame: np.ndarray  # (4,) C, the frame in which its rotations are
    channels: tuple[str, ...]  # of its row: "rx", and of the root "tx" too


@dataclass(frozen=True)
class Skeleton:
    """Bones of an ASF file, the root first, parents before children."""

    path: str
    bones: tuple[Bone, ...]
    parents: tuple[int, ...]
    unit: float  # [m]
    degrees: bool
    origin: np.ndarray  # (3,) of the root, in file units
    problems: tuple[str, ...]


def read_asf(path: str | os.PathLike[str]) -> Skeleton:
    """Read the skeleton in an ASF file.

    Raises ClipError with file, line, expectation and remedy.
    """
    sections = _sections(path, read_lines(path, "ASF"))
    for name in ("root", "bonedata", "hierarchy"):
        if name not in sections:
            raise wrong(path, None, f"a section :{name}", "none", "give the whole ASF file")
    unit, degrees, problems = _units(path, sections.get("units", []))
    root, origin, notes = _root(path, sections["root"], degrees)
    bones = {root.name: root}
    for block in _blocks(path, sections["bonedata"]):
        bone = _bone(path, block, degrees)
        if bone.name in bones:
            raise wrong(
                path,
                bone.line,
                "bones of different names",
                f"a second {quote_text(bone.name)}",
                _AGAIN,
            )
        bones[bone.name] = bone
    above = _hierarchy(path, sections["hierarchy"], bones)
    order = _from_root(path, bones, above)
    return Skeleton(
        path=os.fspath(path),
        bones=tuple(bones[name] for name in order),
        parents=tuple(order.index(above[name]) if name != ROOT else -1 for name in order),
        unit=unit,
        degrees=degrees,
        origin=origin,
        problems=(*problems, *notes),
    )


Line = tuple[int, list[str]]  # number from 1, words


def _sections(path, lines: list[str]) -> dict[str, list[Line]]:
    """Lines by the ':name' above them; words behind the name count as a line."""
    sections: dict[str, list[Line]] = {}
    current: list[Line] | None = None
    for k, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].startswith(":"):
            current = sections.setdefault(words[0][1:].lower(), [])
            words = words[1:]
        elif current is None:
            raise wrong(
                path,
                k,
                "a line ':version', with which an ASF file begins",
                quote_text(line.strip()),
                "give an ASF file",
            )
        if words and current is not None:
            current.append((k, words))
    return sections


def _units(path, lines: list[Line]) -> tuple[float, bool, list[str]]:
    length, degrees, problems = None, True, []
    for k, words in lines:
        if words[0].lower() == "length" and len(words) == 2:
            length = number(path, k, words[1], "length")
            if length < 1e-3:
                raise wrong(path, k, "a length above zero", words[1], _AGAIN)
        elif words[0].lower() == "angle" and len(words) == 2:
            if words[1].lower() not in ("deg", "rad"):
                raise wrong(path, k, "angle deg or rad", quote_text(words[1]), _AGAIN)
            degrees = words[1].lower() == "deg"
    if length is None:
        problems.append("the skeleton tells no unit of length: taken as inches")
    return INCH / (length or 1.0), degrees, problems


def _root(path, lines: list[Line], degrees: bool) -> tuple[Bone, np.ndarray, list[str]]:
    start = lines[0][0] if lines else 1
    entries = {words[0].lower(): (k, words[1:]) for k, words in lines}
    channels, frame, origin, turned = None, "XYZ", np.zeros(3), [0.0, 0.0, 0.0]
    if "order" in entries:
        k, words = entries["order"]
        channels = _freedoms(path, k, words, (*_SHIFTS, *_TURNS))
    if channels is None:
        raise wrong(
            path,
            start,
            "the order of the root's channels in :root",
            "none",
            "add a line 'order TX TY TZ RX RY RZ'",
        )
    if "axis" in entries:
        frame = _axes(path, entries["axis"][0], "".join(entries["axis"][1]))
    if "position" in entries:
        origin = np.array(numbers(path, *entries["position"], 3, "the root's position"))
    if "orientation" in entries:
        turned = numbers(path, *entries["orientation"], 3, "the root's orientation")
    notes = ["the root has an orientation, in whose frame its rotations are read"]
    bone = Bone(ROOT, start, np.zeros(3), _turn(frame, turned, degrees), channels)
    return bone, origin, notes if any(turned) else []


def _blocks(path, lines: list[Line]) -> list[list[Line]]:
    """Lines between each begin and its end."""
    blocks: list[list[Line]] = []
    inside = False
    for k, words in lines:
        key = words[0].lower()
        if key == "begin" and not inside:
            blocks.append([(k, words)])
        elif key == "end" and inside:
            pass
        elif inside and key != "begin":
            blocks[-1].append((k, words))
            continue
        else:
            wanted = "'end' of the bone before" if inside else "'begin' of a bone"
            raise wrong(path, k, wanted, quote_text(" ".join(words)), _AGAIN)
        inside = not inside
    if inside:
        raise wrong(path, lines[-1][0], "'end' of the last bone", "none", _AGAIN)
    return blocks


def _bone(path, block: list[Line], degrees: bool) -> Bone:
    start = block[0][0]
    entries = {words[0].lower(): (k, words[1:]) for k, words in block[1:]}
    for key in ("name", "direction", "length", "axis"):
        if key not in entries:
            raise wrong(path, start, f"a line {key!r} in this bone", "none", _AGAIN)
    k, words = entries["name"]
    if len(words) != 1:
        raise wrong(path, k, "one word for the bone's name", quote_text(" ".join(words)), _AGAIN)
    name = words[0]
    k, words = entries["length"]
    length = numbers(path, k, words, 1, f"the length of {name}")[0]
    if length < 0:
        raise wrong(path, k, f"a length of {name} of at least 0", words[0], _AGAIN)
    k, words = entries["direction"]
    direction = np.array(numbers(path, k, words, 3, f"the direction of {name}"))
    size = float(np.linalg.norm(direction))
    if length > 0 and abs(size - 1.0) > 0.01:
        got = f"one of length {size:.3g}"
        raise wrong(path, k, f"a direction of {name} of length 1", got, _AGAIN)
    k, words = entries["axis"]
    angles = numbers(path, k, words[:3], 3, f"the axis of {name}")
    frame = _turn(_axes(path, k, "".join(words[3:])), angles, degrees)
    channels: tuple[str, ...] = ()
    if "dof" in entries:
        channels = _freedoms(path, *entries["dof"], _TURNS)
    return Bone(name, start, direction * length / (size or 1.0), frame, channels)


def _freedoms(path, k: int, words: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
    channels = tuple(word.lower() for word in words)
    if not set(channels) <= set(known) or len(set(channels)) != len(channels):
        raise wrong(
            path, k, f"some of {' '.join(known)}, each once", quote_text(" ".join(words)), _AGAIN
        )
    return channels


def _axes(path, k: int, text: str) -> str:
    if sorted(text.upper()) != ["X", "Y", "Z"]:
        raise wrong(path, k, "an order of axes such as XYZ", quote_text(text), _AGAIN)
    return text.upper()


def _turn(order: str, angles: list[float], degrees: bool) -> np.ndarray:
    """Rotation (4,) about fixed axes, the first of the order first."""
    turned = np.radians(angles) if degrees else np.array(angles)
    return from_angles(order[::-1], turned[::-1])


def _hierarchy(path, lines: list[Line], bones: dict[str, Bone]) -> dict[str, str]:
    """Parent of each bone, by name."""
    above: dict[str, str] = {}
    for k, words in lines:
        if words[0].lower() in ("begin", "end") and len(words) == 1:
            continue
        for name in words:
            if name not in bones:
                near = get_close_matches(name, list(bones), 1, 0.6)
                remedy = f"write {near[0]!r}, or define it" if near else "define it in :bonedata"
                raise wrong(path, k, "bones that :bonedata defines", quote_text(name), remedy)
        for name in words[1:]:
            if name in above or name == ROOT:
                had = above.get(name, "no parent, as the root")
                raise wrong(
                    path,
                    k,
                    "one parent for each bone",
                    f"a second one for {quote_text(name)}, which has {had}",
                    _AGAIN,
                )
            above[name] = words[0]
    return above


def _from_root(path, bones: dict[str, Bone], above: dict[str, str]) -> list[str]:
    """Names of the bones, depth first from the root, in the order of the file."""
    below: dict[str, list[str]] = {name: [] for name in bones}
    for name, parent in above.items():
        below[parent].append(name)
    order, waiting = [], [ROOT]
    while waiting:
        name = waiting.pop()
        order.append(name)
        waiting.extend(reversed(below[name]))
    for name, bone in bones.items():
        if name not in order:
            raise wrong(
                path,
                bone.line,
                f"{quote_text(name)} below the root in :hierarchy",
                "it apart",
                "add it to the line of its parent",
            )
    return order
