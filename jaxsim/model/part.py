"""Submodels: some trees of a model as a model, such as a character without moving surroundings."""

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from jaxsim.model.drives import Drive
from jaxsim.model.joints import Q_SIZE, V_SIZE
from jaxsim.model.model import Model
from jaxsim.model.roles import NO_ROLES
from jaxsim.model.topology import INDEX, WORLD, Topology

PER_LINK = ("mass", "com", "inertia")
PER_JOINT = (
    *("joint_pos", "joint_quat", "joint_axis", "joint_anchor"),
    *("joint_lower", "joint_upper"),
)
PER_DOF = ("damping", "armature", "gain_p", "gain_d", "torque_limit")
PER_SHAPE = ("shape_pos", "shape_quat", "shape_size", "friction", "restitution")
NO_GRIPS = ("grip_point", "grip_other_point", "grip_strength")


@dataclass(frozen=True, eq=False)
class Submodel:
    """Submodel: its topology, and the indices of its numbers in the whole model."""

    topology: Topology  # of the submodel
    links: np.ndarray  # (nl',) indices into the whole, as are the others
    joints: np.ndarray  # (nj',)
    q: np.ndarray  # (nq',)
    dofs: np.ndarray  # (nv',)
    shapes: np.ndarray  # (ns',)
    driven: np.ndarray  # (nd',) rows of ``Model.drive``
    whole: bool  # nothing is left out

    def of(self, model: Model) -> Model:
        """Submodel of a model (of a batch, of one member) that has the whole topology.

        The model itself where nothing is left out.
        """
        if self.whole:
            return model
        rows = {
            **dict.fromkeys(PER_LINK, self.links),
            **dict.fromkeys(PER_JOINT, self.joints),
            **dict.fromkeys(PER_DOF, self.dofs),
            **dict.fromkeys(PER_SHAPE, self.shapes),
            **dict.fromkeys(NO_GRIPS, np.zeros(0, INDEX)),
        }
        arrays = {name: getattr(model, name)[at] for name, at in rows.items()}
        drive = Drive(**{f.name: getattr(model.drive, f.name)[self.driven] for f in fields(Drive)})
        return replace(model, topology=self.topology, drive=drive, **arrays)


@lru_cache(maxsize=64)
def part_of(top: Topology, links: tuple[bool, ...]) -> Submodel:
    """Submodel of the trees whose links are marked (nl,), with their shapes.

    It has no shapes of the world and no grips, and the roles if it has all links that they name.
    Raises ValueError for a mark that would cut a tree.
    """
    for link, parent in enumerate(top.link_parent):
        if parent != WORLD and links[parent] != links[link]:
            raise ValueError(
                f"links {top.link_names[parent]!r} and {top.link_names[link]!r} are of one tree;"
                " take both or none"
            )
    if all(links):
        return _everything(top)
    of_link = np.flatnonzero(links)
    joints = np.array([j for j, link in enumerate(top.joint_link) if links[link]], INDEX)
    shapes = np.array([s for s, k in enumerate(top.shape_link) if k != WORLD and links[k]], INDEX)
    topology = _part_topology(top, of_link, joints, shapes)
    driven = np.flatnonzero(np.array(top.joint_driven)[joints])
    before = np.cumsum(top.joint_driven) - 1
    return Submodel(
        topology=topology,
        links=of_link.astype(INDEX),
        joints=joints,
        q=_ranges(top.q_start, Q_SIZE, top.joint_kinds, joints),
        dofs=_ranges(top.v_start, V_SIZE, top.joint_kinds, joints),
        shapes=shapes,
        driven=before[joints[driven]].astype(INDEX),
        whole=False,
    )


def _part_topology(
    top: Topology, of_link: np.ndarray, joints: np.ndarray, shapes: np.ndarray
) -> Topology:
    """Topology of some links, joints and shapes, by their indices in the whole."""
    new_link = {int(link): k for k, link in enumerate(of_link)} | {WORLD: WORLD}
    new_joint = {int(joint): k for k, joint in enumerate(joints)} | {WORLD: WORLD}
    new_shape = {int(shape): k for k, shape in enumerate(shapes)}
    names = {top.link_names[k] for k in of_link}
    has_roles = all(link in names for _, link in top.roles.links)

    def some(name: str, at: np.ndarray) -> tuple:
        values = getattr(top, name)
        return tuple(values[k] for k in at)

    return replace(
        top,
        link_names=some("link_names", of_link),
        link_parent=tuple(new_link[k] for k in some("link_parent", of_link)),
        joint_parent=tuple(new_joint[k] for k in some("joint_parent", joints)),
        joint_link=tuple(new_link[k] for k in some("joint_link", joints)),
        **{
            f"joint_{name}": some(f"joint_{name}", joints)
            for name in ("names", "kinds", "limited", "actuated", "driven")
        },
        **{f"shape_{name}": some(f"shape_{name}", shapes) for name in ("names", "kinds", "field")},
        shape_link=tuple(new_link[k] for k in some("shape_link", shapes)),
        shape_pairs=tuple(
            (new_shape[a], new_shape[b])
            for a, b in top.shape_pairs
            if a in new_shape and b in new_shape
        ),
        covered_ends=tuple((new_shape[s], e) for s, e in top.covered_ends if s in new_shape),
        flush_faces=tuple(
            (new_shape[a], face, new_shape[b])
            for a, face, b in top.flush_faces
            if a in new_shape and b in new_shape
        ),
        grip_names=(),
        grip_link=(),
        grip_other=(),
        roles=top.roles if has_roles else NO_ROLES,
    )


def _everything(top: Topology) -> Submodel:
    sizes = top.n_links, top.n_joints, top.nq, top.nv, len(top.shape_names), sum(top.joint_driven)
    return Submodel(top, *(np.arange(n, dtype=INDEX) for n in sizes), whole=True)


def _ranges(start, size, kinds, joints) -> np.ndarray:
    parts = [np.arange(start[j], start[j] + size[kinds[j]]) for j in joints]
    return np.concatenate([np.zeros(0, int), *parts]).astype(INDEX)


def main_part(top: Topology) -> Submodel:
    """Submodel of the first character of a world (see ``Topology.main_links``)."""
    return part_of(top, tuple(top.main_links.tolist()))


ALIKE = (
    *("link_parent", "joint_parent", "joint_link", "joint_kinds", "joint_limited"),
    *("joint_actuated", "joint_driven", "shape_kinds", "shape_link"),
)


def character_parts(top: Topology) -> tuple[Submodel, ...]:
    """Submodels of all characters of a world: the first, and free trees of the same structure.

    For example a child beside an adult. All of them have the names and roles of the first.
    """
    main = main_part(top)
    roots = [
        link
        for link in np.unique(top.link_root)
        if any(top.joint_link[j] == link for j in top.root_joints)
    ]
    parts = [part_of(top, tuple((np.asarray(top.link_root) == link).tolist())) for link in roots]
    parts = [p for p in parts if not np.array_equal(p.links, main.links)]
    alike = [
        p
        for p in parts
        if all(getattr(p.topology, name) == getattr(main.topology, name) for name in ALIKE)
    ]
    return (main, *(replace(part, topology=main.topology) for part in alike))


def driven_part(top: Topology) -> Submodel:
    """Submodel of the trees that have a joint with prescribed motion."""
    trees = {int(top.link_root[top.joint_link[j]]) for j, d in enumerate(top.joint_driven) if d}
    return part_of(top, tuple(int(root) in trees for root in top.link_root))
