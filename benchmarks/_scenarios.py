"""What each shipped scenario computes, as plain arrays and values; all calls that run one are here.

A record is a dict of groups, each a dict of what is named:

    path     time (T,) [s], q (T, nq) [m, rad], qd (T, nv) [m/s, rad/s] of the frames of the first
             ``FIRST`` seconds
    later    time (n,) [s], q (n, nq) of at most ``LATER`` frames spread evenly to the end
    same     counts, booleans and names
    metres   lengths (), numbers
    seconds  times () or (n,), numbers
    newtons  tolerated (durations, directions, starts) and step (), the forces of a map
    tuned    numbers () or (n,) of what a search found

A kind has the groups that it can have. All is computed by XLA, in JAX's default precision.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from controllers.scl.load import shipped_scripts
from jaxsim.io.motion import Motion
from optimize.results.folder import RunFolder
from optimize.running.gallery import find_world, shipped_worlds
from optimize.running.simulate import Simulation, simulate
from optimize.running.synthesis_run import synthesize_scene
from optimize.running.world_run import simulate_world
from optimize.scenarios.synthesis_scenes import SCENES, find_scene
from optimize.studies.push_map import push_map
from optimize.studies.push_search import MapOptions
from optimize.tuning.balance_tuning import TuningOptions, tune_balance
from optimize.tuning.tune import tune

Record = dict[str, dict[str, Any]]

FIRST = {"script": 0.5, "world": 0.5, "scene": 1.1}  # [s]; most scenes are pushed from 1 s on
THIN = {"script": 1, "world": 1, "scene": 2}  # of so many frames, 10 ms apart, one is kept
LATER = 12
FPS = 100.0
SCRIPT_SECONDS, SCRIPT_DT = 3.0, 0.0005  # [s]
FELLS = 900.0  # a push after which the controller as it is falls [N]
CARRIES = 1.0  # the force of a contact that counts at the end, at least [N]

MAPS = {
    "push": MapOptions(
        directions=4,
        durations=(0.2,),
        starts=2,
        resolution=50.0,
        strongest=1000.0,
        checks=1,
        seconds=2.0,
        backend="xla",
    )
}

SAME = (
    *("verdict", "finite", "standing", "steps_taken", "contacts_at_end", "broken_grips"),
    *("most_left_out", "rolled_back", "unsolved_frames", "links", "freedoms"),
)
METRES = (
    *("max_head_height", "distance", "longest_step", "slip_distance", "reach_distance"),
    *("hold_drift", "ball_clearance", "largest_penetration", "first_penetration"),
)
SECONDS = (
    *("seconds", "failed_at", "airborne_time", "time_above_1.8", "hand_support_time"),
    *("sliding_time", "left_out_time"),
)


class Kind(NamedTuple):
    """names() of its scenarios; record(name, short): what one computes, with ``short`` no more
    than the group "path", if it can stop after that."""

    names: Callable[[], tuple[str, ...]]
    record: Callable[[str, bool], Record]


def whole(interrupted: bool) -> None:
    """Ctrl-C ends a run with what is done so far, which is no record: here it ends all."""
    if interrupted:
        raise KeyboardInterrupt


def script(name: str, short: bool) -> Record:
    """A script on the planar human, from the start that its name says."""
    return of_simulation(
        "script",
        simulate(
            name,
            seconds=FIRST["script"] if short else SCRIPT_SECONDS,
            dt=SCRIPT_DT,
            fps=FPS,
            backend="xla",
        ),
    )


def world(name: str, short: bool) -> Record:
    """A world, with its own time step for its own seconds."""
    seconds = FIRST["world"] if short else None
    return of_simulation(
        "world", simulate_world(find_world(name), seconds=seconds, fps=FPS, backend="xla")
    )


def scene(name: str, short: bool) -> Record:
    """A scene of synthesised motion, for its own seconds."""
    asked = find_scene(name)
    asked = replace(asked, seconds=FIRST["scene"]) if short else asked
    return of_simulation("scene", synthesize_scene(asked))


def force_map(name: str, short: bool) -> Record:
    """A small map of the pushes that are survived; -step where it fell without any."""
    options = MAPS[name]
    found = push_map(options)
    step = options.resolution
    return {
        "same": {"not_finite": found.failed.sum()},
        "newtons": {"tolerated": np.nan_to_num(found.tolerated, nan=-step), "step": step},
    }


def tuned_script(name: str) -> Record:
    """Ten generations for a script's free numbers."""
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            name,
            "quick-rise",
            out=Path(folder) / "run",
            generations=10,
            population=8,
            seconds=1.5,
            judge_dt=0.0005,
            chunk=8,
            backend="xla",
            progress=False,
        )
    whole(result.evolution.interrupted)
    assert result.before is not None and result.after is not None
    found, judged = result.evolution, {"before": result.before, "after": result.after}
    return {
        "same": {"failures": [record.failures for record in found.history]},
        "tuned": {
            "best_x": found.best_x,
            "best": found.best_fitness,
            "history": [record.best_ever for record in found.history],
            "medians": [record.median for record in found.history],
            **{f"judged_{when}": objective["total"] for when, objective in judged.items()},
        },
    }


