"""Removal of the physics that a MuJoCo model switches off, so that all that is left acts."""

import copy
from typing import Any

import numpy as np

from jaxsim.io.mujoco_report import Report

# Flags of MuJoCo's options -> the fields that mean nothing where they are off.
FLAGS = {
    "LIMIT": ("jnt_limited", "tendon_limited"),
    "EQUALITY": ("eq_active0",),
    "FRICTIONLOSS": ("dof_frictionloss", "tendon_frictionloss"),
    "SPRING": ("jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly"),
    "DAMPER": ("dof_damping", "dof_dampingpoly", "tendon_damping", "tendon_dampingpoly"),
    "CONTACT": (),
    "ACTUATION": (),
}
# Flags that switch off several others; PASSIVE is that of MuJoCo before SPRING and DAMPER.
SEVERAL = {
    "CONSTRAINT": ("LIMIT", "EQUALITY", "FRICTIONLOSS", "CONTACT"),
    "PASSIVE": ("SPRING", "DAMPER"),
}
PASSIVE = ("body_gravcomp",)  # without springs and dampers MuJoCo leaves all passive forces out
# Fields of a tendon by which it acts; MuJoCo's versions have different ones.
ACTING = ("stiffness", "stiffnesspoly", "damping", "dampingpoly", "frictionloss", "limited")
ACTING += ("armature", "actfrclimited")
HEADING = "physics that the file switches off by flags"


def remove_disabled(mujoco: Any, mj: Any, report: Report) -> Any:
    """Model without the physics that its flags switch off; a copy if there is any."""
    flags = {flag for flag in (*FLAGS, *SEVERAL) if _is_off(mujoco, mj, flag)}
    off = flags | {one for flag in flags for one in SEVERAL.get(flag, ())}
    if off:
        mj = copy.copy(mj)
    for flag in off:
        for field in FLAGS.get(flag, ()):
            if hasattr(mj, field):
                getattr(mj, field)[:] = 0
    if {"SPRING", "DAMPER"} <= off:
        for field in PASSIVE:
            getattr(mj, field)[:] = 0
        mj.opt.density = mj.opt.viscosity = 0.0
    if "CONTACT" in off:
        mj.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    for flag in sorted(flags):
        report.note(HEADING, flag.lower())
    return mj


def actuator_is_off(mujoco: Any, mj: Any, i: int) -> bool:
    """True if an actuator gives no force: by a flag, or by the switch of its group."""
    group = int(mj.actuator_group[i])
    by_group = 0 <= group < 31 and bool(int(mj.opt.disableactuator) >> group & 1)
    return by_group or _is_off(mujoco, mj, "ACTUATION")


def acting_equalities(mj: Any) -> list[int]:
    """Equality constraints that are active at the start."""
    return np.flatnonzero(mj.eq_active0).tolist()


def acting_tendons(mujoco: Any, mj: Any) -> list[int]:
    """Tendons that pull, stop or are pulled; others are only visible."""
    acts = np.zeros(mj.ntendon, bool)
    for field in ACTING:
        values = getattr(mj, f"tendon_{field}", None)
        if values is not None:
            acts |= np.array([np.any(value) for value in values], bool)
    for i in range(len(mj.actuator_trntype)):
        if int(mj.actuator_trntype[i]) == int(mujoco.mjtTrn.mjTRN_TENDON):
            acts[mj.actuator_trnid[i, 0]] |= not actuator_is_off(mujoco, mj, i)
    tied = int(mujoco.mjtEq.mjEQ_TENDON)
    for i in acting_equalities(mj):
        if int(mj.eq_type[i]) == tied:
            acts[[k for k in (mj.eq_obj1id[i], mj.eq_obj2id[i]) if k >= 0]] = True
    return np.flatnonzero(acts).tolist()


def _is_off(mujoco: Any, mj: Any, flag: str) -> bool:
    bit = getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", 0)
    return bool(mj.opt.disableflags & int(bit))
