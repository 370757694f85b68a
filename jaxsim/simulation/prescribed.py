"""Prescribed motion, by drives or a controller, at any force, and grips that are closed."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.records import Control


def closed_grips(model: Model, state: State, control: Control) -> Array:
    """(ng,) bool: grips that are closed now and not broken."""
    broken = jnp.zeros(model.topology.n_grips, bool) if state.broken is None else state.broken
    return ~broken if control.closed is None else control.closed & ~broken


def drive_velocity(
    model: Model, state: State, dt: Array | float, recovery_time: Array | float
) -> Array:
    """(nd,) velocities of the driven joints for the next ``dt`` [s], with drift correction."""
    joints = np.flatnonzero(model.topology.joint_driven)
    now = model.drive.position(state.time)
    ahead = model.drive.position(state.time + dt)
    astray = now - state.q[np.array(model.topology.q_start, int)[joints]]
    return (ahead - now) / dt + astray / recovery_time


def prescribed_motion(
    model: Model, state: State, control: Control, dt: Array | float, recovery_time: Array | float
) -> tuple[Array | np.ndarray, Array] | None:
    """DOFs with prescribed motion, (nv,) bool, and their velocities (nv,) after ``dt`` [s]."""
    top, motion = model.topology, control.motion
    driven = np.zeros(top.nv, bool)
    driven[top.driven_dofs] = True
    if motion is None and not driven.any():
        return None
    velocity = state.qd if motion is None else state.qd + dt * motion.acceleration
    if driven.any():
        of_drives = drive_velocity(model, state, dt, recovery_time)
        velocity = velocity.at[top.driven_dofs].set(of_drives)
    return driven if motion is None else driven | motion.on, velocity


@dataclass(frozen=True)
class FreeMotion:
    """Equations of motion of a step, M (v - qd) = change + rows^T impulses, with rows' targets."""

    M: Array  # (nv, nv)
    rows: Array  # (m, nv)
    target: Array  # (m,)
    change: Array  # (nv,)

    def missing(self, change: Array, impulses: Array) -> Array:
        """(nv,) further impulse needed for a change of velocity (nv,) with impulses (m,)."""
        return matmul(self.M, change) - self.change - matmul(impulses, self.rows)

    def without(self, is_prescribed, velocity, qd) -> "FreeMotion":
        """Eliminate the dofs with prescribed velocity, whose effect on the others is known."""
        known = jnp.where(is_prescribed, velocity, 0.0)
        moved = matmul(self.M, jnp.where(is_prescribed, velocity - qd, 0.0))
        free = ~is_prescribed[:, None] & ~is_prescribed
        return FreeMotion(
            M=jnp.where(free, self.M, 0.0) + jnp.diag(jnp.asarray(is_prescribed, qd.dtype)),
            rows=jnp.where(is_prescribed, 0.0, self.rows),
            target=self.target - matmul(self.rows, known),
            change=jnp.where(is_prescribed, 0.0, self.change - moved),
        )
