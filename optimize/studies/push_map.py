"""The push-tolerance map: the largest push that is survived, by direction, duration and start.

    push_map(MapOptions(set={"character.build": "child"}), out="runs/child", progress=True)

``optimize.studies.push_search`` says what is searched for, ``optimize.studies.push_survival`` who
survives.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxsim.io.archive import ArchiveError, read_arrays
from jaxsim.io.files import try_folder
from jaxsim.model.roles import FEET
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from optimize.interrupts import deferred, noting
from optimize.problems.starts import start_states
from optimize.results.digest import accept, changes_since, digest
from optimize.results.folder import RESTORE, RunFolder, command_line
from optimize.results.lock import locked
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.studies.push_report import write_arrays, write_report
from optimize.studies.push_search import MapOptions, PushMap, Survive, begin_search, bisect
from optimize.studies.push_survival import Trial, survival
from optimize.sweeps.bisection import UNTRIED, Search
from optimize.tuning.checkpoint import damaged_state

STATE = "push_map_state.npz"
CONFIG = SynthesisConfig(passes=2, iterations=20)  # fewer than the default, for speed


def push_map(
    options: MapOptions | None = None,
    out: str | os.PathLike | None = None,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    survive: Survive | None = None,
    progress: bool = False,
    command: list[str] | None = None,
) -> PushMap:
    """The map, and with ``out`` a folder of it: table, CSV, arrays, plot.

    Each round is kept in ``out``; with ``resume`` a run that was interrupted goes on there, with
    its own options (``options`` must be None). survive: another way to find out who
    stands.

    accept_changes: go on although the options, the code or a library is not what the run began
    with; digest.json then says what.

    Ctrl-C ends it after a round, as KeyboardInterrupt (see optimize.interrupts).

    Raises FileExistsError for a folder that holds something, FileNotFoundError where there is
    nothing to resume, RunChanged where that began with something else, CheckpointError where it is
    damaged, FolderInUse where another process works there, ValueError for options that cannot be.
    """
    with noting(), contextlib.ExitStack() as stack:
        if resume:
            options, search, folder = _resumed(out, options, accept_changes, stack)
        else:
            options = options or MapOptions()
            search, folder = begin_search(options), None
        if out is not None:
            try_folder(out)
        survive = survive or grid_survival(options, progress)
        if out is not None and folder is None:
            stack.enter_context(locked(out))
            folder = _created(out, options, command)

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
            search.unsolved.reshape(options.shape),
            search.residual.reshape(options.shape),
        )
        with deferred():
            return found if folder is None else write_report(folder, found)


def _created(out, options: MapOptions, command: list[str] | None) -> RunFolder:
    config = {
        "push_map": asdict(options),
        "seed": options.seed,
        "seconds": options.seconds,
        "dt": float(CONFIG.dt),
        "precision": jnp.zeros(()).dtype.name,
        "command": command or command_line(),
    }
    return RunFolder.create(out, config, digest=digest(config))


def _resumed(
    out, options: MapOptions | None, accept_changes: bool, stack: contextlib.ExitStack
) -> tuple[MapOptions, Search, RunFolder]:
    """The options of the run in a folder, which is locked, and where it stands."""
    if out is None or options is not None:
        raise ValueError("to resume, name the folder of the run, and no options: it has its own")
    folder = RunFolder.open(out)
    stack.enter_context(locked(folder))
    config = folder.read_config()
    kept = config.get("push_map")
    if kept is None:
        raise ValueError(f"{folder.path} holds another kind of run, no push map")
    now = digest(config)
    changed = changes_since(folder, now, accept_changes)
    own = kept_options(folder, MapOptions, kept, "durations")
    search = _search(folder / STATE, own) if (folder / STATE).is_file() else begin_search(own)
    accept(folder, now, changed, at=int((search.tried != UNTRIED).any(axis=1).sum()))
    return own, search, folder


def kept_options(folder: RunFolder, kind: type, kept: Any, numbers: str) -> Any:
    """The options in config.json, of which ``numbers`` is a tuple. Raises ValueError where they
    are none."""
    try:
        vary = kept.get("vary")
        kept = {"backend": "xla", **kept, numbers: tuple(map(float, kept[numbers]))}
        if vary is not None:
            kept["vary"] = {name: tuple(map(float, values)) for name, values in vary.items()}
        return kind(**kept)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{folder / RunFolder.CONFIG} holds options that no run writes ({error}); {RESTORE}"
        ) from error


def _search(path: Path, options: MapOptions) -> Search:
    """Where the bisection stands. Raises CheckpointError where the file is damaged."""
    begun = begin_search(options)
    try:
        held = read_arrays(path)
        search = Search(**{name: held[name] for name in Search._fields})
        for name, array, wanted in zip(Search._fields, search, begun):
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise ArchiveError(
                    f"{name} is {array.dtype} of shape {array.shape}, {wanted.dtype} of shape"
                    f" {wanted.shape} is needed"
                )
        good = (-1 <= search.low) & (search.low < search.high) & (search.high <= options.top + 1)
        if not (good.all() and np.isin(search.tried, (UNTRIED, 0, 1)).all()):
            raise ArchiveError("its numbers are those of no search")
    except (ArchiveError, KeyError) as error:
        raise damaged_state(path, error) from error
    return search


def set_numbers(scenario: Scenario, numbers: Mapping[str, Any] | None) -> Scenario:
    """With numbers by label or path. Raises KeyError for what is neither, ValueError for values
    that are none."""
    for name, value in (numbers or {}).items():
        try:
            given = np.asarray(value, float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {value!r} is no number: {error}") from None
        if not np.isfinite(given).all():
            raise ValueError(f"{name}: {value!r} is not finite")
        scenario = scenario.set(name, given)
    return scenario


def map_scenario(options: MapOptions) -> Scenario:
    """What the pushes happen in."""
    made = replace(scenario(options.scenario, options.set), forces=None)
    made.model.topology.require("a push map", *FEET)
    if made.model.topology.planar and options.directions > 2:
        raise ValueError("a planar character is pushed forward and backward: 2 directions at most")
    if isinstance(made.scheme, PerStepOptimisation):
        scheme = replace(made.scheme, passes=CONFIG.passes, iterations=CONFIG.iterations)
        made = replace(made, scheme=scheme)
    return set_numbers(made, options.numbers)


def _varied_paths(around: Scenario, options: MapOptions) -> dict[str, str]:
    """Name of ``vary`` -> path. Raises KeyError for what there is none of, ValueError for a number
    of what is the same for all: the state and the forces."""
    paths = {name: around.path(name) for name in options.vary or {}}
    for name, path in paths.items():
        if path.partition(".")[0] not in ("model", "scheme", "controller"):
            raise ValueError(f"vary {name}: of a map vary numbers of model, scheme and controller")
        around.set(name, options.vary[name][0])  # type: ignore[index]
    return paths


def grid_survival(options: MapOptions, progress: bool = False) -> Survive:
    """Survival of the map's cells, by simulation."""
    around = map_scenario(options)
    run, width = survival(
        around,
        max(options.durations) + options.seconds,
        int(np.prod(options.shape)),
        options.backend,
        options.link,
    )
    model = around.model
    paths = _varied_paths(around, options)
    starts = jax.tree.map(
        np.asarray, start_states(model, around.state, options.starts, options.seed)
    )
    dtype = np.asarray(model.mass).dtype

    def trials(cells: np.ndarray, forces: np.ndarray) -> Trial:
        *index, duration, direction, start = np.unravel_index(cells, options.shape)
        values = options.values_at(tuple(index))
        return Trial(
            start=jax.tree.map(lambda x: x[start], starts),
            force=forces.astype(dtype),
            direction=np.deg2rad(options.directions_deg)[direction].astype(dtype),
            duration=np.asarray(options.durations, dtype)[duration],
            numbers={paths[name]: value.astype(dtype) for name, value in values.items()},
        )

    def survive(cells: np.ndarray, forces: np.ndarray):
        parts = []
        pieces = range(0, len(cells), width)
        for first in tqdm(pieces, unit="batch", leave=False, disable=not progress):
            part = slice(first, first + width)
            parts.append(run(trials(cells[part], forces[part])))
        stood, finite, _, unsolved, residual = (np.concatenate(x) for x in zip(*parts))
        return stood, finite, unsolved, residual

    return survive
