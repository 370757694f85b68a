"""Simulate a script: one call from its text to a motion with a summary, another to a folder.

from optimize.running.simulate import simulate, write_simulation

simulation = simulate("walk", seconds=2.0)
print(simulation.summary["distance"])
write_simulation("walk_folder", simulation)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from controllers.scl.ast import Script
from controllers.scl.load import script_controller
from jaxsim.fused import choose_backend
from jaxsim.io.files import write_bytes
from jaxsim.io.motion import Motion, save_motion
from jaxsim.model import Model, State
from jaxsim.ranges import within
from jaxsim.simulation.checks import check_kind
from jaxsim.simulation.health import Failure
from jaxsim.simulation.rollout import begin
from jaxsim.simulation.step import TimeStepping
from jaxsim.viewer import write_filmstrip, write_page, write_plots
from optimize.interrupts import holding, noting
from optimize.results.folder import to_json, versions
from optimize.results.lock import locked
from optimize.running import summary as summaries
from optimize.running.objectives import Objective
from optimize.running.objectives import objective as objective_named
from optimize.running.recording import (
    PIECE,
    Event,
    Progress,
    Run,
    first_progress,
    frames_of,
    measures_of,
    motion_of,
    new_events,
    pieces,
    run_pieces,
    script_frame,
)
from optimize.scenarios.script_scene import Scene, set_scene

DEEP = 0.01  # an overlap that a reader should know of [m]


@dataclass(frozen=True)
class Simulation:
    """A motion, and what it was like.

    summary: values as JSON holds them, see ``optimize.running.summary.LABELS`` for names and units,
    and besides: phases, objective (if one was given), versions. notes: what a user should know.
    """

    motion: Motion
    summary: dict[str, Any]
    script: Script | None  # None without one: a world
    notes: tuple[str, ...]
    interrupted: bool
    world: str | None = None  # text of the world file, if there was one


class Written(NamedTuple):
    """Files of a result, and what could not be written, with the remedy."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def simulate(
    script: Script | str | os.PathLike,
    *,
    start: str | State | None = None,
    seconds: float = 5.0,
    dt: float = 0.00025,
    chair_height: float | None = None,
    friction: float | None = None,
    fps: float = 120.0,
    model: Model | None = None,
    objective: Objective | str | None = None,
    progress: bool = False,
    backend: str = "fused",
) -> Simulation:
    """Simulate a script (a path, the name of a shipped one, or a parsed one).

    start: "standing", "supine", "prone", "sitting" or a State; the default follows from the
    script's name. chair_height [m], friction: see ``optimize.scenarios.script_scene.set_scene``. A
    frame is kept about ``fps`` times a simulated second, every k-th step, at start and end;
    ``seconds`` grows to a whole number of frames. objective: also judged, over these seconds.
    backend: "fused" or "xla" (see ``jaxsim.simulation.rollout``).

    Runs on JAX's default device, in its default precision; for float64 call it under
    ``with jax.enable_x64(True):``. Ctrl-C ends it with what is simulated so far. So does a motion
    that means nothing any more (``jaxsim.simulation.health``); the summary tells why and when
    ("verdict", "failed_at").

    Raises ScriptError for a script that cannot be used, ValueError (ModelError) or TypeError for
    other arguments, before anything is simulated.

    >>> simulation = simulate("walk", seconds=0.08, dt=0.001)
    >>> simulation.summary["finite"], simulation.motion.n_frames
    (True, 11)
    >>> [phase["name"] for phase in simulation.summary["phases"]]
    ['right_swing']
    """
    scene = set_scene(script, start, chair_height, friction, model)
    return simulate_scene(
        scene,
        seconds=seconds,
        dt=dt,
        fps=fps,
        objective=objective,
        progress=progress,
        backend=backend,
    )


