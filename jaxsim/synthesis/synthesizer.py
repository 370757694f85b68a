"""The next configuration and the contact forces, by one optimisation a step.

Unknown are the velocity v' of the step (q' = q (+) v' dt) and the coefficients lambda of the contact
forces F. With L(v', lambda) = M (v' - v) / dt + h - J^T F(lambda) - Q_ext, the generalised force
that the joints must give,

    minimise   goals + |L_joints - L_joints(previous)|^2 + motion of the points in contact
    subject to L_root = 0, no penetration, lambda >= 0, joint limits.

Source: Jain, Ye, Liu (2009), sections 4 to 4.3 and appendix B, in the tangent space.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.rigid import inverse_dynamics
from jaxsim.math.safe import safe_max, safe_norm
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.solvers import qp
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.contact_forces import EDGES, ContactModes, contact_modes
from jaxsim.synthesis.effectors import Effectors
from jaxsim.synthesis.problem import driven_by_muscles, equations_of_motion, step_problem
from jaxsim.synthesis.tasks import Tasks, velocity_rows
from jaxsim.synthesis.view import View, look

HOLD, EVEN = 1e3, 1e-4  # weights at the start: to hold the pose, to share the load evenly
CARRIES = 1e-3  # a contact that carries less than this part of the weight carries nothing


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisState:
    """One character between two steps."""

    q: Array  # (nq,) now
    v: Array  # (nv,) velocity of the step that led here: q = q_before (+) v dt
    time: Array  # () [s]
    torque: Array  # (nv,) that the joints gave in that step [N m or N]
    force: Array  # (ne, 3) contact forces in that step, on the effectors [N]
    held: Array  # (nv,) torque at the onset of the last push
    held_until: Array  # () [s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisInfo:
    """What a step came to, and whether it is physical."""

    root_residual: Array  # () largest |L_root| of RNEA with the result: force that has no source [N]
    cone_excess: Array  # () by how much a contact force leaves Coulomb's cone [N]
    penetration: Array  # () deepest effector at the step's beginning [m]
    torque: Array  # (nv,) of the joints [N m or N]
    force: Array  # (ne, 3) on the effectors, in the world [N]
    on: Array  # (ne,) bool: in contact
    sliding: Array  # (ne,) bool
    leaving: Array  # (ne,) bool: leaves its surface and still carries force, after the last pass
    passes: Array  # () int: how often the step was rolled back, and once
    status: Array  # () int of ``solvers.qp``
    residual: Array  # () relative, the larger of the QP's primal and dual one
    violated: Array  # bool: rows of the QP that are not met


def begin(
    model: Model,
    effectors: Effectors,
    state: State,
    unit: Units,
    config: SynthesisConfig,
) -> SynthesisState:
    """A start from a pose at rest or in motion, with the torques that keep its velocity."""
    zero = jnp.zeros_like(state.qd)
    start = SynthesisState(
        q=state.q,
        v=state.qd,
        time=state.time,
        torque=zero,
        force=jnp.zeros((effectors.count, 3), zero.dtype),
        held=zero,
        held_until=state.time - 1.0,
    )
    goals = velocity_rows(jnp.eye(zero.shape[0], dtype=zero.dtype), state.qd, HOLD)
    tasks = Tasks(
        goals=goals,
        relax=jnp.full(effectors.count, EVEN, zero.dtype),
        still=jnp.full(effectors.count, HOLD, zero.dtype),
        torque=jnp.full((), EVEN, zero.dtype),
    )
    view = look(model, effectors, state.q, state.qd)
    _, info = synthesize(view, start, lambda *_: tasks, unit, config)
    return dataclasses.replace(start, torque=info.torque, force=info.force)


def synthesize(
    view: View,
    state: SynthesisState,
    tasks: Callable[[View, Array], Tasks],
    unit: Units,
    config: SynthesisConfig,
    pushes: Pushes | None = None,
) -> tuple[SynthesisState, SynthesisInfo]:
    """One step of ``config.dt``; view is ``look(model, effectors, state.q, state.v)``.

    tasks(view, at_v) gives the goals, linearised at the configuration that ``at_v`` (nv,) leads to
    (view is of that configuration). A contact that leaves its surface in the solution and still
    carries force makes the step start again without that force, up to ``config.passes`` times.
    Non-finite input gives non-finite output and a status, of this member of a batch alone.
    """
    model = view.model
    outside, starts = jnp.zeros_like(state.v), jnp.zeros((), bool)
    if pushes is not None:
        outside = push_torque(model, view.kin, pushes, state.time)
        since = state.time - pushes.start
        starts = ((since >= 0) & (since < config.dt) & (pushes.duration > 0)).any()
    held = jnp.where(starts, state.torque, state.held)
    held_until = jnp.where(starts, state.time + config.response_delay, state.held_until)
    target = jnp.where(state.time < held_until, held, state.torque)

    def attempt(blocked):
        return _solve(view, tasks, target, outside, blocked, unit, config)

    def again(carry):
        count, blocked, result = carry
        blocked = blocked | result.leaving
        return count + 1, blocked, attempt(blocked)

    def leaves(carry):
        count, _, result = carry
        return (count < config.passes) & result.leaving.any()

    none = jnp.zeros(view.near.gap.shape, bool)
    passes, _, result = jax.lax.while_loop(leaves, again, (jnp.asarray(1), none, attempt(none)))
    torque, root_residual = _needed(view, result, outside, config)
    info = SynthesisInfo(
        root_residual=root_residual,
        cone_excess=_cone_excess(view, result),
        penetration=safe_max(jnp.append(-view.near.gap, 0.0)),
        torque=torque,
        force=result.force,
        on=result.modes.on,
        sliding=result.modes.sliding,
        leaving=result.leaving,
        passes=passes,
        status=result.solution.status,
        residual=jnp.maximum(result.solution.primal, result.solution.dual),
        violated=result.solution.violated,
    )
    after = SynthesisState(
        q=integrate(model, state.q, result.v, config.dt),
        v=result.v,
        time=state.time + config.dt,
        torque=torque,
        force=result.force,
        held=held,
        held_until=held_until,
    )
    return after, info


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Result:
    """Of one pass."""

    v: Array  # (nv,)
    force: Array  # (ne, 3) [N]
    modes: ContactModes
    leaving: Array  # (ne,) bool
    solution: qp.Solution


def _solve(view, tasks, torque, outside, blocked, unit, config) -> _Result:
    """One pass: a QP, or in the central form a sequence, each linearised where the last one led."""
    model, dt, nv = view.model, config.dt, view.v.shape[0]
    modes = contact_modes(view, config.touch_distance, config.slip_speed, dt, blocked)

    def once(ahead, at_v):
        wanted = tasks(ahead, at_v)
        now = modes
        if wanted.grip is not None:
            now = contact_modes(
                view, config.touch_distance, config.slip_speed, dt, blocked, wanted.grip
            )
        motion = equations_of_motion(view, now, outside, at_v, config, unit)
        problem = step_problem(view, ahead, at_v, motion, now, wanted, torque, config, unit)
        return now, qp.solve(problem, iterations=config.iterations)

    now, solution = once(view, jnp.zeros_like(view.v))
    if config.form == "central":
        for _ in range(config.sequence - 1):
            at_v = solution.x[:nv]
            q = integrate(model, view.q, at_v, dt)
            now, solution = once(look(model, view.effectors, q, at_v), at_v)
    v, coefficients = solution.x[:nv], solution.x[nv:].reshape(-1, EDGES)
    force = unit.force * jnp.sum(coefficients[:, :, None] * now.basis, axis=1)
    normal_force = jnp.sum(force * view.near.normal, axis=-1)
    moved = jnp.sum(view.near.normal * (view.jacobian @ v), axis=-1)
    parts = view.near.gap + dt * moved > config.touch_distance
    leaving = now.on & ~now.signed & parts & (normal_force > CARRIES * unit.force)
    return _Result(v, force, now, leaving, solution)


def _needed(view: View, result: _Result, outside: Array, config) -> tuple[Array, Array]:
    """Joint torques (nv,) of the motion that was found, by RNEA, and what is missing at the root."""
    model, kin = view.model, view.kin
    if config.form == "central":
        kin = forward_kinematics(model, view.q, (view.v + result.v) / 2)
    needed = inverse_dynamics(model, kin, (result.v - view.v) / config.dt) - outside
    needed = needed - jnp.einsum("eid,ei->d", view.jacobian, result.force)
    muscles = driven_by_muscles(model.topology)
    return jnp.where(muscles, needed, 0.0), safe_max(jnp.abs(jnp.where(muscles, 0.0, needed)))


def _cone_excess(view: View, result: _Result) -> Array:
    """() [N] how far the worst contact force, but those of grips, is outside of Coulomb's cone."""
    normal = jnp.sum(result.force * view.near.normal, axis=-1)
    tangent = safe_norm(result.force - normal[:, None] * view.near.normal)
    excess = jnp.maximum(tangent - view.near.friction * normal, -normal)
    return safe_max(jnp.append(jnp.where(result.modes.signed, 0.0, excess), 0.0))
