"""Horizon of several steps, optimised together (model predictive control).

Frame k of a horizon of H has the unknowns of a step, x_k = (v'_k, coefficients), and the rows of
``problem.step_problem`` at the configuration, velocity and torques that the frames before lead to.
These rows are linearised about the last plan, by differentiating them: so all rows of a step
(goals, cones, stops, limits) are rows of a horizon. The state that ties the frames is

    s_k = (q_k less the plan's, v_k less the plan's, torques of the frame before),

so that all frames are one ``solvers.stages`` problem. Equations of motion of the first frame are
linear by themselves: the step that is taken is physical, however inaccurate the plan is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import difference, integrate
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.products import matmul
from jaxsim.model import Model
from jaxsim.solvers import qp, stages
from jaxsim.solvers.interior_point import largest
from jaxsim.solvers.riccati import Chain, StageRows
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.contact_forces import EDGES
from jaxsim.synthesis.motor_torques import MotorMemory, TorqueAim, motor_mask
from jaxsim.synthesis.passes import Attempt, HorizonPlan, problem_now, result_of
from jaxsim.synthesis.problem import Linearised, equations_of_motion
from jaxsim.synthesis.stops import Blocked, in_reach, with_stops
from jaxsim.synthesis.tasks import TaskRows, Tasks


@dataclass(frozen=True)
class Ahead:
    """Inputs of a horizon that depend on the time since its first step began, () [s]."""

    tasks: Callable[[Configuration, Array], Tasks]
    outside: Callable[[Configuration, Array], Array]  # (nv,) generalised forces of pushes
    motors: MotorMemory
    time: Array  # () at which the first step begins [s]

    def aim(self, first: Array, before: Array, elapsed: Array, config) -> TorqueAim:
        """Aim of a frame after torques (nv,); first: () bool, it follows the step before.

        From frame to frame of a plan no bound of the torques' change holds.
        """
        before = jnp.where(first, self.motors.torque, before)
        step = jnp.where(first, config.torque_rate * config.dt, jnp.inf)
        return self.motors.aim_after(before, self.time + elapsed, step, config)


def first_plan(model: Model, last: qp.Start, config) -> HorizonPlan:
    """Initial plan: the solution ``last`` of a single step's QP, repeated in every frame."""
    ne = (len(last.x) - model.topology.nv) // EDGES
    limits = 2 * len(last.at_ceiling)
    rows = 2 * len(with_stops(model.topology)) + ne * EDGES + ne + limits
    frames = (config.window, 1)
    return HorizonPlan(
        x=jnp.tile(last.x, frames),
        equality=jnp.tile(last.equality, frames),
        inequality=jnp.zeros((config.window, rows), last.x.dtype),
    )


def plan_ahead(plan: HorizonPlan) -> HorizonPlan:
    """Shift a plan by one step; its last frame is repeated."""
    return jax.tree.map(lambda x: jnp.concatenate([x[1:], x[-1:]]), plan)


def window_attempts(conf: Configuration, bears: Array, ahead: Ahead, unit, config) -> Attempt:
    """Function that runs one pass over a horizon, the counterpart of ``passes.attempts``.

    A pass is ``config.sweeps`` QPs of the whole horizon, each linearised about the plan that the
    one before gave; the step takes the first frame. Raises ValueError for strict priorities.
    """
    now = jnp.zeros_like(conf.v[0])
    aim = ahead.motors.aim(ahead.time, config)

    def attempt(blocked: Blocked, last: HorizonPlan):
        def sweep(plan: HorizonPlan, _):
            problem = window_problem(conf, bears, blocked, plan, ahead, unit, config)
            more = problem.b.shape[1] - plan.equality.shape[1]  # rows of ``Tasks.fixed``
            equality = jnp.pad(plan.equality, ((0, 0), (0, more)))
            start = plan.x, equality, plan.inequality
            s = stages.solve(problem, start, config.iterations, config.tolerance)
            roots = s.equality[:, : plan.equality.shape[1]]
            return HorizonPlan(s.u, roots, s.inequality), replace(s, u=s.u[0])

        plan, found = jax.lax.scan(sweep, last, None, length=config.sweeps)
        found = jax.tree.map(lambda x: x[-1], found)
        linear = _linear(conf, conf.v, now, ahead, unit, config)
        linear, touch, problem = problem_now(conf, linear, bears, blocked, aim, unit, config)
        if linear.tasks.levels:
            raise ValueError("strict priorities are of single steps; give window = 1")
        missed = largest((matmul(problem.A, found.u) - problem.b)[: last.equality.shape[1]])
        solution = _of_first_frame(problem, found, config)
        result = result_of(conf, linear, touch, blocked, solution, missed, unit, config)
        return replace(result, plan=plan)

    return attempt