@noting()
def simulate_scene(
    scene: Scene,
    *,
    seconds: float = 5.0,
    dt: float = 0.00025,
    fps: float = 120.0,
    objective: Objective | str | None = None,
    progress: bool = False,
    backend: str = "fused",
) -> Simulation:
    """``simulate`` for a scene that is already set."""
    steps, every = timing(seconds, dt, fps)
    check_objective(objective)
    choose_backend(backend)
    judged = objective_named(objective) if isinstance(objective, str) else objective
    terms = tuple(judged.weights) if judged else ()
    run, events = _run(scene, float(dt), steps, every, terms, progress, backend)
    return _simulation(scene, run, events, steps, every, float(dt), judged)


def check_objective(objective: Objective | str | None) -> None:
    """Raise TypeError for what is no objective; a name that there is none of raises KeyError."""
    if objective is not None:
        check_kind("objective", objective, Objective, str, how=": its name, or one that is made")


def timing(seconds: float, dt: float, fps: float) -> tuple[int, int]:
    """How many steps, and how many from frame to frame. Raises ValueError for what is out of
    ``jaxsim.ranges``, or too much to keep."""
    within("seconds", seconds)
    within("fps", fps)
    if isinstance(dt, (int, float)) and dt > seconds:
        raise ValueError(f"dt is {dt} s, longer than the whole simulation of {seconds} s")
    within("dt", dt)
    within("steps", round(seconds / dt), f"the number of steps, {seconds:g} s in {dt:g} s,")
    every = frame_step(seconds, dt, fps)
    steps = -(-round(seconds / dt) // every) * every
    within("frames", steps // every + 1, f"the number of frames, {fps:g} a second,")
    return steps, every


def frame_step(seconds: float, dt: float, fps: float) -> int:
    """Steps from frame to frame: a divisor of all steps if one is near 1 / (fps dt), else that.

    >>> frame_step(5.0, 0.00025, 120.0)
    32
    """
    wanted = max(1.0, 1.0 / (fps * dt))
    steps = round(seconds / dt)
    near = range(max(1, int(wanted / 1.5)), min(steps, int(wanted * 1.5)) + 1)
    divisors = [k for k in near if steps % k == 0]
    return min(divisors, key=lambda k: abs(k - wanted), default=min(steps, round(wanted)))


def _run(
    scene: Scene,
    dt: float,
    steps: int,
    every: int,
    terms: tuple[str, ...],
    progress: bool,
    backend: str,
) -> tuple[Run, list[Event]]:
    """Simulate to the frame at the end, noting the changes of phase."""
    controller = script_controller(scene.script, scene.model)
    measures = measures_of(scene.model, terms)
    config = TimeStepping()
    now = first_progress(begin(scene.model, controller, config, scene.state), measures)
    run_piece = pieces(scene.model, measures, script_frame(scene.model), every, config, backend)
    events: list[Event] = []

    def note(before: Progress, after: Progress) -> None:
        events.extend(new_events(int(before.memory.events), after.memory))

    run = run_pieces(run_piece, controller, now, dt, steps, every, progress, note)
    return run, events


def _simulation(
    scene: Scene,
    run: Run,
    events: list[Event],
    steps: int,
    every: int,
    dt: float,
    judged: Objective | None,
) -> Simulation:
    """Put the pieces together."""
    frames, failure = frames_of(run, steps, every, dt)
    first = float(scene.state.time)
    time = first + np.arange(len(frames.q)) * every * dt
    end = float(time[-1])
    names = tuple(phase.name for phase in scene.script.phases)
    events = [event for event in events if event.time < end - dt / 2]
    phases = summaries.phases_of(scene.script, events, first, end)
    title = f"{Path(scene.name).stem}: {end - first:g} s, begun {scene.start}"
    motion = motion_of(scene.model, frames, time, title, names, summaries.phase_events(phases))
    measured = jax.tree.map(np.asarray, run.progress.measured)
    link_names = list(scene.model.topology.link_names)
    summary = summaries.outcome(link_names, frames, measured, failure)
    summary |= {"phases": phases, "total_mass": np.asarray(scene.model.total_mass)}
    summary |= _conditions(scene, run, end - first, every, dt)
    if judged is not None:
        parts = judged.parts({term: measured[f"term {term}"] for term in judged.weights})
        total = judged.total(parts)
        summary["objective"] = {"name": judged.name, "total": np.asarray(total), "parts": parts}
    summary["versions"] = versions()
    script_notes = map(str, scene.script.warnings)
    deep = depth_notes(measured)
    notes = (*script_notes, *scene.notes, *deep, *failure_notes(failure, time, run.interrupted))
    return Simulation(motion, summaries.json_safe(summary), scene.script, notes, run.interrupted)


def _conditions(scene: Scene, run: Run, seconds: float, every: int, dt: float) -> dict[str, Any]:
    """How the motion was simulated."""
    return {
        "script": scene.name,
        "start": scene.start,
        "chair_height": scene.chair_height,
        "friction": scene.friction,
        **run_conditions(run, seconds, every, dt),
    }


def run_conditions(run: Run, seconds: float, every: int, dt: float) -> dict[str, Any]:
    """The same, of any simulation."""
    device = next(iter(run.progress.state.q.devices()))
    steps = len(run.pieces) * PIECE * every
    return {
        "seconds": seconds,
        "dt": dt,
        "precision": str(run.progress.state.q.dtype),
        "device": f"{device.platform}: {device.device_kind}",
        "interrupted": run.interrupted,
        "compile_seconds": run.compile_seconds,
        "run_seconds": run.run_seconds,
        "steps_per_second": steps / max(run.run_seconds, 1e-9),
    }


def failure_notes(failure: Failure | None, time: np.ndarray, interrupted: bool) -> list[str]:
    """What a user should know of a motion that broke off."""
    notes = []
    if failure is not None:
        text = failure.status.message
        notes.append(f"the motion means nothing from {failure.time:.4f} s on: {text}")
    if interrupted:
        notes.append(f"interrupted at {time[-1]:.4f} s; what was simulated until then is kept")
    return notes


def depth_notes(measured: Mapping[str, Any]) -> list[str]:
    """What to tell of contacts that were not held: shapes deep in one another."""
    depth, begun = (measured.get(f"{w}_penetration", 0.0) for w in ("largest", "first"))
    if not float(depth) - float(begun) > DEEP:
        return []
    return [
        f"shapes sank into one another by up to {1e3 * float(depth):.1f} mm, and the solver left a"
        f" residual of up to {float(measured['largest_residual']):.3g}; a smaller time step, more"
        " sweeps, or masses that differ less may help"
    ]


def write_simulation(
    folder: str | os.PathLike, simulation: Simulation, with_script: bool = True
) -> Written:
    """Write motion.html, trajectory.npz, summary.json, plots.png, filmstrip.png, and what was
    simulated: script.scl, or world.toml.

    The folder is made if need be. Files of these names are replaced, each as a whole; others stay
    as they are. Without matplotlib the pictures are left out, and ``missing`` says so.
    with_script: False leaves out script.scl. Raises FolderInUse where another process works there.
    """
    with locked(folder), holding():
        return _write(Path(folder), simulation, with_script)


def _write(folder: Path, simulation: Simulation, with_script: bool) -> Written:
    motion, summary = simulation.motion, simulation.summary
    files: list[Path] = []
    missing: list[str] = []

    def put(name: str, write: Any) -> None:
        try:
            write(folder / name)
        except ImportError as error:
            missing.append(f"{name} was not written: {error}")
        else:
            files.append(folder / name)

    text = to_json(summary, "the summary")
    if simulation.world is not None:
        world = simulation.world
        put("world.toml", lambda path: write_bytes(path, world.encode()))
    if with_script and simulation.script is not None:
        script = simulation.script.source
        put("script.scl", lambda path: write_bytes(path, script.encode()))
    put("summary.json", lambda path: write_bytes(path, text.encode()))
    put("trajectory.npz", lambda path: save_motion(path, motion))
    put("motion.html", lambda path: write_page(path, motion, summaries.page_rows(summary)))
    put("plots.png", lambda path: write_plots(path, motion))
    put("filmstrip.png", lambda path: write_filmstrip(path, motion))
    return Written(tuple(files), tuple(missing))
