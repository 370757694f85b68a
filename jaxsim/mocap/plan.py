"""Motion from a plan of the feet: the body is an inverted pendulum over them.

The centre of mass follows the pressure under the feet as that of a pendulum of constant height h
does, c'' = (c - p) g / h, in the one solution that is periodic (Kajita et al., "The 3D linear
inverted pendulum mode", 2001); the legs reach the ankles by two-link inverse kinematics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.rotation import quat_conjugate, quat_multiply, quat_rotate
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.from_motion import FILE_AXES
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.rotations import continuous, from_angles
from jaxsim.mocap.schemes import SCHEMES
from jaxsim.model import Model, neutral_state

__all__ = ["MotionPlan", "clip_of_plan"]

SIDES, LEG = ("left", "right"), ("Shank", "Foot")  # of a leg the joints that its bones end in
GRAVITY = 9.81  # [m/s^2]
PASSES = 10  # by which the pelvis is moved until the centre of mass is where it is to be
TOE = 0.19  # of the foot's end before the ankle [m]
STRAIGHT = 0.995  # of a leg's length that it reaches at most


@dataclass(frozen=True, eq=False)
class MotionPlan:
    """T frames of a cycle, the last of which is the first one moved on.

    Angles in radians, about y forward where they are negative; positions from the floor, x forward,
    y left.
    """

    name: str
    rate: float  # [Hz]
    pressure: np.ndarray  # (T, 2) where the ground presses [m]
    ankle: np.ndarray  # (T, 2, 3) left and right, over their height in standing [m]
    foot_pitch: np.ndarray  # (T, 2) toes down
    height: np.ndarray  # (T,) of the hips over the ankles of standing feet, in lengths of the leg
    pelvis_yaw: np.ndarray  # (T,)
    lean: np.ndarray  # (T,) of the chest, forward
    shoulder: np.ndarray  # (T, 2, 2) out to the side, and forward
    elbow: np.ndarray  # (T, 2) bent


def clip_of_plan(plan: MotionPlan, model: Model) -> Clip:
    """Motion of a plan on a human whose links have the names of jaxsim's own.

    Raises ClipError for a model without them, and where a leg cannot reach its ankle.
    """
    names = tuple(SCHEMES["jaxsim"][0].values())
    top = model.topology
    lacking = [name for name in names if name not in top.link_names]
    if lacking:
        raise ClipError(f"{plan.name}: the model has no link {lacking[0]}; take ball_joint_human")
    links = [k for k, name in enumerate(top.link_names) if name in names]
    kin = forward_kinematics(model, neutral_state(model).q, jnp.zeros(top.nv))
    places = np.asarray(kin.link_pos, float)[links]
    parents = tuple(links.index(top.link_parent[k]) if k != links[0] else -1 for k in links)
    offsets = places - places[list(parents)]
    offsets[0] = 0.0
    order = [top.link_names[k] for k in links]
    sole = float(lowest_point(model, kin))
    feet = [order.index(f"{side}Foot") for side in SIDES]
    clip = Clip(
        name=plan.name,
        joint_names=tuple(order),
        parents=parents,
        offsets=offsets,
        orders=("ZXY",) * len(order),
        rotations=np.broadcast_to(np.eye(4)[0], (len(plan.ankle), len(order), 4)),
        root_pos=np.zeros((len(plan.ankle), 3)),
        rate=plan.rate,
        end_parents=tuple(feet),
        end_offsets=np.array([[TOE, 0.0, sole - places[k, 2]] for k in feet]),
        axes=FILE_AXES,
    )
    middle, mass = (
        np.asarray(kin.com, float)[links] - places,
        np.asarray(model.mass, float)[links],
    )
    return _carried(plan, clip, middle, mass / mass.sum(), places[feet[0], 2] - sole)


def _carried(
    plan: MotionPlan, clip: Clip, middle: np.ndarray, share: np.ndarray, ground: float
) -> Clip:
    """Clip whose centre of mass follows the pendulum.

    middle (J, 3) [m] of each link in its frame, share (J,) of the mass, ground [m] of the ankles in
    standing.
    """
    ankle = plan.ankle + np.array([0.0, 0.0, ground])
    leg = sum(_length(clip, f"left{part}") for part in LEG)
    root = np.zeros((len(ankle), 3))
    root[:, 2] = ground + plan.height * leg
    root[:, :2] = pendulum(plan.pressure, plan.rate, leg)
    for _ in range(PASSES):
        posed = _posed(plan, replace(clip, root_pos=root), ankle)
        pos, quat = poses_of(posed)
        com = ((pos + quat_rotate(quat, middle)) * share[:, None]).sum(axis=1)
        wanted = pendulum(plan.pressure, plan.rate, float(com[:, 2].mean()))
        root = root + np.concatenate([wanted - com[:, :2], np.zeros((len(root), 1))], axis=1)
    return _posed(plan, replace(clip, root_pos=root), ankle)


def _length(clip: Clip, joint: str) -> float:
    """Length of the bone that ends in a joint [m]."""
    return float(np.linalg.norm(clip.offsets[clip.joint(joint)]))


def pendulum(pressure: np.ndarray, rate: float, height: float) -> np.ndarray:
    """Centre of mass (T, 2) [m] of an inverted pendulum over the pressure (T, 2) [m] of a cycle.

    height: of the pendulum [m]; the motion is the same in each cycle.
    """
    cycle = pressure[-1] - pressure[0]
    along = np.linspace(0.0, 1.0, len(pressure))[:, None] * cycle
    waves = np.fft.rfft((pressure - along)[:-1], axis=0)
    pace = 2 * np.pi * np.fft.rfftfreq(len(pressure) - 1, 1 / rate)[:, None]
    waves = waves / (1 + pace**2 * height / GRAVITY)
    still = np.fft.irfft(waves, len(pressure) - 1, axis=0)
    return along + np.concatenate([still, still[:1]])


def _posed(plan: MotionPlan, clip: Clip, ankle: np.ndarray) -> Clip:
    """Clip with the plan's joint angles, and legs that reach the ankles (T, 2, 3) [m]."""
    frames, zero = len(ankle), np.zeros(len(ankle))
    world = dict.fromkeys(clip.joint_names, from_angles("Z", zero[:, None]))
    world["pelvis"] = from_angles("Z", plan.pelvis_yaw[:, None])
    world["chest"] = from_angles("ZY", np.stack([-plan.pelvis_yaw, plan.lean], axis=1))
    world["abdomen"] = from_angles("Y", plan.lean[:, None] / 2)
    hips = clip.root_pos[:, None] + np.stack(
        [quat_rotate(world["pelvis"], clip.offsets[clip.joint(f"{side}Thigh")]) for side in SIDES],
        axis=1,
    )
    for k, side in enumerate(SIDES):
        upper, lower = (_length(clip, f"{side}{part}") for part in LEG)
        thigh, shank = _leg(ankle[:, k] - hips[:, k], upper, lower, f"{plan.name}: {side} leg")
        world[f"{side}Thigh"], world[f"{side}Shank"] = thigh, shank
        world[f"{side}Foot"] = from_angles("Y", plan.foot_pitch[:, k, None])
        out = (1.0, -1.0)[k] * plan.shoulder[:, k, 0]
        arm = from_angles("YX", np.stack([-plan.shoulder[:, k, 1], out], axis=1))
        world[f"{side}UpperArm"] = quat_multiply(world["chest"], arm)
        bent = from_angles("Y", -plan.elbow[:, k, None])
        world[f"{side}Forearm"] = quat_multiply(world[f"{side}UpperArm"], bent)
    turns = np.empty((frames, clip.n_joints, 4))
    for j, name in enumerate(clip.joint_names):
        above = clip.parents[j]
        turns[:, j] = world[name]
        if above >= 0:
            turns[:, j] = quat_multiply(quat_conjugate(world[clip.joint_names[above]]), world[name])
    return replace(clip, rotations=continuous(turns))


def _leg(way: np.ndarray, thigh: float, shank: float, who: str) -> tuple[np.ndarray, np.ndarray]:
    """Orientations (T, 4) of thigh and shank with the ankle at ``way`` (T, 3) [m] from the hip.

    The knee points forward.
    """
    far = np.linalg.norm(way, axis=1)
    if (far > STRAIGHT * (thigh + shank)).any():
        frame = int(np.argmax(far))
        raise ClipError(
            f"{who} of {thigh + shank:.3f} m is to reach {far[frame]:.3f} m in frame {frame}; take"
            " a lower height, or shorter steps"
        )
    side = np.arcsin(way[:, 1] / far)  # the leg swings out about x first, then bends about y
    fore = np.arctan2(way[:, 0], -way[:, 2])
    at_hip = np.arccos((thigh**2 + far**2 - shank**2) / (2 * thigh * far))
    at_ankle = np.arcsin(thigh * np.sin(at_hip) / shank)
    whole = from_angles("YX", np.stack([-fore, side], axis=1))
    return (
        quat_multiply(whole, from_angles("Y", -at_hip[:, None])),
        quat_multiply(whole, from_angles("Y", at_ankle[:, None])),
    )
