"""Simulation in pieces, and the record of it: measures of all steps, frames of some.

Every piece runs the same compiled function, whatever the length of the motion, so that a long
simulation can show progress, be interrupted, and stop where numbers are no longer finite.
"""

import math
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tqdm import tqdm

from controllers.controller import Wrapped
from jaxsim.characters.standing import above_standing
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.fused import choose_backend, fuse_one
from jaxsim.io.motion import MotionShape
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.model import Model, State
from jaxsim.simulation.health import Failure, Health, failures, initial_health
from jaxsim.simulation.measures import Measure, Sample, largest, share, total
from jaxsim.simulation.rollout import rollout
from jaxsim.solvers.status import Status
from optimize.interrupts import defer_interrupts
from optimize.scenarios.scenario import Scenario

PIECE = 25  # frames in a piece


class Frame(NamedTuple):
    """Recorded values of a step, or of many along a leading axis: see jaxsim.io.motion.Motion."""

    q: Any
    qd: Any
    link_pos: Any
    link_quat: Any
    link_com: Any  # (nl, 3) [m]
    com: Any  # (3,) of the character, where there is one [m]
    contact_pos: Any
    contact_force: Any
    touching: Any  # (nl,) bool
    torque: Any  # (actuated dofs,) [N m]
    phase: Any  # () int of the controller, -1 without phases
    since: Any  # () when it began [s]
    more: dict[str, Any]  # what scheme and controller record besides
    gauges: dict[str, Any]  # () each, of the controller


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Progress:
    """State of a simulation between two pieces."""

    state: State
    memory: Any
    count: Array  # () steps so far
    measured: dict[str, Any]
    health: Health


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Continued(Wrapped):
    """Controller that resumes with the memory of the piece before."""

    inner: Any
    memory: Any

    def init(self, model: Model, state: State, obs: Any) -> Any:
        return self.memory


def measures_of(scenario: Scenario, terms: Mapping[str, Measure]) -> dict[str, Measure]:
    """Measures of every step for the summary, and the terms of an objective by name."""
    model, scheme = scenario.model, scenario.scheme
    top = model.topology
    dofs = top.actuated_dofs

    def torque(sample: Sample) -> Array:
        return scheme.torque(sample.control, sample.info)[dofs]

    def torque_ratio(sample: Sample) -> Array:
        limit = sample.model.torque_limit[dofs]
        share = jnp.abs(torque(sample)) / jnp.where(limit > 0, limit, jnp.inf)
        return jnp.max(share, initial=0.0)

    measures = {
        **scheme.measures(model),
        "energy": total(lambda sample: jnp.sum(torque(sample) ** 2)),
        "max_torque_ratio": largest(torque_ratio, 0.0),
        "airborne_time": share(lambda sample: ~jnp.any(sample.obs.link_touching)),
        **{f"term {name}": measure for name, measure in terms.items()},
    }
    if top.roles.link("head") is not None:
        head = top.part("head")
        measures["max_head_height"] = largest(lambda sample: sample.obs.kin.com[head, 2])
        if top.roles.stands:
            above = above_standing(model)
            measures["time_above"] = share(lambda sample: above(sample.obs.kin.com) > 0)
    return measures


def frame_of(scenario: Scenario) -> Callable[[Sample], Frame]:
    """Recorder of a step as a ``Frame``, for any scheme and controller."""
    top, scheme = scenario.model.topology, scenario.scheme
    dofs = top.actuated_dofs
    own = np.array([kind == "character" for kind in scenario.kinds])
    weight = own if own.any() else ~own
    controller = scenario.controller

    def record(sample: Sample) -> Frame:
        kin: Kinematics = sample.obs.kin
        body = sample.model.replace(mass=jnp.where(weight, sample.model.mass, 0.0))
        now, since = controller.phase(sample.memory)
        more = scheme.keep(sample.model, sample)
        more |= controller.record(sample.model, sample.state, sample.memory)
        return Frame(
            q=sample.state.q,
            qd=sample.state.qd,
            link_pos=kin.link_pos,
            link_quat=matrix_to_quat(kin.link_rot),
            link_com=kin.com,
            com=sample.obs.com if weight.all() else center_of_mass(body, kin),
            contact_pos=sample.obs.contact_point,
            contact_force=sample.info.contact_force,
            touching=sample.obs.link_touching,
            torque=scheme.torque(sample.control, sample.info)[dofs],
            phase=jnp.asarray(now),
            since=jnp.asarray(since),
            more=more,
            gauges=_gauges(controller, sample.memory),
        )

    return record


