"""Player: one HTML file that shows a motion offline, in any browser, with no other file.

`write_page` joins the files of the folder `player` (package data: `page.html`, `page.css` and the
scripts) and inserts the numbers of a `Motion`. Poses are stored as float32 positions and int16
quaternions in base64.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.viewer.colours import css_variables, page_colours, part_of
from jaxsim.viewer.series import (
    even_frames,
    finite_times,
    gauges_of,
    ghost_of,
    normal_force,
    phase_bands,
    side_of,
    strips_of,
)
from jaxsim.viewer.values import plain_text
from jaxsim.viewer.views import VIEWS_DEG

__all__ = ["read_page", "write_page"]

QUAT_SCALE = 32767  # int16 steps per unit
SCRIPTS = (  # of the folder `player`, in the order in which they are joined
    *("data", "state", "maths", "kinds", "poses", "follow", "canvas", "camera"),
    *("ground", "flat", "solids", "space", "marks", "scene"),
    *("ghost", "charts", "readouts", "gauges", "strips", "shares", "playing", "input", "start"),
)


def write_page(
    path: str | os.PathLike[str],
    motion: Motion,
    summary: Mapping[str, object] | None = None,
    fps: float = 60.0,
) -> None:
    """Write a motion as one self-contained HTML page, ``page_text``, replacing the file as a whole.

    Raises ValueError as ``page_text`` does, FileNotFoundError if the folder does not exist.
    """
    write_bytes(path, page_text(motion, summary, fps).encode("utf-8"))


def page_text(
    motion: Motion, summary: Mapping[str, object] | None = None, fps: float = 60.0
) -> str:
    """Text of a self-contained HTML page of a motion.

    motion: any number of frames, also 0 or 1. summary: name -> value, shown as a table below the
    player; a value that is a mapping becomes a group of rows. fps [1/s]: frames per simulated
    second in the page; the frames nearest to an even grid are taken, never more than the motion
    has. Phase bands and the peaks of the contact force come from all frames.

    The page opens at `#t=2.5` paused at 2.5 s, and at `#t=2.5&view=front` seen from the front.
    Raises ValueError if fps is not positive.
    """
    if not fps > 0:
        raise ValueError(f"fps must be positive, got {fps}")
    text = {
        "STYLE": css_variables() + _player_file("page.css"),
        "SCRIPT": _script(),
        "TITLE": html.escape(motion.title or "Motion"),
        "SUMMARY": _summary_rows(summary or {}),
        "DATA": script_json(_page_data(motion, fps)),
    }
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda match: text[match[1]], _player_file("page.html"))


def read_page(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the data inside a page that `write_page` wrote, with its arrays decoded to numpy.

    The keys that are arrays: time (n,) [s]; link_pos (n, nl, 3) [m]; link_quat (n, nl, 4);
    contact_start (n + 1,) and contact (m, 6): the active contacts of frame i are rows
    contact_start[i] to contact_start[i + 1], position [m] and force [N]; phase (n,); force (n,) and
    force_peak (n,) [N]: normal to the ground, at the frame and its peak until the next; com (n, 3)
    [m], no rows if not known; heights (n, number of heights) [m]; grip_pos and grip_force (n, ng,
    3) [m, N]; grip_closed (n, ng), 0 or 1. Only where the motion has them: gauge_values (n, number
    of gauges of numbers), in the units that the key gauges has; ghost_pos (n, nl, 3) [m] and
    ghost_quat (n, nl, 4), all 0 for links that the reference lacks; shares (n, number of terms of
    the objective), between 0 and 1, in the order of the key share_names. Raises ValueError if the
    file is not such a page.
    """
    page = Path(path).read_text("utf-8")
    match = re.search(r'<script type="application/json" id="motion">(.*?)</script>', page, re.S)
    if match is None:
        raise ValueError(f"{path} is not a page of a motion")
    data = json.loads(match[1])
    for name, array in data["arrays"].items():
        raw = np.frombuffer(base64.b64decode(array["data"]), dtype=np.dtype(array["type"]))
        data[name] = raw.reshape(array["shape"])
    for name in ("link_quat", "ghost_quat"):
        if name in data:
            data[name] = data[name] / QUAT_SCALE
    del data["arrays"]
    return data


def _player_file(name: str) -> str:
    return resources.files("jaxsim.viewer").joinpath("player", name).read_text("utf-8")


def _script() -> str:
    """Scripts of the player as one function, so that their names stay within it."""
    files = [_player_file(f"{name}.js") for name in SCRIPTS]
    return "\n".join(['"use strict";', "(() => {", *files, "})();"])


