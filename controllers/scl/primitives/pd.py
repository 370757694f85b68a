"""PD control: joints that track angles, of their own or of a link in the world."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.compiler import Compiler
from controllers.scl.primitive import (
    SIDED,
    JointTargets,
    Primitive,
    ScriptStep,
    between,
    by_joint,
    near,
    role,
)
from controllers.scl.reader import Reader
from controllers.scl.roles import ANGLE, TIME
from controllers.scl.trees import name_list, subtrees, words

JOINT, CHILD, PARENT = range(3)
FRAMES = {"joint": JOINT, "child": CHILD, "parent": PARENT}


@dataclass(frozen=True)
class PDTarget:
    """Joints that track one angle [deg]: of the joint itself, or of a link in the world."""

    joints: tuple[str, ...] = field(metadata=SIDED)
    angle: Number = field(metadata=role(ANGLE))
    frame: Literal["joint", "child", "parent"]


class PDRow(NamedTuple):
    """Target of one joint; in the table (P, J) of each."""

    joint: Any
    frame: Any
    angle: Any  # position of the angle [deg]
    duration: Any  # position of the time [s]


@dataclass(frozen=True)
class PD(Primitive):
    """`[hips 40, knees -90 child time: 0.5]`: targets reached in `time` [s], None: at once."""

    syntax = 'target ("," target)* (","? time)?'
    rules = """
target: NAME number (CHILD | PARENT)?
CHILD: "child"
PARENT: "parent"
"""
    usage = "PD control reads [hips 40, knees -90 child time: 0.5]"

    targets: tuple[PDTarget, ...]
    time: Number | None = field(metadata=role(TIME))

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "PD":
        targets = subtrees(tree, "target")
        names = name_list([name for target in targets for name in words(target, "NAME")])
        return cls(tuple(_target(each, reader) for each in targets), reader.time(tree, names))

    def rows(self, compiler: Compiler) -> list[PDRow]:
        duration = compiler.position(self.time)
        return [
            PDRow(compiler.joint(name), FRAMES[target.frame], target.angle.index, duration)
            for target in self.targets
            for name in target.joints
        ]

    @classmethod
    def joints_of(cls, row: PDRow) -> tuple[int, ...]:
        return (row.joint,)

    @classmethod
    def table(cls, phases: Sequence[Sequence[PDRow]], compiler: Compiler) -> PDRow:
        blank = PDRow(-1, JOINT, compiler.zero, compiler.zero)
        return by_joint(phases, len(compiler.joints), blank)

    @classmethod
    def joint_targets(cls, table: PDRow, step: ScriptStep) -> JointTargets:
        """Targets that move along a line from where the joint, or its link, was at the start."""
        frame, goal = step.row(table.frame), jnp.deg2rad(step.numbers(table.angle))
        done = step.fraction(step.numbers(table.duration))
        child, parent = step.links[step.child], step.links[step.parent]
        start_child, start_parent = step.start_links[step.child], step.start_links[step.parent]
        in_child = between(start_child - parent, near(goal - parent, step.middles), done)
        in_parent = between(child - start_parent, near(child - goal, step.middles), done)
        angle = jnp.where(frame == CHILD, in_child, between(step.start_angles, goal, done))
        return JointTargets(jnp.where(frame == PARENT, in_parent, angle))


def _target(tree: Tree[Token], reader: Reader) -> PDTarget:
    [name], frame = words(tree, "NAME"), words(tree, "CHILD", "PARENT")
    joints = reader.joints(name, "a PD controller")
    [angle] = reader.numbers(tree, f"{name} angle")
    if frame:
        return PDTarget(joints, angle, "child" if frame[0].type == "CHILD" else "parent")
    _check_range(str(name), joints, angle, reader)
    return PDTarget(joints, angle, "joint")


def _check_range(name: str, joints: tuple[str, ...], angle: Number, reader: Reader) -> None:
    """Warn, once per range, of the joints whose range does not hold the angle."""
    outside: dict[tuple[float, float], list[str]] = {}
    for joint in joints:
        lower, upper = reader.vocabulary.joint_range_deg.get(joint, (angle.value, angle.value))
        if not lower <= angle.value <= upper:
            outside.setdefault((lower, upper), []).append(joint)
    for (lower, upper), names in outside.items():
        who = name if len(names) == len(joints) else ", ".join(names)
        reader.warn(
            angle.span.start,
            f"{who}: {angle.value:g} deg is outside the range of {lower:g} to {upper:g} deg",
            "the target is kept; the joint is held back by its limit",
        )
