"""Quadratic problem of one step of per-step optimisation.

Source: Jain, Ye, Liu (2009), equations 9 to 14 and appendix B, in the tangent space.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import bias_force
from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide
from jaxsim.solvers.qp import QuadraticProgram
from jaxsim.synthesis.clasps import Clasped
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.contact_forces import EDGES, ContactModes
from jaxsim.synthesis.holds import ActiveGrips
from jaxsim.synthesis.motor_torques import motor_mask
from jaxsim.synthesis.stops import Stops
from jaxsim.synthesis.tasks import TaskRows, Tasks, position_rows, root_of_weight

FAR = 1.0  # a point further away than this gets no non-penetration row [m]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EquationsOfMotion:
    """Equations of motion of a step: L = inertia v' - force coefficients + rest."""

    inertia: Array  # (nv, nv) M / dt, and in the central form what h changes with v'
    rest: Array  # (nv,) L without v' and coefficients
    force: Array  # (nv, ne EDGES + 3 nc) generalised force of each coefficient


def equations_of_motion(
    conf: Configuration, M: Array, outside: Array, at_v: Array, config: SynthesisConfig
) -> EquationsOfMotion:
    """Equations of motion of the step from q without contacts, with L linear in v'.

    M (nv, nv) at q; outside (nv,) generalised forces of pushes [N m, N]. Backward differences take
    h at the velocity before (equation 8); central ones at the mean of both (equation 3), linearised
    at ``at_v``.
    """
    model, dt = conf.model, config.dt
    none = jnp.zeros((conf.v.shape[0], 0), conf.v.dtype)
    rest = -matmul(M, conf.v) / dt - outside
    if config.form == "backward":
        return EquationsOfMotion(M / dt, rest + bias_force(model, conf.kin), none)

    def bias(v):
        return bias_force(model, forward_kinematics(model, conf.q, (conf.v + v) / 2))

    change = jax.jacfwd(bias)(at_v)
    return EquationsOfMotion(M / dt + change, rest + bias(at_v) - matmul(change, at_v), none)


def with_contacts(
    conf: Configuration,
    motion: EquationsOfMotion,
    modes: ContactModes,
    unit: Units,
    clasped: Clasped | None,
) -> EquationsOfMotion:
    """Add the forces of contacts, and of hand holds, to the equations of motion."""
    nv = conf.v.shape[0]
    along = jnp.einsum("eid,eci->dec", conf.jacobian, modes.basis).reshape(nv, -1)
    if clasped is not None:
        along = jnp.concatenate([along, jnp.moveaxis(clasped.J, 2, 0).reshape(nv, -1)], axis=1)
    return replace(motion, force=unit.force * along)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Linearised:
    """Tasks and equations of motion of a step, linearised in the velocity v'."""

    ahead: Configuration  # the configuration that ``at_v`` leads to, where positions are linearised
    at_v: Array  # (nv,); in the backward form zero, and ``ahead`` the step's beginning
    tasks: Tasks
    motion: EquationsOfMotion
    held: ActiveGrips | None = None
    clasped: Clasped | None = None

    def torque(self, x: Array) -> Array:
        """(nv,) L of a solution x, which begins with v'."""
        nv, motion = self.at_v.shape[0], self.motion
        return matmul(motion.inertia, x[:nv]) - matmul(motion.force, x[nv:]) + motion.rest


def step_problem(
    conf: Configuration,
    linear: Linearised,
    modes: ContactModes,
    stops: Stops,
    torque: Array,
    config: SynthesisConfig,
    unit: Units,
) -> QuadraticProgram:
    """Build the quadratic problem in x = (v', coefficients); see the module's source.

    torque (nv,): target of the motors' torques; a joint whose stop pushed before has none.
    """
    ahead, at_v, tasks, motion = linear.ahead, linear.at_v, linear.tasks, linear.motion
    top, dt = conf.model.topology, config.dt
    nv, ne, clasped = conf.v.shape[0], conf.effectors.count, linear.clasped
    nc = 0 if clasped is None else clasped.count
    more = ne * EDGES + 3 * nc  # unknowns besides the velocity
    muscles = np.flatnonzero(motor_mask(top))
    root = np.flatnonzero(~motor_mask(top))
    L = jnp.concatenate([motion.inertia, -motion.force], axis=1)

    limit = conf.model.torque_limit
    scale, torque = stops.torque_goal(*_torques(tasks, torque, limit, unit), limit)
    smooth = scale[muscles, None] * L[muscles], (scale * (torque - motion.rest))[muscles]
    goals = _wide(tasks.goals.J, more), tasks.goals.r
    stays = _contacts_stay(conf, ahead, at_v, modes, tasks, dt, unit)
    still = _wide(stays.J, more), stays.r
    relaxed = root_of_weight(jnp.repeat(tasks.relax, EDGES)) * (unit.force / unit.load)
    relax = jnp.concatenate([jnp.zeros((ne * EDGES, nv), conf.v.dtype), jnp.diag(relaxed)], axis=1)
    relax = _wide(relax, 3 * nc)
    J, r = zip(smooth, goals, still, (relax, jnp.zeros(ne * EDGES, conf.v.dtype)))

    A, b = [L[root] / unit.force], [-motion.rest[root] / unit.force]
    if tasks.fixed is not None:
        A.append(_wide(tasks.fixed.J, more))
        b.append(tasks.fixed.r)
    if linear.held is not None:
        rows = _stays_on_holds(linear, linear.held, dt, unit)
        A.append(_wide(rows.J, more))
        b.append(rows.r)
    G, h, ceiling = _inequalities(conf, linear, stops, L[muscles], muscles, more, config, unit)
    lower, upper = stops.velocity_bounds(dt)
    free = jnp.append(jnp.repeat(modes.signed, EDGES), jnp.ones(3 * nc, bool))
    pull = None if clasped is None else clasped.equations(ne * EDGES, unit.force, dt)
    return QuadraticProgram(
        J=jnp.concatenate(J),
        r=jnp.concatenate(r),
        A=jnp.concatenate(A),
        b=jnp.concatenate(b),
        G=G,
        h=h,
        lower=jnp.concatenate([lower, jnp.where(free, -jnp.inf, 0.0).astype(lower.dtype)]),
        upper=jnp.concatenate([upper, jnp.full(more, jnp.inf, lower.dtype)]),
        ceiling=ceiling,
        joint=pull,
    )


