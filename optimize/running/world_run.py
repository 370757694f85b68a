"""Simulate a world: a character, loose, driven and fixed things, to a motion with a summary."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.pose.motion import MotionController, TrackingController, Trajectory, inner_freedoms
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.io.motion import Motion
from jaxsim.io.world import World
from jaxsim.io.world_model import WorldModel, build_world
from jaxsim.math.rotation import matrix_to_quat, rotate
from jaxsim.model import Model, State
from jaxsim.simulation.checks import check_controller
from jaxsim.simulation.events import EventDriven, EventInfo
from jaxsim.simulation.prescribed import holding
from jaxsim.simulation.records import Control, no_control
from jaxsim.simulation.rollout import Measure, Sample, begin, largest, total
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from optimize.interrupts import noting
from optimize.results.folder import versions
from optimize.running import summary as summaries
from optimize.running.recording import (
    Run,
    first_progress,
    frames_of,
    model_motion,
    pieces,
    run_pieces,
)
from optimize.running.simulate import Simulation, depth_notes, failure_notes, run_conditions, timing

UNEVEN = 1000.0  # masses of two bodies that may touch
DT = {"time_stepping": 0.001, "event_driven": 1 / 240}  # [s]


class WorldFrame(NamedTuple):
    """What is kept of a step, see jaxsim.io.motion.Motion; T along the first axes of many."""

    q: Any
    qd: Any
    link_pos: Any
    link_quat: Any
    com: Any  # (3,) of the character [m]
    contact_pos: Any
    contact_force: Any
    torque: Any  # (actuated freedoms,) [N m]
    grip_pos: Any
    grip_force: Any
    grip_closed: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Limp:
    """No torque at any joint."""

    def init(self, model: Model, state: State, seen: Any) -> None:
        return None

    def update(self, memory, model, state, seen, dt) -> tuple[None, Control]:
        return None, no_control(model)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gripping:
    """Another controller, with grips that close and open by the clock."""

    inner: Any
    close: Array  # (ng,) [s]
    open: Array  # (ng,) [s]

    def check(self, model: Model) -> None:
        check_controller(model, self.inner)

    def init(self, model: Model, state: State, seen: Any) -> Any:
        return self.inner.init(model, state, seen)

    def update(self, memory, model, state, seen, dt) -> tuple[Any, Control]:
        memory, control = self.inner.update(memory, model, state, seen, dt)
        hold = (state.time >= self.close) & (state.time < self.open)
        return memory, dataclasses.replace(control, hold=hold)


@noting()
def simulate_world(
    world: World,
    *,
    seconds: float | None = None,
    dt: float | None = None,
    fps: float = 120.0,
    progress: bool = False,
    backend: str = "xla",
) -> Simulation:
    """Simulate a world; seconds and dt [s] by default what it says itself.

    A frame is kept about ``fps`` times a simulated second. Runs on JAX's default device, in its
    default precision; Ctrl-C ends it with what is simulated so far, and so do values that are not
    finite. backend: "xla" or "fused", which is the faster one in long runs and takes minutes to
    compile for a character in space.

    Raises WorldError or ModelError for a world that cannot be built.
    """
    built = build_world(world)
    dt = float(world.dt or DT[world.scheme]) if dt is None else dt
    seconds = world.seconds if seconds is None else seconds
    steps, every = timing(seconds, dt, fps)
    config = _config(world)
    measures = _measures(built, world.scheme)
    controller = _controller(world, built)
    run_piece = pieces(built.model, measures, _record(built), every, config, backend, built.pushes)
    first = first_progress(begin(built.model, controller, config, built.state), measures)
    run = run_pieces(run_piece, controller, first, dt, steps, every, progress)
    return _simulation(world, built, run, steps, every, dt)


def _config(world: World) -> TimeStepping | EventDriven:
    names = ("contacts", "sweeps", "warm_start", "stabilization_time")
    given = {name: getattr(world, name) for name in names}
    options: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
    return (EventDriven if world.scheme == "event_driven" else TimeStepping)(**options)


def _controller(world: World, built: WorldModel) -> Any:
    spec, model = world.character, built.model
    inner: Any = Limp()
    if spec is not None and spec.controller != "ragdoll":
        path = Trajectory(*(jnp.asarray(x, model.mass.dtype) for x in (built.keys)))
        inner = TrackingController(path)
        if spec.controller == "motion":
            inner = MotionController(path, spec.settling_time, on=jnp.asarray(_followers(built)))
    if not model.topology.n_grips:
        return inner
    times = [jnp.asarray(t, model.mass.dtype) for t in (built.grip_close, built.grip_open)]
    return Gripping(inner, *times)


def _followers(built: WorldModel) -> np.ndarray:
    """(nv,) bool: the character's freedoms with motors, or without any all its inner ones."""
    top = built.model.topology
    own = np.array([role == "character" for role in built.roles])[top.dof_link]
    motors = np.isin(np.arange(top.nv), top.actuated_dofs) & own
    return motors if motors.any() else inner_freedoms(built.model) & own


