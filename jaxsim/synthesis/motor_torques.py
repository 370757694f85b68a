"""Muscle model: target and range of the motors' torques in a step.

For ``response_delay`` after the onset of a push the torques should stay at those of the onset, and
differ from them by ``STEADY`` at most, and by a ``reflex`` for what the push exceeds ``MODERATE``.
From one step to the next they change by ``torque_rate`` at most, unless contacts change. Ranges
hold only where torque limits do. Where no motion fits these bounds of change, the step is solved
again without them.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.safe import safe_norm
from jaxsim.model import Topology
from jaxsim.simulation.pushes import Pushes
from jaxsim.synthesis.config import SynthesisConfig, Units

STEADY = 0.1  # change of torque after a push of any force, at most [motor limits]
MODERATE = 0.22  # largest push that causes no reflex [body weights]
EXCEEDS = 0.01  # beyond its range by more, a motor's torque counts as outside [motor limits]


def motor_mask(top: Topology) -> np.ndarray:
    """(nv,) bool: dofs whose joint has a motor. The others obey L = 0."""
    return np.array([top.joint_actuated[j] for j in top.dof_joint], bool)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TorqueRange:
    """Range of the motors' torques in a step; infinite where there is no motor or no limit."""

    least: Array  # (nv,) [N m or N]
    most: Array  # (nv,)
    limit: Array  # (nv,)

    @property
    def narrowed(self) -> Array:
        """() bool: bounds of change make the range narrower than the limits."""
        return ((self.least > -self.limit) | (self.most < self.limit)).any()

    def nearest(self, torque: Array) -> Array:
        """(nv,) end of the range on the side of a torque (nv,)."""
        return jnp.where(torque > 0, self.most, self.least)

    def exceeded(self, torque: Array) -> Array:
        """(nv,) bool: a torque (nv,) is outside of the range by more than rounding."""
        slack = EXCEEDS * self.limit
        return (torque > self.most + slack) | (torque < self.least - slack)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TorqueAim:
    """Target of the motors' torques in a step, and bounds of their change."""

    target: Array  # (nv,) [N m or N]
    onset: Array  # (nv,) torques at the onset of the last push
    reflex: Array  # () bound of the difference from those; infinite without [motor limits]
    before: Array  # (nv,) torques in the step before
    on: Array  # (ne,) bool: effectors in contact in the step before
    step: Array  # () bound of the difference from those, while contacts stay [motor limits]

    def range(
        self, top: Topology, limit: Array, on: Array, unbound: Array, config: SynthesisConfig
    ) -> TorqueRange:
        """Range within torque limits (nv,) of a step with the contacts ``on`` (ne,) bool.

        unbound () bool: changes have no bounds in this step.
        """
        limit = jnp.where(motor_mask(top) & config.torque_limits, limit, jnp.inf)
        step = jnp.where((on != self.on).any(), jnp.inf, self.step)
        least, most = -limit, limit
        for centre, width in ((self.onset, self.reflex), (self.before, step)):
            bounded = jnp.isfinite(limit) & jnp.isfinite(width) & ~unbound
            change = jnp.where(bounded, limit, 0.0) * jnp.where(bounded, width, 0.0)
            inside = jnp.clip(centre, least, most)
            least = jnp.where(bounded, jnp.maximum(least, inside - change), least)
            most = jnp.where(bounded, jnp.minimum(most, inside + change), most)
        return TorqueRange(least, most, limit)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MotorMemory:
    """Torques of the motors in the last step, and at the onset of the last push."""

    torque: Array  # (nv,) in the last step [N m or N]
    on: Array  # (ne,) bool: effectors in contact in the last step
    onset: Array  # (nv,) at the onset of the last push [N m or N]
    until: Array  # () until when torques should stay at those [s]
    force: Array  # () of that push [body weights]

    @classmethod
    def begin(cls, nv: int, ne: int, time: Array) -> "MotorMemory":
        """Memory without torques, contacts and pushes, at a time () [s]."""
        none = jnp.zeros(nv, time.dtype)
        return cls(none, jnp.zeros(ne, bool), none, time - 1.0, jnp.zeros_like(time))

    def felt(
        self, pushes: Pushes | None, time: Array, unit: Units, config: SynthesisConfig
    ) -> "MotorMemory":
        """Memory in the step from a time () [s] on, in which a push on the character may begin.

        A push begins in the first step whose middle it covers.
        """
        if pushes is None:
            return self
        since = time + config.dt / 2 - pushes.start
        starts = (since >= 0) & (since < config.dt) & (pushes.duration > 0) & (pushes.link >= 0)
        force = jnp.sum(jnp.where(starts[:, None], pushes.force, 0.0), axis=0)
        weights, until = safe_norm(force) / unit.force, time + config.response_delay
        begun = replace(self, onset=self.torque, until=until, force=weights)
        return jax.tree.map(lambda x, y: jnp.where(starts.any(), x, y), begun, self)

    def aim(self, time: Array, config: SynthesisConfig) -> TorqueAim:
        """Target and bounds in the step from a time () [s] on."""
        step = jnp.asarray(config.torque_rate * config.dt, self.torque.dtype)
        return self.aim_after(self.torque, time, step, config)

    def aim_after(
        self, before: Array, time: Array, step: Array, config: SynthesisConfig
    ) -> TorqueAim:
        """Target and bounds after other torques (nv,); step () as in ``TorqueAim``."""
        waits = time + config.dt / 2 < self.until
        target = jnp.where(waits, self.onset, before)
        bounded = jnp.isfinite(config.reflex)
        slope = jnp.where(bounded, config.reflex, 0.0)
        change = STEADY + slope * jnp.maximum(self.force - MODERATE, 0.0)
        reflex = jnp.where(waits & bounded, change, jnp.inf)
        return TorqueAim(target, self.onset, reflex, before, self.on, step)
