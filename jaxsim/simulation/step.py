"""One time step: pose and contacts -> control -> free motion -> impulses -> new state.

The step is semi-implicit Euler at velocity level. Damping, passive and of the PD controllers, is
implicit: the free motion and the impulses see M + h D in the place of M, so that a light hand
under a stiff wrist is stable at 1 ms, where h kd / I is about 2 and an explicit damper blows up.
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts, find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.rows import (
    contact_frame,
    contact_jacobian,
    contact_targets,
    limit_rows,
    row_layout,
)
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics, integrate, matmul
from jaxsim.dynamics.rigid import bias_force, mass_matrix
from jaxsim.math.safe import safe_max
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.solvers.pgs import Rows, natural_residual, solve
from jaxsim.solvers.tree_factor import lower_product, solve_lower, whiten


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepConfig:
    """Numbers of the integrator; all but ``sweeps`` may be batched."""

    dt: Array | float = 0.00025  # [s]
    stabilization_time: Array | float = 0.02  # time constant of penetration recovery [s]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s]
    touch_distance: Array | float = 0.001  # a smaller gap counts as contact [m]
    sweeps: int = dataclasses.field(default=8, metadata={"static": True})  # Gauss-Seidel passes

    def __post_init__(self):
        if isinstance(self.dt, float) and not 0 < self.dt < 1:
            raise ValueError(f"dt is {self.dt} s; give a positive time step, such as 0.00025")
        if isinstance(self.sweeps, int) and self.sweeps < 1:
            raise ValueError(f"sweeps is {self.sweeps}; at least one is needed")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Observation:
    """What a controller may look at: everything that follows from the state."""

    kin: Kinematics
    contacts: Contacts
    touching: Array  # (nl,) bool: the link is in contact
    com: Array  # (3,) [m]
    com_velocity: Array  # (3,) [m/s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Control:
    """Generalised forces for one step, and how they fall with velocity within it."""

    torque: Array  # (nv,) at the step's first instant, within the actuators' limits [N m or N]
    damping: Array  # (nv,) -d torque / d qd, treated implicitly; 0 where the actuator saturates


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepInfo:
    """What happened in a step."""

    contact_force: Array  # (nc, 3) on shape a, in the world [N]
    limit_torque: Array  # (n limited joints,) along the joint [N m or N]
    residual: Array  # () of the complementarity problem, see ``natural_residual`` [m/s]
    penetration: Array  # () deepest at the step's first instant [m]


def observe(model: Model, state: State, config: StepConfig) -> Observation:
    """Kinematics and contacts of a state."""
    with jax.named_scope("observe"):
        kin = forward_kinematics(model, state.q, state.qd)
        contacts = find_contacts(model, kin)
        return Observation(
            kin=kin,
            contacts=contacts,
            touching=_touching(model, contacts, config.touch_distance),
            com=center_of_mass(model, kin),
            com_velocity=com_velocity(model, kin),
        )


def no_control(model: Model) -> Control:
    """No torque at any joint."""
    zero = jnp.zeros(model.topology.nv, model.mass.dtype)
    return Control(torque=zero, damping=zero)


def step(
    model: Model,
    state: State,
    seen: Observation,
    control: Control,
    config: StepConfig,
    pushes: Pushes | None = None,
) -> tuple[State, StepInfo]:
    """Advance one character by ``config.dt``; ``seen`` is ``observe(model, state, config)``.

    pushes: forces from outside; one acts in a step if it does at the step's first instant.
    Non-finite input gives non-finite output of this member of a batch alone.
    """
    layout, top, dt = row_layout(model.topology), model.topology, config.dt
    kin, contacts = seen.kin, seen.contacts
    with jax.named_scope("rows"):
        frame = contact_frame(top, contacts.normal)
        J = contact_jacobian(model, kin, contacts, frame)
        approach = matmul(J[:, 0], state.qd)
        normal_target = contact_targets(
            contacts, approach, dt, config.stabilization_time, config.bounce_speed
        )
        limit_dof, limit_sign, limit_target, _ = limit_rows(
            model, state.q, dt, config.stabilization_time
        )
    with jax.named_scope("free_motion"):
        damping = control.damping + model.damping
        M = mass_matrix(model, kin) + jnp.diag(dt * damping)
        force = control.torque - model.damping * state.qd - bias_force(model, kin)
        if pushes is not None:
            force = force + push_torque(model, kin, pushes, state.time)
        limit_columns = jnp.zeros((top.nv, layout.limits), M.dtype)
        limit_columns = limit_columns.at[limit_dof, np.arange(layout.limits)].set(limit_sign)
        columns = jnp.concatenate(
            [J.reshape(-1, top.nv).T, limit_columns, (dt * force)[:, None]], axis=1
        )
        L, white = whiten(top, M, columns)
        y = lower_product(top, L, state.qd) + white[:, -1]
    with jax.named_scope("impulses"):
        n_contact = layout.contacts * layout.contact_rows
        tangent_zero = jnp.zeros((layout.contacts, layout.contact_rows - 1), y.dtype)
        targets = jnp.concatenate([normal_target[:, None], tangent_zero], axis=1)
        warm_contact, warm_limit = (
            state.impulse[: layout.n_contact_rows],
            state.impulse[layout.n_contact_rows :],
        )
        families = (
            _blocks(
                white[:, :n_contact].T,
                targets.reshape(-1),
                warm_contact,
                contacts.friction,
                layout.contact_blocks,
                layout.contact_block,
            ),
            _blocks(
                white[:, n_contact:-1].T,
                limit_target,
                warm_limit,
                jnp.zeros(layout.limits, y.dtype),
                layout.limit_blocks,
                layout.limit_block,
            ),
        )
        families, y = solve(tuple(f for f in families if f.target.size), y, config.sweeps)
        residual = natural_residual(families, y)
        impulse = jnp.concatenate([f.impulse.reshape(-1) for f in families] or [state.impulse])
    with jax.named_scope("integrate"):
        qd = solve_lower(top, L, y)
        q = integrate(model, state.q, qd, dt)
    contact_impulse = impulse[:n_contact].reshape(layout.contacts, layout.contact_rows)
    limit_impulse = impulse[layout.n_contact_rows :][: layout.limits]
    info = StepInfo(
        contact_force=jnp.sum(contact_impulse[:, :, None] * frame, axis=1) / dt,
        limit_torque=limit_sign * limit_impulse / dt,
        residual=residual,
        penetration=safe_max(jnp.append(-contacts.gap, 0.0)),
    )
    return State(q=q, qd=qd, time=state.time + dt, impulse=impulse), info


def _blocks(x, target, impulse, friction, blocks: int, points: int) -> Rows:
    """Pad rows with idle ones (x = 0) to whole blocks."""
    rows = impulse.shape[0]
    missing, size = rows - x.shape[0], rows // max(blocks, 1)
    idle_points = blocks * points - friction.shape[0]
    return Rows(
        x=jnp.pad(x, ((0, missing), (0, 0))).reshape(blocks, size, x.shape[1]),
        target=jnp.pad(target, (0, missing)).reshape(blocks, size),
        impulse=impulse.reshape(blocks, size),
        friction=jnp.pad(friction, (0, idle_points)).reshape(blocks, points),
    )


def _touching(model: Model, contacts: Contacts, distance) -> Array:
    """(nl,) bool from the slots' gaps."""
    slots = contact_slots(model.topology)
    links = np.arange(model.topology.n_links)[:, None]
    belongs = (slots.link_a[None] == links) | (slots.link_b[None] == links)
    near = jnp.where(belongs, contacts.gap, jnp.inf)
    return jnp.min(near, axis=1, initial=jnp.inf) <= distance
