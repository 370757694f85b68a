"""What a MuJoCo model uses and the simulator does not have, found field by field."""

from typing import Any

import numpy as np

from jaxsim.io.mujoco_report import Report

# One joint and one geom with everything at MuJoCo's own defaults; each field is held against them.
PLAIN = """<mujoco><worldbody>
<body><joint type="hinge"/><geom type="sphere" size="1"/></body></worldbody></mujoco>"""

SPRINGS = "joint springs (stiffness, springref)"
SOFTNESS = "softness of contacts (solref, solimp)"

# Elements, field, and what a value other than the default means.
FIELDS = (
    ("joint", "jnt_stiffness", SPRINGS),
    ("joint", "jnt_stiffnesspoly", SPRINGS),
    ("joint", "jnt_springyield", "joint springs that yield (springyield)"),
    ("joint", "jnt_margin", "margins of joint limits"),
    ("joint", "jnt_solref", "softness of joint limits (solreflimit, solimplimit)"),
    ("joint", "jnt_solimp", "softness of joint limits (solreflimit, solimplimit)"),
    ("joint", "jnt_actgravcomp", "gravity compensation"),
    ("dof", "dof_frictionloss", "dry friction of joints (frictionloss)"),
    ("dof", "dof_dampingpoly", "damping that is not linear"),
    ("body", "body_gravcomp", "gravity compensation"),
    ("body", "body_mocapid", "mocap bodies (they stay where the file puts them)"),
    ("body", "body_plugin", "plugins"),
    ("geom", "geom_margin", "margins and gaps of contacts"),
    ("geom", "geom_gap", "margins and gaps of contacts"),
    ("geom", "geom_priority", "priorities of contacts"),
    ("geom", "geom_solref", SOFTNESS),
    ("geom", "geom_solimp", SOFTNESS),
    ("geom", "geom_solmix", SOFTNESS),
    ("geom", "geom_adhesion", "adhesion"),
    ("geom", "geom_surfacevel", "surface velocities"),
    ("geom", "geom_fluid", "fluid forces"),
    ("geom", "geom_plugin", "plugins"),
)
# Counts of elements without an equal here.
COUNTS = (
    ("ntendon", "tendon", "tendons"),
    ("neq", "equality", "equality constraints"),
    ("nflex", "flex", "deformable bodies (flex)"),
    ("nplugin", "plugin", "plugins"),
)
OPTIONS = (
    ("density", "fluid forces (option density, viscosity, wind)"),
    ("viscosity", "fluid forces (option density, viscosity, wind)"),
    ("wind", "fluid forces (option density, viscosity, wind)"),
)
# Flags that change the motion when they are off; gravity and contact are carried over.
FLAGS = ("CONSTRAINT", "LIMIT", "ACTUATION", "PASSIVE", "SPRING", "DAMPER")
HARMLESS = (("nsite", "sites"), ("nsensor", "sensors"), ("ncam", "cameras"), ("nskin", "skins"))


def list_unsupported(mujoco: Any, mj: Any, tangible: list[int], report: Report) -> None:
    """Report everything but actuators, the kinds of geoms and their pairs."""
    plain = mujoco.MjModel.from_xml_string(PLAIN)
    for kind, field, what in FIELDS:
        for i in _unusual(mj, plain, field):
            if kind != "geom" or i in tangible:
                report.lacks(what, _name(mujoco, mj, kind, i))
    for count, kind, what in COUNTS:
        for i in range(getattr(mj, count, 0)):
            report.lacks(what, _name(mujoco, mj, kind, i))
    _list_pairs(mujoco, mj, report)
    for field, what in OPTIONS:
        if np.any(getattr(mj.opt, field)):
            report.lacks(what)
    for flag in FLAGS:
        bit = getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", 0)
        if mj.opt.disableflags & bit:
            report.lacks("physics switched off by a flag", flag.lower())
    if mj.opt.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE:
        report.lacks(SOFTNESS, "option flag override")
    for count, what in HARMLESS:
        if getattr(mj, count):
            report.note("ignored, as the motion does not depend on them", what)


def _unusual(mj: Any, plain: Any, field: str) -> list[int]:
    """Indices of the elements whose field is not at its default; none if MuJoCo has no field."""
    if not hasattr(mj, field):
        return []
    values = getattr(mj, field)
    rows = values.reshape(len(values), -1) if len(values) else values.reshape(0, 1)
    default = getattr(plain, field)[-1]
    return np.flatnonzero((rows != default).any(axis=1)).tolist()


def _list_pairs(mujoco: Any, mj: Any, report: Report) -> None:
    """What explicit pairs say of a contact, but its friction."""
    for i in range(mj.npair):
        geoms = (_name(mujoco, mj, "geom", g[i]) for g in (mj.pair_geom1, mj.pair_geom2))
        name = " with ".join(geoms)
        if mj.pair_margin[i] or mj.pair_gap[i]:
            report.lacks("margins and gaps of contacts", name)
        if mj.pair_friction[i, 0] != mj.pair_friction[i, 1]:
            report.lacks("friction that differs by direction", name)


def _name(mujoco: Any, mj: Any, kind: str, i: int) -> str:
    if kind == "dof":
        kind, i = "joint", mj.dof_jntid[i]
    given = mujoco.mj_id2name(mj, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), int(i))
    return given or f"{kind} {i}"