def _of_first_frame(
    problem: qp.QuadraticProgram, solution: stages.StagedSolution, config
) -> qp.QPSolution:
    """Repack the horizon's solution as a solution of the first frame's QP.

    Multipliers other than those of equations are zero.
    """
    x, nb = solution.u, problem.lower.shape[0]
    allowed = (config.tolerance or qp.default_tolerance(x.dtype)) * (1 + largest(x))
    rows, last = matmul(problem.G, x), x[len(x) - nb :]
    high = rows[len(rows) - len(problem.ceilings) :] - problem.ceilings > allowed
    low = (rows < problem.h - allowed).at[len(rows) - len(problem.ceilings) :].max(high)
    beyond = (last < problem.lower - allowed) | (last > problem.upper + allowed)
    missed = jnp.abs(matmul(problem.A, x) - problem.b) > allowed
    beyond = jnp.concatenate([jnp.zeros(len(x) - nb, bool), beyond])
    none = jnp.zeros_like(problem.lower)
    return qp.QPSolution(
        x=x,
        equality=solution.equality[0],
        inequality=jnp.zeros_like(problem.h),
        at_lower=none,
        at_upper=none,
        at_ceiling=jnp.zeros_like(problem.ceilings),
        status=solution.status,
        primal=solution.primal,
        dual=solution.dual,
        gap=solution.gap,
        iterations=solution.iterations,
        violated=jnp.concatenate([missed, low, beyond]),
    )


def _linear(conf: Configuration, v: Array, elapsed: Array, ahead: Ahead, unit, config):
    """Linearise tasks and equations of motion of the frame that begins with a configuration."""
    still = jnp.zeros_like(v)
    M = mass_matrix(conf.model, conf.kin)
    motion = equations_of_motion(conf, M, ahead.outside(conf, elapsed), still, config)
    return Linearised(conf, still, ahead.tasks(conf, still), motion)


def window_problem(
    conf: Configuration,
    bears: Array,
    blocked: Blocked,
    plan: HorizonPlan,
    ahead: Ahead,
    unit,
    config,
) -> stages.StagedProgram:
    """QP of all frames, linearised about a plan. bears (nv,), blocked: of the first frame."""
    model, nv, count = conf.model, conf.v.shape[0], config.window
    velocity = plan.x[:, :nv]

    def follow(q, v):
        return integrate(model, q, v, config.dt), q

    _, q = jax.lax.scan(follow, conf.q, velocity)
    v = jnp.concatenate([conf.v[None], velocity[:-1]])
    first = jnp.arange(count) == 0
    elapsed = jnp.arange(count) * jnp.asarray(config.dt, conf.q.dtype)
    last = jnp.where(jnp.arange(count) == count - 1, config.last_weight, 1.0).astype(conf.q.dtype)

    def frame(q, v, x, first, elapsed, goals):
        own = jax.tree.map(lambda b: jnp.where(first, b, jnp.zeros_like(b)), blocked)
        return _frame(conf, q, v, x, (first, bears), own, elapsed, goals, ahead, unit, config)

    return jax.vmap(frame)(q, v, plan.x, first, elapsed, jnp.sqrt(last))


