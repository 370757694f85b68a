"""Passes over a step: contacts that separate while carrying force are removed, the QP solved again.

A joint's stop that its joint leaves while the stop pushes is removed in the same way, and so are
bounds of the torques' change that no motion fits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.dynamics.kinematics import integrate
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.products import matmul
from jaxsim.solvers import qp
from jaxsim.solvers.interior_point import largest
from jaxsim.synthesis.clasps import Clasped
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.contact_forces import EDGES, ContactModes, contact_modes
from jaxsim.synthesis.holds import ActiveGrips
from jaxsim.synthesis.levels import solve_problem
from jaxsim.synthesis.motor_torques import TorqueAim
from jaxsim.synthesis.problem import (
    Linearised,
    equations_of_motion,
    step_problem,
    with_contacts,
)
from jaxsim.synthesis.stops import Blocked, Stops, stops

CARRIES = 1e-3  # least normal force that counts as carried [body weights]
SOURCELESS = 1.0  # largest force without a source of an accepted unsolved QP [body weights]
FASTEST = 300.0  # largest accepted velocity, relative to ``Units.rate``


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Touch:
    """Contacts, grips and hand holds of one character in one pass, and the stops of its joints."""

    modes: ContactModes
    stops: Stops
    held: ActiveGrips | None
    clasped: Clasped | None

    def pull(self, force: Array | None) -> Array | float:
        """(nv,) generalised force of the forces (nc, 3) in hand holds [N m or N]."""
        return 0.0 if self.clasped is None or force is None else self.clasped.torque(force)

    def any(self, x: Array) -> Array:
        """() bool: x holds for this character, or for any that hand holds may tie to it."""
        return x if self.clasped is None else self.clasped.any(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HorizonPlan:
    """Solution over a horizon of H frames, from which the next optimisation starts."""

    x: Array  # (H, n) velocities and coefficients
    equality: Array  # (H, e) multipliers of the root's equations of motion
    inequality: Array  # (H, c)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Result:
    """Velocity, forces and QP solution of one pass, with what the next pass must exclude."""

    v: Array  # (nv,)
    force: Array  # (ne, 3) [N]
    clasp_force: Array | None  # (nc, 3) [N]
    touch: Touch
    leaving: Array  # (ne,) bool
    then: Blocked  # forces to exclude in the next pass, if there is one
    again: Array  # () bool: another pass is needed
    lost: Array  # () bool: the solution is no usable motion, see ``SOURCELESS``, ``FASTEST``
    solution: qp.QPSolution
    plan: HorizonPlan | None = None  # of a horizon of several frames


Attempt = Callable[[Blocked, Any], Result]


def run_passes(
    attempt: Attempt, last: qp.Start | HorizonPlan, conf: Configuration, config
) -> tuple[Array, Result]:
    """Repeat a pass until no force has to be excluded: number of passes, and the last one's result.

    A loop around one program. Each pass starts from the solution of the one before, so that members
    of a batch that only wait for others converge at once.
    """
    none = Blocked.none(conf.near.gap, conf.v)
    if config.passes == 1:
        return jnp.asarray(1), attempt(none, last)

    def again(carry):
        count, blocked, last, _ = carry
        result = attempt(blocked, last)
        return count + 1, result.then, next_start(last, result), result

    def goes_on(carry):
        count, _, _, result = carry
        return (count == 0) | (count < config.passes) & result.again

    shapes = jax.eval_shape(attempt, none, last)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    begun = jnp.asarray(0), none, last, nothing
    passes, _, _, result = jax.lax.while_loop(goes_on, again, begun)
    return passes, result


def next_start(last: qp.Start | HorizonPlan, result: Result) -> qp.Start | HorizonPlan:
    """Warm start of the next QP; of the multipliers of equations only those of the root remain."""
    if result.plan is None:
        start = result.solution.start
        start = replace(start, equality=start.equality[: last.equality.shape[0]])
    else:
        start = result.plan
    return jax.tree.map(lambda x: jnp.where(result.lost, 0.0, x), start)


def attempts(conf, state, tasks, aim: TorqueAim, outside, unit, config) -> Attempt:
    """Function that runs one pass for a set of excluded forces.

    A pass is one QP, or in the central form a sequence of QPs, each linearised where the last one
    led.
    """
    model, nv, bears = conf.model, conf.v.shape[0], state.solver.stop != 0
    M = mass_matrix(model, conf.kin)

    def linearised(ahead, at_v):
        motion = equations_of_motion(conf, M, outside, at_v, config)
        return Linearised(ahead, at_v, tasks(ahead, at_v), motion)

    def solved(linear, blocked, last):
        linear, touch, problem = problem_now(conf, linear, bears, blocked, aim, unit, config)
        more = problem.b.shape[0] - last.equality.shape[0]  # rows of ``Tasks.fixed``
        start = replace(last, equality=jnp.pad(last.equality, (0, more)))
        solution = solve_problem(problem, linear.tasks, start, config)
        missed = largest((matmul(problem.A, solution.x) - problem.b)[: last.equality.shape[0]])
        return result_of(conf, linear, touch, blocked, solution, missed, unit, config)

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


def problem_now(
    conf: Configuration,
    linear: Linearised,
    bears: Array,
    blocked: Blocked,
    aim: TorqueAim,
    unit,
    config,
) -> tuple[Linearised, Touch, qp.QuadraticProgram]:
    """Build a pass's QP: the linearisation with contact forces, the contacts, and the problem.

    bears (nv,) bool: stops that pushed in the step before.
    """
    near, slow, grips, clasped = config.touch_distance, config.slip_speed, None, None
    if conf.holds is not None:
        grips = conf.holds.granted(linear.tasks.hold, conf.position)
    if conf.clasps is not None:
        clasped = conf.clasps.granted(linear.tasks.clasp, conf)
    apart = linear.tasks.apart
    none = blocked.contacts if apart is None else blocked.contacts | apart
    modes = contact_modes(conf, near, slow, config.dt, none, linear.tasks.grip, grips)
    motion = with_contacts(conf, linear.motion, modes, unit, clasped)
    linear = replace(linear, motion=motion, held=grips, clasped=clasped)
    limit, unbound = conf.model.torque_limit, blocked.unbound
    motors = aim.range(conf.model.topology, limit, modes.on, unbound, config)
    touch = Touch(modes, stops(conf, bears, blocked, motors, unit, config), grips, clasped)
    problem = step_problem(conf, linear, modes, touch.stops, aim.target, config, unit)
    return linear, touch, problem


def result_of(
    conf: Configuration,
    linear: Linearised,
    touch: Touch,
    blocked: Blocked,
    solution: qp.QPSolution,
    missed: Array,
    unit,
    config,
) -> Result:
    """Turn a QP's solution into velocities and forces, and find what the next pass must exclude.

    missed: () largest violation of the root's equations of motion [body weights].
    """
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
    torque = linear.torque(solution.x)
    pulled = ends.pulled(v, torque, config)
    pulled, leaving = pulled & ~lost, leaving & ~lost
    unbound = ~solved & ends.motors.narrowed
    return Result(
        v=v,
        force=force,
        clasp_force=clasp_force,
        touch=touch,
        leaving=leaving,
        then=blocked.after(leaving, pulled, unbound, torque, ends.motors),
        again=touch.any(leaving.any() | pulled.any() | unbound),
        lost=lost,
        solution=solution,
    )
