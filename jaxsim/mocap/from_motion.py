"""Conversion of simulated motions to clips, for files that other programs play."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxsim.io.motion import Motion
from jaxsim.math.rotation import quat_conjugate, quat_multiply, quat_rotate
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.rotations import continuous

__all__ = ["clip_of_motion"]

STILL = 1e-4  # [m] by which the place of a link in its parent may vary, else it is moved
FILE_AXES = ("Z", "X", "Y")  # Y up, faces Z, as most files do


def clip_of_motion(
    motion: Motion, parents: Sequence[int] | None = None, rate: float | None = None
) -> Clip:
    """Convert a simulated motion to a clip, whose joints are the links.

    Each joint is at the link's origin, with the link's orientation in the world. parents: (nl,) of
    each link, -1 for none, as ``model.topology.link_parent``; by default a link hangs on the
    nearest one before it in which its position is constant. A link with no parent beside the first,
    and one that slides in its parent, has a position of its own in every frame. rate [Hz]: frames
    are taken at this rate, by default at the motion's mean rate; between two samples the nearer one
    counts.

    Raises ClipError for a motion without links or frames, or with values that are not finite.
    """
    if motion.n_frames == 0 or motion.n_links == 0:
        raise ClipError(f"{motion.title}: a motion without frames or links makes no clip")
    poses = (motion.time, motion.link_pos, motion.link_quat)
    if not all(np.isfinite(x).all() for x in poses):
        raise ClipError(f"{motion.title}: some poses are not finite; cut the motion before them")
    time = np.asarray(motion.time, np.float64)
    seconds = float(time[-1] - time[0])
    if rate is None:
        rate = (len(time) - 1) / seconds if seconds > 0 else 1.0
    frames = np.round(np.arange(int(seconds * rate + 1e-6) + 1) / rate + time[0], 12)
    index = np.abs(np.searchsorted((time[1:] + time[:-1]) / 2.0, frames))
    pos = np.asarray(motion.link_pos, np.float64)[index]
    quat = np.asarray(motion.link_quat, np.float64)[index]
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    above = _parents(motion, pos, quat, parents)
    places, rotations = pos.copy(), quat.copy()
    for link, parent in enumerate(above):
        if parent >= 0:
            back = quat_conjugate(quat[:, parent])
            places[:, link] = quat_rotate(back, pos[:, link] - pos[:, parent])
            rotations[:, link] = quat_multiply(back, quat[:, link])
    moved = tuple(k for k in range(1, len(above)) if np.ptp(places[:, k], axis=0).max() > STILL)
    sites = [(k, site) for k in range(len(above)) if (site := _end(motion, k, above)) is not None]
    offsets = places.mean(axis=0)
    offsets[0] = 0.0
    return Clip(
        name=motion.title or "motion",
        joint_names=_names(motion.link_names),
        parents=tuple(above),
        offsets=offsets,
        orders=("ZXY",) * len(above),
        rotations=continuous(rotations),
        root_pos=pos[:, 0],
        rate=float(rate),
        end_parents=tuple(k for k, _ in sites),
        end_offsets=np.array([site for _, site in sites]).reshape(-1, 3),
        moved=moved,
        moved_pos=places[:, list(moved)],
        axes=FILE_AXES,
    )


def _parents(
    motion: Motion, pos: np.ndarray, quat: np.ndarray, given: Sequence[int] | None
) -> list[int]:
    """Parents of the links, a tree with link 0 as its root."""
    count = motion.n_links
    if given is not None:
        if len(given) != count or not all(-1 <= p < k for k, p in enumerate(given)):
            raise ClipError(
                f"parents are {tuple(given)}; give one of {count} links for each, before it"
            )
        return [-1, *(max(p, 0) for p in given[1:])]
    above = [-1]
    for link in range(1, count):
        place = quat_rotate(quat_conjugate(quat[:, :link]), pos[:, link, None] - pos[:, :link])
        fixed = np.flatnonzero(np.ptp(place, axis=0).max(axis=-1) < STILL)
        far = np.linalg.norm(place[0], axis=-1)
        above.append(int(fixed[np.argmin(far[fixed])]) if fixed.size else 0)
    return above


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that are valid in a BVH file: without blanks and braces, and distinct."""
    plain: list[str] = []
    for k, name in enumerate(names):
        text = "_".join(name.replace("{", " ").replace("}", " ").split()) or f"link_{k}"
        plain.append(text if text not in plain else f"{text}_{k}")
    return tuple(plain)


def _end(motion: Motion, link: int, parents: Sequence[int]) -> np.ndarray | None:
    """End (3,) [m] of a link without children; None for others.

    It is as far beyond the middle of its shapes as that is from its origin.
    """
    if link in parents:
        return None
    centres = [shape.pos for shape in motion.shapes if shape.link == link]
    return 2.0 * np.mean(centres, axis=0) if centres else np.zeros(3)
