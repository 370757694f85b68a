"""Simulate a scenario: one call from its name to a motion with a summary, another to a folder.

from optimize import simulate

run = simulate("walk", seconds=2.0)
print(run.summary["distance"])
run.save("walk_folder")
"""

import dataclasses
import html
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from controllers.scl.script import Script
from jaxsim.characters.registry import start as start_pose
from jaxsim.collision.slots import contact_slots
from jaxsim.fused import choose_backend
from jaxsim.io.files import write_bytes
from jaxsim.io.motion import Motion
from jaxsim.io.motion_file import save_motion
from jaxsim.model import Model, State
from jaxsim.ranges import within
from jaxsim.simulation.checks import check_controller, check_kind, check_state_fits
from jaxsim.simulation.health import Failure
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import begin
from jaxsim.simulation.scheme import Scheme
from jaxsim.simulation.step import TimeStepping
from jaxsim.viewer import page_text, write_filmstrip, write_page, write_plots
from optimize.interrupts import defer_interrupts, note_interrupts
from optimize.results.folder import to_json, versions
from optimize.results.lock import lock_folder
from optimize.running import summary as summaries
from optimize.running.motion import motion_of
from optimize.running.objectives import Objective
from optimize.running.objectives import objective as objective_named
from optimize.running.recording import (
    PIECE,
    Progress,
    SimulatedPieces,
    first_progress,
    frame_of,
    frames_of,
    measures_of,
    pieces,
    run_pieces,
)
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario

DEEP = 0.01  # an overlap that a reader should know of [m]
UNEVEN = 1000.0  # masses of two bodies that may touch


@dataclass(frozen=True)
class Simulation:
    """Motion of a scenario with its summary.

    summary: values as JSON stores them, see ``optimize.running.summary.LABELS`` for names and
    units, and besides: phases, objective (if one was given), versions. notes: what a user should
    know.
    """

    motion: Motion
    summary: dict[str, Any]
    scenario: Scenario
    notes: tuple[str, ...]
    interrupted: bool

    def save(self, folder: str | os.PathLike) -> "Written":
        """Write page, plots, data and summary to a folder, see ``write_simulation``."""
        return write_simulation(folder, self)

    def page(self) -> str:
        """HTML of the page that plays the motion."""
        return page_text(self.motion, summaries.page_rows(self.summary))

    def show(self, height: int = 560) -> Any:
        """Show the page inline in a notebook; height [pixels]. Needs IPython."""
        from IPython.display import HTML

        return HTML(self._frame(height))

    def _repr_html_(self) -> str:
        return self._frame(560)

    def _frame(self, height: int) -> str:
        source = html.escape(self.page(), quote=True)
        return (
            f'<iframe srcdoc="{source}" width="100%" height="{height}" style="border:0"></iframe>'
        )