def _gauges(controller: Any, memory: Any) -> dict[str, Array]:
    """Gauges that the controller reports. Raises ValueError unless each limit has a number."""
    found = controller.gauges(memory)
    shapes = {name: jnp.shape(value) for name, value in found.items()}
    for name in controller.gauge_limits():
        if name not in found:
            raise ValueError(f"gauge_limits has {name!r}; gauges has {', '.join(found) or 'none'}")
    if any(shapes.values()):
        raise ValueError(f"gauges have the shapes {shapes}, numbers of shape () are needed")
    return {name: jnp.asarray(value) for name, value in found.items()}


def pieces(
    scenario: Scenario,
    measures: Mapping[str, Measure],
    record: Callable[[Sample], Any],
    every: int,
    backend: str,
):
    """Compiled function ``piece(controller, progress, dt, steps) -> (progress, frames)``.

    ``PIECE`` frames of ``record``, one every ``every`` steps; measures take in no more than
    ``steps``. New numbers, of a script among them, do not recompile; ``dt`` replaces the scheme's.
    Under XLA model, scheme and forces are arguments too, so that one program serves all scenarios
    of the same structure.
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

    around = scenario.model, scenario.scheme, scenario.forces
    if choose_backend(backend) == "fused":
        return fuse_one(partial(piece, around))
    return partial(jax.jit(piece), around)


def first_progress(start: tuple[State, Any], measures: Mapping[str, Measure]) -> Progress:
    """Progress before the first piece; start: of ``rollout.begin``."""
    state, memory = start

    def typed(x):
        array = jnp.asarray(x)
        floats = jnp.issubdtype(array.dtype, jnp.floating)
        return jnp.asarray(array, state.q.dtype if floats else array.dtype)

    initial = {name: jax.tree.map(typed, m.initial) for name, m in measures.items()}
    return Progress(state, memory, jnp.zeros((), jnp.int32), initial, initial_health(state))


@dataclass
class SimulatedPieces:
    """Pieces of a simulation and their timing."""

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
) -> SimulatedPieces:
    """Simulate piece after piece, to the frame at the end of ``steps``.

    run_piece: of ``pieces``; show: a progress bar; after: called with the progress before and after
    each piece. Ends early where the motion diverges (``simulation.health``), and with Ctrl-C once a
    piece is there.
    """
    began = clock.perf_counter()
    step = jnp.asarray(dt, first.state.q.dtype)
    count = -(-(steps // every + 1) // PIECE)
    run = SimulatedPieces([], first, 0.0, 0.0, False, float(first.state.time))
    try:
        with defer_interrupts() as check:
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


def frames_of(
    run: SimulatedPieces, steps: int, every: int, dt: float
) -> tuple[Any, Failure | None]:
    """Join all frames, up to the end or the first divergent one, with the cause of the divergence.

    Frames come every ``every`` steps of ``dt`` [s].
    """
    frames = jax.tree.map(lambda *parts: np.concatenate(parts), *run.pieces)
    count = min(steps // every + 1, len(frames.q))
    good = np.isfinite(frames.q).all(axis=1) & np.isfinite(frames.qd).all(axis=1)
    first = len(good) if good.all() else int(np.argmin(good))
    bad = failures(run.progress.health)
    if bad:
        first = min(first, math.ceil((bad[0].time - run.begun) / (every * dt) - 1e-3))
    if first >= count:
        return jax.tree.map(lambda x: x[:count], frames), None
    status = bad[0].status if bad else Status.NOT_FINITE
    # the first divergent frame is saved, as evidence
    finite = jax.tree.map(lambda x: x[: first + 1], frames)
    return finite, Failure(0, status, run.begun + first * every * dt)


def shapes_of(model: Model) -> tuple[MotionShape, ...]:
    """The model's shapes as a Motion holds them."""
    top = model.topology
    pos, quat = np.asarray(model.shape_pos, float), np.asarray(model.shape_quat, float)
    size = np.asarray(model.shape_size, float)
    grids = [() if field < 0 else np.asarray(model.heights[field]) for field in top.shape_field]
    heights = [tuple(tuple(map(float, row)) for row in grid) for grid in grids]
    return tuple(
        MotionShape(
            kind,
            top.shape_link[s],
            pos[s],
            quat[s],
            top.shape_record(s).pack(size[s]),
            heights[s],
        )
        for s, kind in enumerate(top.shape_kinds)
    )