def tuned_balance() -> Record:
    """Two generations for the numbers of the balance controller."""
    options = TuningOptions(generations=2, population=4, pushes=3, forces=(FELLS,), backend="xla")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        result = tune_balance(options, out)
        whole(result.interrupted)
        history = RunFolder.open(out).read_history()
    best = [record["best_ever"] for record in history]
    return {
        "same": {"failures": [record["failures"] for record in history]},
        "tuned": {
            "best_x": result.x,
            "best": best[-1],
            "history": best,
            "medians": [record["median"] for record in history],
        },
    }


def tuning(name: str, short: bool) -> Record:
    """A search of few generations."""
    return tuned_balance() if name == "balance" else tuned_script(name)


KINDS = {
    "script": Kind(shipped_scripts, script),
    "world": Kind(shipped_worlds, world),
    "scene": Kind(lambda: tuple(SCENES), scene),
    "map": Kind(lambda: tuple(MAPS), force_map),
    "tuning": Kind(lambda: ("sit_to_stand_quick", "balance"), tuning),
}


def of_simulation(kind: str, simulation: Simulation) -> Record:
    """The record of a motion and its summary."""
    whole(simulation.interrupted)
    motion, summary = simulation.motion, simulation.summary
    first = np.flatnonzero(motion.time < FIRST[kind] - 1e-9)[:: THIN[kind]]
    spread = np.unique(np.linspace(0, motion.n_frames - 1, LATER).astype(int))
    times, names, causes = zip(*motion.phase_events) if motion.phase_events else ((), (), ())
    carry = np.linalg.norm(motion.contact_force[-1], axis=-1) > CARRIES
    return {
        "path": {"time": motion.time[first], "q": motion.q[first], "qd": motion.qd[first]},
        "later": {"time": motion.time[spread], "q": motion.q[spread]},
        "same": {
            "phases": names,
            "causes": causes,
            "carrying_contacts": carry.sum(),
            **_there(summary, SAME),
        },
        "metres": {
            **{f"final_{name}": height[-1] for name, height in motion.heights.items()},
            "moved": _moved(motion),
            **_there(summary, METRES),
        },
        "seconds": {"phase_times": times, **_there(summary, SECONDS)},
    }


def _moved(motion: Motion) -> float:
    """How far the centre of mass got over the ground [m]."""
    assert motion.com is not None
    return float(np.linalg.norm(motion.com[-1, :2] - motion.com[0, :2]))


def _there(summary: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of the names that a summary has a value for."""
    return {name: summary[name] for name in names if summary.get(name) is not None}
