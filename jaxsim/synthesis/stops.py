"""Ends of the ranges of hinges and slides: a joint at its stop is held by it, not by its motor.

Of the generalised force L of such a joint the stop gives what pushes back into the range, the motor
the rest. So the limit of the motor's torque does not bound L on the side that the stop bears. The
stop pushes only where the joint ends the step at it: see ``pulled``.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.model import Topology
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.configuration import Configuration

EXCEEDS = 1.01  # a motor that gives more than this part of its limit does not
FIRM, FIRMEST = 10.0, 40.0  # root of the weight on L at a limit, in parts of that; it doubles


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Blocked:
    """What a pass over the step found: forces that would act though what bears them parts."""

    contacts: Array  # (ne,) bool: must not carry force
    firm: Array  # (nv,) root of the weight on L where a stop must not push, elsewhere 0
    aims: Array  # (nv,) where L should be then [N m or N]

    @classmethod
    def none(cls, gap: Array, v: Array) -> "Blocked":
        """Before the first pass; gap (ne,), v (nv,)."""
        return cls(jnp.zeros(gap.shape, bool), jnp.zeros_like(v), jnp.zeros_like(v))

    def after(self, leaving: Array, pulled: Array, torque: Array, limit: Array) -> "Blocked":
        """For the next pass: also what left in this one. leaving (ne,), pulled (nv,) bool; torque,
        limit (nv,). Aims move by what was missed, as multipliers do (the method of multipliers)."""
        bound = jnp.sign(torque) * jnp.where(pulled, limit, 0.0)
        firm = jnp.clip(2 * self.firm, FIRM, FIRMEST)
        again = (self.firm / firm) ** 2 * (torque - self.aims)
        return Blocked(
            contacts=self.contacts | leaving,
            firm=jnp.where(pulled, firm, self.firm),
            aims=jnp.where(pulled, bound - again, self.aims),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stops:
    """How far the dofs are from their stops, and which of these may push in this step."""

    below: Array  # (nv,) from the lower one; infinite where there is none [rad, m]
    above: Array  # (nv,) from the upper one
    up: Array  # (nv,) bool: the lower one may push, upwards
    down: Array  # (nv,) bool: the upper one may push, downwards
    bears: Array  # (nv,) bool: one of them pushed in the step before
    firm: Array  # (nv,) see ``Blocked``
    aims: Array  # (nv,)

    def velocity_bounds(self, dt) -> tuple[Array, Array]:
        """(nv,) velocities that keep the dofs within their range at the step's end."""
        return -self.below / dt, self.above / dt

    def torque_bounds(self, limit: Array) -> tuple[Array, Array]:
        """(nv,) of L, where the motors give at most ``limit`` (nv,)."""
        return jnp.where(self.down, -jnp.inf, -limit), jnp.where(self.up, jnp.inf, limit)

    def torque_goal(self, scale: Array, torque: Array, limit: Array) -> tuple[Array, Array]:
        """Scales and targets (nv,) of rows on L: scale, () or (nv,), and torque (nv,) but where a
        stop bore, which is not the motor's, or where L should be at the motor's limit (nv,)."""
        scales = jnp.where(self.bears, 0.0, scale)
        some = self.firm > 0
        firm = self.firm / jnp.where(some, limit, 1.0)
        return jnp.where(some, firm, scales), jnp.where(some, self.aims, torque)

    def reaction(self, v: Array, torque: Array, config: SynthesisConfig) -> Array:
        """(nv,) what the stops give of L = torque (nv,), as a step ends with v (nv,): all that
        pushes back into the range, where it ends at a stop."""
        near = config.touch_distance
        low = self.up & (self.below + config.dt * v <= near)
        high = self.down & (self.above - config.dt * v <= near)
        return jnp.where(low, jnp.maximum(torque, 0.0), 0.0) + jnp.where(
            high, jnp.minimum(torque, 0.0), 0.0
        )

    def pulled(self, v: Array, torque: Array, limit: Array, config: SynthesisConfig) -> Array:
        """(nv,) bool: beyond the motor's limit, though the step does not end at the stop: one that
        would have to push from afar."""
        motor = torque - self.reaction(v, torque, config)
        return (self.up | self.down) & (jnp.abs(motor) > EXCEEDS * limit)


def with_stops(top: Topology) -> np.ndarray:
    """Indices of the joints that have stops."""
    joints = [j for j in top.limited_joints if top.joint_kinds[j] in ("hinge", "slide")]
    return np.array(joints, int)


def stops(
    conf: Configuration, bears: Array, blocked: Blocked, unit: Units, config: SynthesisConfig
) -> Stops:
    """Those that their dofs may come to in this step. bears (nv,) bool: see ``Stops``."""
    top, model = conf.model.topology, conf.model
    below = jnp.full(top.nv, jnp.inf, conf.v.dtype)
    above = below
    at = with_stops(top)
    if at.size:
        dofs, q = np.array(top.v_start)[at], conf.q[np.array(top.q_start)[at]]
        below = below.at[dofs].set(q - model.joint_lower[at])
        above = above.at[dofs].set(model.joint_upper[at] - q)
    up = below <= config.dt * jnp.maximum(unit.rate - conf.v, 0.0)
    down = above <= config.dt * jnp.maximum(unit.rate + conf.v, 0.0)
    return Stops(below, above, up, down, bears, blocked.firm, blocked.aims)
