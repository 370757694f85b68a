"""Relaxed joints: no stiffness, and part of the damping."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.compiler import Compiler
from controllers.scl.primitive import (
    SIDED,
    JointTargets,
    Primitive,
    ScriptStep,
    by_joint,
    role,
)
from controllers.scl.reader import Reader
from controllers.scl.roles import STRENGTH
from controllers.scl.trees import name_list, words


class RelaxRow(NamedTuple):
    """Relaxed joint; in the table (P, J) of each."""

    joint: Any
    strength: Any  # position of the factor of the damping


@dataclass(frozen=True)
class Relax(Primitive):
    """`[relax joints strength s]`: track the present angle, with torques scaled by s in 0..1."""

    keyword = "relax"
    syntax = 'NAME ("," NAME)* ","? "strength" number'
    usage = "relaxed joints read [relax shoulders, elbows strength 0.1]"

    joints: tuple[str, ...] = field(metadata=SIDED)
    strength: Number = field(metadata=role(STRENGTH))

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "Relax":
        names = words(tree, "NAME")
        joints = [joint for name in names for joint in reader.joints(name, "relax")]
        [strength] = reader.numbers(tree, f"relax {name_list(names)} strength")
        if not 0 <= strength.value <= 1:
            raise reader.source.error(
                strength.span.start,
                f"strength {strength.value:g} is outside 0 to 1",
                "0 lets the joints swing freely, 1 keeps all of their damping",
            )
        return cls(tuple(dict.fromkeys(joints)), strength)

    def rows(self, compiler: Compiler) -> list[RelaxRow]:
        return [RelaxRow(compiler.joint(name), self.strength.index) for name in self.joints]

    @classmethod
    def joints_of(cls, row: RelaxRow) -> tuple[int, ...]:
        return (row.joint,)

    @classmethod
    def table(cls, phases: Sequence[Sequence[RelaxRow]], compiler: Compiler) -> RelaxRow:
        return by_joint(phases, len(compiler.joints), RelaxRow(-1, compiler.zero))

    @classmethod
    def joint_targets(cls, table: RelaxRow, step: ScriptStep) -> JointTargets:
        return JointTargets(step.angles, 0.0, step.numbers(table.strength))
