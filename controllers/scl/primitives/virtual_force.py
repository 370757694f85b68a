"""Virtual forces, and balance feedback, on a link by way of a joint (sections 3.2 and 3.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.compiler import Compiler
from controllers.scl.primitive import SIDED, Primitive, ScriptStep, role, stack
from controllers.scl.reader import Reader
from controllers.scl.roles import FORCE, GAIN
from controllers.scl.trees import subtree
from controllers.virtual_forces import balance_force, base_link, chain, virtual_force
from jaxsim.math.safe import safe_max


@dataclass(frozen=True)
class BalanceFeedback:
    """`sb(kp, kd)`, stance balance feedback: gains [N/m], [N s/m] of equation 3.4."""

    kp: Number = field(metadata=role(GAIN))
    kd: Number = field(metadata=role(GAIN))


class ForceRow(NamedTuple):
    """One force; in the table (P, K, ...) of each, K the most of one phase."""

    on: Any  # link of application
    base: Any  # base link
    chain: Any  # (nv,) sign with which each dof moves the link; zero: no force
    force: Any  # (2,) positions of the force [N], or of kp, kd
    balance: Any  # bool: a balance feedback


@dataclass(frozen=True)
class VirtualForce(Primitive):
    """`[vf (x, y) on: link, by: joint]`: a force [N], joint next to the base link."""

    keyword = "vf"
    syntax = '(pair | balance) ","? on ","? by'
    rules = 'balance: "sb" pair'
    usage = (
        "a virtual force reads [vf (0, 200) on: leftFoot, by: waist] "
        "or [vf sb(300, 30) on: trunk, by: leftAnkle]"
    )
    links = ("on",)
    twice = "its force now acts twice"

    force: tuple[Number, Number] | BalanceFeedback = field(metadata=role(FORCE))
    on: str = field(metadata=SIDED)
    by: str = field(metadata=SIDED)

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "VirtualForce":
        link, joint = reader.link(tree, "on"), reader.joint(tree, "by")
        force = subtree(tree, "pair", "balance")
        if force.data == "pair":
            label = f"vf {link} by {joint} force"
            return cls(reader.pair(force, f"{label} x", f"{label} y"), link, joint)
        label = f"sb {link} by {joint}"
        kp, kd = reader.pair(subtree(force, "pair"), f"{label} kp", f"{label} kd")
        return cls(BalanceFeedback(kp, kd), link, joint)

    def rows(self, compiler: Compiler) -> list[ForceRow]:
        top, force = compiler.top, self.force
        try:
            base = base_link(top, self.on, self.by)
        except ValueError as error:
            raise compiler.error(self.span, str(error)) from None
        balance = isinstance(force, BalanceFeedback)
        pair = (force.kp, force.kd) if isinstance(force, BalanceFeedback) else force
        on, positions = top.link(self.on), [number.index for number in pair]
        return [ForceRow(on, base, chain(top, on, base), positions, balance)]

    @classmethod
    def table(cls, phases: Sequence[Sequence[ForceRow]], compiler: Compiler) -> ForceRow:
        zero = compiler.zero
        return stack(phases, ForceRow(0, 0, np.zeros(compiler.top.nv), [zero, zero], False))

    @classmethod
    def torque(cls, table: ForceRow, step: ScriptStep) -> Array:
        kin, obs = step.obs.kin, step.obs
        torque = jnp.zeros(step.model.topology.nv, step.values.dtype)
        middle = _support_middle(table, step)
        for k in range(table.on.shape[1]):
            a, b = step.numbers(table.force)[k]
            given = jnp.stack([a, jnp.zeros_like(a), b])
            balance = balance_force(a, b, middle, obs.com, obs.com_velocity)
            force = jnp.where(step.row(table.balance)[k], balance, given)
            point = kin.com[step.row(table.on)[k]]
            along = jnp.asarray(table.chain, torque.dtype)[step.phase, k]
            torque = torque + virtual_force(step.model, kin, along, point, force)
        return torque


def _support_middle(table: ForceRow, step: ScriptStep) -> Array:
    """() middle of the x range that the bases of the phase's balance feedback cover [m]."""
    bases = np.unique(table.base[table.balance])
    if not bases.size:
        return jnp.zeros((), step.obs.com.dtype)
    model, kin = step.model, step.obs.kin
    shapes = np.array([model.topology.shape_link.index(link) for link in bases])
    half = model.shape_size[shapes, 2:] * np.array([1.0, 0.0, 0.0])  # along the shape's x
    local = model.shape_pos[shapes]
    rot, pos = kin.link_rot[bases], kin.link_pos[bases]
    x = jnp.stack(
        [pos[:, 0] + jnp.sum(rot[:, 0] * (local + side * half), axis=-1) for side in (1.0, -1.0)],
        axis=-1,
    )
    # (P, bases) which of them are bases in each phase
    by_phase = np.any((table.base[..., None] == bases) & table.balance[..., None], axis=1)
    used = step.row(by_phase)[:, None]
    far = 1e6
    low, high = -safe_max(-jnp.where(used, x, far)), safe_max(jnp.where(used, x, -far))
    return (low + high) / 2
