"""Series and selections of a motion for page and pictures: phases, forces, frames, positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import Motion, MotionShape

__all__ = [
    "even_frames",
    "finite_times",
    "followed_links",
    "followed_point",
    "gauges_of",
    "ghost_of",
    "normal_force",
    "phase_bands",
    "side_of",
    "strips_of",
    "tracks",
    "world_poses",
]


def finite_times(motion: Motion) -> Motion:
    """Motion without the frames whose time is not finite."""
    finite = np.isfinite(motion.time)
    return motion if finite.all() else motion.take(finite)


def even_frames(time: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Frame numbers (n,), distinct and increasing: the nearest frame to each target.

    n <= len(targets). time: (T,) [s] finite and not decreasing; targets: (m,) [s].
    """
    if time.size == 0:
        return np.zeros(0, dtype=int)
    after = np.clip(np.searchsorted(time, targets), 0, time.size - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(time[before] - targets) <= np.abs(time[after] - targets)
    return np.unique(np.where(nearer, before, after))


def ghost_of(motion: Motion) -> Motion | None:
    """Motion of the reference's links; None without a reference."""
    if motion.ghost_pos is None or motion.ghost_quat is None:
        return None
    return replace(motion, link_pos=motion.ghost_pos, link_quat=motion.ghost_quat)


def phase_bands(motion: Motion) -> tuple[tuple[float, float, int], ...]:
    """Intervals of one phase: (start [s], end [s], index into phase_names or -1), in order.

    A band ends where the next one starts; the last ends at the last sample.
    """
    if motion.n_frames == 0:
        return ()
    starts = np.flatnonzero(np.diff(motion.phase, prepend=motion.phase[0] - 1))
    ends = np.append(motion.time[starts[1:]], motion.time[-1])
    return tuple(
        (float(motion.time[s]), float(e), int(motion.phase[s]))
        for s, e in zip(starts, ends, strict=True)
    )


def gauges_of(motion: Motion) -> dict[str, Gauge]:
    """Gauges of numbers, by name."""
    return {name: gauge for name, gauge in motion.gauges.items() if not gauge.is_strip}


def strips_of(motion: Motion) -> dict[str, tuple[tuple[float, float], ...]]:
    """Intervals (start [s], end [s]) in which a flag is true, in order, by name of the gauge.

    An interval ends at the first sample that is false, else at the last one.
    """
    intervals = {}
    for name, gauge in motion.gauges.items():
        if gauge.is_strip:
            change = np.flatnonzero(np.diff(gauge.values, prepend=False, append=False))
            ends = np.minimum(change, motion.n_frames - 1)
            intervals[name] = tuple(
                (float(a), float(b)) for a, b in motion.time[ends].reshape(-1, 2)
            )
    return intervals


def ground_normal(motion: Motion) -> np.ndarray:
    """Normal (3,) of the first plane that is fixed to the world; world z without one."""
    for shape in motion.shapes:
        if shape.record.endless and shape.link == -1:
            return _rotate(np.array(shape.quat), np.array([0.0, 0.0, 1.0]))
    return np.array([0.0, 0.0, 1.0])


def normal_force(motion: Motion) -> np.ndarray:
    """Sum (T,) [N] of the surroundings' contact forces along the normal of the ground."""
    return motion.contact_force[:, motion.contact_outer].sum(axis=1) @ ground_normal(motion)


def side_of(name: str) -> tuple[str, str]:
    """Side ("left", "right" or "") and rest of a name: "left_knee" -> ("left", "knee")."""
    for side in ("left", "right"):
        rest = name[len(side) :].lstrip("_-. /")
        if name.lower().startswith(side) and rest:
            return side, rest
    return "", name


def _rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vector (..., 3) rotated by quat (..., 4), w first."""
    w, u = quat[..., :1], quat[..., 1:]
    t = 2.0 * np.cross(u, vector)
    return vector + w * t + np.cross(u, t)


def world_poses(motion: Motion, shape: MotionShape, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Origin (3,) [m] and axes (3, 3), one axis per row, of a shape in the world at a frame."""
    pos, axes = np.array(shape.pos), _rotate(np.array(shape.quat), np.eye(3))
    if shape.link >= 0:
        quat = motion.link_quat[frame, shape.link]
        pos = motion.link_pos[frame, shape.link] + _rotate(quat, pos)
        axes = _rotate(quat, axes)
    return pos, axes


def followed_links(motion: Motion) -> np.ndarray:
    """Mask (nl,) of the links of the character, or of all where there is none."""
    character = np.array([role == "character" for role in motion.link_roles], dtype=bool)
    return character if character.any() else np.ones(motion.n_links, dtype=bool)


def followed_point(motion: Motion) -> np.ndarray:
    """Mean (T, 3) [m] of the finite origins of `followed_links`; NaN without any."""
    pos = motion.link_pos[:, followed_links(motion)]
    known = np.isfinite(pos).all(axis=-1, keepdims=True)
    count = known.sum(axis=1)
    total = np.where(known, pos, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def tracks(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Positions (T, n, 3) [m] of n moving points, and the links (n,) that they belong to.

    The points are the centres of shapes, and the origins of links without shapes.
    """
    shapes = [shape for shape in motion.shapes if shape.link >= 0]
    bare = sorted(set(range(motion.n_links)) - {shape.link for shape in shapes})
    links = np.array([shape.link for shape in shapes] + bare, dtype=int)
    inside = np.array([shape.pos for shape in shapes] + [(0.0, 0.0, 0.0)] * len(bare))
    turned = _rotate(motion.link_quat[:, links], inside.reshape(-1, 3))
    return motion.link_pos[:, links] + turned, links
