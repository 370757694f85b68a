"""What differs between the versions of MuJoCo that the tests run beside."""

from importlib.metadata import version
from typing import Any

import numpy as np


def mujoco_version() -> tuple[int, ...]:
    """Major and minor."""
    return tuple(map(int, version("mujoco").split(".")[:2]))


def mujoco_mass_matrix(mj: Any, data: Any) -> np.ndarray:
    """(nv, nv) of the data's position."""
    import mujoco

    full = np.zeros((mj.nv, mj.nv))
    if mujoco_version() < (4, 0):
        mujoco.mj_fullM(mj, full, data.qM)
    else:
        mujoco.mj_fullM(mj, data, full)
    return full
