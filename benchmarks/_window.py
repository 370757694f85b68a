"""The scenes of ``benchmarks/window.py``: a body with one leg is pushed, and jumps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim import push
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.model import Model, State, neutral_state
from jaxsim.solvers import stages
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.contact_forces import EDGES, contact_modes
from jaxsim.synthesis.measured import effort, needed_torque
from jaxsim.synthesis.passes import HorizonPlan
from jaxsim.synthesis.stops import Blocked
from jaxsim.synthesis.synthesizer import begin, synthesize
from jaxsim.synthesis.tasks import Tasks, position_rows, stack_rows
from jaxsim.synthesis.window import Ahead, first_plan, window_problem
from jaxsim.viewer.filmstrip import write_filmstrip
from optimize.running.recording import shapes_of
from tests.synthesis.hopper import HANDLE, Wish, crouched, hopper, hopper_effectors, wish


@dataclass(frozen=True)
class Kind:
    """How long steps and runs are [s], how strong the motors [N m], and how many QPs a window."""

    dt: float
    seconds: float
    torque: float
    sweeps: int


ANNOUNCED = Kind(dt=0.03, seconds=1.5, torque=400.0, sweeps=1)
PUSHED, LASTS = 0.5, 0.1  # [s]
JUMP = Kind(dt=0.025, seconds=1.5, torque=150.0, sweeps=3)
LEAVES, TOP, LANDS = 0.6, 0.8, 1.0  # times of the jump [s]
NEARLY_STRAIGHT = (0.15, -0.3, 0.15)  # hip, knee, ankle, with which it begins [rad]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Told:
    """Of T steps."""

    q: Array  # (T, nq)
    com: Array  # (T, 3) [m]
    gap: Array  # (T,) of the lowest corner of the sole [m]
    force: Array  # (T, ne, 3) [N]
    point: Array  # (T, ne, 3) [m]
    torque: Array  # (T, nv) [N m]
    root_residual: Array  # (T,) [N]
    effort: Array  # (T,)
    iterations: Array  # (T,)
    status: Array  # (T,)

    @property
    def stands(self) -> bool:
        """At the end it does, no more than a sole from its place."""
        com = np.asarray(self.com)
        return bool(np.isfinite(com).all() and np.abs(com[-1] - com[0]).max() < 0.14)


Ask = Callable[[Wish, Array, Configuration, Array, Any, Any], Tasks]


@dataclass(frozen=True)
class Scene:
    """A body that stands, with so many frames a window."""

    frames: int
    kind: Kind

    @cached_property
    def model(self) -> Model:
        model = hopper()
        limit = jnp.where(model.torque_limit > 0, self.kind.torque, model.torque_limit)
        return model.replace(torque_limit=limit)

    @cached_property
    def config(self) -> SynthesisConfig:
        return SynthesisConfig(
            dt=self.kind.dt,
            torque_limits=True,
            window=self.frames,
            sweeps=self.kind.sweeps,
            announced=self.frames > 1,
        )

    @property
    def steps(self) -> int:
        return round(self.kind.seconds / self.kind.dt)

    @property
    def before(self) -> int:
        """The steps before a push."""
        return int(PUSHED / self.kind.dt)

    @property
    def top(self) -> int:
        """The step that ends where a jump is to be highest."""
        return round(TOP / self.kind.dt) - 1

    @cached_property
    def standing(self) -> State:
        """Before anything is remembered."""
        if self.kind is not JUMP:
            return crouched(self.model)
        state = neutral_state(self.model)
        q = state.q.at[7:10].set(jnp.array(NEARLY_STRAIGHT))
        return state.replace(q=q.at[2].add(-self.seen(q, state.qd).position[:HANDLE, 2].min()))

    def seen(self, q: Array, v: Array) -> Configuration:
        """A configuration of it."""
        return configuration_at(self.model, hopper_effectors(self.model), q, v)

    def begin(self) -> State:
        """As a run begins."""
        return self._begun

    @cached_property
    def _begun(self) -> State:
        one, points = replace(self.config, window=1), hopper_effectors(self.model)
        first = jax.jit(lambda state: begin(self.model, points, state, units(self.model), one))
        state = first(self.standing)
        if self.frames == 1:
            return state
        plan = first_plan(self.model, state.solver.last, self.config)
        return state.replace(solver=replace(state.solver, last=plan))

    def run(self, state: State, wanted: Wish, ask: Ask, pushes) -> Told:
        """What comes of asking."""
        unit = units(self.model)

        def step(state, _):
            conf = self.seen(state.q, state.qd)
            tasks = lambda at, at_v: ask(wanted, state.time, at, at_v, unit, self.config.dt)  # noqa: E731
            after, info = synthesize(conf, state, tasks, unit, self.config, pushes)
            end = self.seen(after.q, after.qd)
            told = Told(
                q=after.q,
                com=end.com,
                gap=end.near.gap[:HANDLE].min(),
                force=info.force,
                point=end.position,
                torque=info.torque,
                root_residual=info.root_residual,
                effort=info.effort,
                iterations=info.iterations,
                status=info.status,
            )
            return after, told

        return jax.lax.scan(step, state, None, length=self.steps)[1]


def shoved(scene: Scene) -> Callable[[State, Array], Told]:
    """Asked to stay, and pushed from behind with a force [N]."""
    wanted = wish(scene.model, scene.standing)
    shove = push(scene.model, "trunk", (1.0, 0, 0), start=PUSHED, duration=LASTS)

    def ask(wanted, time, conf, at_v, unit, dt):
        return wanted.tasks(conf, at_v, unit, dt)

    def run(state, force):
        return scene.run(state, wanted, ask, replace(shove, force=force * shove.force))

    return run


def jumped(scene: Scene) -> Callable[[State, Array], Told]:
    """Asked for the centre of mass at a height [m] above its first, at ``TOP``. A window is told
    when the sole is in the air; a step alone is not, for it would lose the ground at once."""
    wanted = wish(scene.model, scene.standing, com_weight=0.0, joint_weight=1.0, damping=0.05)
    nothing = push(scene.model, "trunk", (0, 0, 0))

    def run(state, height):
        def ask(wanted, time, conf, at_v, unit, dt):
            end = time + dt + (0.0 if conf.elapsed is None else conf.elapsed)
            return jump_tasks(wanted, height, end, conf, at_v, unit, dt, scene.frames > 1)

        return scene.run(state, wanted, ask, nothing)

    return run


def jump_tasks(wanted: Wish, height, end, conf, at_v, unit, dt, told: bool) -> Tasks:
    """Of a frame that ends at a time () [s]: to stand before and after, and to be high once."""
    highest = jnp.abs(end - TOP) < dt / 2
    air = told & (end > LEAVES + 1e-6) & (end < LANDS - 1e-6)
    on_the_way = (end > LEAVES - 0.4) & (end < LANDS + 0.2)
    weight = jnp.where(highest, 500.0, jnp.where(on_the_way, 0.0, 5.0))
    weights = jnp.stack([5.0 + 0 * weight, 5.0 + 0 * weight, weight])
    place = wanted.com.at[2].add(jnp.where(highest, height, 0.0))
    scale = jnp.sqrt(weights) / unit.com
    high = position_rows(conf, conf.com - place, conf.com_jacobian, at_v, scale, dt)
    turn = jnp.eye(conf.v.shape[0], dtype=conf.v.dtype)[3:6]
    upright = position_rows(conf, 2 * conf.q[4:7], turn, at_v, jnp.sqrt(5.0), dt)
    tasks = wanted.tasks(conf, at_v, unit, dt)
    apart = air & (jnp.arange(conf.effectors.count) < HANDLE)
    goals = stack_rows(tasks.goals, high, upright)
    return replace(tasks, goals=goals, still=jnp.where(apart, 0.0, tasks.still), apart=apart)


def limbs(model: Model) -> tuple[MotionShape, ...]:
    """Thigh and shank, to look at: the model has no shapes of them."""
    half = 0.5**0.5
    middle, stands, size = (0.0, 0.0, -0.2), (half, 0.0, half, 0.0), (0.03, 0.2)
    links = [model.topology.link_names.index(name) for name in ("thigh", "shank")]
    return tuple(MotionShape("capsule", link, middle, stands, size) for link in links)


def film(scene: Scene, told: Told, path: Path) -> None:
    """A strip of the run."""
    top, count = scene.model.topology, len(told.q)
    kin = jax.vmap(lambda q: forward_kinematics(scene.model, q, jnp.zeros(top.nv)))(told.q)
    dofs = np.asarray(top.actuated_dofs)
    motion = Motion(
        title=f"a window of {scene.frames}",
        link_names=top.link_names,
        joint_names=top.actuated_dof_names,
        phase_names=(),
        shapes=(*shapes_of(scene.model), *limbs(scene.model)),
        time=scene.kind.dt * np.arange(1, count + 1),
        q=np.asarray(told.q),
        qd=np.zeros((count, top.nv)),
        link_pos=np.asarray(kin.link_pos),
        link_quat=np.asarray(matrix_to_quat(kin.link_rot)),
        contact_pos=np.asarray(told.point),
        contact_force=np.asarray(told.force),
        phase=np.full(count, -1),
        torque=np.asarray(told.torque)[:, dofs],
        torque_limit=np.asarray(scene.model.torque_limit)[dofs],
        heights={"com": np.asarray(told.com)[:, 2]},
        com=np.asarray(told.com),
    )
    write_filmstrip(path, motion, frames=12)


def planned(scene: Scene) -> Callable[[State, HorizonPlan, Array], tuple[HorizonPlan, Told]]:
    """One more QP of a jump's window from a state, about a plan: the plan after it, and what it
    comes to frame by frame."""
    wanted = wish(scene.model, scene.standing, com_weight=0.0, joint_weight=1.0, damping=0.05)
    config, unit, nv = scene.config, units(scene.model), scene.model.topology.nv

    def sweep(state, plan, height):
        conf = scene.seen(state.q, state.qd)

        def ask(at, at_v):
            end = state.time + config.dt + (0.0 if at.elapsed is None else at.elapsed)
            return jump_tasks(wanted, height, end, at, at_v, unit, config.dt, True)

        nothing = lambda at, elapsed: jnp.zeros_like(at.v)  # noqa: E731
        ahead = Ahead(ask, nothing, state.solver.motors, state.time)
        none = Blocked.none(conf.near.gap, conf.v)
        problem = window_problem(conf, conf.v > jnp.inf, none, plan, ahead, unit, config)
        rows = plan.equality.shape[1]
        equality = jnp.pad(plan.equality, ((0, 0), (0, problem.b.shape[1] - rows)))
        s = stages.solve(problem, (plan.x, equality, plan.inequality), config.iterations)
        after = HorizonPlan(s.u, s.equality[:, :rows], s.inequality)
        return after, followed(conf, after, s)

    def followed(conf, plan, s) -> Told:
        def frame(carry, x):
            q, v = carry
            here = scene.seen(q, v)
            on = contact_modes(here, unit.limb, config.slip_speed, config.dt)
            force = unit.force * jnp.sum(x[nv:].reshape(-1, EDGES, 1) * on.basis, axis=1)
            zero = jnp.zeros_like(v)
            torque, root = needed_torque(here, x[:nv], force, zero, config)
            q = integrate(scene.model, q, x[:nv], config.dt)
            end = scene.seen(q, x[:nv])
            gap, most = end.near.gap[:HANDLE].min(), effort(scene.model, torque)
            told = (q, end.com, gap, force, end.position, torque, root, most)
            return (q, x[:nv]), Told(*told, iterations=s.iterations, status=s.status)

        return jax.lax.scan(frame, (conf.q, conf.v), plan.x)[1]

    return sweep
