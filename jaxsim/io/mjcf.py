"""A Model as MJCF, the XML that MuJoCo reads; MuJoCo itself is not needed to write it."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable

import numpy as np

from jaxsim.io.frames import X_ALONG_Z, Placement, quaternion_of
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model.errors import ModelError
from jaxsim.model.joints import Q_SIZE, V_SIZE
from jaxsim.model.model import Model
from jaxsim.model.topology import WORLD, Topology

GROUND = 10.0  # how far the ground of an exported height field goes down [m]

__all__ = ["mjcf_link_order", "mjcf_q_index", "mjcf_v_index", "to_mjcf"]


def to_mjcf(model: Model, timestep: float = 0.001, *, actuators: bool = False) -> str:
    """MJCF text of a model, with the names of its links, joints and shapes; timestep [s].

    actuators: add a position servo with the gains and the torque limit of every actuated joint.
    It keeps the zero pose until its control changes, so by default there is none.

    Exact are poses, inertias, joints, limits, damping, armature and gravity, so the equations of
    free motion agree to rounding. What MuJoCo has no word for:

    - A tapered capsule becomes its two end balls, named with _0 and _1. Against planes that is
      the whole of it; its side no longer touches anything. Balls that can never touch first
      (``Topology.covered_ends``) are left out, as they are here.
    - A contact takes the larger of the two frictions there, sqrt(a b) here; they agree where all
      shapes have one coefficient, and in pairs. Restitution, drives and grips are not exported.
    - The ground of a height field reaches GROUND below its lowest point there; here it has no end.

    Shapes touch that touch here: by contype and conaffinity where links touch all of the world, in
    pairs where they do not, and where links touch one another. MuJoCo orders bodies depth first:
    see :func:`mjcf_q_index`. Raises ModelError if a number is not finite, or the dofs of one
    ball or free joint differ in damping or armature, or an actuated joint is one of these.
    """
    m = _Numbers(model)
    top = model.topology
    root = ET.Element("mujoco", model="jaxsim")
    _add(root, "compiler", angle="radian", autolimits="true", inertiafromgeom="false")
    _add(root, "option", timestep=_text(timestep), gravity=_text(m["gravity"]))
    _add_assets(root, m, top)
    world = _add(root, "worldbody")
    _add_geoms(world, m, top, WORLD)
    elements = {WORLD: world}
    for link, parent in enumerate(top.link_parent):
        elements[link] = _add_body(elements[parent], m, top, link)
    _add_pairs(root, m, top)
    if actuators:
        _add_actuators(root, m, top)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def mjcf_link_order(top: Topology) -> tuple[int, ...]:
    """Links in MuJoCo's order, depth first.

    Body 0 is the world, so link ``order[i]`` is body i + 1.
    """
    children: dict[int, list[int]] = {}
    for link, parent in enumerate(top.link_parent):
        children.setdefault(parent, []).append(link)
    order: list[int] = []
    waiting = list(reversed(children.get(WORLD, [])))
    while waiting:
        link = waiting.pop()
        order.append(link)
        waiting += reversed(children.get(link, []))
    return tuple(order)


def mjcf_q_index(top: Topology) -> np.ndarray:
    """Index (nq,) of each of our positions in MuJoCo's qpos: ``q = qpos[index]``.

    Inversely ``qpos[index] = q``.
    """
    return _index(top, Q_SIZE)


def mjcf_v_index(top: Topology) -> np.ndarray:
    """Index (nv,) of each of our velocities (or forces) in MuJoCo's qvel: ``qd = qvel[index]``."""
    return _index(top, V_SIZE)


def _index(top: Topology, size: dict[str, int]) -> np.ndarray:
    place: dict[int, int] = {}
    used = 0
    for link in mjcf_link_order(top):
        for joint in np.flatnonzero(np.array(top.joint_link) == link):
            place[int(joint)] = used
            used += size[top.joint_kinds[joint]]
    index = [place[j] + i for j, kind in enumerate(top.joint_kinds) for i in range(size[kind])]
    return np.array(index, int)


