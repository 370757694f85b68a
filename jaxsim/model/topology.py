"""Static part of a model: names, kinds and tree structure, as hashable tuples.

Joints are the nodes of the tree. A link with several joints has several nodes, massless except the
last; a link without any has one fixed node. Tables for the dynamics (ancestor masks, depth levels,
index tables) are derived here once, as numpy constants.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from jaxsim.model.joints import Q_SIZE, V_SIZE
from jaxsim.model.kinds import KINDS, ShapeKind
from jaxsim.model.roles import NO_ROLES, Roles

WORLD = -1

# Cached index arrays are int32: with int64 ones, JAX 0.10 fails to trace a function in float32 that
# it has already traced in float64, and the other way round.
INDEX = np.int32


class FieldReach(NamedTuple):
    """Window of a height field in which shapes look for contacts, in cells."""

    ball: int  # cells to each side of the node nearest to a ball
    side: int  # cells to each side of the node nearest to half a capsule
    box: int  # nodes to each side of the one nearest to a box
    box_lines: int  # grid lines of one direction that an edge of a box can cross


@dataclass(frozen=True)
class Topology:
    """Static structure of a model: names, kinds and parents. Index -1 is the world throughout."""

    link_names: tuple[str, ...]
    link_parent: tuple[int, ...]
    joint_names: tuple[str, ...]
    joint_kinds: tuple[str, ...]
    joint_parent: tuple[int, ...]  # the joint (node) before this one on the way to the world
    joint_link: tuple[int, ...]
    joint_limited: tuple[bool, ...]
    joint_actuated: tuple[bool, ...]
    joint_driven: tuple[bool, ...]
    shape_names: tuple[str, ...]
    shape_kinds: tuple[str, ...]
    shape_link: tuple[int, ...]
    shape_pairs: tuple[tuple[int, int], ...]
    covered_ends: tuple[tuple[int, int], ...]  # (shape, end) balls hidden inside a neighbour's
    grip_names: tuple[str, ...]
    grip_link: tuple[int, ...]
    grip_other: tuple[int, ...]  # gripped link, -1 for the world
    planar: bool  # every joint moves in the x-z plane
    shape_field: tuple[int, ...] = ()  # (ns,) index into the model's heights, else -1
    field_reach: tuple[FieldReach, ...] = ()  # one a height field
    flush_faces: tuple[tuple[int, int, int], ...] = ()  # (box, face, neighbour), see model.seams
    roles: Roles = NO_ROLES  # of the character's links

    @property
    def n_links(self) -> int:
        return len(self.link_names)

    @property
    def n_joints(self) -> int:
        return len(self.joint_names)

    @cached_property
    def q_start(self) -> tuple[int, ...]:
        """(nj) index in q of each joint's first position."""
        return tuple(np.cumsum([0] + [Q_SIZE[k] for k in self.joint_kinds])[:-1].tolist())

    @cached_property
    def v_start(self) -> tuple[int, ...]:
        """(nj) index in v of each joint's first velocity."""
        return tuple(np.cumsum([0] + [V_SIZE[k] for k in self.joint_kinds])[:-1].tolist())

    @cached_property
    def nq(self) -> int:
        return sum(Q_SIZE[k] for k in self.joint_kinds)

    @cached_property
    def nv(self) -> int:
        return sum(V_SIZE[k] for k in self.joint_kinds)

    @cached_property
    def link_joint(self) -> tuple[int, ...]:
        """Last joint (node) of each link, whose frame is the link's."""
        last = dict(zip(self.joint_link, range(self.n_joints), strict=True))
        return tuple(last[link] for link in range(self.n_links))

    @cached_property
    def link_root(self) -> np.ndarray:
        """(nl,) root link of the tree that each link belongs to."""
        root = []
        for link, parent in enumerate(self.link_parent):
            root.append(link if parent == WORLD else root[parent])
        return np.array(root, INDEX)

    @cached_property
    def joint_levels(self) -> tuple[tuple[int, ...], ...]:
        """Joints by depth: level k needs only level k - 1."""
        return _levels(self.joint_parent)

    @cached_property
    def dof_joint(self) -> np.ndarray:
        """(nv,) joint of each degree of freedom."""
        joints = np.arange(self.n_joints, dtype=INDEX)
        return np.repeat(joints, [V_SIZE[k] for k in self.joint_kinds])

    @cached_property
    def dof_link(self) -> np.ndarray:
        """(nv,) link that each degree of freedom moves first."""
        return np.array(self.joint_link, INDEX)[self.dof_joint]

    @cached_property
    def dof_stage(self) -> np.ndarray:
        """(nv,) stage within a joint: 0 for the translations of a free joint, 1 for all else.

        A free joint acts as slides, then a ball.
        """
        stages = {kind: [1] * size for kind, size in V_SIZE.items()} | {"free": [0] * 3 + [1] * 3}
        return np.array([s for kind in self.joint_kinds for s in stages[kind]], INDEX)

    @cached_property
    def dof_parent(self) -> tuple[int, ...]:
        """Parent of each degree of freedom: the next one on the way to the world, or -1."""
        last: dict[int, int] = {}
        parents = []
        for j in range(self.n_joints):
            before = last.get(self.joint_parent[j], -1)
            for _ in range(V_SIZE[self.joint_kinds[j]]):
                parents.append(before)
                before = len(parents) - 1
            last[j] = before
        return tuple(parents)

    @cached_property
    def dof_levels(self) -> tuple[tuple[int, ...], ...]:
        """Degrees of freedom by depth; those of one level lie on different branches."""
        return _levels(self.dof_parent)

    @cached_property
    def dof_ancestors(self) -> np.ndarray:
        """(nv, nv) bool: [d, e] is true where e is d or lies between d and the world."""
        mask = np.zeros((self.nv, self.nv), bool)
        for d, parent in enumerate(self.dof_parent):
            if parent != WORLD:
                mask[d] = mask[parent]
            mask[d, d] = True
        return mask

    @cached_property
    def dof_before(self) -> np.ndarray:
        """(nv, nv) bool: [d, e] where e moves the frame that carries the axis of d."""
        joint, stage = self.dof_joint, self.dof_stage
        same = (joint[:, None] == joint[None, :]) & (stage[:, None] <= stage[None, :])
        return self.dof_ancestors & ~same

    @cached_property
    def link_dofs(self) -> np.ndarray:
        """(nl, nv) bool: degree of freedom d moves link l."""
        mask = np.zeros((self.n_links, self.nv), bool)
        joint_mask = np.zeros((self.n_joints, self.nv), bool)
        for j, parent in enumerate(self.joint_parent):
            if parent != WORLD:
                joint_mask[j] = joint_mask[parent]
            joint_mask[j, self.dof_joint == j] = True
        for link, joint in enumerate(self.link_joint):
            mask[link] = joint_mask[joint]
        return mask

    def joints_of(self, kind: str) -> np.ndarray:
        """Indices of the joints of one kind."""
        return np.array([j for j, k in enumerate(self.joint_kinds) if k == kind], INDEX)

    def link(self, name: str) -> int:
        """Index of a link by name; KeyError lists the names."""
        return _find(name, self.link_names, "link")

    def part(self, name: str) -> int:
        """Index of the link in a role, or else of that name; KeyError lists both."""
        played = self.roles.link(name)
        if played is not None or name in self.link_names:
            return self.link_names.index(played or name)
        roles = ", ".join(role for role, _ in self.roles.links)
        raise KeyError(
            f"no link or role named {name!r}; the links are: {', '.join(self.link_names)}"
            + (f"; the roles: {roles}" if roles else "")
        )

    def parts(self, names: Iterable[str]) -> list[int]:
        """Indices of the links in some roles; roles that the body lacks are left out."""
        return [self.part(name) for name in names if self.roles.link(name) is not None]

    def require(self, asker: str, *roles: str) -> None:
        """Raise ModelError unless there are links in these roles, see ``Roles.require``."""
        self.roles.require(asker, roles, self.link_names)

    @cached_property
    def root_joints(self) -> tuple[int, ...]:
        """Joints of links that move freely in the world, or in its x-z plane."""
        by_link: dict[int, list[int]] = {}
        for j, link in enumerate(self.joint_link):
            if self.link_parent[link] == WORLD:
                by_link.setdefault(link, []).append(j)
        kinds = {link: [self.joint_kinds[j] for j in joints] for link, joints in by_link.items()}
        floating = [k for k in by_link if "free" in kinds[k] or kinds[k].count("slide") > 1]
        return tuple(j for link in floating for j in by_link[link])

    @cached_property
    def root_height(self) -> int | None:
        """Index in q of the height of the first free root; None where nothing moves freely."""
        for j in self.root_joints:
            if self.joint_kinds[j] == "free":
                return self.q_start[j] + 2
        slides = [j for j in self.root_joints if self.joint_kinds[j] == "slide"]
        return self.q_start[slides[1]] if slides else None

    @cached_property
    def main_links(self) -> np.ndarray:
        """(nl,) bool: tree of the first link that moves freely, which is a world's character.

        All links where none moves freely.
        """
        if not self.root_joints:
            return np.ones(self.n_links, bool)
        return np.asarray(self.link_root == self.joint_link[self.root_joints[0]])

    def joint(self, name: str) -> int:
        """Index of a joint by name; KeyError lists the names."""
        return _find(name, self.joint_names, "joint")

    def dof(self, joint_name: str) -> int:
        """Index into v of a hinge's or slide's velocity."""
        return self.v_start[self.joint(joint_name)]

    def shape(self, name: str) -> int:
        """Index of a shape by name; KeyError lists the names."""
        return _find(name, self.shape_names, "shape")

    @cached_property
    def limited_joints(self) -> tuple[int, ...]:
        return tuple(j for j, limited in enumerate(self.joint_limited) if limited)

    @cached_property
    def actuated_joints(self) -> tuple[int, ...]:
        return tuple(j for j, actuated in enumerate(self.joint_actuated) if actuated)

    @cached_property
    def actuated_dofs(self) -> np.ndarray:
        """Indices into v of all dofs of joints with a motor."""
        return np.flatnonzero(np.array(self.joint_actuated, bool)[self.dof_joint])

    @cached_property
    def actuated_dof_names(self) -> tuple[str, ...]:
        """Name of the joint of each actuated dof, for a ball joint with the axis: "neck x"."""
        names = []
        for dof, joint in zip(self.actuated_dofs, self.dof_joint[self.actuated_dofs]):
            axis = (
                f" {'xyz'[dof - self.v_start[joint]]}" if self.joint_kinds[joint] == "ball" else ""
            )
            names.append(self.joint_names[joint] + axis)
        return tuple(names)

    @cached_property
    def driven_dofs(self) -> np.ndarray:
        """Indices into v of the joints whose motion is prescribed."""
        return np.array([s for s, d in zip(self.v_start, self.joint_driven) if d], INDEX)

    @property
    def n_grips(self) -> int:
        return len(self.grip_names)

    def grip(self, name: str) -> int:
        """Index of a grip by name; KeyError lists the names."""
        return _find(name, self.grip_names, "grip")

    def shape_record(self, shape: int) -> ShapeKind:
        """Record of a shape's kind."""
        return KINDS[self.shape_kinds[shape]]

    def ends_of(self, shape: int) -> tuple[int, ...]:
        """End balls of a sphere or capsule that can touch first, see ``covered_ends``."""
        ends = range(self.shape_record(shape).ends)
        return tuple(e for e in ends if (shape, e) not in self.covered_ends)


def _levels(parents: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent == WORLD else depth[parent] + 1)
    return tuple(
        tuple(i for i, d in enumerate(depth) if d == k) for k in range(max(depth, default=-1) + 1)
    )


def _find(name: str, names: tuple[str, ...], what: str) -> int:
    if name in names:
        return names.index(name)
    raise KeyError(f"no {what} named {name!r}; the {what}s are: {', '.join(names)}")
