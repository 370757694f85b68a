"""The next configuration and the contact forces, by one optimisation a step.

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
from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_max
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.solvers import qp
from jaxsim.solvers.interior_point import largest
from jaxsim.synthesis.clasps import Clasped, ClaspMemory, ClaspsNow
from jaxsim.synthesis.config import SynthesisConfig, Units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.contact_forces import EDGES, ContactModes, contact_modes
from jaxsim.synthesis.holds import Grips, Held, HoldsNow
from jaxsim.synthesis.measured import cone_excess, effort, grip_speed, needed
from jaxsim.synthesis.problem import (
    Linearised,
    actuated,
    equations_of_motion,
    step_problem,
    with_contacts,
)
from jaxsim.synthesis.stops import Blocked, Stops, stops
from jaxsim.synthesis.surroundings import Surroundings
from jaxsim.synthesis.tasks import Tasks, velocity_rows

HOLD, EVEN = 1e3, 1e-4  # weights at the start: to hold the pose, to share the load evenly
CARRIES = 1e-3  # a contact that carries less than this part of the weight carries nothing
SOURCELESS = 1.0  # an unsolved QP is not taken with more force without a source [body weights]
FASTEST = 300.0  # nor is any that makes a body faster, in ``Units.rate``


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisMemory:
    """What the scheme remembers of the step that led to a state, in ``State.solver``.

    The state's qd is the velocity of that step: q = q_before (+) qd dt.
    """

    torque: Array  # (nv,) that the motors gave [N m or N]
    stop: Array  # (nv,) that the stops of the joints gave [N m or N]
    force: Array  # (ne, 3) contact forces, on the effectors [N]
    push_torque: Array  # (nv,) of the motors at the onset of the last push [N m or N]
    push_until: Array  # () until when torques should stay at that [s]
    last: qp.Start  # where the next QP starts
    grips: Grips | None = None  # what is held, where there are holds
    clasps: ClaspMemory | None = None  # which hands hold each other, of several characters


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SynthesisInfo:
    """What a step came to, and whether it is physical."""

    root_residual: Array  # () largest |L_root| of RNEA with the result: force without a source [N]
    cone_excess: Array  # () by how much a contact force leaves Coulomb's cone [N]
    penetration: Array  # () deepest effector at the step's beginning [m]
    torque: Array  # (nv,) of the motors [N m or N]
    stop: Array  # (nv,) of the stops of the joints, at the ends of their ranges [N m or N]
    effort: Array  # () the largest torque, of motors with a limit, as a part of that
    force: Array  # (ne, 3) on the effectors, in the world [N]
    on: Array  # (ne,) bool: in contact
    sliding: Array  # (ne,) bool
    leaving: Array  # (ne,) bool: leaves its surface and still carries force, after the last pass
    lost: Array  # () bool: what the QP came to is no motion; the body stayed where it was
    passes: Array  # () int: how often the step was rolled back, and once
    status: Array  # () int of ``solvers.qp``
    iterations: Array  # () int, of the last QP
    residual: Array  # () relative, the larger of the QP's primal and dual one
    violated: Array  # bool: rows of the QP that are not met
    grip_speed: Array | None = None  # () of the fastest that took hold in this step [m/s]
    clasped: Array | None = None  # (nc,) bool: hands hold each other
    clasp_force: Array | None = None  # (nc, 3) there, on this character [N]

    @property
    def contact_force(self) -> Array:
        """(ne, 3) as in StepInfo: ``force``, by another name [N]."""
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
    """The state with what the scheme remembers: the torques that keep its velocity. hold (ng,) int:
    what is held at the start."""
    zero = jnp.zeros_like(state.qd)
    memory = SynthesisMemory(
        torque=zero,
        stop=zero,
        force=jnp.zeros((effectors.count, 3), zero.dtype),
        push_torque=zero,
        push_until=state.time - 1.0,
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
    after, _ = synthesize(conf, start, lambda *_: tasks, unit, config)
    found = replace(after.solver, push_torque=memory.push_torque, push_until=memory.push_until)
    return start.replace(solver=found)


def no_start(
    model: Model, effectors: Effectors, dtype, config: SynthesisConfig, clasps: int = 0
) -> qp.Start:
    """What the solver starts from where there was no step yet. clasps: nc"""
    muscles = int(actuated(model.topology).sum())
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
    """One step of ``config.dt``; conf is ``configuration_at(model, effectors, state.q, state.qd)``,
    among ``surroundings(whole model, state.time, config.dt)`` where these move.

    tasks(conf, at_v) gives the goals, linearised at the configuration that ``at_v`` (nv,) leads to
    (conf is of that configuration). A contact that leaves its surface in the solution and still
    carries force, or a stop that its joint leaves while it does, makes the step start again without
    that force, up to ``config.passes`` times.
    Non-finite input gives non-finite output and a status, of this member of a batch alone. Where
    what the optimisation came to is no motion (``SOURCELESS``, ``FASTEST``), the body stays where
    it is for this step, without contact forces; ``lost`` says so, and the status is not SOLVED. So
    a finite state stays finite.
    Products are taken at the highest precision, never in TF32.
    """
    with jax.default_matmul_precision("highest"):
        return _synthesize(conf, state, tasks, unit, config, pushes)


def _synthesize(conf, state, tasks, unit, config, pushes) -> tuple[State, SynthesisInfo]:
    model = conf.model
    push_torque, push_until, target, outside = _outside(conf, state, config, pushes)
    attempt = _attempts(conf, state, tasks, target, outside, unit, config)
    passes, result = _passes(attempt, state.solver.last, conf, config)
    v = jnp.where(result.lost, 0.0, result.v)
    v = jnp.where(result.solution.status == qp.NOT_FINITE, jnp.nan, v)
    force, clasp_force = jax.tree.map(
        lambda x: jnp.where(result.lost, 0.0, x), (result.force, result.clasp_force)
    )
    result = replace(result, v=v, force=force, clasp_force=clasp_force)
    touch = result.touch
    torque, root_residual = needed(conf, v, force, outside + touch.pull(clasp_force), config)
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
        grip_speed=grip_speed(conf, touch.held, config.dt)
        if touch.clasped is None
        else touch.clasped.speed,
        clasped=None if touch.clasped is None else touch.clasped.on,
        clasp_force=clasp_force,
    )
    memory = SynthesisMemory(
        torque=jnp.where(result.lost, state.solver.torque, torque),
        stop=jnp.where(result.lost, state.solver.stop, stop),
        force=result.force,
        push_torque=push_torque,
        push_until=push_until,
        last=_next_start(state.solver.last, result),
        **_remembered(conf, state.solver, result),
    )
    q = integrate(model, state.q, result.v, config.dt)
    return State(q, result.v, state.time + config.dt, state.broken, memory), info


def _remembered(conf: Configuration, before: SynthesisMemory, result: "_Result") -> dict[str, Any]:
    """Who holds what after the step."""
    held, clasped, found = result.touch.held, result.touch.clasped, {}
    found["grips"], found["clasps"] = before.grips, before.clasps
    if conf.holds is not None and held is not None:
        found["grips"] = conf.holds.after(held, result.force)
    if conf.clasps is not None and clasped is not None and result.clasp_force is not None:
        found["clasps"] = conf.clasps.after(clasped, result.clasp_force)
    return found


def first_problem(
    conf: Configuration,
    state: State,
    tasks: Callable[[Configuration, Array], Tasks],
    unit: Units,
    config: SynthesisConfig,
    pushes: Pushes | None = None,
) -> qp.Problem:
    """The problem that the first pass of ``synthesize`` solves in the backward form: to look at,
    and to measure solvers with."""
    _, _, target, outside = _outside(conf, state, config, pushes)
    at_v, M = jnp.zeros_like(conf.v), mass_matrix(conf.model, conf.kin)
    motion = equations_of_motion(conf, M, outside, at_v, config)
    linear, bears = Linearised(conf, at_v, tasks(conf, at_v), motion), state.solver.stop != 0
    none = Blocked.none(conf.near.gap, conf.v)
    _, _, problem = _problem(conf, linear, bears, none, target, unit, config)
    return problem


def _outside(conf: Configuration, state: State, config, pushes: Pushes | None):
    """Torques at the last push's onset and until when torques should stay at these, what they
    should stay at now, and the generalised forces of pushes."""
    memory: SynthesisMemory = state.solver
    outside, starts = jnp.zeros_like(state.qd), jnp.zeros((), bool)
    if pushes is not None:
        outside = push_torque(conf.model, conf.kin, pushes, state.time)
        since = state.time - pushes.start
        starts = ((since >= 0) & (since < config.dt) & (pushes.duration > 0)).any()
    kept = jnp.where(starts, memory.torque, memory.push_torque)
    until = jnp.where(starts, state.time + config.response_delay, memory.push_until)
    return kept, until, jnp.where(state.time < until, kept, memory.torque), outside


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Touch:
    """How a character touches what is around it in one pass, and its own stops."""

    modes: ContactModes
    stops: Stops
    held: Held | None
    clasped: Clasped | None

    def pull(self, force: Array | None) -> Array | float:
        """(nv,) generalised force of those in clasps (nc, 3) [N m or N]."""
        return 0.0 if self.clasped is None or force is None else self.clasped.torque(force)

    def any(self, x: Array) -> Array:
        """() bool: it is so of this character, or of any that may be tied to it."""
        return x if self.clasped is None else self.clasped.any(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Result:
    """Of one pass."""

    v: Array  # (nv,)
    force: Array  # (ne, 3) [N]
    clasp_force: Array | None  # (nc, 3) [N]
    touch: _Touch
    leaving: Array  # (ne,) bool
    then: Blocked  # of the next pass, if there is one
    again: Array  # () bool: there is
    lost: Array  # () bool
    solution: qp.Solution


_Attempt = Callable[[Blocked, qp.Start], _Result]


def _passes(
    attempt: _Attempt, last: qp.Start, conf: Configuration, config
) -> tuple[Array, _Result]:
    """How many passes it took, and what the last one came to: a loop around one program. A pass
    starts where the one before ended, so that members of a batch who only wait are done at once."""
    none = Blocked.none(conf.near.gap, conf.v)
    if config.passes == 1:
        return jnp.asarray(1), attempt(none, last)

    def again(carry):
        count, blocked, last, _ = carry
        result = attempt(blocked, last)
        return count + 1, result.then, _next_start(last, result), result

    def goes_on(carry):
        count, _, _, result = carry
        return (count == 0) | (count < config.passes) & result.again

    shapes = jax.eval_shape(attempt, none, last)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    begun = jnp.asarray(0), none, last, nothing
    passes, _, _, result = jax.lax.while_loop(goes_on, again, begun)
    return passes, result


def _next_start(last: qp.Start, result: _Result) -> qp.Start:
    """What a result leaves to the next QP; of the equations only those of the root."""
    start = result.solution.start
    start = replace(start, equality=start.equality[: last.equality.shape[0]])
    return jax.tree.map(lambda x: jnp.where(result.lost, 0.0, x), start)


def _attempts(conf, state, tasks, torque, outside, unit, config) -> _Attempt:
    """One pass, of what must not carry force: a QP, or in the central form a sequence, each
    linearised where the last one led."""
    model, nv, bears = conf.model, conf.v.shape[0], state.solver.stop != 0
    M = mass_matrix(model, conf.kin)

    def linearised(ahead, at_v):
        motion = equations_of_motion(conf, M, outside, at_v, config)
        return Linearised(ahead, at_v, tasks(ahead, at_v), motion)

    def solved(linear, blocked, last):
        linear, touch, problem = _problem(conf, linear, bears, blocked, torque, unit, config)
        more = problem.b.shape[0] - last.equality.shape[0]  # rows of ``Tasks.fixed``
        start = replace(last, equality=jnp.pad(last.equality, (0, more)))
        solution = qp.solve(problem, start, config.iterations, config.tolerance)
        missed = largest((matmul(problem.A, solution.x) - problem.b)[: last.equality.shape[0]])
        return _result(conf, linear, touch, blocked, solution, missed, unit, config)

    def backward():
        linear = linearised(conf, jnp.zeros_like(conf.v))
        return lambda blocked, last: solved(linear, blocked, last)

    def central(blocked, last):
        def once(at_v, _):
            q = integrate(model, conf.q, at_v, config.dt)
            ahead = conf.ahead(q, at_v)
            result = solved(linearised(ahead, at_v), blocked, last)
            return result.solution.x[:nv], result

        results = jax.lax.scan(once, conf.v, None, length=config.sequence)[1]
        return jax.tree.map(lambda x: x[-1], results)

    return backward() if config.form == "backward" else central


def _problem(
    conf: Configuration,
    linear: Linearised,
    bears: Array,
    blocked: Blocked,
    torque: Array,
    unit,
    config,
) -> tuple[Linearised, _Touch, qp.Problem]:
    """With contacts; how it touches what is around; and the problem."""
    near, slow, held, clasped = config.touch_distance, config.slip_speed, None, None
    if conf.holds is not None:
        held = conf.holds.granted(linear.tasks.hold, conf.position)
    if conf.clasps is not None:
        clasped = conf.clasps.granted(linear.tasks.clasp, conf)
    modes = contact_modes(conf, near, slow, config.dt, blocked.contacts, linear.tasks.grip, held)
    motion = with_contacts(conf, linear.motion, modes, unit, clasped)
    linear = replace(linear, motion=motion, held=held, clasped=clasped)
    touch = _Touch(modes, stops(conf, bears, blocked, unit, config), held, clasped)
    problem = step_problem(conf, linear, modes, touch.stops, torque, config, unit)
    return linear, touch, problem


def _result(
    conf: Configuration,
    linear: Linearised,
    touch: _Touch,
    blocked: Blocked,
    solution: qp.Solution,
    missed: Array,
    unit,
    config,
) -> _Result:
    """missed: () of the equations of the root [body weights]."""
    modes, ends, clasped, nv = touch.modes, touch.stops, touch.clasped, conf.v.shape[0]
    contacts = nv + EDGES * conf.effectors.count
    v, coefficients = solution.x[:nv], solution.x[nv:contacts].reshape(-1, EDGES)
    clasp_force = None
    if clasped is not None:
        clasp_force = clasped.force(unit.force * solution.x[contacts:].reshape(-1, 3))
    force = unit.force * jnp.sum(coefficients[:, :, None] * modes.basis, axis=1)
    normal_force = jnp.sum(force * conf.near.normal, axis=-1)
    moved = config.dt * (conf.jacobian @ v) - conf.surface_moved()
    parts = conf.near.gap + jnp.sum(conf.near.normal * moved, axis=-1) > config.touch_distance
    may_leave = modes.on & ~modes.signed & ~modes.holds
    leaving = may_leave & parts & (normal_force > CARRIES * unit.force)
    most = jnp.maximum(FASTEST * unit.rate, largest(conf.v))
    solved = solution.status == qp.SOLVED
    lost = touch.any(~((solved | (missed <= SOURCELESS)) & (largest(v) <= most)))
    status = jnp.where(solved & lost, qp.UNFINISHED, solution.status)
    solution = replace(solution, status=status)
    given, top = linear.torque(solution.x), conf.model.topology
    limit = jnp.where(actuated(top) & config.torque_limits, conf.model.torque_limit, jnp.inf)
    pulled = ends.pulled(v, given, limit, config)
    pulled, leaving = pulled & ~lost, leaving & ~lost
    return _Result(
        v=v,
        force=force,
        clasp_force=clasp_force,
        touch=touch,
        leaving=leaving,
        then=blocked.after(leaving, pulled, given, limit),
        again=touch.any(leaving.any() | pulled.any()),
        lost=lost,
        solution=solution,
    )
