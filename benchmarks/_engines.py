"""A character in contact under random torques, for our engine and for MuJoCo's."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks._hlo import Counts, count
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import explain, fuse
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index, to_mjcf
from jaxsim.model import Model, State
from jaxsim.simulation.measures import Measure, total
from jaxsim.simulation.records import Control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.running.batch import batched
from optimize.session import cores

DT = 0.001  # [s]
CONFIG = TimeStepping(dt=DT)
POOL = 48  # poses that differ
TORQUES = 1009  # rows of the table of random torques; a prime, so that members do not repeat
STRENGTH = 0.2  # of the greatest torque of each joint
PLAIN_SWEEPS = 8  # beside the default, which does as many as a step needs
GOAL_SWEEPS = 1.3  # times as long as these the default may take


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RandomTorques:
    """Row after row of a table, from another row for each member."""

    table: Array  # (TORQUES, nv) [N m]
    offset: Array  # ()

    def init(self, model: Model, state: State, obs: Any) -> Array:
        return self.offset

    def update(self, memory: Array, model: Model, state: State, obs, dt) -> tuple[Array, Control]:
        return (memory + 1) % TORQUES, Control(self.table[memory], jnp.zeros_like(state.qd))


@dataclass(frozen=True)
class Task:
    """What both engines simulate; starts are numpy, members first."""

    model: Model
    torques: np.ndarray  # (TORQUES, nv)
    state: State  # (batch, ...)
    offset: np.ndarray  # (batch,)
    config: TimeStepping = CONFIG

    @property
    def batch(self) -> int:
        return len(self.offset)

    def first(self, batch: int) -> "Task":
        """The same for the first so many members."""
        state = jax.tree.map(lambda x: x[:batch], self.state)
        return dataclasses.replace(self, state=state, offset=self.offset[:batch])


def with_plain_sweeps(task: Task) -> Task:
    """Task with ``PLAIN_SWEEPS`` in each step and no more."""
    config = dataclasses.replace(task.config, sweeps=PLAIN_SWEEPS, most_sweeps=0)
    return dataclasses.replace(task, config=config)


def sweeps_verdict(back_end: str, times: dict[int, float]) -> str:
    """Line on the time of a step by default over that of plain sweeps, by size of the batch."""
    worst = max(times.values())
    spread = ", ".join(f"{time:.2f} at {batch}" for batch, time in times.items())
    text = f"- the default, {back_end}: {spread} times the time of {PLAIN_SWEEPS} plain sweeps"
    text += f" (goal {GOAL_SWEEPS:g}), {'met' if worst <= GOAL_SWEEPS else 'not met'}"
    if worst > GOAL_SWEEPS:
        text += f"\n- WARNING: by default a step takes {worst:.2f} times as long as plain sweeps"
    return text


def make_task(
    model: Model,
    start: Callable[[Array], State],
    poses: np.ndarray,
    batch: int,
    settle: int = 500,
    config: TimeStepping = CONFIG,
) -> Task:
    """Characters that fall over or lie on the ground, each in another way.

    ``start(poses[k])`` is the state of one that falls or lies; for ``settle`` steps it goes limp,
    then each joint gets random torques. Members beyond the first len(poses) repeat their poses,
    not their torques.
    """
    pool = min(len(poses), batch)

    @jax.jit
    @jax.vmap
    def begin(pose):
        state = start(pose)
        limp = RandomTorques(jnp.zeros((TORQUES, model.topology.nv)), jnp.zeros((), int))
        if not settle:
            return state
        settled = rollout(model, limp, state, config, settle).state
        return settled.replace(time=state.time)

    rng = np.random.default_rng(0)
    limit = np.asarray(model.torque_limit)
    torques = STRENGTH * limit * rng.uniform(-1, 1, (TORQUES, limit.size))
    begun = jax.tree.map(np.asarray, begin(poses[:pool].astype(limit.dtype)))
    return Task(
        model=model,
        torques=torques.astype(limit.dtype),
        state=jax.tree.map(lambda x: x[np.arange(batch) % pool], begun),
        offset=(np.arange(batch) * 7) % TORQUES,
        config=config,
    )


def on_ground(model: Model, q: Array, height: int) -> Array:
    """q (nq,) with its lowest point at height 0; ``height`` is the index of the root's z in q."""
    return q.at[height].add(
        -lowest_point(model, forward_kinematics(model, q, jnp.zeros_like(model.damping)))
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ran:
    """What a member's run gives; means over its steps."""

    state: State
    means: dict[str, Array]
    finite: Array  # () bool


def touching(sample) -> Array:
    """() number of points that press on the ground."""
    return jnp.sum(sample.info.contact_force[:, 2] > 0)


def lift(sample) -> Array:
    """() vertical force of the ground [N]."""
    return jnp.sum(sample.info.contact_force[:, 2])


def residual(sample) -> Array:
    """() what the solver leaves unsolved [m/s], see ``natural_residual``."""
    return sample.info.residual


def dropped_contacts(sample) -> Array:
    """() number of near contacts that were not solved for."""
    return sample.info.dropped_contacts.astype(sample.dt.dtype)


def member_function(task: Task, steps: int, watched: tuple = (touching,)):
    """``member((state, offset), torques)`` gives Ran, with the means of what is watched."""
    measures: dict[str, Measure] = {what.__name__: total(what) for what in watched}

    def member(member, torques):
        state, offset = member
        controller = RandomTorques(torques, offset)
        result = rollout(task.model, controller, state, task.config, steps, measures, backend="xla")
        means = {name: value / (steps * DT) for name, value in result.measures.items()}
        return Ran(result.state, means, result.finite)

    return member


# ---- the engines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fused:
    """A batch as one kernel."""

    run: Callable[[], object]
    compile_seconds: float
    ran: Ran

    @property
    def contacts(self) -> float:
        return float(np.mean(self.ran.means["touching"]))


def make_fused(task: Task, steps: int) -> Fused:
    member = fuse(member_function(task, steps), ((0, 0), None))
    members, torques = jax.device_put(((task.state, task.offset), task.torques))
    begun = time.perf_counter()
    ran = jax.block_until_ready(member(members, torques))
    first = time.perf_counter() - begun
    _check_finite(task, ran.finite)
    begun = time.perf_counter()
    jax.block_until_ready(member(members, torques))
    return Fused(
        run=lambda: jax.block_until_ready(member(members, torques)),
        compile_seconds=first - (time.perf_counter() - begun),
        ran=ran,
    )


def operations(task: Task, steps: int) -> int:
    """Operations of a fused step of one character; x y + z is one."""
    one = jax.tree.map(lambda x: x[0], (task.state, task.offset))
    step = explain(member_function(task, steps), one, task.torques).step
    assert step is not None
    return step.total


def peak(seconds: float = 1.0) -> float:
    """Operations (x y + z) a second of a fused kernel that does nothing else."""
    chains, rounds, batch = 24, 20_000, 64 * cores()

    def work(x):
        def body(values, _):
            for _ in range(10):
                values = [v * x + 0.5 for v in values]
            return values, None

        return sum(jax.lax.scan(body, [x + k for k in range(chains)], None, length=rounds)[0])

    run, x = fuse(work), jnp.full(batch, 0.5, jnp.float32)
    jax.block_until_ready(run(x))
    best, begun = np.inf, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        again = time.perf_counter()
        jax.block_until_ready(run(x))
        best = min(best, time.perf_counter() - again)
    return batch * rounds * chains * 10 / best


def _check_finite(task: Task, finite) -> None:
    finite = np.asarray(finite)
    if not finite.all():
        raise SystemExit(f"batch {task.batch}: {int((~finite).sum())} members are not finite")


@dataclass(frozen=True)
class Xla:
    """Two ways to run a batch, and what the compiled program says of itself."""

    runs: dict  # name -> function without arguments
    counts: Counts  # of one step of the whole batch
    compile_seconds: float
    bytes_each: float


def make_xla(task: Task, steps: int, chunk: int) -> Xla:
    member = member_function(task, steps)
    members, shared = (task.state, task.offset), task.torques
    on_device = jax.device_put((members, shared))
    begun = time.perf_counter()
    program = jax.jit(jax.vmap(member, ((0, 0), None))).lower(*on_device).compile()
    compile_seconds = time.perf_counter() - begun
    _check_finite(task, jax.block_until_ready(program(*on_device)).finite)
    runs = {"vmap": lambda: jax.block_until_ready(program(*on_device))}
    devices = len(jax.devices())
    if task.batch >= 2 * devices and (devices > 1 or jax.default_backend() == "cpu"):
        width = min(chunk, -(-task.batch // devices))
        run = batched(member, chunk=width)
        runs[f"chunks of {width}"] = lambda: run(members, shared)
    memory = program.memory_analysis()
    used = memory.temp_size_in_bytes + memory.output_size_in_bytes + memory.argument_size_in_bytes
    return Xla(
        runs=runs,
        counts=count(program.as_text()).per(steps),
        compile_seconds=compile_seconds,
        bytes_each=used / task.batch,
    )


class MujocoTask:
    """A task in MuJoCo's words: the exported model, states and torques in its order."""

    def __init__(self, task: Task):
        import mujoco

        top = task.model.topology
        self.xml = to_mjcf(task.model, DT)
        self.mj = mujoco.MjModel.from_xml_string(self.xml)
        self.qpos = np.zeros((task.batch, self.mj.nq))
        self.qvel = np.zeros((task.batch, self.mj.nv))
        self.table = np.zeros((TORQUES, self.mj.nv))
        self.qpos[:, mjcf_q_index(top)] = task.state.q
        self.qvel[:, mjcf_v_index(top)] = task.state.qd
        self.table[:, mjcf_v_index(top)] = task.torques


@dataclass(frozen=True)
class Solved:
    """What MuJoCo's solver did, on average."""

    contacts: float  # with a force
    iterations: float
    lift: float  # vertical force on the root's translation [N]


class Theirs:
    """MuJoCo C, its rollout on all cores, the model exported from ours."""

    def __init__(self, task: Task, steps: int):
        import mujoco
        from mujoco.rollout import Rollout

        given = MujocoTask(task)
        self.mj = mj = given.mj
        spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.initial = np.zeros((task.batch, mujoco.mj_stateSize(mj, spec)))
        data = mujoco.MjData(mj)
        for row, data.qpos[:], data.qvel[:] in zip(self.initial, given.qpos, given.qvel):
            mujoco.mj_getState(mj, data, row, spec)
        rows = (task.offset[:, None] + np.arange(steps)) % TORQUES
        self.control = given.table[rows]
        threads = max(1, min(cores(), task.batch))
        self.data = [mujoco.MjData(mj) for _ in range(threads)]
        self.pool = Rollout(nthread=threads if threads > 1 else 0)
        self.out = np.zeros((task.batch, steps, self.initial.shape[1]))
        self.sensors = np.zeros((task.batch, steps, mj.nsensordata))
        self.steps = steps

    def run(self) -> None:
        import mujoco

        self.pool.rollout(
            self.mj,
            self.data,
            self.initial,
            self.control,
            control_spec=int(mujoco.mjtState.mjSTATE_QFRC_APPLIED),
            state=self.out,
            sensordata=self.sensors,
        )

    def last(self) -> tuple[np.ndarray, np.ndarray]:
        """qpos and qvel after the last run."""
        nq, nv = self.mj.nq, self.mj.nv
        return self.out[:, -1, 1 : 1 + nq], self.out[:, -1, 1 + nq : 1 + nq + nv]

    def solved(self, members: int = POOL) -> Solved:
        """Of the first few members."""
        import mujoco

        data, found = self.data[0], []
        for k in range(min(members, len(self.initial))):
            mujoco.mj_resetData(self.mj, data)
            spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
            mujoco.mj_setState(self.mj, data, self.initial[k], spec)
            for torque in self.control[k]:
                data.qfrc_applied[:] = torque
                mujoco.mj_step(self.mj, data)
                pressing = sum(self._force(data, c) > 0 for c in range(data.ncon))
                found.append((pressing, data.solver_niter[0], data.qfrc_constraint[2]))
        return Solved(*np.mean(found, axis=0).tolist())

    def _force(self, data, contact: int) -> float:
        import mujoco

        force = np.zeros(6)
        mujoco.mj_contactForce(self.mj, data, contact, force)
        return force[0]


def interleaved(runs: dict, repeats: int, least: float) -> dict[str, float]:
    """Best seconds a call of each; every repeat runs all of them, each for ``least`` seconds."""
    calls, best = {}, dict.fromkeys(runs, np.inf)
    for name, run in runs.items():
        run()
        begun = time.perf_counter()
        run()
        calls[name] = max(1, int(least / max(time.perf_counter() - begun, 1e-6)))
    for _ in range(repeats):
        for name, run in runs.items():
            begun = time.perf_counter()
            for _ in range(calls[name]):
                run()
            best[name] = min(best[name], (time.perf_counter() - begun) / calls[name])
    return best
