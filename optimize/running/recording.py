"""Simulating piece by piece, and what is kept of it: measures of all steps, frames of some.

Every piece runs the same compiled function, whatever the length of the motion, so that a long
simulation can show progress, be interrupted, and stop where numbers are no longer finite.
"""

import math
import time as clock
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tqdm import tqdm

from controllers.scl.controller import EVENTS_KEPT
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.fused import choose_backend, fuse_one
from jaxsim.io.motion import Motion, Shape
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.model import Model, State
from jaxsim.simulation.checks import check_controller
from jaxsim.simulation.health import Failure, Health, failures, healthy
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import Measure, Sample, largest, rollout, total
from jaxsim.solvers.status import Status
from optimize.interrupts import holding
from optimize.running.objectives import TERMS, contactless

PIECE = 25  # frames in a piece


class Frame(NamedTuple):
    """What is kept of a step, or of many along a leading axis: see jaxsim.io.motion.Motion."""

    q: Any
    qd: Any
    link_pos: Any
    link_quat: Any
    link_com: Any  # (nl, 3) [m]
    com: Any  # (3,) [m]
    contact_pos: Any
    contact_force: Any
    phase: Any
    torque: Any  # (actuated freedoms,) [N m]
    touching: Any  # (nl,) bool


class Event(NamedTuple):
    """A change of phase."""

    time: float  # [s]
    phase: int  # the one entered


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Progress:
    """Between two pieces."""

    state: State
    memory: Any
    count: Array  # () steps so far
    measured: dict[str, Any]
    health: Health


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Continued:
    """A controller in the middle of its work."""

    controller: Any
    memory: Any

    def check(self, model: Model) -> None:
        check_controller(model, self.controller)

    def init(self, model: Model, state: State, seen: Any) -> Any:
        return self.memory

    def update(self, memory, model, state, seen, dt):
        return self.controller.update(memory, model, state, seen, dt)


def measures_of(model: Model, terms: tuple[str, ...]) -> dict[str, Measure]:
    """What the summary needs of every step, and objective terms by name."""
    top = model.topology
    head = top.link("head")
    dofs = top.actuated_dofs

    def height(sample: Sample) -> Array:
        return sample.seen.kin.com[head, 2]

    def torque_ratio(sample: Sample) -> Array:
        limit = sample.model.torque_limit[dofs]
        return jnp.max(jnp.abs(sample.control.torque[dofs]) / limit, initial=0.0)

    return {
        "max_head_height": largest(height),
        "time_above": total(lambda sample: height(sample) > 1.8),
        "airborne_time": total(contactless),
        "energy": total(lambda sample: jnp.sum(sample.control.torque**2)),
        "largest_penetration": largest(lambda sample: sample.info.penetration, 0.0),
        "largest_residual": largest(lambda sample: sample.info.residual, 0.0),
        "max_torque_ratio": largest(torque_ratio, 0.0),
        **{f"term {name}": TERMS[name].measure(model) for name in terms},
    }


def script_frame(model: Model) -> Callable[[Sample], Frame]:
    """What is kept of a step under a script."""
    dofs = model.topology.actuated_dofs

    def record(sample: Sample) -> Frame:
        kin: Kinematics = sample.seen.kin
        return Frame(
            q=sample.state.q,
            qd=sample.state.qd,
            link_pos=kin.link_pos,
            link_quat=matrix_to_quat(kin.link_rot),
            link_com=kin.com,
            com=sample.seen.com,
            contact_pos=sample.seen.contacts.point,
            contact_force=sample.info.contact_force,
            phase=sample.memory.phase,
            torque=sample.control.torque[dofs],
            touching=sample.seen.touching,
        )

    return record


