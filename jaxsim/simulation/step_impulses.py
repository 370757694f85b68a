"""Impulses of a time step: successive impacts, then all rows by projected Gauss-Seidel."""

import dataclasses
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.model.state import State
from jaxsim.simulation.row_blocks import row_groups
from jaxsim.simulation.step_dynamics import StepDynamics
from jaxsim.simulation.step_options import StepOptions
from jaxsim.simulation.step_rows import StepRows
from jaxsim.simulation.warm_start import warm_start
from jaxsim.solvers import adaptive, implicit
from jaxsim.solvers.pgs import RowGroup, natural_residual, useful_start
from jaxsim.solvers.successive import Impacts, after_impacts

SWIFT = 1.0  # a step whose fastest degree of freedom is slower has less tolerance [m/s, rad/s]
STILL = 1e-6  # least factor on the tolerance


@dataclass(frozen=True)
class StepImpulses:
    """Solution of a step: the velocities, and the impulses of its rows."""

    y: Array  # (nv,) of the positions' move
    impulse: Array  # (m,) [N s, N m s]
    blows: Array | None  # (nc, k) impulses of successive impacts before; None without these
    residual: Array  # ()


def solve_impulses(
    state: State, rows: StepRows, dynamics: StepDynamics, config: StepOptions
) -> StepImpulses:
    """Solve the rows for impulses, after the successive impacts where the scheme has these."""
    layout, contacts = rows.layout, rows.contacts
    y, blows = dynamics.y_start, None
    if config.impacts == "successive" and layout.contacts:
        prescribed = rows.target - dynamics.target
        y, blows = after_impacts(_impacts(contacts, layout, dynamics.rows, prescribed, config), y)
    y = y + dynamics.change - dynamics.late
    groups = row_groups(layout, dynamics.rows, dynamics.target, contacts.friction, dynamics.acting)
    last = state.solver.impulse
    start = warm_start(dynamics.top, layout, last, rows.chosen)
    groups, y = _solved(groups, y, start, config, tolerance_at(config, state.qd))
    residual = natural_residual(groups, y)
    impulse = jnp.concatenate([f.impulse.reshape(-1) for f in groups] or [last])
    return StepImpulses(y, impulse, blows, residual)


def tolerance_at(config: StepOptions, qd: Array) -> Array:
    """() tolerance of the solver at velocities qd (nv,): less where all are slow.

    A stack that sways by less than a fixed tolerance would never come to rest, nor with a tolerance
    proportional to the speed: it falls with the square of the speed.
    """
    fastest = jnp.max(jnp.abs(lax.stop_gradient(qd)), initial=0.0)
    return config.tolerance * jnp.clip((fastest / SWIFT) ** 2, STILL, 1.0)


def _solved(groups: tuple[RowGroup, ...], y: Array, warm, config: StepOptions, tolerance: Array):
    """Solve the row groups that are not empty: groups with impulses, and the velocity y (nv,).

    warm (n,): last impulses of all groups, one after the other.
    """
    groups = tuple(f for f in groups if f.target.size)
    ends = np.cumsum([f.target.size for f in groups], dtype=int)
    groups = tuple(
        dataclasses.replace(f, impulse=config.warm_start * w.reshape(f.target.shape))
        for f, w in zip(groups, jnp.split(warm, ends[:-1]))
    )
    if config.bounded_start:
        groups = useful_start(groups, y)
    sweeps, most = config.sweeps, config.most_sweeps
    if config.derivative == "implicit":
        return implicit.solve(groups, y, sweeps, config.smoothing, most, tolerance)
    return adaptive.solve(groups, y, sweeps, most, tolerance)


def _impacts(contacts, layout, white: Array, given: Array, config: StepOptions) -> Impacts:
    """Impacts within the step, in whitened rows; given (m,): share of prescribed motion [m/s]."""
    k = layout.contact_rows
    last = layout.contacts * k
    reaches = -jnp.maximum(contacts.gap, 0.0) / config.dt
    bounces = jnp.where(contacts.restitution > 0, 0.0, reaches)
    return Impacts(
        x=white[:last].reshape(layout.contacts, k, -1),
        given=given[:last:k],
        threshold=jnp.minimum(reaches, bounces - config.bounce_speed),
        reaches=reaches,
        restitution=contacts.restitution,
        friction=contacts.friction,
    )
