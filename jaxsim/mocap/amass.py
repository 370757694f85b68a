"""AMASS files (.npz): rotations of the joints of the body models SMPL, SMPL-H and SMPL-X.

They state no lengths: those follow from the model's own data, which is not free, and the shape
``betas``. The tree of joints is that of the paper (Loper et al., "SMPL: a skinned multi-person
linear model", 2015); its bones have the lengths of an adult here (Winter, "Biomechanics and motor
control of human movement", 2009, figure 4.1), which is reported, and which retargeting scales.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from jaxsim.io.archive import LARGEST, ArchiveError, array_names, read_arrays
from jaxsim.math.rotation import quat_multiply
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError, wrong
from jaxsim.mocap.rotations import continuous

__all__ = ["is_amass", "read_amass"]

STATURE = 1.7  # [m]
# Joint, the joint above, and the offset from there relative to the stature: forward, left, up.
BODY = (
    ("pelvis", "", (0.0, 0.0, 0.53)),
    ("left_hip", "pelvis", (0.0, 0.05, 0.0)),
    ("right_hip", "pelvis", (0.0, -0.05, 0.0)),
    ("spine1", "pelvis", (0.0, 0.0, 0.07)),
    ("left_knee", "left_hip", (0.0, 0.0, -0.245)),
    ("right_knee", "right_hip", (0.0, 0.0, -0.245)),
    ("spine2", "spine1", (0.0, 0.0, 0.08)),
    ("left_ankle", "left_knee", (0.0, 0.0, -0.246)),
    ("right_ankle", "right_knee", (0.0, 0.0, -0.246)),
    ("spine3", "spine2", (0.0, 0.0, 0.03)),
    ("left_foot", "left_ankle", (0.07, 0.0, -0.03)),
    ("right_foot", "right_ankle", (0.07, 0.0, -0.03)),
    ("neck", "spine3", (0.0, 0.0, 0.13)),
    ("left_collar", "spine3", (0.0, 0.045, 0.07)),
    ("right_collar", "spine3", (0.0, -0.045, 0.07)),
    ("head", "neck", (0.0, 0.0, 0.05)),
    ("left_shoulder", "left_collar", (0.0, 0.06, 0.02)),
    ("right_shoulder", "right_collar", (0.0, -0.06, 0.02)),
    ("left_elbow", "left_shoulder", (0.0, 0.16, 0.0)),
    ("right_elbow", "right_shoulder", (0.0, -0.16, 0.0)),
    ("left_wrist", "left_elbow", (0.0, 0.146, 0.0)),
    ("right_wrist", "right_elbow", (0.0, -0.146, 0.0)),
)
ENDS = (
    ("head", (0.0, 0.0, 0.11)),
    ("left_foot", (0.05, 0.0, -0.009)),
    ("right_foot", (0.05, 0.0, -0.009)),
    ("left_wrist", (0.0, 0.1, 0.0)),
    ("right_wrist", (0.0, -0.1, 0.0)),
)
RATES = ("mocap_framerate", "mocap_frame_rate", "fps")
# In SMPL's zero pose x is left, y up and z ahead; a frame here has x ahead, y left and z up.
AXES = np.array([0.5, 0.5, 0.5, 0.5])  # turns a vector of SMPL's axes into ours
_READ = ("trans", "poses", "root_orient", "pose_body", *RATES)  # all else is left alone
_COPY = "restore the file from a copy, or give another kind of file"


def is_amass(path: str | os.PathLike[str]) -> bool:
    """Recognise an .npz file by the arrays of an AMASS motion."""
    try:
        names = set(array_names(path))
    except (ArchiveError, OSError):
        return False
    return "trans" in names and bool({"poses", "root_orient"} & names)


def read_amass(path: str | os.PathLike[str], rate: float | None = None) -> Clip:
    """Read an AMASS motion in metres, in the file's world axes (AMASS itself has z up).

    Fingers are left out. rate [Hz]: replaces the file's. Raises ClipError, with the remedy, for
    another kind of .npz and for numbers that make no motion.
    """
    try:
        arrays = read_arrays(path, dict.fromkeys(_READ, LARGEST))
    except FileNotFoundError:
        raise ClipError(f"{path}: there is no such file; give the path of an AMASS file") from None
    except ArchiveError as error:
        raise wrong(path, None, "an AMASS file (.npz)", f"one damaged ({error})", _COPY) from None
    poses, trans = _poses(path, arrays), _numbers(path, arrays, "trans")
    if trans.shape != (len(poses), 3) or len(poses) == 0:
        got = f"{trans.shape} and {len(poses)} poses"
        raise wrong(path, None, "trans (T, 3) for T poses, one at least", got, _COPY)
    if rate is None:
        notes = [_numbers(path, arrays, name).ravel() for name in RATES if name in arrays]
        rate = float(notes[0][0]) if notes and notes[0].size else 0.0
        if not 0.01 <= rate <= 1e5:
            remedy = "give the frames a second of the recording, rate= or --rate"
            raise wrong(path, None, f"{RATES[0]} above zero", f"{rate:g}", remedy)
    turns = quat_multiply(quat_multiply(AXES, _quaternions(poses)), AXES * [1, -1, -1, -1])
    turns[:, 0] = quat_multiply(_quaternions(poses[:, 0]), AXES * [1, -1, -1, -1])
    names = [name for name, _, _ in BODY]
    return Clip(
        name=Path(path).stem,
        joint_names=tuple(names),
        parents=tuple(names.index(above) if above else -1 for _, above, _ in BODY),
        offsets=STATURE * np.array([way for _, _, way in BODY]),
        orders=("",) * len(BODY),
        rotations=continuous(turns),
        root_pos=trans,
        rate=rate,
        end_parents=tuple(names.index(name) for name, _ in ENDS),
        end_offsets=STATURE * np.array([way for _, way in ENDS]),
        problems=(
            f"an AMASS file has no lengths of bones: those of a human of {STATURE} m are taken",
        ),
    )


def _poses(path: str | os.PathLike[str], held: dict[str, np.ndarray]) -> np.ndarray:
    """Rotation vectors (T, 22, 3) [rad] of the body's joints."""
    count = 3 * len(BODY)
    if "poses" in held:
        poses = _numbers(path, held, "poses")
    elif {"root_orient", "pose_body"} <= set(held):
        parts = [_numbers(path, held, name) for name in ("root_orient", "pose_body")]
        if any(part.ndim != 2 for part in parts) or len(parts[0]) != len(parts[1]):
            shapes = " and ".join(str(part.shape) for part in parts)
            raise wrong(path, None, "root_orient (T, 3) and pose_body (T, 63)", shapes, _COPY)
        poses = np.concatenate(parts, axis=1)
    else:
        remedy = "give the file of an AMASS motion; shape.npz beside it has none"
        got = f"an .npz of {', '.join(sorted(array_names(path))[:8]) or 'nothing'}"
        raise wrong(path, None, "poses and trans, as AMASS (SMPL, SMPL-H, SMPL-X) has", got, remedy)
    if poses.ndim != 2 or poses.shape[1] < count:
        got = f"the shape {poses.shape}"
        raise wrong(path, None, f"poses (T, {count}) or more, of SMPL's joints", got, _COPY)
    return poses[:, :count].reshape(-1, len(BODY), 3)


def _numbers(path: str | os.PathLike[str], held: dict[str, np.ndarray], name: str) -> np.ndarray:
    array = held.get(name)
    if array is None or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        got = "none" if array is None else "something else"
        raise wrong(path, None, f"finite numbers for {name}", got, _COPY)
    return array.astype(np.float64)


def _quaternions(vectors: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) of rotation vectors (..., 3) [rad]."""
    angle = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), vectors * np.sinc(angle / (2 * np.pi)) / 2], axis=-1)
