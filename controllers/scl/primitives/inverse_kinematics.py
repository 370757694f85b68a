"""Inverse kinematics of limbs of two links (section 3.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.compiler import Compiler
from controllers.scl.primitive import (
    SIDED,
    JointTargets,
    Primitive,
    ScriptStep,
    between,
    near,
    role,
    stack,
)
from controllers.scl.reader import Reader
from controllers.scl.roles import POSITION, TIME
from controllers.scl.trees import subtree, subtrees, words
from jaxsim.math.safe import safe_arccos, safe_norm
from jaxsim.model import Model
from jaxsim.model.topology import WORLD, Topology

NEITHER, FIRST, SECOND = range(3)  # joint of a limb that a script joint is


class LimbRow(NamedTuple):
    """Limb whose end goes through points; in the table (P, K, ...) of each."""

    joints: Any  # (3,) script joints: first, second, end; -1: no limb
    relative: Any  # joint (node) whose place at the start is the origin
    points: Any  # (G, 2) positions of the points [m]
    count: Any  # number of points
    duration: Any  # position of the time [s]


class LimbTable(NamedTuple):
    """Limbs of all phases, and which joint of a limb each script joint is."""

    limbs: LimbRow
    joint: np.ndarray  # (P, J) NEITHER, FIRST, SECOND; by the later one of a phase's limbs


@dataclass(frozen=True)
class IK(Primitive):
    """`[ik (x, y), ... on: joints rel: joint time: t]`: points [m] that the joints reach in turn.

    They are relative to where `rel` was, in the world, when the phase began.
    """

    keyword = "ik"
    syntax = 'pair ("," pair)* ","? on ","? rel (","? time)?'
    usage = (
        "inverse kinematics read [ik (0.25, 0.3), (0.2, -0.05) on: rightAnkle rel: leftAnkle "
        "time: 0.35]"
    )

    targets: tuple[tuple[Number, Number], ...] = field(metadata=role(POSITION))
    on: tuple[str, ...] = field(metadata=SIDED)
    rel: str = field(metadata=SIDED)
    time: Number | None = field(metadata=role(TIME))

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "IK":
        [name] = words(subtree(tree, "on"), "NAME")
        joints = reader.joints(name, "'on:' of ik")
        base, label = reader.joint(tree, "rel"), f"ik {name}"
        points = tuple(
            reader.pair(pair, f"{label} point {count} x", f"{label} point {count} y")
            for count, pair in enumerate(subtrees(tree, "pair"), start=1)
        )
        return cls(points, joints, base, reader.time(tree, label))

    def rows(self, compiler: Compiler) -> list[LimbRow]:
        return [self._row(name, compiler) for name in self.on]

    def _row(self, name: str, compiler: Compiler) -> LimbRow:
        """The two-link limb that ends at joint ``name`` (a wrist or an ankle)."""
        top, joints = compiler.top, compiler.joints
        limb = _limb(top, name, joints)
        if limb is None:
            ends = ", ".join(joint for joint in joints if _limb(top, joint, joints)) or "none"
            raise compiler.error(
                self.span,
                "ik moves a limb of two links, whose end is a wrist or an ankle;"
                f" '{name}' ends none",
                f"joints that end one: {ends}",
            )
        return LimbRow(
            [compiler.joint(top.joint_names[j]) for j in limb],
            top.joint(self.rel),
            [[x.index, y.index] for x, y in self.targets],
            len(self.targets),
            compiler.position(self.time),
        )

    @classmethod
    def joints_of(cls, row: LimbRow) -> tuple[int, ...]:
        return tuple(row.joints[:2])

    @classmethod
    def table(cls, phases: Sequence[Sequence[LimbRow]], compiler: Compiler) -> LimbTable:
        zero, most = compiler.zero, max(row.count for rows in phases for row in rows)
        blank = LimbRow([-1] * 3, 0, [[zero, zero]] * most, 1, zero)
        filled = [
            [row._replace(points=(row.points + blank.points)[:most]) for row in rows]
            for rows in phases
        ]
        joint = np.full((len(phases), len(compiler.joints)), NEITHER)
        for p, rows in enumerate(phases):
            for row in rows:
                joint[p, row.joints[0]], joint[p, row.joints[1]] = FIRST, SECOND
        return LimbTable(stack(filled, blank), joint)

    @classmethod
    def joint_targets(cls, table: LimbTable, step: ScriptStep) -> JointTargets:
        joint, index = step.row(table.joint), np.arange(table.joint.shape[1])
        angle = step.last_target
        for k in range(table.limbs.count.shape[1]):
            first, second, angle_first, angle_second = _limb_angles(table.limbs, step, k)
            angle = jnp.where((joint == FIRST) & (index == first), angle_first, angle)
            angle = jnp.where((joint == SECOND) & (index == second), angle_second, angle)
        return JointTargets(near(angle, step.middles))


def _limb(top: Topology, name: str, joints: Sequence[str]) -> tuple[int, int, int] | None:
    """Joints first, second and end of the limb that ends at joint ``name``, all of the script.

    Nothing else may hang on its two links: turning them would move more than the end.
    """
    end = top.joint(name)
    second = top.joint_parent[end]
    first = top.joint_parent[second] if second != WORLD else WORLD
    if first == WORLD or any(top.joint_names[j] not in joints for j in (first, second, end)):
        return None
    branches = top.joint_parent.count(first) > 1 or top.joint_parent.count(second) > 1
    return None if branches else (first, second, end)


def _limb_angles(limbs: LimbRow, step: ScriptStep, k: int) -> tuple[Array, Array, Array, Array]:
    """Two-link inverse kinematics of limb ``k``: its two script joints, and their angles [rad].

    The target runs along straight pieces of equal time from where the end was when the phase began.
    Out of reach means stretched towards the target. Source: Shen's thesis, section 3.5.
    """
    model, middle = step.model, step.middles
    first, second, end = (step.row(limbs.joints)[k, i] for i in range(3))
    nodes = jnp.asarray(model.topology.dof_joint[step.dofs])
    begin = step.start_anchors[nodes[end]]
    origin = step.start_anchors[step.row(limbs.relative)[k]]
    points = step.numbers(limbs.points)[k] + origin
    count = step.row(limbs.count)[k]
    done = step.fraction(step.numbers(limbs.duration)[k]) * count
    piece = jnp.minimum(jnp.floor(done).astype(count.dtype), count - 1)
    previous = jnp.where(piece == 0, begin, points[jnp.maximum(piece - 1, 0)])
    target = between(previous, points[piece], done - piece)

    # limbs extend along -x of their links: root - target = l1 u(phi1) + l2 u(phi1 + angle2)
    l1 = _length(model, nodes[second])
    l2 = _length(model, nodes[end])
    root = step.obs.kin.joint_anchor[nodes[first], ::2]
    away = root - target
    reach = jnp.clip(safe_norm(away), jnp.abs(l1 - l2) + 1e-4, l1 + l2 - 1e-4)
    cosine = (reach**2 - l1**2 - l2**2) / (2 * l1 * l2)
    angle2 = jnp.where(middle[second] >= 0, 1.0, -1.0) * safe_arccos(cosine)
    phi1 = jnp.arctan2(away[1], away[0]) - jnp.arctan2(
        l2 * jnp.sin(angle2), l1 + l2 * jnp.cos(angle2)
    )
    parent = step.links[jnp.asarray(step.parent)[first]]
    return first, second, phi1 - parent, angle2


def _length(model: Model, node: Array) -> Array:
    """Distance from the joint before ``node`` to it [m]."""
    return safe_norm(model.joint_pos[node])