def pieces(
    model: Model,
    measures: Mapping[str, Measure],
    record: Callable[[Sample], Any],
    every: int,
    config: Any,
    backend: str = "fused",
    pushes: Pushes | None = None,
    shared: bool = False,
):
    """The function ``piece(controller, progress, dt, steps) -> (progress, frames)``, compiled.

    ``PIECE`` frames of ``record``, one every ``every`` steps; measures take in no more than
    ``steps``. New numbers, of a script among them, compile nothing anew; ``dt`` is not the
    config's. config: a scheme. shared: model, config and pushes are arguments of the program too,
    so that XLA compiles one for all of the same structure.
    """

    def piece(around, controller: Any, progress: Progress, dt: Array, steps: Array):
        model, config, pushes = around

        def measure(folded, sample: Sample):
            count, old = folded
            new = {
                name: jax.tree.map(
                    lambda n, o: jnp.asarray(n, o.dtype), each.update(old[name], sample), old[name]
                )
                for name, each in measures.items()
            }
            keep = count < steps
            return count + 1, jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)

        result = rollout(
            model,
            _Continued(controller, progress.memory),
            progress.state,
            replace(config, dt=dt),
            PIECE * every,
            {"all": Measure((progress.count, progress.measured), measure)},
            record,
            every,
            backend="xla",  # fused as a whole, below
            pushes=pushes,
            health=progress.health,
        )
        count, measured = result.measures["all"]
        now = Progress(result.state, result.memory, count, measured, result.health)
        return now, result.record

    around = model, config, pushes
    if choose_backend(backend) == "fused":
        return fuse_one(partial(piece, around))
    return partial(jax.jit(piece), around) if shared else jax.jit(partial(piece, around))


def first_progress(begun: tuple[State, Any], measures: Mapping[str, Measure]) -> Progress:
    """Before the first piece; begun: of ``rollout.begin``."""
    state, memory = begun

    def typed(x):
        array = jnp.asarray(x)
        floats = jnp.issubdtype(array.dtype, jnp.floating)
        return jnp.asarray(array, state.q.dtype if floats else array.dtype)

    initial = {name: jax.tree.map(typed, m.initial) for name, m in measures.items()}
    return Progress(state, memory, jnp.zeros((), jnp.int32), initial, healthy(state))


@dataclass
class Run:
    """What comes out of the simulated pieces."""

    pieces: list[Any]  # frames, on the host
    progress: Progress
    compile_seconds: float
    run_seconds: float
    interrupted: bool
    begun: float  # when the motion begins [s]


