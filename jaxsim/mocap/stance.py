"""Stance labels of the feet by frame, from height and speed of the ankles.

A foot is in stance from where its ankle is under ``height`` above its height in standing, and
slower than ``speed``, until it exceeds either by ``release``; gaps and islands shorter than
``least`` are filled and dropped. Where neither foot is in stance, a toe that is low and slow keeps
its foot in stance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import end_positions, poses_of
from jaxsim.mocap.schemes import NamingScheme

__all__ = ["Stance", "StanceRule", "label_stance"]

SIDES = ("left", "right")
REACH = 0.033  # [s] before and after, over which speeds are taken
SLOW = 0.2  # [m/s] of the frames in which the height in standing is looked for


@dataclass(frozen=True)
class StanceRule:
    """Thresholds of stance; the defaults are measured on walks, kicks, dances and falls."""

    height: float = 0.05  # [m] of the ankle over its height in standing
    speed: float = 0.5  # [m/s] of the ankle
    release: float = 1.5  # times both, at which a foot that stands stops to
    least: float = 0.1  # [s] of a stance, and of a pause between two
    toe_height: float = 0.03  # [m] of a toe over its height in standing
    slide: float = 0.35  # [m/s] level, of an ankle that slides, it and its toe low

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            low = 1.0 if name == "release" else 0.0
            if not (np.isfinite(value) and value >= low):
                raise ClipError(f"stance: {name} is {value}; give a number of at least {low:g}")


@dataclass(frozen=True, eq=False)
class Stance:
    """Stance labels of T frames, left and right."""

    stands: np.ndarray  # (T, 2) bool
    slides: np.ndarray  # (T, 2) bool: flat on the ground, yet faster than the rule's ``slide``
    rate: float  # [Hz]

    def repeated(self, times: int) -> Stance:
        """Labels of ``Clip.repeated``."""
        n = len(self.stands) - 1
        frames = np.append(np.tile(np.arange(n), times), n)
        return Stance(self.stands[frames], self.slides[frames], self.rate)

    def shares(self) -> dict[str, float]:
        """Share of the frames with each support: "left", "right", "both", "none"."""
        left, right = self.stands.T
        parts = {"left": left & ~right, "right": right & ~left, "both": left & right}
        return {k: float(v.mean()) for k, v in {**parts, "none": ~(left | right)}.items()}

    def switches(self) -> int:
        """Number of changes of the support."""
        return int(np.any(self.stands[1:] != self.stands[:-1], axis=1).sum())


def label_stance(clip: Clip, scheme: NamingScheme, rule: StanceRule | None = None) -> Stance:
    """Stance labels of both feet in a clip.

    Raises ClipError, naming the missing roles, where the scheme lacks a foot.
    """
    rule = rule or StanceRule()
    lacking = [role for role in ("leftFoot", "rightFoot") if role not in scheme.joints]
    if lacking:
        raise ClipError(
            f"{clip.name} has no {' and no '.join(lacking)}; choose one with two"
            " feet, or name them in a joint map"
        )
    pos, quat = poses_of(clip)
    ankles = np.stack([pos[:, clip.joint(scheme.joints[f"{s}Foot"])] for s in SIDES], axis=1)
    over, fast = _over_standing(ankles, clip.rate), _speed(ankles, clip.rate)
    stands = np.stack(
        [
            _held(
                (over[:, k] < rule.height) & (fast[:, k] < rule.speed),
                (over[:, k] > rule.release * rule.height)
                | (fast[:, k] > rule.release * rule.speed),
            )
            for k in range(2)
        ],
        axis=1,
    )
    frames = round(rule.least * clip.rate)
    stands = _tidied(stands, frames)
    toes = _toes(clip, scheme, pos, end_positions(clip, pos, quat))
    flat = over < rule.height
    if toes is not None:
        low = _over_standing(toes, clip.rate) < rule.toe_height
        flat &= low
        alone = low & (_speed(toes, clip.rate) < rule.speed) & ~stands.any(axis=1, keepdims=True)
        stands = _tidied(stands | alone, frames)
    level = _speed(ankles * np.array([1.0, 1.0, 0.0]), clip.rate)
    return Stance(stands, _tidied(flat & (level > rule.slide), frames), clip.rate)


def _toes(clip: Clip, scheme: NamingScheme, pos: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """Positions (T, 2, 3) [m] of toe joints, or of the ends of feet; None without either."""
    points = []
    for side in SIDES:
        if f"{side}Toe" in scheme.joints:
            points.append(pos[:, clip.joint(scheme.joints[f"{side}Toe"])])
            continue
        foot = clip.joint(scheme.joints[f"{side}Foot"])
        sites = [k for k, parent in enumerate(clip.end_parents) if parent == foot]
        if not sites:
            return None
        points.append(ends[:, sites[0]])
    return np.stack(points, axis=1)


def _speed(points: np.ndarray, rate: float) -> np.ndarray:
    """Speeds (T, n) [m/s] of points (T, n, 3), over REACH to both sides, and at least a frame."""
    reach, last = max(1, round(REACH * rate)), len(points) - 1
    if last == 0:
        return np.zeros(points.shape[:2])
    k = np.arange(last + 1)
    before, after = np.maximum(k - reach, 0), np.minimum(k + reach, last)
    way = np.linalg.norm(points[after] - points[before], axis=-1)
    return way * rate / (after - before)[:, None]


def _over_standing(points: np.ndarray, rate: float) -> np.ndarray:
    """Heights (T, n) [m] of points (T, n, 3) over their own heights in standing.

    The height in standing is the median of the frames in which a point is slow and low; the lowest
    height where it is never slow.
    """
    z, slow = points[..., 2], _speed(points, rate) < SLOW
    over = np.empty_like(z)
    for k in range(z.shape[1]):
        heights = z[slow[:, k], k] if slow[:, k].any() else z[:, k].min(keepdims=True)
        low = heights[heights <= np.percentile(heights, 10) + 0.05]
        over[:, k] = z[:, k] - np.median(low)
    return over


def _held(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """State (T,) bool with hysteresis: on from where ``begins`` until ``ends``."""
    event = np.where(ends, -1, np.where(begins, 1, 0))
    last = np.maximum.accumulate(np.where(event != 0, np.arange(len(event)), -1))
    return (last >= 0) & (event[np.maximum(last, 0)] == 1)


def _tidied(labels: np.ndarray, frames: int) -> np.ndarray:
    """Labels (T, n) bool with gaps filled, then islands dropped, shorter than ``frames``.

    Runs at the start or the end of the clip may continue beyond it, and are unchanged.
    """
    result = labels.copy()
    for value in (False, True):
        for k in range(result.shape[1]):
            for start, end in runs(result[:, k] == value):
                if end - start < frames and start > 0 and end < len(result):
                    result[start:end, k] = not value
    return result


def runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Runs of a (T,) mask: first frame and the one after the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]
