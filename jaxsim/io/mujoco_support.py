"""Search for features of a MuJoCo model that the simulator lacks, field by field."""

from typing import Any

import numpy as np

from jaxsim.io.mujoco_report import Report
from jaxsim.io.mujoco_switches import acting_equalities, acting_tendons

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
    ("geom", "geom_solref", SOFTNESS),
    ("geom", "geom_solimp", SOFTNESS),
    ("geom", "geom_solmix", SOFTNESS),
    ("geom", "geom_adhesion", "adhesion"),
    ("geom", "geom_surfacevel", "surface velocities"),
    ("geom", "geom_fluid", "fluid forces"),
    ("geom", "geom_plugin", "plugins"),
)
LIMITS = ("jnt_margin", "jnt_solref", "jnt_solimp")  # of joints with limits
# Flags that change the motion when they are off are dealt with in mujoco_switches.
HARMLESS = (("nsite", "sites"), ("nsensor", "sensors"), ("ncam", "cameras"), ("nskin", "skins"))
FLUID = "fluid forces (option density, viscosity, wind)"


def list_unsupported(mujoco: Any, mj: Any, pairs: list[tuple[int, int]], report: Report) -> None:
    """Report everything except actuators and kinds of geoms. pairs: of geoms that may touch."""
    plain = mujoco.MjModel.from_xml_string(PLAIN)
    in_fluid = bool(mj.opt.density or mj.opt.viscosity)
    for kind, field, what in FIELDS:
        acts = _acting(mj, field, pairs, in_fluid)
        for i in _unusual(mj, plain, field):
            if i in acts:
                report.lacks(what, _name(mujoco, mj, kind, i))
    _list_priorities(mujoco, mj, pairs, report)
    for i in acting_tendons(mujoco, mj):
        report.lacks("tendons", _name(mujoco, mj, "tendon", i))
    for i in acting_equalities(mj):
        report.lacks("equality constraints", _name(mujoco, mj, "equality", i))
    for i in range(getattr(mj, "nflex", 0)):
        report.lacks("deformable bodies (flex)", _name(mujoco, mj, "flex", i))
    _list_pairs(mujoco, mj, report)
    if in_fluid:
        report.lacks(FLUID)
    if mj.opt.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE:
        report.lacks(SOFTNESS, "option flag override")
    for count, what in HARMLESS:
        if getattr(mj, count):
            report.note("ignored, as the motion does not depend on them", what)
    idle = (mj.neq - len(acting_equalities(mj)), mj.ntendon - len(acting_tendons(mujoco, mj)))
    for number, what in zip(idle, ("inactive equality constraints", "tendons without force")):
        if number:
            report.note("ignored, as the motion does not depend on them", what)


def _acting(mj: Any, field: str, pairs: list[tuple[int, int]], in_fluid: bool) -> set[int]:
    """Elements for which a field affects the motion."""
    size = len(getattr(mj, field, ()))
    if field in LIMITS:
        return set(np.flatnonzero(mj.jnt_limited).tolist())
    if field == "geom_fluid":
        return set(range(size if in_fluid else 0))
    if field == "body_mocapid":  # one that neither touches nor holds anything is only seen
        held = {int(mj.body_weldid[mj.geom_bodyid[g]]) for pair in pairs for g in pair}
        return held | {int(b) for b in _tied_bodies(mj)}
    if field.startswith("geom_") and field != "geom_plugin":
        return {g for pair in pairs for g in pair}
    return set(range(size))


def _tied_bodies(mj: Any) -> set[int]:
    """Bodies that an equality constraint may hold."""
    active = acting_equalities(mj)
    return {int(b) for i in active for b in (mj.eq_obj1id[i], mj.eq_obj2id[i])}


def _list_priorities(mujoco: Any, mj: Any, pairs: list[tuple[int, int]], report: Report) -> None:
    for a, b in pairs:
        if mj.geom_priority[a] != mj.geom_priority[b]:
            first = a if mj.geom_priority[a] > mj.geom_priority[b] else b
            report.lacks("priorities of contacts", _name(mujoco, mj, "geom", first))


def _unusual(mj: Any, plain: Any, field: str) -> list[int]:
    """Indices of the elements whose field is not at its default; none if MuJoCo lacks the field."""
    if not hasattr(mj, field):
        return []
    values = getattr(mj, field)
    rows = values.reshape(len(values), -1) if len(values) else values.reshape(0, 1)
    default = getattr(plain, field)[-1]
    return np.flatnonzero((rows != default).any(axis=1)).tolist()


def _list_pairs(mujoco: Any, mj: Any, report: Report) -> None:
    """Report settings of explicit contact pairs other than friction."""
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
