"""The push-tolerance map: the largest push that is survived, by direction, duration and start.

    push_map(MapOptions(build="child", durations=(0.2,)), out="runs/child", progress=True)

``optimize.push_search`` says what is searched for, ``optimize.push_survival`` who survives.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from controllers.balance import Gait
from controllers.goal_machine import GoalMachine
from jaxsim.synthesis.config import SynthesisConfig
from optimize.push_report import write_arrays, write_report
from optimize.push_search import MapOptions, PushMap, Search, Survive, begin_search, bisect
from optimize.push_survival import Trial, start_states, survival
from optimize.run_folder import RunFolder, command_line
from optimize.synthesis_setting import set_up

STATE = "push_map_state.npz"
CONFIG = SynthesisConfig(passes=2, iterations=20)  # fewer than the default, for speed


def push_map(
    options: MapOptions | None = None,
    out: str | os.PathLike | None = None,
    *,
    resume: bool = False,
    survive: Survive | None = None,
    progress: bool = False,
    command: list[str] | None = None,
) -> PushMap:
    """The map, and with ``out`` a folder of it: table, CSV, arrays, plot.

    Each round is kept in ``out``; with ``resume`` a run that was interrupted goes on there, with
    its own options (``options`` must be None). survive: another way to find out who
    stands.

    Raises FileExistsError for a folder in use, FileNotFoundError where there is nothing to resume,
    ValueError for options that cannot be.
    """
    if resume:
        options, search = _resumed(out, options)
    else:
        options = options or MapOptions()
        search = begin_search(options)
    survive = survive or grid_survival(options, progress)
    folder = None
    if out is not None:
        folder = RunFolder.open(out) if resume else _created(out, options, command)

    def keep(search: Search) -> None:
        if folder is not None:
            write_arrays(folder / STATE, search._asdict())

    search = bisect(search, survive, options, keep, progress)
    tolerated = np.where(search.low < 0, np.nan, search.low * options.resolution)
    found = PushMap(
        options,
        tolerated.reshape(options.shape),
        search.below(options.checks).reshape(-1, *options.shape),
        search.failed.reshape(options.shape),
    )
    return found if folder is None else write_report(folder, found)


def _created(out, options: MapOptions, command: list[str] | None) -> RunFolder:
    config = {
        "objective": "push tolerance",
        "push_map": asdict(options),
        "seed": options.seed,
        "seconds": options.seconds,
        "dt": float(CONFIG.dt),
        "weights": options.control,
        "precision": jnp.zeros(()).dtype.name,
        "command": command or command_line(),
    }
    return RunFolder.create(out, config)


def _resumed(out, options: MapOptions | None) -> tuple[MapOptions, Search]:
    """The options of the run in a folder, and where it stands."""
    if out is None or options is not None:
        raise ValueError("to resume, name the folder of the run, and no options: it has its own")
    folder = RunFolder.open(out)
    kept = folder.read_json(RunFolder.CONFIG).get("push_map")
    if kept is None:
        raise ValueError(f"{folder.path} holds another kind of run, no push map")
    own = MapOptions(**{"backend": "xla", **kept, "durations": tuple(kept["durations"])})
    if not (folder / STATE).is_file():
        return own, begin_search(own)
    with np.load(folder / STATE) as held:
        return own, Search(**{name: held[name] for name in Search._fields})


def controller_arrays(machine: GoalMachine, control: Mapping[str, Any] | None) -> tuple[Any, Gait]:
    """weights (ns, ng) and gait of a controller, the machine's own where ``control`` has none.

    Raises ValueError for another shape, a name that no gait has, a number that is none.
    """
    weights, gait = np.asarray(machine.weights()), machine.notes.gait
    control = control or {}
    given = np.asarray(control.get("weights", weights), weights.dtype)
    if given.shape != weights.shape or not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(
            f"weights of shape {given.shape}: {weights.shape} are needed, a row for each of"
            f" {', '.join(machine.state_names)}, none below 0"
        )
    numbers = control.get("gait", {})
    if unknown := set(numbers) - set(asdict(gait)):
        raise ValueError(f"a gait has no {', '.join(sorted(unknown))}")
    return given, replace(gait, **numbers)


def grid_survival(options: MapOptions, progress: bool = False) -> Survive:
    """Survival of the map's cells, by simulation."""
    scene = options.changed_scene()
    setting = set_up(replace(scene, pushes=()))
    weights, gait = controller_arrays(setting.machine, options.control)
    seconds = max(options.durations) + options.seconds
    config = replace(CONFIG, torque_limits=scene.torque_limits)
    run, width = survival(setting, config, seconds, int(np.prod(options.shape)), options.backend)
    model = setting.body.model
    starts = jax.tree.map(
        np.asarray, start_states(model, setting.state, options.starts, options.seed)
    )
    dtype = np.asarray(model.mass).dtype

    def trials(cells: np.ndarray, forces: np.ndarray) -> Trial:
        duration, direction, start = np.unravel_index(cells, options.shape)
        every = (len(cells),)
        return Trial(
            start=jax.tree.map(lambda x: x[start], starts),
            force=forces.astype(dtype),
            direction=np.deg2rad(options.directions_deg)[direction].astype(dtype),
            duration=np.asarray(options.durations, dtype)[duration],
            weights=np.broadcast_to(weights.astype(dtype), every + weights.shape),
            gait=jax.tree.map(lambda x: np.full(every, x, dtype), gait),
        )

    def survive(cells: np.ndarray, forces: np.ndarray):
        parts = []
        pieces = range(0, len(cells), width)
        for first in tqdm(pieces, unit="batch", leave=False, disable=not progress):
            part = slice(first, first + width)
            parts.append(run(trials(cells[part], forces[part])))
        stood, finite, _ = (np.concatenate(x) for x in zip(*parts))
        return stood, finite

    return survive