def run_pieces(
    run_piece: Callable,
    controller: Any,
    first: Progress,
    dt: float,
    steps: int,
    every: int,
    show: bool,
    after: Callable[[Progress, Progress], None] = lambda before, now: None,
) -> Run:
    """Simulate piece after piece, to the frame at the end of ``steps``.

    run_piece: of ``pieces``; show: a progress bar; after: called with the progress before and after
    each piece. Ends early where the motion means nothing any more (``simulation.health``), and with
    Ctrl-C once a piece is there.
    """
    began = clock.perf_counter()
    step = jnp.asarray(dt, first.state.q.dtype)
    count = -(-(steps // every + 1) // PIECE)
    run = Run([], first, 0.0, 0.0, False, float(first.state.time))
    try:
        with holding() as check:
            jax.block_until_ready(run_piece(controller, first, step, steps))  # compiles
            check()
            run.compile_seconds = clock.perf_counter() - began
            began = clock.perf_counter()
            bar = tqdm(total=steps, unit="step", desc="simulating", disable=None if show else True)
            with bar:
                for _ in range(count):
                    now, frames = run_piece(controller, run.progress, step, steps)
                    frames = jax.tree.map(np.asarray, frames)
                    after(run.progress, now)
                    run.progress = now
                    run.pieces.append(frames)
                    bar.update(min(PIECE * every, steps - bar.n))
                    if int(now.health.status) != Status.OK or not np.isfinite(frames.q).all():
                        break
                    check()
    except KeyboardInterrupt:
        if not run.pieces:
            raise
        run.interrupted = True
    run.run_seconds = clock.perf_counter() - began
    return run


def frames_of(run: Run, steps: int, every: int, dt: float) -> tuple[Any, Failure | None]:
    """All frames as one, to the end or the first that means nothing, and why it does not.

    Frames come every ``every`` steps of ``dt`` [s].
    """
    frames = jax.tree.map(lambda *parts: np.concatenate(parts), *run.pieces)
    wanted = min(steps // every + 1, len(frames.q))
    good = np.isfinite(frames.q).all(axis=1) & np.isfinite(frames.qd).all(axis=1)
    first = len(good) if good.all() else int(np.argmin(good))
    bad = failures(run.progress.health)
    if bad:
        first = min(first, math.ceil((bad[0].time - run.begun) / (every * dt) - 1e-3))
    if first >= wanted:
        return jax.tree.map(lambda x: x[:wanted], frames), None
    status = bad[0].status if bad else Status.NOT_FINITE
    # the first bad frame is kept, as evidence
    kept = jax.tree.map(lambda x: x[: first + 1], frames)
    return kept, Failure(0, status, run.begun + first * every * dt)


def new_events(before: int, memory: Any) -> Iterator[Event]:
    """Changes of phase since there were ``before`` of them; of very many the last ones."""
    after = int(memory.events)
    time, phase = np.asarray(memory.event_time, float), np.asarray(memory.event_phase)
    for event in range(max(before, after - EVENTS_KEPT), after):
        slot = event % EVENTS_KEPT
        yield Event(float(time[slot]), int(phase[slot]))


def motion_of(
    model: Model,
    frames: Frame,
    time: np.ndarray,
    title: str,
    phase_names: tuple[str, ...],
    phase_events: tuple[tuple[float, str, str], ...],
) -> Motion:
    """The record of frames (T along their first axes, on the host) as a Motion."""
    return model_motion(
        model,
        frames,
        time,
        title,
        frames.link_com,
        phase_names=phase_names,
        contact_pos=frames.contact_pos,
        contact_force=frames.contact_force,
        phase=frames.phase,
        phase_events=phase_events,
    )


def model_motion(
    model: Model, frames: Any, time: np.ndarray, title: str, drawn: np.ndarray, **rest: Any
) -> Motion:
    """The Motion of a model that moves by its motors.

    frames: with q, qd, link_pos, link_quat, com and torque, T along their first axes. drawn
    (T, nl, 3): the points of the links whose heights are drawn. rest: what else there is.
    """
    top = model.topology
    heights = {
        name: drawn[:, top.link(name), 2] for name in ("head", "pelvis") if name in top.link_names
    }
    return Motion(
        title=title,
        link_names=top.link_names,
        joint_names=top.actuated_dof_names,
        shapes=shapes_of(model),
        time=time,
        q=frames.q,
        qd=frames.qd,
        link_pos=frames.link_pos,
        link_quat=frames.link_quat,
        torque=frames.torque,
        torque_limit=np.asarray(model.torque_limit)[top.actuated_dofs],
        heights={**heights, "com": frames.com[:, 2]},
        planar=top.planar,
        com=frames.com,
        **rest,
    )


def shapes_of(model: Model) -> tuple[Shape, ...]:
    """The model's shapes as a Motion holds them."""
    top = model.topology
    pos, quat = np.asarray(model.shape_pos, float), np.asarray(model.shape_quat, float)
    size = np.asarray(model.shape_size, float)
    kept: Mapping[str, list[int]] = {  # which of the three numbers
        "sphere": [0],
        "capsule": [0, 2],
        "tapered_capsule": [0, 1, 2],
        "box": [0, 1, 2],
        "plane": [],
        "height_field": [0, 1],
    }
    grids = [() if field < 0 else np.asarray(model.heights[field]) for field in top.shape_field]
    heights = [tuple(tuple(map(float, row)) for row in grid) for grid in grids]
    return tuple(
        Shape(kind, top.shape_link[s], pos[s], quat[s], size[s][kept[kind]], heights[s])
        for s, kind in enumerate(top.shape_kinds)
        if kind in kept
    )
