"""Add a built model's links, shapes, pairs and grips to the declarations of another scene."""

from dataclasses import replace
from typing import Any

import numpy as np

from jaxsim.model.builder import ModelBuilder
from jaxsim.model.drives import Drive
from jaxsim.model.errors import ModelError
from jaxsim.model.joints import Joint
from jaxsim.model.model import Model
from jaxsim.model.roles import NO_ROLES
from jaxsim.model.shapes import Shape
from jaxsim.model.topology import WORLD, Topology

OF_LINKS = 2  # the bit by which shapes of links may touch one another, if self-collision is added


def add_model(
    builder: ModelBuilder, model: Model, world_shapes: bool = True, prefix: str = ""
) -> None:
    """Declare the links, shapes, pairs and grips of a model, before or after other links.

    prefix: of the names of its links, joints and shapes, such as "child." of another character;
    with one, its roles do not become the scene's.

    world_shapes: False leaves out its shapes of the world, and so its ground; a shape that touched
    nothing there touches nothing of the new world either. The gravity is the builder's. The numbers
    of a joint with several dofs are those of its first. The model's roles become the scene's.

    Raises ModelError for names that are taken, and for a batch of models.
    """
    if model.mass.ndim != 1:
        raise ModelError("this is a batch of models; take one member of it")
    top = model.topology
    if prefix:
        top = _renamed(top, prefix)
        model = replace(model, topology=top)
    numbers = {name: np.asarray(getattr(model, name), float) for name in _ARRAYS}
    for link, name in enumerate(top.link_names):
        first = top.joint_link.index(link)
        joints = [_joint(model, numbers, j) for j, of in enumerate(top.joint_link) if of == link]
        parent = top.link_parent[link]
        builder.add_link(
            name,
            "world" if parent == WORLD else top.link_names[parent],
            pos=numbers["joint_pos"][first],
            quat=numbers["joint_quat"][first],
            mass=numbers["mass"][link],
            com=numbers["com"][link].tolist(),
            inertia=numbers["inertia"][link],
            joints=[] if [joint.kind for joint in joints] == ["fixed"] else joints,
        )
    _add_shapes(builder, model, numbers, world_shapes)
    for grip, name in enumerate(top.grip_names):
        other = top.grip_other[grip]
        builder.add_grip(
            name,
            top.link_names[top.grip_link[grip]],
            numbers["grip_point"][grip].tolist(),
            "world" if other == WORLD else top.link_names[other],
            numbers["grip_other_point"][grip].tolist(),
            numbers["grip_strength"][grip],
        )
    if top.roles != NO_ROLES:
        builder.set_roles(top.roles)


def _renamed(top: Topology, prefix: str) -> Topology:
    """Topology with prefixed names, and so without roles."""
    names = {
        f"{kind}_names": tuple(prefix + name for name in getattr(top, f"{kind}_names"))
        for kind in ("link", "joint", "shape", "grip")
    }
    return replace(top, **names, roles=NO_ROLES)


_ARRAYS = (
    *("mass", "com", "inertia", "joint_pos", "joint_quat", "joint_axis", "joint_anchor"),
    *("joint_lower", "joint_upper", "damping", "armature", "gain_p", "gain_d", "torque_limit"),
    *("shape_pos", "shape_quat", "shape_size", "friction", "restitution"),
    *("grip_point", "grip_other_point", "grip_strength"),
)


def _joint(model: Model, numbers: dict[str, np.ndarray], joint: int) -> Joint:
    top = model.topology
    kind = top.joint_kinds[joint]
    limits = (float(numbers["joint_lower"][joint]), float(numbers["joint_upper"][joint]))
    fields: dict[str, Any] = dict(
        name=top.joint_names[joint],
        kind=kind,
        axis=tuple(numbers["joint_axis"][joint].tolist()),
        anchor=tuple(numbers["joint_anchor"][joint].tolist()),
        limits=limits if top.joint_limited[joint] else None,
        drive=_drive(model, joint),
    )
    if kind != "fixed":
        dof = top.v_start[joint]
        torque = float(numbers["torque_limit"][dof])
        fields |= dict(
            damping=float(numbers["damping"][dof]),
            armature=float(numbers["armature"][dof]),
            kp=float(numbers["gain_p"][dof]),
            kd=float(numbers["gain_d"][dof]),
            max_torque=torque if top.joint_actuated[joint] else None,
        )
    return Joint(**fields)


def _drive(model: Model, joint: int) -> Drive | None:
    driven = model.topology.joint_driven
    if not driven[joint]:
        return None
    row = sum(driven[:joint])
    return Drive(**{name: float(values[row]) for name, values in vars(model.drive).items()})


def _add_shapes(
    builder: ModelBuilder, model: Model, numbers: dict[str, np.ndarray], world_shapes: bool
) -> None:
    top = model.topology
    of_world = {s for s, link in enumerate(top.shape_link) if link == WORLD}
    pairs = [pair for pair in top.shape_pairs if world_shapes or not set(pair) & of_world]
    tangible = {s for pair in top.shape_pairs if set(pair) & of_world for s in pair}
    for s, name in enumerate(top.shape_names):
        if s in of_world and not world_shapes:
            continue
        # Old pairs are named one by one; with a new world a link's shape meets all or nothing.
        meets = s in of_world or (not world_shapes and (not of_world or s in tangible))
        field = top.shape_field[s]
        heights = () if field < 0 else np.asarray(model.heights[field], float).tolist()
        shape = Shape(
            kind=top.shape_kinds[s],
            size=tuple(numbers["shape_size"][s].tolist()),
            pos=tuple(numbers["shape_pos"][s].tolist()),
            quat=tuple(numbers["shape_quat"][s].tolist()),
            friction=float(numbers["friction"][s]),
            restitution=float(numbers["restitution"][s]),
            name=name,
            group=int(meets) | (0 if s in of_world else OF_LINKS),
            mask=int(meets) | (0 if s in of_world else OF_LINKS),
            heights=tuple(map(tuple, heights)),
        )
        link = "world" if s in of_world else top.link_names[top.shape_link[s]]
        builder.add_shape(link, shape)
    for a, b in pairs:
        builder.add_pair(top.shape_names[a], top.shape_names[b])