class _Numbers:
    """Arrays of a model in float64; every one is checked when it is read."""

    def __init__(self, model: Model):
        self.model = model

    def __getitem__(self, name: str) -> np.ndarray:
        array = np.asarray(getattr(self.model, name), float)
        if not np.isfinite(array).all():
            raise ModelError(f"model.{name} is not finite; it cannot be exported")
        return array

    def heights(self, top: Topology, s: int) -> np.ndarray:
        """The grid of a height field."""
        array = np.asarray(self.model.heights[top.shape_field[s]], float)
        if not np.isfinite(array).all():
            raise ModelError(f"the heights of {top.shape_names[s]!r} are not finite")
        return array


def _add(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, tag, attributes)


def _text(values) -> str:
    """Numbers as text that reads back exactly."""
    return " ".join(repr(float(v)) for v in np.ravel(values))


def _add_body(parent: ET.Element, m: _Numbers, top: Topology, link: int) -> ET.Element:
    joints = [j for j, owner in enumerate(top.joint_link) if owner == link]
    pos, quat = m["joint_pos"], m["joint_quat"]
    for j in joints[1:]:
        if pos[j].any() or quat[j, 1:].any():
            raise ModelError(
                f"joint {top.joint_names[j]!r} is not the first of its link and has an offset; "
                "only the first one's joint_pos and joint_quat can be exported"
            )
    first = joints[0]
    body = _add(
        parent,
        "body",
        name=top.link_names[link],
        pos=_text(pos[first]),
        quat=_text(quat[first]),
    )
    _add(
        body,
        "inertial",
        pos=_text(m["com"][link]),
        mass=_text(m["mass"][link]),
        **_principal(m["inertia"][link]),
    )
    for j in joints:
        if top.joint_kinds[j] != "fixed":
            _add_joint(body, m, top, j)
    _add_geoms(body, m, top, link)
    return body


def _principal(inertia: np.ndarray) -> dict[str, str]:
    """Principal moments and axes of (3, 3); MuJoCo would find them less precisely.

    MuJoCo refuses a plate whose largest moment is above the sum of the others by one rounding.
    """
    moments, axes = np.linalg.eigh(inertia)
    moments[2] = min(moments[2], moments[0] + moments[1])
    axes[:, 0] *= np.linalg.det(axes)  # a rotation, not a reflection
    return {"diaginertia": _text(moments), "quat": _text(quaternion_of(axes))}


def _add_joint(body: ET.Element, m: _Numbers, top: Topology, j: int) -> None:
    kind, name = top.joint_kinds[j], top.joint_names[j]
    dofs = top.v_start[j] + np.arange(V_SIZE[kind])
    attributes = {"name": name, "type": kind}
    for field in ("damping", "armature"):
        values = m[field][dofs]
        if (values != values[0]).any():
            raise ModelError(
                f"joint {name!r}: its dofs differ in {field}; MuJoCo has one number a joint"
            )
        attributes[field] = _text(values[0])
    if kind != "free":
        attributes["pos"] = _text(m["joint_anchor"][j])
    if kind in ("hinge", "slide"):
        attributes["axis"] = _text(m["joint_axis"][j])
    if top.joint_limited[j]:
        attributes["range"] = _text([m["joint_lower"][j], m["joint_upper"][j]])
    _add(body, "joint", **attributes)


def _add_assets(root: ET.Element, m: _Numbers, top: Topology) -> None:
    """The grids of the height fields; MuJoCo scales them from 0 to the difference of heights."""
    fields = [s for s, number in enumerate(top.shape_field) if number >= 0]
    asset = _add(root, "asset") if fields else root
    for s in fields:
        grid, (hx, hy, _) = m.heights(top, s), m["shape_size"][s]
        rise = float(np.ptp(grid))
        _add(
            asset,
            "hfield",
            name=top.shape_names[s],
            nrow=str(grid.shape[1]),
            ncol=str(grid.shape[0]),
            elevation=_text(grid.T[::-1]),  # the first row has the largest y
            size=_text([hx, hy, rise if rise > 0 else 1.0, GROUND]),
        )