def _inequalities(
    conf: Configuration,
    linear: Linearised,
    stops: Stops,
    L: Array,
    muscles: np.ndarray,
    more: int,
    config: SynthesisConfig,
    unit: Units,
) -> tuple[Array, Array, Array | None]:
    """Rows G x >= h of gaps to surfaces and of the motors' limits, with ceilings of the latter.

    L: rows of the motors.
    """
    ahead, dt = linear.ahead, config.dt
    normal_motion = dt * jnp.einsum("ei,eid->ed", ahead.near.normal, ahead.jacobian)
    away = ahead.near.gap > FAR
    G = [_wide(jnp.where(away[:, None], 0.0, normal_motion) / unit.contact, more)]
    gap = ahead.near.gap - jnp.sum(ahead.near.normal * ahead.surface_moved(), axis=-1)
    h = [jnp.where(away, -1.0, matmul(normal_motion, linear.at_v) - gap) / unit.contact]
    if not config.torque_limits:
        return jnp.concatenate(G), jnp.concatenate(h), None
    rest = linear.motion.rest
    least, most = stops.torque_bounds()
    G.append(L / unit.torque)
    h.append((least - rest)[muscles] / unit.torque)
    return jnp.concatenate(G), jnp.concatenate(h), (most - rest)[muscles] / unit.torque


def _torques(tasks: Tasks, torque: Array, limit: Array, unit: Units) -> tuple[Array, Array]:
    """Scales () or (nv,) and targets (nv,) of rows on L, which keep torques steady and small.

    The sum of both squares is one square, so one row a joint serves both.
    """
    if tasks.effort is None:
        return jnp.sqrt(tasks.torque) / unit.torque, torque
    stay = tasks.torque / unit.torque**2
    some = (limit > 0) & jnp.isfinite(limit)  # a root has no motor, and a motor may have no limit
    part = jnp.where(some, 1.0 / jnp.where(some, limit, 1.0), 0.0)
    both = stay + tasks.effort * part**2
    return root_of_weight(both), safe_divide(stay, both) * torque


def _wide(J: Array, more: int) -> Array:
    return jnp.concatenate([J, jnp.zeros((J.shape[0], more), J.dtype)], axis=1)


def _stays_on_holds(linear: Linearised, held: ActiveGrips, dt, unit: Units) -> TaskRows:
    """(3 ng) equations that keep grippers where they gripped, except along a bar that slides.

    Zero rows where nothing is gripped.
    """
    ahead, at = linear.ahead, np.array(linear.ahead.holds.grippers)  # type: ignore[union-attr]
    across = jnp.eye(3, dtype=ahead.q.dtype) - held.along[:, :, None] * held.along[:, None, :]
    across = jnp.where(held.on[:, None, None], across, 0.0)
    J = jnp.einsum("gij,gjd->gid", across, ahead.jacobian[at])
    error = jnp.einsum("gij,gj->gi", across, ahead.position[at] - held.target)
    J = J.reshape(-1, J.shape[-1])
    return position_rows(ahead, error.reshape(-1), J, linear.at_v, 1 / unit.contact, dt)


def _contacts_stay(conf, ahead, at_v, modes, tasks, dt, unit) -> TaskRows:
    """(3 ne) rows that keep the points in contact where they are on the surface, without a gap."""
    stays = modes.on & ~modes.holds
    weight = jnp.sqrt(jnp.where(stays, tasks.still, 0.0)) / unit.contact
    gap = conf.near.gap[:, None] * conf.near.normal
    moved = ahead.position - conf.position - conf.surface_moved()
    moved = moved + jnp.where(modes.on[:, None], gap, 0.0)
    J = dt * ahead.jacobian
    r = jnp.einsum("eid,d->ei", J, at_v) - moved
    J = (weight[:, None, None] * J).reshape(-1, J.shape[-1])
    return TaskRows(J, (weight[:, None] * r).reshape(-1))
