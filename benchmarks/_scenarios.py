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
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from controllers.scl.load import shipped_scripts
from jaxsim.io.motion import Motion
from optimize.results.folder import RunFolder
from optimize.running.simulate import Simulation, simulate
from optimize.scenarios.find import shipped_scenarios
from optimize.studies.push_map import push_map
from optimize.studies.push_options import MapOptions
from optimize.tuning.tune import tune

LATER_ONES = "thrown_box", "topple_free"  # names, or controllers, that came after the records
SHIPPED = resources.files("optimize") / "scenarios" / "shipped"

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


class Names(NamedTuple):
    """What is recorded of a summary, by group."""

    same: tuple[str, ...]
    metres: tuple[str, ...]
    seconds: tuple[str, ...]


NAMES = {
    "script": Names(
        ("verdict", "finite", "contacts_at_end"),
        ("max_head_height", "distance", "largest_penetration"),
        ("seconds", "failed_at", "airborne_time", "time_above_1.8"),
    ),
    "world": Names(
        ("verdict", "finite", "broken_grips", "most_left_out", "links", "dofs"),
        ("largest_penetration", "first_penetration"),
        ("seconds", "failed_at", "left_out_time"),
    ),
    "scene": Names(
        ("verdict", "finite", "standing", "steps_taken", "rolled_back", "unsolved_frames"),
        (
            *("longest_step", "slip_distance", "reach_distance", "hold_drift", "ball_clearance"),
            "largest_penetration",
        ),
        ("seconds", "failed_at", "hand_support_time", "sliding_time"),
    ),
}


class Kind(NamedTuple):
    """names() of its scenarios; record(name, short): what one computes, with ``short`` no more
    than the group "path", if it can stop after that."""

    names: Callable[[], tuple[str, ...]]
    record: Callable[[str, bool], Record]


def whole(interrupted: bool) -> None:
    """Ctrl-C ends a run with what is done so far, which is no record: here it ends all."""
    if interrupted:
        raise KeyboardInterrupt


def of_scheme(optimised: bool) -> tuple[str, ...]:
    """Scenario files whose scheme is per-step optimisation, or another one."""
    names = [
        (name, Path(str(SHIPPED / f"{name}.toml")).read_text()) for name in shipped_scenarios()
    ]
    names = [each for each in names if not any(later in "\n".join(each) for later in LATER_ONES)]
    found = (name for name, text in names if ("per_step_optimisation" in text) == optimised)
    return tuple(found)


def simulated(kind: str, name: str, short: bool) -> Record:
    """A scenario for its own seconds, a script for ``SCRIPT_SECONDS``."""
    script = kind == "script"
    seconds = FIRST[kind] if short else SCRIPT_SECONDS if script else None
    dt = SCRIPT_DT if script else None
    return of_simulation(kind, simulate(name, seconds=seconds, dt=dt, fps=FPS, backend="xla"))


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
            final_dt=0.0005,
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
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            "push",
            "survive",
            out=Path(folder) / "run",
            generations=2,
            population=4,
            trials=3,
            pushes=(FELLS,),
            sigma=0.15,
            backend="xla",
            progress=False,
        ).evolution
        whole(result.interrupted)
        history = RunFolder.open(Path(folder) / "run").read_history()
    best = [record["best_ever"] for record in history]
    return {
        "same": {"failures": [record["failures"] for record in history]},
        "tuned": {
            "best_x": result.best_x,
            "best": best[-1],
            "history": best,
            "medians": [record["median"] for record in history],
        },
    }


def tuning(name: str, short: bool) -> Record:
    """A search of few generations."""
    return tuned_balance() if name == "balance" else tuned_script(name)


KINDS = {
    "script": Kind(shipped_scripts, partial(simulated, "script")),
    "world": Kind(partial(of_scheme, False), partial(simulated, "world")),
    "scene": Kind(partial(of_scheme, True), partial(simulated, "scene")),
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
    if kind == "scene":  # whose causes were the same from the first on
        causes = tuple(cause if cause != "start" else "its condition" for cause in causes)
    carry = np.linalg.norm(motion.contact_force[-1], axis=-1) > CARRIES
    return {
        "path": {"time": motion.time[first], "q": motion.q[first], "qd": motion.qd[first]},
        "later": {"time": motion.time[spread], "q": motion.q[spread]},
        "same": {
            "phases": names,
            "causes": causes,
            "carrying_contacts": carry.sum(),
            **_as_recorded(_there(summary, NAMES[kind].same), summary),
        },
        "metres": {
            **_final_heights(kind, motion),
            "moved": _moved(motion),
            **_as_recorded(_there(summary, NAMES[kind].metres), summary),
        },
        "seconds": {"phase_times": times, **_there(summary, NAMES[kind].seconds)},
    }


def _moved(motion: Motion) -> float:
    """How far the centre of mass got over the ground [m]."""
    assert motion.com is not None
    return float(np.linalg.norm(motion.com[-1, :2] - motion.com[0, :2]))


def _as_recorded(values: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Where the summary tells more now: of scenes hands and feet, and steps that were begun."""
    names = {"largest_penetration": "effector_penetration", "steps_taken": "steps_begun"}
    return {
        name: summary[names[name]] if names.get(name) in summary else value
        for name, value in values.items()
    }


def _final_heights(kind: str, motion: Motion) -> dict[str, float]:
    """Of scripts of the links' centres of mass, else of their frames' origins [m]."""
    heights = {name: height[-1] for name, height in motion.heights.items()}
    if kind != "script":
        at = motion.link_names.index
        links = {n: motion.link_pos[-1, at(n), 2] for n in heights if n in motion.link_names}
        heights |= links
    return {f"final_{name}": float(height) for name, height in heights.items()}


def _there(summary: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of the names that a summary has a value for."""
    return {name: summary[name] for name in names if summary.get(name) is not None}