def _of_all_the_world(top: Topology) -> bool:
    """True where every shape of a link touches every shape of the world."""
    world = [s for s, link in enumerate(top.shape_link) if link == WORLD]
    links = [s for s, link in enumerate(top.shape_link) if link != WORLD]
    pairs = {frozenset(pair) for pair in top.shape_pairs}
    return all(frozenset((a, b)) in pairs for a in world for b in links)


def _add_geoms(parent: ET.Element, m: _Numbers, top: Topology, link: int) -> None:
    """The shapes of a link or of the world; the former touch only the latter."""
    of_link, by_bits = link != WORLD, _of_all_the_world(top)
    for s, owner in enumerate(top.shape_link):
        if owner != link:
            continue
        for name, attributes in _geoms(m, top, s):
            _add(
                parent,
                "geom",
                name=name,
                contype=str(int(of_link and by_bits)),
                conaffinity=str(int(not of_link and by_bits)),
                friction=_text([m["friction"][s], 0.0, 0.0]),
                **attributes,
            )


def _geoms(m: _Numbers, top: Topology, s: int) -> Iterable[tuple[str, dict[str, str]]]:
    """Name and attributes of each geom that shape ``s`` becomes."""
    kind, name = top.shape_record(s), top.shape_names[s]
    pos, quat, size = m["shape_pos"][s], m["shape_quat"][s], m["shape_size"][s]
    heights = m.heights(top, s) if kind.grid else np.zeros((0, 0))
    geoms = kind.geoms(name, size, heights, top.ends_of(s))
    if geoms is None:
        raise ModelError(f"shape {name!r}: a {kind.name} cannot be exported")
    for geom in geoms:
        attributes = {
            key: value if isinstance(value, str) else _text(value)
            for key, value in geom.attributes.items()
        }
        place = pos if geom.offset is None else pos + rotation_matrix(quat) @ geom.offset
        turn = (Placement(pos, quat) @ X_ALONG_Z.inverse()).quat if geom.along_z else quat
        turned = {"quat": _text(turn)} if geom.turned else {}
        yield geom.name, {**attributes, "pos": _text(place), **turned}


def _add_pairs(root: ET.Element, m: _Numbers, top: Topology) -> None:
    """Pairs of shapes that do not touch by their bits, with the friction a contact has here."""
    contact, by_bits = None, _of_all_the_world(top)
    for a, b in top.shape_pairs:
        if by_bits and WORLD in (top.shape_link[a], top.shape_link[b]):
            continue
        contact = _add(root, "contact") if contact is None else contact
        friction = np.sqrt(m["friction"][a] * m["friction"][b])
        for geom_a, _ in _geoms(m, top, a):
            for geom_b, _ in _geoms(m, top, b):
                _add(
                    contact,
                    "pair",
                    geom1=geom_a,
                    geom2=geom_b,
                    friction=_text([friction, friction, 0.0, 0.0, 0.0]),
                )


def _add_actuators(root: ET.Element, m: _Numbers, top: Topology) -> None:
    """Servos whose force is the PD law of the joint."""
    element = _add(root, "actuator")
    for j in top.actuated_joints:
        name = top.joint_names[j]
        if V_SIZE[top.joint_kinds[j]] != 1:
            raise ModelError(
                f"joint {name!r}: a {top.joint_kinds[j]} joint's actuator cannot be exported; "
                "leave out actuators=True"
            )
        dof, limit = top.v_start[j], m["torque_limit"][top.v_start[j]]
        _add(
            element,
            "position",
            name=name,
            joint=name,
            kp=_text(m["gain_p"][dof]),
            kv=_text(m["gain_d"][dof]),
            forcerange=_text([-limit, limit]),
        )