def _record(built: WorldModel) -> Callable[[Sample], WorldFrame]:
    top = built.model.topology
    dofs = top.actuated_dofs
    held = np.array(top.grip_link, int)
    own = np.array([role == "character" for role in built.roles])
    weight = own if own.any() else ~own

    def record(sample: Sample) -> WorldFrame:
        kin, model = sample.seen.kin, sample.model
        body = model.replace(mass=jnp.where(weight, model.mass, 0.0))
        return WorldFrame(
            q=sample.state.q,
            qd=sample.state.qd,
            link_pos=kin.link_pos,
            link_quat=matrix_to_quat(kin.link_rot),
            com=center_of_mass(body, kin),
            contact_pos=sample.seen.contacts.point,
            contact_force=sample.info.contact_force,
            torque=(sample.control.torque + sample.info.motion_force)[dofs],
            grip_pos=kin.link_pos[held] + rotate(kin.link_rot[held], model.grip_point),
            grip_force=sample.info.grip_force,
            grip_closed=holding(model, sample.state, sample.control),
        )

    return record


def _measures(built: WorldModel, scheme: str) -> dict[str, Measure]:
    """What the summary needs of every step."""
    none = jnp.full(built.model.topology.n_grips, jnp.inf)

    def torn(when: Array, sample: Sample) -> Array:
        broken = sample.state.broken
        first = broken & ~jnp.isfinite(when) if broken is not None else when < -jnp.inf
        return jnp.where(first, sample.state.time, when)

    def torque_ratio(sample: Sample) -> Array:
        limit = sample.model.torque_limit
        torque = sample.control.torque + sample.info.motion_force
        share = jnp.abs(torque) / jnp.where(limit > 0, limit, jnp.inf)
        return jnp.max(share, initial=0.0)

    def strongest(sample: Sample) -> Array:
        return jnp.sqrt(jnp.max(jnp.sum(sample.info.contact_force**2, axis=-1), initial=0.0))

    measures = {
        "largest_penetration": largest(lambda sample: sample.info.penetration, 0.0),
        "largest_residual": largest(lambda sample: sample.info.residual, 0.0),
        "largest_contact_force": largest(strongest, 0.0),
        "most_left_out": largest(lambda sample: sample.info.left_out, 0.0),
        "first_penetration": largest(
            lambda sample: jnp.where(sample.state.time <= 0, sample.info.penetration, 0.0), 0.0
        ),
        "left_out_time": total(lambda sample: jnp.asarray(sample.info.left_out > 0, float)),
        "torn_at": Measure(none, torn),
    }
    if built.model.topology.actuated_dofs.size:
        measures["max_torque_ratio"] = largest(torque_ratio, 0.0)
    if scheme == "event_driven":
        measures["unfinished_time"] = total(_status_share(Status.INTERVAL))
        measures["unsolved_time"] = total(_status_share(Status.UNFINISHED, Status.NOT_FINITE))
    return measures


def _status_share(*kinds: Status) -> Callable[[Sample], Array]:
    """1 where a step ended with one of these."""

    def share(sample: Sample) -> Array:
        assert isinstance(sample.info, EventInfo)
        found = jnp.isin(sample.info.status, jnp.array([int(kind) for kind in kinds]))
        return jnp.asarray(found, float)

    return share


