"""Conversion of MuJoCo's actuators to the PD gains and torque limits of joints."""

from typing import Any

import numpy as np

from jaxsim.io.mujoco_report import Report
from jaxsim.io.mujoco_switches import actuator_is_off

UNLIMITED = 1e9  # [N m or N] a motor without a limit: ours needs a number
# Fields of newer versions of MuJoCo that must be zero.
EXTRAS = ("actuator_delay", "actuator_armature", "actuator_damping", "actuator_dampingpoly")


def joint_motors(mujoco: Any, mj: Any, report: Report) -> dict[int, dict[str, float]]:
    """``max_torque``, ``kp`` and ``kd`` of each joint that has a motor, by MuJoCo's joint index.

    A MuJoCo actuator on a joint with gear g gives the torque ``g (gain ctrl + b1 g q + b2 g qd)``,
    so kp = -b1 g^2 and kd = -b2 g^2. Bounds of the force (forcerange, for a motor also ctrlrange,
    and the joint's actuatorfrcrange) bound the torque.
    """
    motors: dict[int, dict[str, float]] = {}
    idle: set[int] = set()  # joints with an actuator that is switched off
    for i in range(len(mj.actuator_trntype)):
        name = mujoco.mj_id2name(mj, mujoco.mjtObj.mjOBJ_ACTUATOR, i) or f"actuator {i}"
        if actuator_is_off(mujoco, mj, i):
            report.note("actuators that the file switches off have no motor", name)
            idle.add(_joint_of(mujoco, mj, i))
            continue
        problem = _problem(mujoco, mj, i)
        if problem:
            report.lacks(problem, name)
            continue
        joint = int(mj.actuator_trnid[i, 0])
        motor = _motor(mj, i, name, report)
        if joint in motors:
            report.note("several actuators on one joint (their gains and limits are added)", name)
            motor = {key: value + motors[joint][key] for key, value in motor.items()}
            motor["max_torque"] = min(motor["max_torque"], UNLIMITED)
        motors[joint] = motor
    for joint in np.flatnonzero(mj.jnt_actfrclimited).tolist():
        if joint in motors or joint not in idle:
            _limit_joint(mujoco, mj, joint, motors, report)
    for joint in sorted(joint for joint, motor in motors.items() if not motor["max_torque"] > 0):
        report.note("motors whose limit is 0 are left out", _joint_name(mujoco, mj, joint))
        del motors[joint]
    return motors


def _joint_of(mujoco: Any, mj: Any, i: int) -> int:
    """Joint of an actuator; -1 if it is not on a joint."""
    in_joint = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    return int(mj.actuator_trnid[i, 0]) if int(mj.actuator_trntype[i]) in in_joint else -1


def _joint_name(mujoco: Any, mj: Any, joint: int) -> str:
    return mujoco.mj_id2name(mj, mujoco.mjtObj.mjOBJ_JOINT, joint) or f"joint {joint}"


def _problem(mujoco: Any, mj: Any, i: int) -> str:
    """Reason why actuator i has no counterpart here, or ""."""
    joint = _joint_of(mujoco, mj, i)
    if joint < 0:
        return "actuators on tendons, sites, bodies or cranks"
    if not _is_simple(mujoco, mj, joint):
        return "actuators on ball and free joints"
    if getattr(mj, "actuator_plugin", np.full(i + 1, -1))[i] >= 0:
        return "plugins"
    gain, bias = int(mj.actuator_gaintype[i]), int(mj.actuator_biastype[i])
    plain_bias = (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)
    if int(mj.actuator_dyntype[i]) != mujoco.mjtDyn.mjDYN_NONE:
        return "actuators with a state of their own (muscles, filters, integrators)"
    if gain != mujoco.mjtGain.mjGAIN_FIXED or bias not in plain_bias:
        return "actuators with another law than motor, position or velocity"
    constant, stiffness, damping = mj.actuator_biasprm[i, :3]
    if constant != 0 or stiffness > 0 or damping > 0:
        return "actuators with a constant force, negative stiffness or negative damping"
    if any(np.any(getattr(mj, field)[i]) for field in EXTRAS if hasattr(mj, field)):
        return "actuators with delay, armature or damping"
    if hasattr(mj, "actuator_ctrlnum") and mj.actuator_ctrlnum[i] != 1:
        return "actuators with several controls"
    return ""


def _is_simple(mujoco: Any, mj: Any, joint: int) -> bool:
    return int(mj.jnt_type[joint]) in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def _motor(mj: Any, i: int, name: str, report: Report) -> dict[str, float]:
    gear = abs(float(mj.actuator_gear[i, 0]))
    kp, kd = np.abs(mj.actuator_biasprm[i, 1:3]) * gear**2
    bounds = []
    if mj.actuator_forcelimited[i]:
        bounds.append(mj.actuator_forcerange[i])
    ctrl = int(mj.actuator_ctrladr[i]) if hasattr(mj, "actuator_ctrladr") else i
    if mj.actuator_ctrllimited[ctrl]:
        if kp == 0 and kd == 0:
            bounds.append(mj.actuator_gainprm[i, 0] * mj.actuator_ctrlrange[ctrl])
        else:
            report.note("ranges of servo targets (ctrlrange) are not kept", name)
    limits = [gear * _symmetric(bound, name, report) for bound in bounds]
    limit = min([UNLIMITED, *limits])
    return {"max_torque": limit, "kp": float(kp), "kd": float(kd)}


def _symmetric(bound: np.ndarray, name: str, report: Report) -> float:
    """Larger of the two limits; reports limits that differ."""
    lower, upper = bound
    if not np.isclose(-lower, upper, rtol=1e-9, atol=0):
        report.lacks("force limits that differ by direction (the larger one is kept)", name)
    return float(max(abs(lower), abs(upper)))


def _limit_joint(mujoco: Any, mj: Any, joint: int, motors: dict, report: Report) -> None:
    """Apply a joint's own limit of its actuators' torque; a URDF states only this one (effort)."""
    name = _joint_name(mujoco, mj, joint)
    limit = _symmetric(mj.jnt_actfrcrange[joint], name, report)
    motor = motors.get(joint, {"max_torque": UNLIMITED, "kp": 0.0, "kd": 0.0})
    if _is_simple(mujoco, mj, joint):
        motors[joint] = {**motor, "max_torque": min(motor["max_torque"], limit)}
