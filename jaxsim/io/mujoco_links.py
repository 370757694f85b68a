"""MuJoCo's bodies and joints as links of a ModelBuilder, in MuJoCo's order."""

from typing import Any, NamedTuple

import numpy as np

from jaxsim.io.frames import IDENTITY, Placement, turn
from jaxsim.io.mujoco_report import Report, element_names
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model.builder import ModelBuilder
from jaxsim.model.joints import Joint
from jaxsim.ranges import RANGES

SMALLEST = 1e-15  # mass [kg] and moment [kg m^2] that MuJoCo still takes for a moving body
LEAST_MASS = RANGES["mass"].least  # [kg]


class BodyPlacement(NamedTuple):
    """Placement of a body: its name, the link that carries it (or "world"), and its frame there."""

    body: str
    link: str
    frame: Placement


def add_links(
    mujoco: Any, mj: Any, builder: ModelBuilder, motors: dict[int, dict[str, float]], report: Report
) -> list[BodyPlacement]:
    """Add a link for each body that moves or has a mass of its own; returns all placements.

    A link's zero pose is the body's pose at ``qpos = 0`` (not at ``qpos0``), so that q is qpos.
    """
    owner = body_owners(mj)
    names = element_names(mujoco, mj, "body", [f"body{b}" for b in range(mj.nbody)])
    joints = _joints(mujoco, mj, names, motors)
    zero = [_zero_pose(mujoco, mj, b) for b in range(mj.nbody)]

    places = [BodyPlacement("world", "world", IDENTITY)]
    for b in range(1, mj.nbody):
        within = places[mj.body_parentid[b]].frame @ zero[b]
        places.append(
            BodyPlacement(names[b], names[owner[b]], IDENTITY if owner[b] == b else within)
        )
        if owner[b] == 0:
            report.note("bodies that never move became part of the world", names[b])
        elif owner[b] != b:
            report.note("bodies without a mass of their own became part of their parent", names[b])
    for b in range(1, mj.nbody):
        if owner[b] != b:
            continue
        above = places[mj.body_parentid[b]]
        frame = above.frame @ zero[b]
        members = [(i, places[i].frame) for i in range(1, mj.nbody) if owner[i] == b]
        mass, com, inertia = _inertial(mj, members)
        if mass < LEAST_MASS:
            report.lacks(f"masses under {LEAST_MASS:g} kg (they are raised to it)", names[b])
            mass = LEAST_MASS
        builder.add_link(
            names[b],
            above.link,
            pos=frame.pos,
            quat=frame.quat,
            mass=mass,
            com=tuple(com),
            inertia=inertia,
            joints=joints[b],
        )
    return places


def body_owners(mj: Any) -> list[int]:
    """Body (nbody,) whose link each body belongs to; 0 for the world.

    A body without joints is a link of its own if it has mass and inertia. Of the bodies that never
    move only one without geoms is a link: its mass was given on purpose, while that of a piece of
    scenery follows from the density of its geoms.
    """
    solid = (mj.body_mass > SMALLEST) & (mj.body_inertia.min(axis=1) > SMALLEST)
    owner = [0]
    for b in range(1, mj.nbody):
        root = int(mj.body_weldid[b])
        above = owner[mj.body_parentid[b]]
        if mj.body_jntnum[b]:
            owner.append(b)
        elif not mj.body_jntnum[root]:
            owner.append(b if solid[b] and mj.body_geomnum[b] == 0 else above)
        else:
            owner.append(b if solid[b] and solid[root] else above)
    return owner


