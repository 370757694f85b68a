"""Synthetic motions: a walk, in place and forward, a kick, a reach; each is a cycle of a plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxsim.mocap.plan import SIDES, TOE, MotionPlan

__all__ = ["kick", "reach", "walk"]

RATE = 60.0  # [Hz]
HIP = 0.0875  # half of the way between the ankles in standing [m]
FORWARD = 0.04  # of the pressure before the ankle, in standing [m]
HEIGHT = 0.98  # of the hips, in lengths of the leg


def interpolate_keys(time: np.ndarray, keys: list[tuple[float, float]]) -> np.ndarray:
    """Values (T,) at times (T,) [s] by keys (time, value).

    At rest in each key, with the least jerk from one to the next.
    """
    at, values = (np.array(x, float) for x in zip(*keys))
    k = np.clip(np.searchsorted(at, time, side="right") - 1, 0, len(at) - 2)
    u = np.clip((time - at[k]) / (at[k + 1] - at[k]), 0.0, 1.0)
    return values[k] + (values[k + 1] - values[k]) * u**3 * (10 - 15 * u + 6 * u**2)


def walk(
    speed: float = 0.0,
    step: float = 0.6,
    both: float = 0.3,
    lift: float = 0.1,
    height: float = HEIGHT,
    name: str = "walk",
) -> MotionPlan:
    """Plan of two steps at a speed [m/s]; 0 walks in place.

    step: duration of one [s]; both: share of it with both feet on the ground; lift: of the ankle
    [m]; height: of the hips, in lengths of the leg.
    """
    time = np.arange(round(2 * step * RATE) + 1) / RATE
    stride, pause, single = 2 * step * speed, both * step / 2, (1 - both) * step
    begins = np.array([step + pause, pause])  # of the swings, left and right
    ankle, pitch = np.zeros((len(time), 2, 3)), np.zeros((len(time), 2))
    for k, begin in enumerate(begins):
        there = (0.25, -0.25)[k] * stride
        ankle[:, k, 0] = interpolate_keys(time, [(begin, there), (begin + single, there + stride)])
        ankle[:, k, 1] = (HIP, -HIP)[k]
        ankle[:, k, 2] = interpolate_keys(
            time, [(begin, 0.0), (begin + single / 2, lift), (begin + single, 0.0)]
        )
        for cycle in (-2 * step, 0.0, 2 * step):
            off = begin + cycle
            pitch[:, k] += interpolate_keys(
                time, [(off - both * step, 0), (off, 1), (off + single / 2, 0)]
            )
    pressure = _walked(time, ankle, step, pause)
    pitch *= 0.4 * min(speed, 1.0)
    ankle[..., 2] += TOE * np.sin(pitch)  # the foot turns about its toes
    ankle[..., 0] += TOE * (1 - np.cos(pitch))
    turn = np.sin(2 * np.pi * (time - step / 2) / (2 * step))  # largest as the right foot is ahead
    swing = 0.15 + 0.25 * min(speed, 1.0)
    arms = np.stack([-turn, turn], axis=1)
    arms = 0.0 * arms if speed == 0 else arms
    return _plan(
        name,
        time,
        pressure,
        ankle,
        pitch=pitch,
        height=height,
        pelvis_yaw=0.12 * min(speed, 1.0) * turn,
        forward=0.05 - swing * arms,
        elbow=0.35 - 0.15 * arms,
        lean=0.03 + 0.05 * speed,
    )


def _walked(time: np.ndarray, ankle: np.ndarray, step: float, pause: float) -> np.ndarray:
    """Centre of pressure (T, 2) [m] of a walk.

    It is under the stance foot, and moves to the other one while both are; ``pause`` [s] is half of
    that time.
    """
    right = interpolate_keys(
        time,
        [
            (-pause, 1.0), (pause, 0.0), (step - pause, 0.0), (step + pause, 1.0),
            (2 * step - pause, 1.0), (2 * step + pause, 0.0),
        ],
    )  # fmt: skip
    share = np.stack([1 - right, right], axis=1)
    return (share[..., None] * ankle[..., :2]).sum(axis=1) + np.array([FORWARD, 0.0])


def kick(name: str = "kick") -> MotionPlan:
    """Plan of a kick forward with the right foot, on the left one."""
    time = np.arange(round(4.0 * RATE) + 1) / RATE
    ankle = _standing(time)
    ankle[:, 1, 0] = interpolate_keys(
        time, [(1.1, 0), (1.6, -0.12), (2.0, 0.52), (2.3, 0.45), (3.0, 0)]
    )
    ankle[:, 1, 2] = interpolate_keys(
        time, [(1.0, 0), (1.6, 0.2), (2.0, 0.4), (2.3, 0.35), (3.0, 0)]
    )
    pitch = np.zeros((len(time), 2))
    pitch[:, 1] = interpolate_keys(time, [(1.1, 0), (1.6, 0.5), (2.0, -0.7), (2.4, -0.5), (2.9, 0)])
    side = interpolate_keys(time, [(0.2, 0), (1.0, 0.97), (3.0, 0.97), (3.8, 0)])
    pressure = np.stack([np.full(len(time), FORWARD), HIP * side], axis=1)
    swing = interpolate_keys(time, [(1.0, 0), (1.6, -0.3), (2.0, 0.6), (2.9, 0)])
    return _plan(
        name,
        time,
        pressure,
        ankle,
        pitch=pitch,
        out=0.1 + 0.25 * side,
        forward=np.stack([0.05 + swing, 0.05 - swing], axis=1),
        elbow=0.4,
        lean=0.05,
        height=0.97,
    )


def reach(name: str = "reach") -> MotionPlan:
    """Plan of both hands reaching forward and down, and of a wave with the left one."""
    time = np.arange(round(5.0 * RATE) + 1) / RATE
    down = interpolate_keys(time, [(0.3, 0), (1.2, 1), (1.6, 1), (2.5, 0)])
    up = interpolate_keys(time, [(2.4, 0), (3.1, 1), (4.2, 1), (4.8, 0)])
    waves = up * np.sin(2 * np.pi * 1.5 * (time - 3.0))
    bent = np.stack([0.3 + 1.4 * up + 0.35 * waves, 0.3 + 0 * up], axis=1)
    return _plan(
        name,
        time,
        np.stack([np.full(len(time), FORWARD), 0 * time], axis=1),
        _standing(time),
        out=np.stack([0.1 + 1.0 * up, 0.1 + 0 * up], axis=1),
        forward=np.stack([0.05 + 1.1 * down + 0.5 * up, 0.05 + 1.1 * down], axis=1),
        elbow=bent - 0.2 * down[:, None],
        lean=0.03 + 0.5 * down,
        height=HEIGHT - 0.1 * down,
    )


def _standing(time: np.ndarray) -> np.ndarray:
    """Ankle positions (T, 2, 3) of both feet standing."""
    return np.broadcast_to([[0.0, HIP, 0.0], [0.0, -HIP, 0.0]], (len(time), 2, 3)).copy()


def _plan(
    name: str,
    time: np.ndarray,
    pressure: np.ndarray,
    ankle: np.ndarray,
    *,
    height: ArrayLike,
    forward: ArrayLike,
    elbow: ArrayLike,
    lean: ArrayLike,
    out: ArrayLike = 0.1,
    pelvis_yaw: ArrayLike = 0.0,
    pitch: ArrayLike = 0.0,
) -> MotionPlan:
    """Plan from arrays, with numbers for constants."""
    frames, sides = len(time), len(SIDES)

    def full(x, *shape):
        x = np.asarray(x, float)
        x = x[:, None] if x.ndim == 1 and len(shape) == 2 else x
        return np.broadcast_to(x, shape).copy()

    both = [full(x, frames, sides) for x in (out, forward)]
    return MotionPlan(
        name=name,
        rate=RATE,
        pressure=pressure,
        ankle=ankle,
        foot_pitch=full(pitch, frames, sides),
        height=full(height, frames),
        pelvis_yaw=full(pelvis_yaw, frames),
        lean=full(lean, frames),
        shoulder=np.stack(both, axis=-1),
        elbow=full(elbow, frames, sides),
    )
