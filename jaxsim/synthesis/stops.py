"""Stops at the ends of the ranges of hinges and slides: a joint at its stop is held by the stop.

Of the generalised force L of such a joint the stop gives what pushes back into the range, the motor
the rest. So the limit of the motor's torque does not bound L on the side that the stop supports.
The stop pushes only where the joint ends the step at it: see ``pulled``.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.model import Topology
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.motor_torques import TorqueRange

FIRM, FIRMEST = 10.0, 40.0  # root of the weight on L at a limit, relative to it; doubles per pass


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Blocked:
    """Exclusions of the next pass: contacts and stops that separate under force, bounds."""

    contacts: Array  # (ne,) bool: must not carry force
    firm: Array  # (nv,) root of the weight on L where a stop must not push, elsewhere 0
    aims: Array  # (nv,) target of L there [N m or N]
    unbound: Array  # () bool: torques change as they need to, as no motion is within their bounds

    @classmethod
    def none(cls, gap: Array, v: Array) -> "Blocked":
        """Exclude nothing, before the first pass; gap (ne,), v (nv,) give shapes and types."""
        none = jnp.zeros_like(v)
        return cls(jnp.zeros(gap.shape, bool), none, none, jnp.asarray(False))

    def after(
        self, leaving: Array, pulled: Array, unbound: Array, torque: Array, motors: TorqueRange
    ) -> "Blocked":
        """Add what a pass found, for the next pass: contacts and stops that separate, bounds.

        leaving (ne,), pulled (nv,), unbound () bool; torque (nv,). Aims move by the error that is
        left, as multipliers do (the method of multipliers).
        """
        bound = jnp.where(pulled, motors.nearest(torque), 0.0)
        firm = jnp.clip(2 * self.firm, FIRM, FIRMEST)
        again = (self.firm / firm) ** 2 * (torque - self.aims)
        return Blocked(
            contacts=self.contacts | leaving,
            firm=jnp.where(pulled, firm, self.firm),
            aims=jnp.where(pulled, bound - again, self.aims),
            unbound=self.unbound | unbound,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stops:
    """Distances of the dofs from their stops, and the stops that may push in this step."""

    below: Array  # (nv,) from the lower stop; infinite where there is none [rad, m]
    above: Array  # (nv,) from the upper stop
    up: Array  # (nv,) bool: the lower stop may push, upwards
    down: Array  # (nv,) bool: the upper stop may push, downwards
    bears: Array  # (nv,) bool: one of both pushed in the step before
    firm: Array  # (nv,) see ``Blocked``
    aims: Array  # (nv,)
    motors: TorqueRange

    def velocity_bounds(self, dt) -> tuple[Array, Array]:
        """(nv,) lower and upper velocities that keep the dofs in their range at the step's end."""
        return -self.below / dt, self.above / dt

    def torque_bounds(self) -> tuple[Array, Array]:
        """(nv,) lower and upper bounds of L, where the motors stay in their range."""
        least, most = self.motors.least, self.motors.most
        return jnp.where(self.down, -jnp.inf, least), jnp.where(self.up, jnp.inf, most)

    def torque_goal(self, scale: Array, torque: Array, limit: Array) -> tuple[Array, Array]:
        """Scales and targets (nv,) of the rows that keep L near its last value.

        They are ``scale``, () or (nv,), and ``torque`` (nv,), except where a stop pushed in the
        step before (scale 0), and where L should be at the motor's limit (nv,).
        """
        scales = jnp.where(self.bears, 0.0, scale)
        some = self.firm > 0
        firm = self.firm / jnp.where(some, limit, 1.0)
        return jnp.where(some, firm, scales), jnp.where(some, self.aims, torque)

    def reaction(self, v: Array, torque: Array, config: SynthesisConfig) -> Array:
        """(nv,) share of the stops in L = torque (nv,), in a step that ends with v (nv,).

        At a stop it is all of L that pushes back into the range.
        """
        near = config.touch_distance
        low = self.up & (self.below + config.dt * v <= near)
        high = self.down & (self.above - config.dt * v <= near)
        return jnp.where(low, jnp.maximum(torque, 0.0), 0.0) + jnp.where(
            high, jnp.minimum(torque, 0.0), 0.0
        )

    def pulled(self, v: Array, torque: Array, config: SynthesisConfig) -> Array:
        """(nv,) bool: L leaves the motor's range, but the step does not end at the stop.

        Such a stop would have to push from a distance.
        """
        motor = torque - self.reaction(v, torque, config)
        return (self.up | self.down) & self.motors.exceeded(motor)


def with_stops(top: Topology) -> np.ndarray:
    """Indices of the hinges and slides with limits."""
    joints = [j for j in top.limited_joints if top.joint_kinds[j] in ("hinge", "slide")]
    return np.array(joints, int)


def stops(
    conf: Configuration,
    bears: Array,
    blocked: Blocked,
    motors: TorqueRange,
    unit: Units,
    config: SynthesisConfig,
) -> Stops:
    """Stops that the dofs may reach within this step. bears (nv,) bool: see ``Stops``."""
    below, above = _distances(conf)
    up, down = in_reach(conf, unit, config)
    return Stops(below, above, up, down, bears, blocked.firm, blocked.aims, motors)


def in_reach(conf: Configuration, unit: Units, config: SynthesisConfig) -> tuple[Array, Array]:
    """(nv,) bool each: the dof may reach its lower stop, its upper stop, within this step."""
    below, above = _distances(conf)
    up = below <= config.dt * jnp.maximum(unit.rate - conf.v, 0.0)
    return up, above <= config.dt * jnp.maximum(unit.rate + conf.v, 0.0)


def _distances(conf: Configuration) -> tuple[Array, Array]:
    """(nv,) distances from the lower and the upper stop; infinite where there is none [rad, m]."""
    top, model = conf.model.topology, conf.model
    below = jnp.full(top.nv, jnp.inf, conf.v.dtype)
    above = below
    at = with_stops(top)
    if at.size:
        dofs, q = np.array(top.v_start)[at], conf.q[np.array(top.q_start)[at]]
        below = below.at[dofs].set(q - model.joint_lower[at])
        above = above.at[dofs].set(model.joint_upper[at] - q)
    return below, above