class Written(NamedTuple):
    """Files of a result, and what could not be written, with the remedy."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def simulate(
    what: Scenario | Model | Script | str | os.PathLike,
    controller: Any = None,
    *,
    seconds: float | None = None,
    start: str | State | None = None,
    forces: Pushes | None = None,
    scheme: Scheme | None = None,
    dt: float | None = None,
    set: Mapping[str, Any] | None = None,
    fps: float = 120.0,
    objective: Objective | str | None = None,
    progress: bool = False,
    backend: str | None = None,
) -> Simulation:
    """Simulate a scenario by name ("walk", "push", "staircase"), from a file, or as an object.

    what: a name, the file of a scenario, a script or a model, or such an object, as in
    ``simulate(model, controller, seconds=3)``. controller: in place of the scenario's; of a model,
    by default it holds the start pose. seconds, dt [s], forces, scheme: in place of the scenario's.
    start: the name of a pose, or a State. set: keys of the scenario's file, or numbers by label or
    path, see ``optimize.scenarios.find``. A frame is recorded about ``fps`` times a simulated
    second, every k-th step, at start and end; ``seconds`` grows to a whole number of frames.
    objective: evaluated too, over these seconds. backend: "fused" or "xla" (see
    ``jaxsim.simulation.rollout``); by default fused for planar characters, which compile fast.

    Runs on JAX's default device, in its default precision; for float64 call it under
    ``with jax.enable_x64(True):``. Ctrl-C ends it with what is simulated so far. So does a motion
    that diverges (``jaxsim.simulation.health``); the summary says why and when ("verdict",
    "failed_at").

    Raises ScriptError, WorldError, ModelError (ValueErrors), KeyError or TypeError for what cannot
    be simulated, before anything is.

    >>> run = simulate("walk", seconds=0.08, dt=0.001)
    >>> run.summary["finite"], run.motion.n_frames
    (True, 11)
    >>> [phase["name"] for phase in run.summary["phases"]]
    ['ready']
    """
    changes = dict(set or {})
    if start is not None:
        check_kind("start", start, str, State, how=": the name of a pose, or a state")
    if isinstance(start, str):
        changes["character.start"] = start
    if isinstance(what, Model):
        scenario = of_model(what, controller, start)
    else:
        check_kind(
            "what", what, Scenario, Script, str, os.PathLike, how=": a name, a file, a model"
        )
        text = what.source if isinstance(what, Script) else None
        name = what.file if isinstance(what, Script) else what
        scenario = find_scenario(name, changes, text)
    overrides = {
        "controller": controller,
        "forces": forces,
        "scheme": scheme,
        "state": start if isinstance(start, State) else None,
        "seconds": seconds,
    }
    scenario = dataclasses.replace(
        scenario, **{k: v for k, v in overrides.items() if v is not None}
    )
    if dt is not None:
        timing(scenario.seconds, dt, fps)  # its errors show as they were asked for
        scheme = dataclasses.replace(scenario.scheme, dt=dt)  # type: ignore
        scenario = dataclasses.replace(scenario, scheme=scheme)
    check_controller(scenario.model, scenario.controller)
    if controller is not None:
        phases = tuple((name, "") for name in controller.phase_names)
        scenario = dataclasses.replace(scenario, phases=phases)
    if isinstance(start, State):
        check_state_fits(scenario.model, start, values=True)
        scenario = dataclasses.replace(
            scenario, conditions={**scenario.conditions, "start": "given"}
        )
    return run_scenario(scenario, fps, objective, progress, backend)


def of_model(model: Model, controller: Any, start: str | State | None = None) -> Scenario:
    """Scenario of a model by itself. controller: by default it holds the start pose."""
    from controllers.pose.pd import PoseController

    state = start if isinstance(start, State) else start_pose(model, start or "standing")
    return Scenario(
        model,
        PoseController(state.q) if controller is None else controller,
        state,
        TimeStepping(dt=0.001),
        name="model",
        conditions={"start": start or "standing" if not isinstance(start, State) else "given"},
    )


@note_interrupts()
def run_scenario(
    scenario: Scenario,
    fps: float = 120.0,
    objective: Objective | str | None = None,
    progress: bool = False,
    backend: str | None = None,
) -> Simulation:
    """Simulate a ``Scenario`` object, see ``simulate``."""
    dt = float(scenario.scheme.dt)
    steps, every = timing(scenario.seconds, dt, fps)
    check_objective(objective)
    backend = choose_backend(backend or ("fused" if scenario.model.topology.planar else "xla"))
    run_objective = objective_named(objective) if isinstance(objective, str) else objective
    if run_objective is not None and run_objective.of_survival:
        raise ValueError(
            f"the objective {run_objective.name} judges many pushes; jaxsim tune and pushmap use it"
        )
    measures = measures_of(
        scenario, run_objective.measures(scenario.model) if run_objective else {}
    )
    start_records = begin(scenario.model, scenario.controller, scenario.scheme, scenario.state)
    run_piece = pieces(scenario, measures, frame_of(scenario), every, backend)
    changes: list[tuple[float, int]] | None = []

    def note(before: Progress, after: Progress) -> None:
        nonlocal changes
        entered = scenario.controller.phase_changes(before.memory, after.memory)
        changes = None if changes is None or entered is None else [*changes, *entered]

    first = first_progress(start_records, measures)
    run = run_pieces(run_piece, scenario.controller, first, dt, steps, every, progress, note)
    frames, failure = frames_of(run, steps, every, dt)
    start = float(scenario.state.time)
    time = start + np.arange(len(frames.q)) * every * dt
    end = float(time[-1])
    phases = summaries.phases_of(scenario, frames, changes, start, end - dt / 2)
    if phases:
        phases[-1]["end"] = round(end, 6)
    measured = jax.tree.map(np.asarray, run.progress.measured)
    terms = {k[5:]: measured.pop(k) for k in list(measured) if k.startswith("term ")}
    summary = summaries.outcome(scenario, frames, time, measured, failure)
    summary |= {
        "phases": phases,
        **scenario.conditions,
        **_body_entries(scenario),
        **run_conditions(run, end - start, every, dt),
    }
    if run_objective is not None:
        parts = run_objective.parts(terms)
        total = np.asarray(run_objective.total(parts))
        summary["objective"] = {"name": run_objective.name, "total": total, "parts": parts}
    summary["versions"] = versions()
    remarks = _remarks(scenario, measured, summary, failure is not None)
    notes = (*scenario.notes, *remarks, *failure_notes(failure, time, run.interrupted))
    motion = motion_of(scenario, frames, time, summaries.phase_events(phases))
    return Simulation(motion, summaries.json_safe(summary), scenario, notes, run.interrupted)


def _body_entries(scenario: Scenario) -> dict[str, Any]:
    """Entries of the summary that describe scenario and body."""
    top = scenario.model.topology
    character = np.array([kind == "character" for kind in scenario.kinds])
    mass = np.asarray(scenario.model.mass)[character].sum() if character.any() else None
    return {"scenario": scenario.name, "total_mass": mass, "links": top.n_links, "dofs": top.nv}


def _remarks(
    scenario: Scenario, measured: Mapping[str, Any], summary: Mapping[str, Any], failed: bool
) -> list[str]:
    """Notes on a motion: overlaps, light links, a character that does not stand at the end."""
    remarks = []
    overlap = float(measured.get("first_penetration", 0.0))
    if overlap > 1e-3:
        remarks.append(f"shapes overlap by {1e3 * overlap:.1f} mm at the start")
    remarks += [*mass_ratio_notes(scenario), *depth_notes(measured)]
    begins = scenario.conditions.get("start") in (None, "standing")
    if begins and summary.get("standing") is False and not failed:
        remarks.append("the character is not standing at the end")
    return [*remarks, *unsolved_notes(measured)]


def check_objective(objective: Objective | str | None) -> None:
    """Raise TypeError for what is no objective; an unknown name raises KeyError elsewhere."""
    if objective is not None:
        check_kind("objective", objective, Objective, str, how=": its name, or one that is made")


def timing(seconds: float, dt: float, fps: float) -> tuple[int, int]:
    """Count the steps of a run and those from frame to frame.

    Raises ValueError for what is out of ``jaxsim.ranges``, or too much to store.
    """
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
    exact = max(1.0, 1.0 / (fps * dt))
    steps = round(seconds / dt)
    near = range(max(1, int(exact / 1.5)), min(steps, int(exact * 1.5)) + 1)
    divisors = [k for k in near if steps % k == 0]
    return min(divisors, key=lambda k: abs(k - exact), default=min(steps, round(exact)))


def run_conditions(run: SimulatedPieces, seconds: float, every: int, dt: float) -> dict[str, Any]:
    """Conditions of a run under any scheme, for its summary."""
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
    """Notes for the user on a motion that diverged or was interrupted."""
    notes = []
    if failure is not None:
        text = failure.status.message
        notes.append(f"the motion diverges at {failure.time:.4f} s: {text}")
    if interrupted:
        notes.append(f"interrupted at {time[-1]:.4f} s; the motion until then is saved")
    return notes


def depth_notes(measured: Mapping[str, Any]) -> list[str]:
    """Notes for the user on shapes that sank into one another."""
    depth, begun = (measured.get(f"{w}_penetration", 0.0) for w in ("largest", "first"))
    if not float(depth) - float(begun) > DEEP:
        return []
    sank = f"shapes sank into one another by up to {1e3 * float(depth):.1f} mm"
    if "largest_residual" not in measured:
        return [f"{sank}: only hands and feet are kept out of the surroundings"]
    return [
        f"{sank}, and the solver left a residual of up to"
        f" {float(measured['largest_residual']):.3g}; a smaller time step, more sweeps, or masses"
        " that differ less may help"
    ]


def unsolved_notes(measured: Mapping[str, Any]) -> list[str]:
    """Notes for the user on steps whose optimisation was not solved."""
    count = int(measured.get("unsolved_frames", 0))
    if not count:
        return []
    force = float(measured.get("largest_root_residual", 0.0))
    return [
        f"the optimisation of {count} steps was not solved; the largest force without a source at"
        f" the root was {force:.3g} N: what follows such a step is not physical"
    ]


def mass_ratio_notes(scenario: Scenario) -> list[str]:
    """Note on bodies that may touch with masses too different for the solver's sweeps.

    Of all such pairs it names the one that differs most.
    """
    top, mass = scenario.model.topology, np.asarray(scenario.model.mass, float)
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


def write_simulation(
    folder: str | os.PathLike, simulation: Simulation, with_files: bool = True
) -> Written:
    """Write a simulation to a folder: page, trajectory, summary, plots, and its source files.

    The files are motion.html, trajectory.npz, summary.json, plots.png, filmstrip.png, and
    script.scl or scenario.toml. The folder is created if need be. Files of these names are
    replaced, each as a whole; others stay as they are. Without matplotlib the pictures are left
    out, and ``missing`` says so. with_files: False leaves the source files out. Raises FolderInUse
    where another process works there.
    """
    with lock_folder(folder), defer_interrupts():
        return _write(Path(folder), simulation, with_files)


def _write(folder: Path, simulation: Simulation, with_files: bool) -> Written:
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
    for name, held in simulation.scenario.files.items() if with_files else ():
        put(name, lambda path, held=held: write_bytes(path, held.encode()))
    put("summary.json", lambda path: write_bytes(path, text.encode()))
    put("trajectory.npz", lambda path: save_motion(path, motion))
    put("motion.html", lambda path: write_page(path, motion, summaries.page_rows(summary)))
    put("plots.png", lambda path: write_plots(path, motion))
    put("filmstrip.png", lambda path: write_filmstrip(path, motion))
    return Written(tuple(files), tuple(missing))
