"""Stance labels in a small TOML file that can be edited: for each foot, stretches of frames."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.io.toml_table import Table, WorldError, read_toml
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.stance import SIDES, Stance, runs

__all__ = ["read_stance", "write_stance"]

KINDS = ("stands", "slides")
_HEAD = (
    "# Which foot stands, and which slides: stretches of frames, first and last of each counted,\n"
    "# from 0. Edit them, and give this file to what uses the clip.\n"
)


def write_stance(path: str | os.PathLike[str], clip: Clip, stance: Stance) -> None:
    """Write the labels of a clip, atomically. Raises OSError if the file cannot be written."""
    lines = [
        f"clip = {json.dumps(clip.name)}",
        f"frames = {len(stance.stands)}",
        f"rate = {stance.rate!r}",
    ]
    for kind in KINDS:
        for k, side in enumerate(SIDES):
            spans = runs(getattr(stance, kind)[:, k])
            rows = "".join(f"  [{start}, {end - 1}],\n" for start, end in spans)
            lines.append(f"{side}_{kind} = [\n{rows}]")
    write_bytes(path, (_HEAD + "\n".join(lines) + "\n").encode("utf-8"))


def read_stance(path: str | os.PathLike[str], clip: Clip) -> Stance:
    """Read the labels of a clip from a file that ``write_stance`` wrote, edited or not.

    Raises ClipError, with file, key and remedy, for another kind of file, one that belongs to a
    clip of another length or rate, or has stretches that are not in order.
    """
    path = Path(path)
    if not path.is_file():
        raise ClipError(f"{path}: there is no such file of stance labels")
    try:
        return _stance(read_toml(path), clip)
    except WorldError as error:
        raise ClipError(str(error)) from error


def _stance(table: Table, clip: Clip) -> Stance:
    table.text("clip", clip.name)
    frames, rate = table.whole("frames", least=1), table.number("rate", above=0.0)
    if frames != clip.n_frames:
        raise table.error(f"is {frames}, but the clip has {clip.n_frames}; label it anew", "frames")
    if abs(rate - clip.rate) > 1e-3 * clip.rate:
        raise table.error(f"is {rate:g}, but the clip's is {clip.rate:g}; label it anew", "rate")
    labels = {kind: np.zeros((frames, 2), dtype=bool) for kind in KINDS}
    for kind in KINDS:
        for k, side in enumerate(SIDES):
            key = f"{side}_{kind}"
            for first, last in _spans(table, key, frames):
                labels[kind][first : last + 1, k] = True
    table.done()
    return Stance(labels["stands"], labels["slides"], clip.rate)


def _spans(table: Table, key: str, frames: int) -> list[list[int]]:
    spans, before = table.take(key), -1
    for span in spans if isinstance(spans, list) else [spans]:
        pair: list[int] = span if isinstance(span, list) else []
        whole = len(pair) == 2 and all(type(k) is int for k in pair)
        if not (whole and before < pair[0] <= pair[1] < frames):
            raise table.error(
                f"has {span!r}; give stretches [first, last] of frames from 0 to {frames - 1}, in"
                " order and apart",
                key,
            )
        before = pair[1]
    return spans
