"""Forces, energies and work of a time step."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from jaxsim.constraints.rows import grip_axes, limit_sign
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_max
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.records import Control, Observation, StepInfo
from jaxsim.simulation.row_blocks import split_impulses
from jaxsim.simulation.step_dynamics import StepDynamics
from jaxsim.simulation.step_impulses import StepImpulses
from jaxsim.simulation.step_motion import StepMotion
from jaxsim.simulation.step_rows import StepRows


@dataclass(frozen=True)
class StepForces:
    """Mean forces of a step, and its impulses by rows."""

    contact: Array  # (nc, 3) of the contacts to solve for, in the world [N]
    limit: Array  # (nl,) impulses
    grip: Array  # (ng, 3) [N]
    motion: Array  # (nv,) of prescribed motion
    impulses: Array  # (m,)


def contact_forces(
    state: State,
    rows: StepRows,
    dynamics: StepDynamics,
    solution: StepImpulses,
    motion: StepMotion,
) -> StepForces:
    """Mean forces of contacts, grips and prescribed motion, from the impulses."""
    dt, blows = dynamics.dt, solution.blows
    of_contact, of_limit, of_grip = split_impulses(rows.layout, solution.impulse)
    contact = jnp.sum(of_contact[:, :, None] * rows.frame, axis=1) / dt
    grip = matmul(of_grip, grip_axes(dynamics.top, motion.y.dtype)) / dt
    force = jnp.zeros_like(motion.qd)
    impulses = jnp.concatenate([of_contact.reshape(-1), of_limit, of_grip.reshape(-1)])
    acted = impulses
    if blows is not None:
        contact = contact + jnp.sum(blows[:, :, None] * rows.frame, axis=1) / dt
        acted = impulses.at[: blows.size].add(blows.reshape(-1))
    if dynamics.prescribed is not None:
        missing = dynamics.equations.missing(motion.solved - state.qd, acted)
        force = jnp.where(dynamics.prescribed[0], missing, 0.0) / dt
    return StepForces(contact, of_limit, grip, force, impulses)


def step_info(
    model: Model,
    state: State,
    obs: Observation,
    control: Control,
    rows: StepRows,
    dynamics: StepDynamics,
    solution: StepImpulses,
    motion: StepMotion,
    forces: StepForces,
) -> StepInfo:
    """Forces of a step in all contact slots, its residual, energies and work."""
    dt, chosen, solved = dynamics.dt, rows.chosen, motion.solved
    drive = control.torque - control.damping * (solved - state.qd) + dynamics.pushed + forces.motion
    gained = jnp.maximum(forces.impulses * rows.target, 0.0)
    of_grips = gained[gained.size - rows.layout.grips * rows.layout.grip_rows :]
    damping, free = dt * dynamics.damping, dynamics.free
    return StepInfo(
        contact_force=forces.contact if chosen is None else chosen.scatter(forces.contact),
        limit_torque=limit_sign(dynamics.top, rows.J_limit) * forces.limit / dt,
        grip_force=forces.grip,
        motion_force=forces.motion,
        residual=solution.residual,
        energy_error=kinetic_energy(model, motion.after, motion.qd) - motion.due,
        penetration=safe_max(jnp.append(-obs.contacts.gap, 0.0)),
        dropped_contacts=jnp.zeros((), int) if chosen is None else chosen.dropped_contacts,
        kinetic_before=kinetic_energy(model, obs.kin, state.qd)
        if dynamics.second and dynamics.prescribed is None
        else _kinetic(dynamics.y_start, state.qd, damping, free),
        kinetic_after=_kinetic(motion.y, motion.qd, damping, free),
        work=dt * jnp.sum(jnp.maximum(drive * (state.qd + solved) / 2, 0.0)) + jnp.sum(of_grips),
        recovery=jnp.sum(gained),
    )


def _kinetic(y: Array, qd: Array, damping: Array, counted: Array) -> Array:
    """() kinetic energy of the counted dofs from y = L v, with L^T L inertia and damping."""
    return 0.5 * jnp.sum(counted * (y * y - damping * qd * qd))