def _inertial(
    mj: Any, members: list[tuple[int, Placement]]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it of bodies in one link's frame."""
    masses = np.array([mj.body_mass[b] for b, _ in members])
    centres = np.array([frame.place(mj.body_ipos[b]) for b, frame in members])
    inertias = []
    for b, frame in members:
        axes = rotation_matrix(frame.quat) @ rotation_matrix(mj.body_iquat[b])
        inertias.append(axes * mj.body_inertia[b] @ axes.T)
    if len(members) == 1:
        return float(masses[0]), centres[0], (inertias[0] + inertias[0].T) / 2
    mass = float(masses.sum())
    com = masses @ centres / mass if mass else centres[0]
    total = np.zeros((3, 3))
    for m, centre, inertia in zip(masses, centres, inertias):
        arm = centre - com
        total += inertia + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return mass, com, (total + total.T) / 2


def _zero_pose(mujoco: Any, mj: Any, body: int) -> Placement:
    """Frame of the body in its parent's where qpos = 0."""
    first = mj.body_jntadr[body]
    if mj.body_jntnum[body] and int(mj.jnt_type[first]) == mujoco.mjtJoint.mjJNT_FREE:
        return IDENTITY
    frame = Placement(mj.body_pos[body], mj.body_quat[body])
    for j in range(first, first + mj.body_jntnum[body]):
        frame = frame @ _back_from_ref(mujoco, mj, j)
    return frame


def _back_from_ref(mujoco: Any, mj: Any, j: int) -> Placement:
    """Motion of a joint from its pose in the file, which is at ``ref``, to its zero."""
    ref = float(mj.qpos0[mj.jnt_qposadr[j]])
    kind = int(mj.jnt_type[j])
    if kind == mujoco.mjtJoint.mjJNT_HINGE and ref:
        return turn(mj.jnt_axis[j], -ref, mj.jnt_pos[j])
    if kind == mujoco.mjtJoint.mjJNT_SLIDE and ref:
        return Placement(-ref * mj.jnt_axis[j], IDENTITY.quat)
    return IDENTITY


def _joints(
    mujoco: Any, mj: Any, bodies: list[str], motors: dict[int, dict[str, float]]
) -> list[list[Joint]]:
    """Joints of every body."""
    kinds = [mujoco.mjtJoint(t).name.removeprefix("mjJNT_").lower() for t in mj.jnt_type]
    defaults = [f"{bodies[b]}_{kind}" for b, kind in zip(mj.jnt_bodyid, kinds)]
    names = element_names(mujoco, mj, "joint", defaults)
    joints = []
    for count, first in zip(mj.body_jntnum, mj.body_jntadr):
        indices = range(first, first + count)
        lines = _lines_of_motion(mujoco, mj, indices)
        joints.append(
            [
                _joint(mj, j, names[j], kinds[j], *line, motors.get(j, {}))
                for j, line in zip(indices, lines)
            ]
        )
    return joints


def _lines_of_motion(mujoco: Any, mj: Any, own: range) -> list[tuple[np.ndarray, np.ndarray]]:
    """Axis and anchor of each joint of one body, in the frame that the body has at the zero pose.

    With A_i the way back from the ref of joint i and J_i its motion, the body's motion is
    A_1 J_1 A_2 J_2 ...; taking each J_i past the later A_k turns its axis and anchor by them. No
    rotation follows a ball joint in a body (MuJoCo refuses that), so a ball's anchor only shifts.
    """
    lines = []
    later = IDENTITY
    for j in reversed(own):
        axis, anchor = mj.jnt_axis[j], mj.jnt_pos[j]
        if later is not IDENTITY:
            axis = rotation_matrix(later.quat).T @ axis
            anchor = later.inverse().place(anchor)
        lines.append((axis, anchor))
        back = _back_from_ref(mujoco, mj, j)
        if back is not IDENTITY:
            later = back @ later
    return lines[::-1]


def _joint(mj: Any, j: int, name: str, kind: str, axis, anchor, motor: dict) -> Joint:
    dof = mj.jnt_dofadr[j]
    fields: dict[str, Any] = dict(
        damping=float(mj.dof_damping[dof]), armature=float(mj.dof_armature[dof]), **motor
    )
    if kind in ("hinge", "slide"):
        fields["axis"] = tuple(axis.tolist())
    if mj.jnt_limited[j]:
        fields["limits"] = tuple(mj.jnt_range[j].tolist())  # of a ball (0, greatest angle)
    if kind != "free":
        fields["anchor"] = tuple(anchor.tolist())
    return Joint(name, kind, **fields)
