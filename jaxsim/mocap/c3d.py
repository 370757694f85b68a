"""C3D files: positions of markers over time, in metres with z up. Needs ezc3d, an extra.

Markers are not joints: without a model of where they sit on a body they are points only.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.motion import Motion, MotionShape
from jaxsim.mocap.errors import ClipError, wrong
from jaxsim.mocap.settle import UPS, axes_matrix, unit_size

__all__ = ["Markers", "markers_motion", "read_markers"]

EXTRA = "pip install 'jaxsim-characters[mocap]'"
_COPY = "restore the file from a copy, or export it again"


@dataclass(frozen=True, eq=False)
class Markers:
    """Positions of M markers over T frames."""

    name: str
    marker_names: tuple[str, ...]  # (M,) without the subject before a colon
    pos: np.ndarray  # (T, M, 3) [m]; where one is not seen its last place, of the first its first
    seen: np.ndarray  # (T, M) bool
    rate: float  # [Hz]
    unit: float  # [m] of the file
    up: str  # the file's axis that is up
    problems: tuple[str, ...]


def read_markers(
    path: str | os.PathLike[str],
    rate: float | None = None,
    unit: str | float | None = None,
    up: str | None = None,
) -> Markers:
    """Read the markers in a C3D file.

    rate [Hz], unit and up as in ``read_clip`` replace the file's. Raises ImportError, naming the
    extra, without ezc3d; ClipError with file, expectation and remedy for another kind of file or
    one without markers, rate or unit.
    """
    path = Path(path)
    if not path.is_file():
        raise ClipError(f"{path}: there is no such file; give the path of a C3D file")
    data = path.read_bytes()
    _check_size(path, data)
    try:
        import ezc3d
    except ImportError as error:
        raise ImportError(f"C3D files need ezc3d: {EXTRA}") from error
    try:
        content: Any = ezc3d.c3d(os.fspath(path))
        points = np.asarray(content["data"]["points"], dtype=np.float64)[:3]
        about = {
            key: value["value"]
            for key, value in content["parameters"]["POINT"].items()
            if key != "__METADATA__"
        }
    except Exception as error:  # ezc3d raises many kinds, OSError and RuntimeError among them
        raise wrong(
            path,
            None,
            "a sound C3D file",
            f"one that ezc3d refuses ({' '.join(str(error).split())})",
            _COPY,
        ) from None
    if points.size == 0:
        raise wrong(path, None, "markers", "none", "export the file with its trajectories")
    points, notes = _all_frames(data, points.transpose(2, 1, 0), content["parameters"])
    markers = _markers(path, points, about, rate, unit, up)
    return replace(markers, problems=(*markers.problems, *notes))


def _all_frames(data: bytes, points: np.ndarray, parameters: Any) -> tuple[np.ndarray, list[str]]:
    """Points (T, M, 3) with the frames that a header's 16 bits cannot count, and notes on them."""
    count, analog, first, last = struct.unpack_from("<4H", data, 2)
    scale, start = struct.unpack_from("<fH", data, 12)
    intel = data[512 * (data[0] - 1) + 3] == 84
    if not intel or last != 65535 or first > last or count != points.shape[1]:
        return points, []
    kind = np.dtype("<i2" if scale > 0 else "<f4")
    width = 4 * count + analog
    rows = np.frombuffer(data, kind, offset=512 * (start - 1))
    rows = rows[: len(rows) // width * width].reshape(-1, width)
    n_frames = _told_frames(parameters) or int(np.flatnonzero(rows.any(axis=1)).max(initial=-1)) + 1
    rows = rows[:n_frames, : 4 * count].reshape(-1, count, 4)
    if len(rows) <= len(points):
        return points, []
    lost = rows[..., 3:] < 0
    whole = np.where(lost, np.nan, rows[..., :3] * (float(scale) if scale > 0 else 1.0))
    note = f"it holds {len(whole)} frames, more than its header can count: all are read"
    return whole.astype(np.float64), [note]


def _told_frames(parameters: Any) -> int:
    """Number of frames by the parameters of a long file, 0 without them."""

    def values(group: str, name: str) -> list[float]:
        return [
            float(v) for v in np.ravel(parameters.get(group, {}).get(name, {}).get("value", []))
        ]

    ends = [values("TRIAL", f"ACTUAL_{end}_FIELD") for end in ("START", "END")]
    if all(len(words) == 2 for words in ends):
        low, high = ((int(a) & 0xFFFF) + 65536 * (int(b) & 0xFFFF) for a, b in ends)
        return max(high - low + 1, 0)
    long = values("POINT", "LONG_FRAMES")
    return int(long[0]) if long and np.isfinite(long[0]) else 0


def _check_size(path: Path, data: bytes) -> None:
    """Raise ClipError for another kind of file, and for a truncated one (ezc3d may hang there)."""
    if data[1:2] != b"\x50":
        raise wrong(path, None, "a C3D file, whose second byte is 0x50", "something else", _COPY)
    parameters = 512 * (data[0] - 1)
    head = data[parameters : parameters + 4]
    if len(data) < 512 or parameters < 512 or len(head) < 4:
        raise wrong(path, None, "a header and parameters", f"{len(data)} bytes", _COPY)
    least = parameters + 512 * head[2]
    if head[3] in (84, 85):  # not big-endian
        points, analog, first, last = struct.unpack_from("<4H", data, 2)
        scale, start = struct.unpack_from("<fH", data, 12)
        size = 2 if scale > 0 else 4
        frames = max(last - first + 1, 0) if last < 65535 else 0  # more are stated elsewhere
        if head[3] == 84:
            least = max(least, 512 * (start - 1) + frames * size * (4 * points + analog))
    if len(data) < least:
        raise wrong(path, None, f"{least} bytes, as its header says", f"{len(data)}", _COPY)


def _markers(path: Path, points: np.ndarray, about: dict[str, Any], rate, unit, up) -> Markers:
    problems: list[str] = []
    file_rate = float(about["RATE"][0]) if len(about.get("RATE", ())) else 0.0
    rate = file_rate if rate is None else rate
    if not (np.isfinite(rate) and 0.01 <= rate <= 1e5):
        remedy = "give the frames a second of the recording, rate= or --rate"
        raise wrong(path, None, "frames a second above zero, POINT:RATE", f"{rate:g}", remedy)
    if unit is None:
        unit = next(iter(about.get("UNITS", ())), "").strip().lower()
        if not unit:
            raise wrong(path, None, "a unit, POINT:UNITS", "none", "give it, unit= or --unit")
    if up is None:
        up = next(iter(about.get("Y_SCREEN", ())), "").strip().upper().replace("+", "")
        if up not in UPS:
            problems.append(
                "the file does not tell which axis is up: taken as Z; up= or --up gives it"
            )
            up = "Z"
    if up not in UPS:
        raise ClipError(f"up is {up!r}; give one of {', '.join(UPS)}")
    size = unit_size(unit)
    side = "X" if up[-1] != "X" else "Y"
    forward = np.cross(*axes_matrix((side, side, up))[1:])
    k = int(np.argmax(np.abs(forward)))
    axis = ("-" if forward[k] < 0 else "") + "XYZ"[k]
    points = points @ axes_matrix((axis, side, up)).T * size
    seen = np.isfinite(points).all(axis=-1) & (points != 0.0).any(axis=-1)
    names = [str(name).rpartition(":")[2] for name in about.get("LABELS", ())]
    names += [f"marker {k + 1}" for k in range(len(names), points.shape[1])]
    never = [name for name, some in zip(names, seen.any(axis=0)) if not some]
    if never:
        problems.append(f"never seen: {', '.join(never[:8])}")
    gone = 100.0 * (1.0 - float(seen.mean()))
    if gone:
        problems.append(f"{gone:.1f}% of the places are lacking: the last one seen stands there")
    return Markers(
        name=path.stem,
        marker_names=tuple(names[: points.shape[1]]),
        pos=_filled(np.where(seen[..., None], points, 0.0), seen),
        seen=seen,
        rate=float(rate),
        unit=size,
        up=up,
        problems=tuple(problems),
    )


def _filled(pos: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Positions (T, M, 3) with gaps filled by the last seen one, before the first by that one."""
    rows = np.where(seen, np.arange(len(seen))[:, None], -1)
    last = np.maximum.accumulate(rows, axis=0)
    first = np.argmax(seen, axis=0)
    index = np.where(last >= 0, last, first)
    return np.take_along_axis(pos, index[..., None], axis=0)


def markers_motion(markers: Markers, radius: float = 0.012) -> Motion:
    """Motion of markers for the viewer: a sphere each, and the ground. radius [m]."""
    frames, count = markers.pos.shape[:2]
    upright = np.zeros((frames, count, 4))
    upright[..., 0] = 1.0
    none = np.zeros((frames, 0))
    spheres = tuple(MotionShape("sphere", k, size=(radius,)) for k in range(count))
    return Motion(
        title=markers.name,
        link_names=markers.marker_names,
        joint_names=(),
        phase_names=(),
        shapes=(MotionShape("plane", -1), *spheres),
        time=np.arange(frames) / markers.rate,
        q=none,
        qd=none,
        link_pos=markers.pos,
        link_quat=upright,
        contact_pos=np.zeros((frames, 0, 3)),
        contact_force=np.zeros((frames, 0, 3)),
        phase=np.full(frames, -1),
        torque=none,
        torque_limit=np.zeros(0),
        heights={},
    )
