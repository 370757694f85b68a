"""The planar human in contact under random torques, for our engine and for MuJoCo's."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks._hlo import Counts, count
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import explain, fuse
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index, to_mjcf
from jaxsim.model import Model, State
from jaxsim.simulation.rollout import Measure, rollout, total
from jaxsim.simulation.step import Control, StepConfig
from optimize.batch import batched
from optimize.cli_setup import cores

DT = 0.001  # [s]
STARTS = ("standing", "supine", "prone")
POOL = 48  # poses that differ
TORQUES = 1009  # rows of the table of random torques; a prime, so that members do not repeat
STRENGTH = 0.2  # of the greatest torque of each joint


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RandomTorques:
    """Row after row of a table, from another row for each member."""

    table: Array  # (TORQUES, nv) [N m]
    offset: Array  # ()

    def init(self, model: Model, state: State) -> Array:
        return self.offset

    def update(self, memory: Array, model: Model, state: State, seen, dt) -> tuple[Array, Control]:
        return (memory + 1) % TORQUES, Control(self.table[memory], jnp.zeros_like(state.qd))


@dataclass(frozen=True)
class Task:
    """What both engines simulate; starts are numpy, members first."""

    model: Model
    torques: np.ndarray  # (TORQUES, nv)
    state: State  # (batch, ...)
    offset: np.ndarray  # (batch,)

    @property
    def batch(self) -> int:
        return len(self.offset)

    def first(self, batch: int) -> "Task":
        """The same for the first so many members."""
        state = jax.tree.map(lambda x: x[:batch], self.state)
        return dataclasses.replace(self, state=state, offset=self.offset[:batch])


def make_task(batch: int, settle: int = 500) -> Task:
    """Characters that fall over or lie on the ground, each in another way.

    They begin standing or lying, turned and bent a little at random, and then go limp for
    ``settle`` steps. The kd of their joints is passive damping, which both engines treat
    implicitly. Members beyond the first POOL repeat their poses, not their torques.
    """
    model = planar_human()
    model = model.replace(damping=model.gain_d)
    rng = np.random.default_rng(0)
    pool = min(POOL, batch)
    noise = np.zeros((pool, model.topology.nq))
    noise[:, 2:] = 0.1 * rng.normal(size=noise[:, 2:].shape)

    @jax.jit
    def begin(model, noise):
        poses = jax.tree.map(lambda *x: jnp.stack(x), *(start(model, name) for name in STARTS))
        state = jax.tree.map(lambda x: x[jnp.arange(pool) % len(STARTS)], poses)

        def on_ground(q):
            low = lowest_point(model, forward_kinematics(model, q, 0 * q))
            return q.at[1].add(-low)

        state = state.replace(q=jax.vmap(on_ground)(state.q + noise))
        limp = RandomTorques(jnp.zeros((TORQUES, model.topology.nv)), jnp.zeros((), int))
        if not settle:
            return state
        config = StepConfig(dt=DT)
        settled = jax.vmap(lambda s: rollout(model, limp, s, config, settle).state)(state)
        return settled.replace(time=state.time)

    limit = np.asarray(model.torque_limit)
    torques = STRENGTH * limit * rng.uniform(-1, 1, (TORQUES, limit.size))
    begun = jax.tree.map(np.asarray, begin(model, noise.astype(limit.dtype)))
    return Task(
        model=model,
        torques=torques.astype(limit.dtype),
        state=jax.tree.map(lambda x: x[np.arange(batch) % pool], begun),
        offset=(np.arange(batch) * 7) % TORQUES,
    )


def touching(sample) -> Array:
    """() number of balls that press on the ground."""
    return jnp.sum(sample.info.contact_force[:, 2] > 0) / sample.dt


def member_function(model: Model, steps: int):
    """``member((state, offset), torques)``: the last state, mean contacts, finite."""
    measures: dict[str, Measure] = {"contacts": total(touching)}

    def member(member, torques):
        state, offset = member
        controller = RandomTorques(torques, offset)
        config = StepConfig(dt=DT)
        result = rollout(model, controller, state, config, steps, measures, backend="xla")
        return result.state, result.measures["contacts"] / steps, result.finite

    return member


# ---- the engines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fused:
    """A batch as one kernel."""

    run: Callable[[], object]
    compile_seconds: float
    contacts: float


def make_fused(task: Task, steps: int) -> Fused:
    member = fuse(member_function(task.model, steps), ((0, 0), None))
    members, torques = jax.device_put(((task.state, task.offset), task.torques))
    begun = time.perf_counter()
    _, contacts, finite = jax.block_until_ready(member(members, torques))
    first = time.perf_counter() - begun
    _check_finite(task, finite)
    begun = time.perf_counter()
    jax.block_until_ready(member(members, torques))
    return Fused(
        run=lambda: jax.block_until_ready(member(members, torques)),
        compile_seconds=first - (time.perf_counter() - begun),
        contacts=float(np.mean(contacts)),
    )


def operations(task: Task, steps: int) -> int:
    """Operations of a fused step of one character; x y + z is one."""
    one = jax.tree.map(lambda x: x[0], (task.state, task.offset))
    step = explain(member_function(task.model, steps), one, task.torques).step
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
    member = member_function(task.model, steps)
    members, shared = (task.state, task.offset), task.torques
    on_device = jax.device_put((members, shared))
    begun = time.perf_counter()
    program = jax.jit(jax.vmap(member, ((0, 0), None))).lower(*on_device).compile()
    compile_seconds = time.perf_counter() - begun
    _check_finite(task, jax.block_until_ready(program(*on_device))[2])
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


class Theirs:
    """MuJoCo C, its rollout on all cores, the model exported from ours."""

    def __init__(self, task: Task, steps: int):
        import mujoco
        from mujoco.rollout import Rollout

        top = task.model.topology
        self.mj = mj = mujoco.MjModel.from_xml_string(to_mjcf(task.model, DT))
        spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.initial = np.zeros((task.batch, mujoco.mj_stateSize(mj, spec)))
        data = mujoco.MjData(mj)
        for row, q, qd in zip(self.initial, task.state.q, task.state.qd):
            data.qpos[mjcf_q_index(top)], data.qvel[mjcf_v_index(top)] = q, qd
            mujoco.mj_getState(mj, data, row, spec)
        rows = (task.offset[:, None] + np.arange(steps)) % TORQUES
        self.control = np.zeros((task.batch, steps, mj.nv))
        self.control[:, :, mjcf_v_index(top)] = task.torques[rows]
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

    def contacts(self, members: int = POOL) -> float:
        """Mean number of contacts with a force, of the first few members."""
        import mujoco

        data, found = self.data[0], []
        for k in range(min(members, len(self.initial))):
            mujoco.mj_resetData(self.mj, data)
            spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
            mujoco.mj_setState(self.mj, data, self.initial[k], spec)
            for torque in self.control[k]:
                data.qfrc_applied[:] = torque
                mujoco.mj_step(self.mj, data)
                found.append(sum(self._force(data, c) > 0 for c in range(data.ncon)))
        return float(np.mean(found))

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