def _page_data(motion: Motion, fps: float) -> dict[str, object]:
    bad = motion.first_bad_frame()
    full = finite_times(motion)
    start, end = (full.time[0], full.time[-1]) if full.n_frames else (0.0, 0.0)
    targets = np.append(start + np.arange(round((end - start) * fps) + 1) / fps, end)
    index = even_frames(full.time, targets)
    shown = full.take(index)
    active = np.any(shown.contact_force != 0, axis=2)  # NaN counts as active, and is not drawn
    contact = np.concatenate([shown.contact_pos[active], shown.contact_force[active]], axis=1)
    force = normal_force(full)
    peaks = np.maximum.reduceat(force, index) if index.size else force
    heights = [*shown.heights.values()]
    arrays = {
        "time": _packed(shown.time - start, "<f4"),
        "link_pos": _packed(shown.link_pos, "<f4"),
        "link_quat": _packed(_quantised(shown.link_quat), "<i2"),
        "contact_start": _packed(np.append(0, np.cumsum(active.sum(axis=1))), "<i4"),
        "contact": _packed(contact, "<f4"),
        "phase": _packed(shown.phase, "<i2"),
        "force": _packed(force[index], "<f4"),
        "force_peak": _packed(peaks, "<f4"),
        "heights": _packed(np.stack(heights, 1) if heights else np.zeros((len(index), 0)), "<f4"),
        "com": _packed(np.zeros((0, 3)) if shown.com is None else shown.com, "<f4"),
        "grip_pos": _packed(shown.grip_pos, "<f4"),
        "grip_force": _packed(shown.grip_force, "<f4"),
        "grip_closed": _packed(shown.grip_closed, "|u1"),
        **_reference_arrays(shown),
    }
    return {
        "title": motion.title,
        "planar": motion.planar,
        "start": float(start),
        "notice": "" if bad is None else _notice(bad.frame, bad.time, bad.field),
        "links": [
            {"name": name, "role": role, "part": part_of(motion, link)}
            for link, (name, role) in enumerate(
                zip(motion.link_names, motion.link_roles, strict=True)
            )
        ],
        "grips": list(motion.grip_names),
        "phases": list(motion.phase_names),
        "bands": [(a - float(start), b - float(start), p) for a, b, p in phase_bands(full)],
        "events": [(t - float(start), p, why) for t, p, why in motion.phase_events],
        "height_names": list(motion.heights),
        "force_step": _force_step(contact[:, 3:]),
        "colours": page_colours(),
        "views": VIEWS_DEG,
        "shapes": [_shape_data(shape) for shape in motion.shapes],
        **_watched(full),
        "arrays": arrays,
    }


def _shape_data(shape: MotionShape) -> dict[str, object]:
    return {
        **vars(shape),
        "pos": _rounded(shape.pos),
        "size": _rounded(shape.size),
        "heights": [_rounded(row) for row in shape.heights],
    }


def _watched(motion: Motion) -> dict[str, object]:
    """Gauges of the motion for the page's script; keys without any are omitted.

    "gauges" of numbers, "strips" of flags, with the colour and the intervals [s] after the start,
    of all frames, and "share_names", the terms of the controller's objective.
    """
    gauges = [
        {"name": k, "unit": v.unit, "thresholds": v.thresholds, "scale": v.scale()}
        for k, v in gauges_of(motion).items()
    ]
    start = float(motion.time[0]) if motion.n_frames else 0.0
    strips = [
        {
            "name": name,
            "part": side_of(name)[0] or "middle",
            "spans": [(a - start, b - start) for a, b in spans],
        }
        for name, spans in strips_of(motion).items()
    ]
    watched = {"gauges": gauges, "strips": strips, "share_names": list(motion.shares)}
    return {k: v for k, v in watched.items() if v}


def _reference_arrays(shown: Motion) -> dict[str, object]:
    """Arrays that only some motions have: gauges, a ghost, shares of an objective."""
    arrays: dict[str, object] = {}
    values = [gauge.values for gauge in gauges_of(shown).values()]
    if values:
        arrays["gauge_values"] = _packed(np.stack(values, 1), "<f4")
    if shown.shares:
        arrays["shares"] = _packed(np.stack([*shown.shares.values()], 1), "<f4")
    ghost = ghost_of(shown)
    if ghost is not None:
        arrays["ghost_pos"] = _packed(ghost.link_pos, "<f4")
        arrays["ghost_quat"] = _packed(_quantised(ghost.link_quat), "<i2")
    return arrays


def _notice(frame: int, time: float, field: str) -> str:
    return f"Some values are not finite: first {field}, at frame {frame} ({time:.4g} s)."


def _force_step(forces: np.ndarray) -> float:
    """Force [N] that is drawn 0.5 m long: 1, 2 or 5 times a power of ten. forces: (n, 3)."""
    size = np.linalg.norm(forces, axis=1)
    size = size[np.isfinite(size) & (size > 0)]
    if size.size == 0:
        return 500.0
    typical = float(np.percentile(size, 95))
    power = 10.0 ** np.floor(np.log10(typical))
    return float(next(m for m in (1, 2, 5, 10) if m * power >= typical * 0.7) * power)


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(v, 6) for v in values]


def _quantised(quat: np.ndarray) -> np.ndarray:
    """int16 quaternions; 0 where not finite, which the player does not draw."""
    scaled = np.round(np.clip(quat, -1.0, 1.0) * QUAT_SCALE)
    return np.where(np.isfinite(quat).all(axis=-1, keepdims=True), scaled, 0)


def _packed(array: np.ndarray, kind: str) -> dict[str, object]:
    data = np.ascontiguousarray(array, dtype=np.dtype(kind))
    return {
        "type": kind,
        "shape": list(data.shape),
        "data": base64.b64encode(data.tobytes()).decode("ascii"),
    }


def script_json(data: object) -> str:
    """JSON that is valid inside a script element: no "<", and nothing that ends a line in JS."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _summary_rows(summary: Mapping[str, object]) -> str:
    rows = []
    for name, value in summary.items():
        head = html.escape(str(name))
        if isinstance(value, Mapping):
            rows.append(f'<tr class="group"><th colspan="2" scope="rowgroup">{head}</th></tr>')
            rows.append(_summary_rows(value))
        else:
            cell = html.escape(plain_text(value))
            rows.append(f'<tr><th scope="row">{head}</th><td>{cell}</td></tr>')
    return "\n".join(rows)