def _simulation(
    world: World, built: WorldModel, run: Run, steps: int, every: int, dt: float
) -> Simulation:
    """Put the pieces together."""
    frames, failure = frames_of(run, steps, every, dt)
    time = np.arange(len(frames.q)) * every * dt
    motion = _motion(world, built, frames, time)
    measured = jax.tree.map(np.asarray, run.progress.measured)
    torn = measured.pop("torn_at")
    spec, top = world.character, built.model.topology
    grips = dict(zip(top.grip_names, torn, strict=True))
    own = np.array([role == "character" for role in built.roles])
    conditions = {
        "world": world.name,
        "character": spec.model if spec else None,
        "controller": spec.controller if spec else None,
        "scheme": world.scheme,
        "total_mass": np.asarray(built.model.mass)[own].sum() if own.any() else None,
        "links": top.n_links,
        "freedoms": top.nv,
    }
    summary = {
        **measured,
        "final_com_height": frames.com[-1, 2],
        "broken_grips": [f"{n} at {t:.3f} s" for n, t in grips.items() if np.isfinite(t)],
        **summaries.verdict(failure),
        **conditions,
        **run_conditions(run, float(time[-1]), every, dt),
        "versions": versions(),
    }
    overlap = float(measured["first_penetration"])
    deep = [f"shapes overlap by {1e3 * overlap:.1f} mm at the start"] if overlap > 1e-3 else []
    deep += [*uneven(built.model), *depth_notes(measured)]
    notes = (*built.notes, *deep, *failure_notes(failure, time, run.interrupted))
    return Simulation(
        motion, summaries.json_safe(summary), None, notes, run.interrupted, world.source
    )


def uneven(model: Model) -> list[str]:
    """What to tell of bodies that may touch and whose masses the sweeps can hardly bring together;
    of all pairs the one that differs most."""
    top, mass = model.topology, np.asarray(model.mass, float)
    root = top.link_root
    total = np.bincount(root, weights=mass, minlength=top.n_links)[root]  # of a link's whole body
    driven = np.isin(np.arange(top.n_links), top.dof_link[top.driven_dofs])
    slots = contact_slots(top)
    pairs = {(a, b) for a, b in zip(slots.link_a, slots.link_b) if a >= 0 and b >= 0}
    pairs = [(a, b) for a, b in pairs if not (driven[a] or driven[b]) and root[a] != root[b]]
    ratios = {pair: max(total[list(pair)]) / min(total[list(pair)]) for pair in pairs}
    worst = max(ratios, key=lambda pair: ratios[pair], default=None)
    if worst is None or ratios[worst] <= UNEVEN:
        return []
    light, heavy = sorted(worst, key=lambda link: total[link])
    return [
        f"{top.link_names[heavy]!r} ({total[heavy]:g} kg) may lie on {top.link_names[light]!r}"
        f" ({total[light]:g} kg) and sink into it: masses that differ by over {UNEVEN:g} times take"
        " more sweeps than a step has"
    ]


def _motion(world: World, built: WorldModel, frames: WorldFrame, time: np.ndarray) -> Motion:
    used = np.any(frames.contact_force != 0, axis=(0, 2))  # most places for contacts never are
    sign, outer = _sides(built)
    force = frames.contact_force * sign[:, None]
    return model_motion(
        built.model,
        frames,
        time,
        world.title or f"{world.name}: {time[-1]:g} s",
        frames.link_pos,
        phase_names=(),
        contact_pos=frames.contact_pos[:, used],
        contact_force=force[:, used],
        contact_outer=outer[used],
        phase=np.full(len(time), -1),
        link_roles=built.roles,
        grip_names=built.model.topology.grip_names,
        grip_pos=frames.grip_pos,
        grip_force=frames.grip_force,
        grip_closed=frames.grip_closed,
    )


def _sides(built: WorldModel) -> tuple[np.ndarray, np.ndarray]:
    """Of each place for a contact: 1, or -1 where shape b is the one of the two that matters; and
    whether the surroundings act there on the character, or on any loose body if there is none."""
    rank = {"character": 2, "prop": 1, "driven": 0}
    role = np.array([*map(rank.get, built.roles), -1])  # the last is the world's, link -1
    slots = contact_slots(built.model.topology)
    a, b = role[slots.link_a], role[slots.link_b]
    outer = (a != b) & (np.maximum(a, b) == role.max())
    return np.where(b > a, -1.0, 1.0), outer
