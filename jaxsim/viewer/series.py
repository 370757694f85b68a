"""What the page and the plots derive from a motion: phase bands, contact force, frames to show."""

from __future__ import annotations

import numpy as np

from jaxsim.io.motion import Motion, Shape

__all__ = ["even_frames", "normal_force", "phase_bands", "side_of", "timed", "world_poses"]


def timed(motion: Motion) -> Motion:
    """The motion without the frames whose time is not finite."""
    finite = np.isfinite(motion.time)
    return motion if finite.all() else motion.take(finite)


def even_frames(time: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(n,) distinct increasing frame numbers, n <= len(targets): the nearest frame to each target.

    time: (T,) [s] finite and not decreasing; targets: (m,) [s].
    """
    if time.size == 0:
        return np.zeros(0, dtype=int)
    after = np.clip(np.searchsorted(time, targets), 0, time.size - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(time[before] - targets) <= np.abs(time[after] - targets)
    return np.unique(np.where(nearer, before, after))


def phase_bands(motion: Motion) -> tuple[tuple[float, float, int], ...]:
    """Stretches of one phase: (start [s], end [s], index into phase_names or -1), in order.

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


def ground_normal(motion: Motion) -> np.ndarray:
    """(3,) the normal of the first plane that is fixed to the world; world z without one."""
    for shape in motion.shapes:
        if shape.kind == "plane" and shape.link == -1:
            return _rotate(np.array(shape.quat), np.array([0.0, 0.0, 1.0]))
    return np.array([0.0, 0.0, 1.0])


def normal_force(motion: Motion) -> np.ndarray:
    """(T,) [N]: the sum of the surroundings' contact forces along the normal of the ground."""
    return motion.contact_force[:, motion.contact_outer].sum(axis=1) @ ground_normal(motion)


def side_of(name: str) -> tuple[str, str]:
    """("left" | "right" | "", the rest of the name): "left_knee" -> ("left", "knee")."""
    for side in ("left", "right"):
        rest = name[len(side) :].lstrip("_-. /")
        if name.lower().startswith(side) and rest:
            return side, rest
    return "", name


def _rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """vector (..., 3) turned by quat (..., 4), w first."""
    w, u = quat[..., :1], quat[..., 1:]
    t = 2.0 * np.cross(u, vector)
    return vector + w * t + np.cross(u, t)


def world_poses(motion: Motion, shape: Shape, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Origin (3,) [m] and axes (3, 3), one axis per row, of a shape in the world at a frame."""
    pos, axes = np.array(shape.pos), _rotate(np.array(shape.quat), np.eye(3))
    if shape.link >= 0:
        quat = motion.link_quat[frame, shape.link]
        pos = motion.link_pos[frame, shape.link] + _rotate(quat, pos)
        axes = _rotate(quat, axes)
    return pos, axes
