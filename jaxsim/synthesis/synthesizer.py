"""Per-step optimisation: the next configuration and the contact forces, by a QP every step.

Unknown are the velocity v' of the step (q' = q (+) v' dt) and the coefficients lambda of the
contact forces F. With L(v', lambda) = M (v' - v) / dt + h - J^T F(lambda) - Q_ext, the generalised
force that the joints must give,

    minimise   goals + |L_joints - L_joints(previous)|^2 + motion of the points in contact
    subject to L_root = 0, no penetration, lambda >= 0, joint limits.

Source: Jain, Ye, Liu (2009), sections 4 to 4.3 and appendix B, in the tangent space.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.kinematics import integrate
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.safe import safe_max
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.solvers import qp
from jaxsim.synthesis.clasps import ClaspMemory, ClaspsNow
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.contact_forces import EDGES
from jaxsim.synthesis.holds import Grips, HoldsNow
from jaxsim.synthesis.measured import cone_excess, effort, grip_speed, needed_torque
from jaxsim.synthesis.motor_torques import MotorMemory
from jaxsim.synthesis.passes import (
    HorizonPlan,
    Result,
    attempts,
    next_start,
    problem_now,
    run_passes,
)
from jaxsim.synthesis.problem import (
    Linearised,
    equations_of_motion,
    motor_mask,
)
from jaxsim.synthesis.stops import Blocked
from jaxsim.synthesis.surroundings import Surroundings
from jaxsim.synthesis.tasks import Tasks, velocity_rows
from jaxsim.synthesis.window import Ahead, first_plan, plan_ahead, window_attempts

HOLD, EVEN = 1e3, 1e-4  # weights of the initial QP: keep the pose, share the load evenly


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisMemory:
    """Memory of per-step optimisation between steps, in ``State.solver``.

    The state's qd is the velocity of that step: q = q_before (+) qd dt.
    """

    motors: MotorMemory
    stop: Array  # (nv,) of the stops of the joints in the last step [N m or N]
    force: Array  # (ne, 3) contact forces, on the effectors [N]
    last: qp.Start | HorizonPlan  # start of the next QP
    grips: Grips | None = None  # current grips, where there are holds
    clasps: ClaspMemory | None = None  # hand holds, of several characters

    @property
    def looks_ahead(self) -> int:
        """Number of steps in the horizon."""
        return self.last.x.shape[-2] if isinstance(self.last, HorizonPlan) else 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisInfo:
    """Torques, forces and solver figures of one step, and how physical they are."""

    root_residual: Array  # () largest |L_root| of RNEA with the result: force without a source [N]
    cone_excess: Array  # () by how much a contact force leaves Coulomb's cone [N]
    penetration: Array  # () deepest effector at the step's beginning [m]
    torque: Array  # (nv,) of the motors [N m or N]
    stop: Array  # (nv,) of the stops of the joints, at the ends of their ranges [N m or N]
    effort: Array  # () largest torque relative to its limit, of motors with a limit
    force: Array  # (ne, 3) on the effectors, in the world [N]
    on: Array  # (ne,) bool: in contact
    sliding: Array  # (ne,) bool
    leaving: Array  # (ne,) bool: leaves its surface and still carries force, after the last pass
    lost: Array  # () bool: the QP gave no usable motion; the character stayed where it was
    passes: Array  # () int: number of passes, one more than the step was rolled back
    status: Array  # () int of ``solvers.qp``
    iterations: Array  # () int, of the last QP
    residual: Array  # () relative, the larger of the QP's primal and dual residual
    violated: Array  # bool: violated rows of the QP
    velocity: Array  # (nv,) at the step's end [m/s, rad/s]
    grip_speed: Array | None = None  # () fastest effector that gripped in this step [m/s]
    clasped: Array | None = None  # (nc,) bool: the hand hold is closed
    clasp_force: Array | None = None  # (nc, 3) in hand holds, on this character [N]

    @property
    def contact_force(self) -> Array:
        """(ne, 3) contact forces, under the name that ``StepInfo`` uses [N]."""
        return self.force


def begin(
    model: Model,
    effectors: Effectors,
    state: State,
    unit: Units,
    config: SynthesisConfig,
    around: Surroundings | None = None,
    holds: HoldsNow | None = None,
    hold: Array | None = None,
    clasps: ClaspsNow | None = None,
) -> State:
    """Add the scheme's memory to a state: torques that keep its velocity.

    hold (ng,) int: the hold that each gripper grips at the start.
    """
    zero = jnp.zeros_like(state.qd)
    memory = SynthesisMemory(
        motors=MotorMemory.begin(len(zero), effectors.count, state.time),
        stop=zero,
        force=jnp.zeros((effectors.count, 3), zero.dtype),
        last=no_start(model, effectors, zero.dtype, config, 0 if clasps is None else clasps.count),
        grips=None if holds is None else holds.grips,
        clasps=None if clasps is None else clasps.memory,
    )
    start = state.replace(solver=memory)
    goals = velocity_rows(jnp.eye(zero.shape[0], dtype=zero.dtype), state.qd, HOLD)
    tasks = Tasks(
        goals=goals,
        relax=jnp.full(effectors.count, EVEN, zero.dtype),
        still=jnp.full(effectors.count, HOLD, zero.dtype),
        torque=jnp.full((), EVEN, zero.dtype),
        hold=hold,
    )
    conf = configuration_at(model, effectors, state.q, state.qd, around, holds, clasps)
    free = replace(config, window=1, torque_rate=jnp.inf)  # there are no torques before
    after, _ = synthesize(conf, start, lambda *_: tasks, unit, free)
    if config.window == 1:
        return start.replace(solver=after.solver)
    plan = first_plan(model, after.solver.last, config)
    return start.replace(solver=replace(after.solver, last=plan))


def no_start(
    model: Model, effectors: Effectors, dtype, config: SynthesisConfig, clasps: int = 0
) -> qp.Start:
    """Solver start before the first step: zeros. clasps: number nc of hand holds."""
    muscles = int(motor_mask(model.topology).sum())
    nv, ne = model.topology.nv, effectors.count
    x = jnp.zeros(nv + EDGES * ne + 3 * clasps, dtype)
    limits = jnp.zeros(muscles if config.torque_limits else 0, dtype)
    rows = jnp.zeros(ne + len(limits), dtype)
    joint = jnp.zeros(6 * clasps, dtype) if clasps else None
    return qp.Start(x, jnp.zeros(nv - muscles, dtype), rows, x, x, limits, joint)


def synthesize(
    conf: Configuration,
    state: State,
    tasks: Callable[[Configuration, Array], Tasks],
    unit: Units,
    config: SynthesisConfig,
    pushes: Pushes | None = None,
) -> tuple[State, SynthesisInfo]:
    """Advance a character by one step of ``config.dt`` [s] with the forces that its tasks ask for.

    conf is ``configuration_at(model, effectors, state.q, state.qd)``, among
    ``surroundings(whole model, state.time, config.dt)`` where these move. tasks(conf, at_v) gives
    the goals, linearised at the configuration that ``at_v`` (nv,) leads to (conf is of that
    configuration). A contact that leaves its surface in the solution and still carries force, or a
    stop that its joint leaves while it does, makes the step start again without that force, up to
    ``config.passes`` times.
    Non-finite input gives non-finite output and a status, of this member of a batch alone. Where
    the solution is no usable motion (``passes.SOURCELESS``, ``FASTEST``), the character stays where
    it is for this step, without contact forces; ``lost`` is set, and the status is not SOLVED. So a
    finite state stays finite.
    Products are taken at the highest precision, never in TF32.
    """
    with jax.default_matmul_precision("highest"):
        return _synthesize(conf, state, tasks, unit, config, pushes)


def _synthesize(conf, state, tasks, unit, config, pushes) -> tuple[State, SynthesisInfo]:
    model = conf.model
    motors = state.solver.motors.felt(pushes, state.time, unit, config)
    outside = _outside(conf, pushes, state.time, config)
    if config.window > 1:
        ahead = _ahead(state, tasks, motors, pushes, config)
        attempt = window_attempts(conf, state.solver.stop != 0, ahead, unit, config)
    else:
        aim = motors.aim(state.time, config)
        attempt = attempts(conf, state, tasks, aim, outside, unit, config)
    passes, result = run_passes(attempt, state.solver.last, conf, config)
    v = jnp.where(result.lost, 0.0, result.v)
    v = jnp.where(result.solution.status == qp.NOT_FINITE, jnp.nan, v)
    force, clasp_force = jax.tree.map(
        lambda x: jnp.where(result.lost, 0.0, x), (result.force, result.clasp_force)
    )
    result = replace(result, v=v, force=force, clasp_force=clasp_force)
    touch = result.touch
    torque, root_residual = needed_torque(conf, v, force, outside + touch.pull(clasp_force), config)
    stop = touch.stops.reaction(v, torque, config)
    torque = torque - stop
    info = SynthesisInfo(
        root_residual=root_residual,
        cone_excess=cone_excess(result.touch.modes, result.force),
        penetration=safe_max(jnp.append(-conf.near.gap, 0.0)),
        torque=torque,
        stop=stop,
        effort=effort(model, torque),
        force=result.force,
        on=result.touch.modes.on,
        sliding=result.touch.modes.sliding,
        leaving=result.leaving,
        lost=result.lost,
        passes=passes,
        status=result.solution.status,
        iterations=result.solution.iterations,
        residual=jnp.maximum(result.solution.primal, result.solution.dual),
        violated=result.solution.violated,
        velocity=v,
        grip_speed=grip_speed(conf, touch.held, config.dt)
        if touch.clasped is None
        else touch.clasped.speed,
        clasped=None if touch.clasped is None else touch.clasped.on,
        clasp_force=clasp_force,
    )
    last = next_start(state.solver.last, result)
    last = plan_ahead(last) if isinstance(last, HorizonPlan) else last
    memory = SynthesisMemory(
        motors=replace(
            motors,
            torque=jnp.where(result.lost, motors.torque, torque),
            on=jnp.where(result.lost, motors.on, touch.modes.on),
        ),
        stop=jnp.where(result.lost, state.solver.stop, stop),
        force=result.force,
        last=last,
        **_remembered(conf, state.solver, result),
    )
    q = integrate(model, state.q, result.v, config.dt)
    return State(q, result.v, state.time + config.dt, state.broken, memory), info


def _remembered(conf: Configuration, before: SynthesisMemory, result: Result) -> dict[str, Any]:
    """Grips and hand holds after the step, as fields of the memory."""
    held, clasped, fields = result.touch.held, result.touch.clasped, {}
    fields["grips"], fields["clasps"] = before.grips, before.clasps
    if conf.holds is not None and held is not None:
        fields["grips"] = conf.holds.after(held, result.force)
    if conf.clasps is not None and clasped is not None and result.clasp_force is not None:
        fields["clasps"] = conf.clasps.after(clasped, result.clasp_force)
    return fields


def first_problem(
    conf: Configuration,
    state: State,
    tasks: Callable[[Configuration, Array], Tasks],
    unit: Units,
    config: SynthesisConfig,
    pushes: Pushes | None = None,
) -> qp.QuadraticProgram:
    """Problem of the first pass of ``synthesize`` in the backward form, to benchmark solvers."""
    aim = state.solver.motors.felt(pushes, state.time, unit, config).aim(state.time, config)
    outside = _outside(conf, pushes, state.time, config)
    at_v, M = jnp.zeros_like(conf.v), mass_matrix(conf.model, conf.kin)
    motion = equations_of_motion(conf, M, outside, at_v, config)
    linear, bears = Linearised(conf, at_v, tasks(conf, at_v), motion), state.solver.stop != 0
    none = Blocked.none(conf.near.gap, conf.v)
    _, _, problem = problem_now(conf, linear, bears, none, aim, unit, config)
    return problem


def _ahead(state: State, tasks, motors: MotorMemory, pushes: Pushes | None, config) -> Ahead:
    """Inputs of the frames of a horizon: tasks, pushes, and the motors' memory.

    A push continues as it is now, unless ``config.announced`` tells of those to come.
    """

    def outside(conf: Configuration, elapsed: Array) -> Array:
        time = state.time + elapsed if config.announced else state.time
        return _outside(conf, pushes, time, config)

    return Ahead(tasks, outside, motors, state.time)


def _outside(conf: Configuration, pushes: Pushes | None, time: Array, config) -> Array:
    """(nv,) generalised forces of the pushes that cover the middle of the step from ``time`` on.

    In the middle rounding of the time makes no push act a step earlier or later.
    """
    if pushes is None:
        return jnp.zeros_like(conf.v)
    return push_torque(conf.model, conf.kin, pushes, time + config.dt / 2)
