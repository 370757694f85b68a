"""Gravity compensation of the whole body on a link that stands (section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from lark import Token, Tree

from controllers.scl.compiler import Compiler
from controllers.scl.primitive import SIDED, Primitive, ScriptStep
from controllers.scl.reader import Reader
from controllers.virtual_forces import gravity_compensation


class GravityTable(NamedTuple):
    """Bases of gravity compensation; P phases."""

    base: np.ndarray  # (P, nv) mean link_dofs of the bases
    on: np.ndarray  # (P,) bool


@dataclass(frozen=True)
class GravityCompensation(Primitive):
    """`[gc by: joint]`, gravity compensation (section 3.3) with the joint next to the base link.

    An extension: the thesis describes the primitive, but table 4.4 gives no word for it.
    """

    keyword = "gc"
    syntax = "by"
    usage = "gravity compensation reads [gc by: leftAnkle]"
    twice = "its force now acts twice"

    by: str = field(metadata=SIDED)

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "GravityCompensation":
        return cls(reader.joint(tree, "by"))

    def rows(self, compiler: Compiler) -> list[int]:
        """The base link."""
        return [compiler.top.joint_link[compiler.top.joint(self.by)]]

    @classmethod
    def table(cls, phases: Sequence[Sequence[int]], compiler: Compiler) -> GravityTable:
        base = np.zeros((len(phases), compiler.top.nv))
        for p, links in enumerate(phases):
            if links:
                base[p] = np.mean([compiler.top.link_dofs[link] for link in links], axis=0)
        return GravityTable(base, np.array([bool(links) for links in phases]))

    @classmethod
    def torque(cls, table: GravityTable, step: ScriptStep) -> Array:
        base = jnp.asarray(table.base, step.values.dtype)[step.phase]
        torque = gravity_compensation(step.model, step.obs.kin, step.obs.com, base)
        return jnp.where(step.row(table.on), torque, 0.0)