def _frame(
    conf, q, v, x, begins, blocked, elapsed, goals, ahead, unit, config
) -> stages.StagedProgram:
    """Build the stage of one frame, linearised about the plan.

    q (nq,), v (nv,) at the frame's beginning, and its x (n,). begins: () bool of the first frame,
    and (nv,) bool of the stops that pushed before it; goals: root of the goals' weight.
    """
    model, nv = conf.model, conf.v.shape[0]
    muscles = np.flatnonzero(motor_mask(model.topology))
    nj, (first, bears) = len(muscles), begins
    scale = jnp.concatenate(
        [jnp.full(nv, unit.angle), jnp.full(nv, unit.rate), jnp.full(nj, unit.torque)]
    ).astype(q.dtype)

    def rows(s):
        """Values of all rows at x as functions of the state s, and their derivatives by x."""
        d, e, t = jnp.split(scale * s, [nv, 2 * nv])
        here = replace(conf.at(integrate(model, q, d, 1.0), v + e), elapsed=elapsed)
        linear = _linear(here, here.v, elapsed, ahead, unit, config)
        linear = replace(linear, tasks=_times(linear.tasks, goals))
        up, down = in_reach(here, unit, config)
        bore = jnp.where(first, bears, up | down)
        aim = ahead.aim(first, jnp.zeros_like(v).at[muscles].set(t), elapsed, config)
        near = jnp.where(first, config.touch_distance, unit.limb)  # no plan is more accurate
        own = replace(config, touch_distance=near)
        linear, _, problem = problem_now(here, linear, bore, blocked, aim, unit, own)
        C, least = _one_sided(model, problem)
        L = jnp.concatenate([linear.motion.inertia, -linear.motion.force], axis=1)[muscles]
        torque = linear.torque(x)[muscles] / unit.torque
        of_x = problem.J, problem.A, C, L / unit.torque
        at_x = matmul(problem.J, x) - problem.r, matmul(problem.A, x) - problem.b
        return (*at_x, matmul(C, x) - least, torque), (of_x, (*at_x, matmul(C, x) - least, torque))

    by_state, (of_x, at_x) = jax.jacfwd(rows, has_aux=True)(jnp.zeros_like(scale))
    J, A, C, torque = (StageRows(a, b) for a, b in zip(of_x, by_state))
    r, b, least, given = (matmul(a, x) - at for a, at in zip(of_x, at_x))
    chain, f = _chain(model, q, x, torque, given, scale, unit, config)
    return stages.StagedProgram(J, r, A, b, C, least, chain, f)


def _chain(model, q, x, torque, offset, scale, unit, config) -> tuple[Chain, Array]:
    """Dynamics between frames: matrices and constant of s_(k+1) = F s_k + B x_k + f.

    torque: rows of the motors' torques (nj,), which are these rows less ``offset``, in their unit.
    """
    nv, nj = model.topology.nv, torque.u.shape[0]
    end = integrate(model, q, x[:nv], config.dt)

    def moved(d, v):
        return difference(model, integrate(model, integrate(model, q, d, 1.0), v, config.dt), end)

    of_d, of_v = jax.jacfwd(moved, (0, 1))(jnp.zeros(nv, q.dtype), x[:nv])
    none, wide = jnp.zeros((nv, nv + nj), q.dtype), jnp.zeros((nv, len(x) - nv), q.dtype)
    F = jnp.concatenate(
        [jnp.concatenate([of_d, none], 1), jnp.zeros((nv, 2 * nv + nj), q.dtype), torque.s]
    )
    B = jnp.concatenate(
        [
            jnp.concatenate([of_v / unit.angle, wide], 1),
            jnp.concatenate([jnp.eye(nv, dtype=q.dtype) / unit.rate, wide], 1),
            torque.u,
        ]
    )
    f = -matmul(B, x)
    return Chain(F, B), f.at[2 * nv :].set(-offset)


def _times(tasks: Tasks, root: Array) -> Tasks:
    goals = TaskRows(root * tasks.goals.J, root * tasks.goals.r)
    return replace(tasks, goals=goals)


def _one_sided(model: Model, p: qp.QuadraticProgram) -> tuple[Array, Array]:
    """Collect all inequalities as C x >= d, (c, n), (c,): ranges, coefficients, rows, ceilings."""
    limited, n = np.array(model.topology.v_start)[with_stops(model.topology)], p.J.shape[1]
    eye = jnp.eye(n, dtype=p.J.dtype)
    forces = np.arange(model.topology.nv, n)
    above = p.G[len(p.h) - len(p.ceilings) :]
    C = jnp.concatenate([eye[limited], eye[forces], -eye[limited], p.G, -above])
    sides = p.lower[limited], p.lower[forces], -p.upper[limited], p.h, -p.ceilings
    return C, jnp.concatenate(sides)
