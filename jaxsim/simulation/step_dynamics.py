"""Motion of a time step without impulses, in whitened coordinates."""

import dataclasses
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import (
    Kinematics,
)
from jaxsim.dynamics.rigid import bias_force, gravity_force, mass_matrix
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.model.topology import Topology
from jaxsim.simulation.external import link_wrenches
from jaxsim.simulation.prescribed import FreeMotion, prescribed_motion
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.simulation.records import Control
from jaxsim.simulation.row_blocks import packs
from jaxsim.simulation.smooth import halfway, mean_bias, second_order
from jaxsim.simulation.step_options import StepOptions
from jaxsim.simulation.step_rows import StepRows
from jaxsim.solvers.tree_factor import lower_product, solve_lower, solve_upper, whiten_rows


@dataclass(frozen=True)
class StepDynamics:
    """Motion of a step without impulses, and its whitened coordinates y = L v.

    L^T L is the inertia with damping, without the dofs of prescribed motion.
    """

    top: Topology
    dt: Array | float  # [s]
    pose: Kinematics  # at which inertia and bias are taken
    second: bool  # order of the velocity products
    inertia: Array  # (nv, nv)
    damping: Array  # (nv,) of the model and of the command
    bias: Array  # (nv,) mean bias force of the step
    pushed: Array  # (nv,) external forces
    equations: FreeMotion  # of all dofs
    target: Array  # (m,) targets without the share of prescribed motion
    prescribed: tuple[Array | np.ndarray, Array] | None  # dofs (nv,) bool and velocities (nv,)
    free: Array  # (nv,) 1, or 0 for prescribed motion
    acting: list[tuple[slice, Array]]  # packs of contacts, see ``row_blocks.packs``
    L: Array  # (nv, nv)
    rows: Array  # (m, nv) whitened
    y_start: Array  # (nv,)
    change: Array  # (nv,) of y, without impulses
    late: Array  # (nv,) of it, what acts after the positions have moved

    def whitened(self, force: Array) -> Array:
        """(nv,) change of y by a force (nv,) during the step."""
        return solve_upper(self.top, self.L, (self.dt * self.free * force)[:, None])[:, 0]

    def moved(self, momentum: Array) -> Array:
        """(nv,) change of velocity by a momentum (nv,)."""
        return self.free * solve_lower(self.top, self.L, self.whitened(momentum) / self.dt)

    def velocity(self, y: Array) -> Array:
        """(nv,) velocity of y (nv,); that of prescribed motion as prescribed."""
        qd = solve_lower(self.top, self.L, y)
        prescribed = self.prescribed
        return qd if prescribed is None else jnp.where(prescribed[0], prescribed[1], qd)


def free_dynamics(
    model: Model,
    state: State,
    kin: Kinematics,
    rows: StepRows,
    control: Control,
    config: StepOptions,
    pushes: Pushes | None,
) -> StepDynamics:
    """Inertia, forces and velocities of the step without impulses, and the whitened rows."""
    top, dt = model.topology, config.dt
    damping = control.damping + model.damping
    second = second_order(top, config.order)
    pose = halfway(model, state, dt) if second else kin
    inertia, bias = mass_matrix(model, pose), bias_force(model, pose)
    M = inertia + jnp.diag(dt * damping)
    force = control.torque - model.damping * state.qd - bias
    pushed = _external(model, state, kin, control, pushes, jnp.zeros_like(force))
    if pushes is not None or control.external is not None:
        force = force + pushed
    equations = FreeMotion(M, rows.J, rows.target, dt * force)
    recovery_time = jnp.maximum(config.stabilization_time, dt)
    prescribed = prescribed_motion(model, state, control, dt, recovery_time)
    rest = equations if prescribed is None else equations.without(*prescribed, state.qd)
    free = jnp.ones_like(force) if prescribed is None else jnp.where(prescribed[0], 0.0, 1.0)
    acting = packs(rows.layout, rows.chosen)
    L, white, change = whiten_rows(top, rest.M, rest.rows, rest.change, acting)
    dynamics = StepDynamics(
        top=top,
        dt=dt,
        pose=pose,
        second=second,
        inertia=inertia,
        damping=damping,
        bias=bias,
        pushed=pushed,
        equations=equations,
        target=rest.target,
        prescribed=prescribed,
        free=free,
        acting=acting,
        L=L,
        rows=white,
        y_start=lower_product(top, L, state.qd),
        change=change,
        late=jnp.zeros_like(change),
    )
    return _with_mean_bias(model, state, dynamics) if second else dynamics


def _external(
    model: Model,
    state: State,
    kin: Kinematics,
    control: Control,
    pushes: Pushes | None,
    pushed: Array,
) -> Array:
    """(nv,) external forces of pushes and of the command."""
    if pushes is not None:
        pushed = push_torque(model, kin, pushes, state.time)
    if control.external is not None:
        pushed = pushed + link_wrenches(model, kin, control.external)
    return pushed


def _with_mean_bias(model: Model, state: State, dynamics: StepDynamics) -> StepDynamics:
    """Velocity products of second order: their mean over the step, half of it after the move."""
    first, so_far = dynamics.bias, dynamics.y_start + dynamics.change
    bias = mean_bias(
        model,
        dynamics.pose,
        state.qd,
        first,
        lambda now: dynamics.velocity(so_far + dynamics.whitened(first - now)) - state.qd,
    )
    return dataclasses.replace(
        dynamics,
        bias=bias,
        change=dynamics.change + dynamics.whitened(first - bias),
        late=dynamics.whitened(gravity_force(model, dynamics.pose) - bias) / 2,
    )
