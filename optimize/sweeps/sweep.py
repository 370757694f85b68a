"""Sweep: measures of all members of a design, simulated chunk by chunk by one program.

table = sweep("sit_to_stand", {"model.friction": [0.4, 0.8]}, starts=8)
table["standing"].mean("start")
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim.io.files import try_folder
from optimize.interrupts import note_interrupts
from optimize.problems.problem import Problem
from optimize.results.digest import accept, changes_since, digest
from optimize.results.folder import RESTORE, RunFolder, command_line
from optimize.results.lock import lock_folder
from optimize.running.cluster import Workers, workers
from optimize.scenarios.scenario import Scenario
from optimize.sweeps import store
from optimize.sweeps.design import CHUNK, Values, design_of_json
from optimize.sweeps.edge import Edge
from optimize.sweeps.measures import Measures, sources
from optimize.sweeps.swept import Request, Sweep, make

if TYPE_CHECKING:
    from xarray import Dataset


@note_interrupts()
def sweep(
    what: Problem | Scenario | str | os.PathLike | None,
    values: Values | None = None,
    *,
    measures: Measures | None = None,
    starts: int | None = None,
    sample: str | None = None,
    count: int | None = None,
    seed: int = 0,
    seconds: float | None = None,
    set: Mapping[str, Any] | None = None,
    backend: str | None = None,
    out: str | os.PathLike | None = None,
    chunk: int = CHUNK,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = False,
    command: list[str] | None = None,
    cluster: Any = None,
    edge: Edge | None = None,
) -> "Dataset":
    """Sweep measures over all combinations of values, and over samples of distributions.

    what: a Problem, whose objective and trials count; a Scenario, or a name or file of one (then
    ``set`` changes it, see ``optimize.scenarios.find``). values: label or path -> values (k,), one
    for all numbers of the path, or (k, m) for its m numbers, or ``Uniform``, ``LogUniform``,
    ``Normal``. sample: how these are sampled, ``count`` times: "random", "sobol", or "saltelli" for
    ``sobol_indices``. measures: names of terms, objectives, or numbers of the summary, or
    "my_file.py:name" (see ``optimize.sweeps.measures``); or name -> Measure or Term. starts:
    slightly different ones for each member (1, or the problem's trials).
    seconds: of a motion (the scenario's, or the problem's).

    edge: in place of measures, the last value of a further number at which something holds, found
    by bisection for each member: measures "edge", "holes", "beyond" and more (see ``Edges``).

    Returns an xarray.Dataset: an axis for each number with values, "sample" for those sampled, and
    "start"; "failed" (bool) for members whose motion diverged, whose measures are NaN. Without
    ``out`` it is in memory. With it, it is saved in that folder as Zarr, chunk by chunk, and opened
    from there; ``resume`` goes on where a run ended, to the same bytes (what=None: with what the
    folder says). chunk: members that are in memory at a time; a point's starts stay together.

    cluster: where chunks are simulated, see ``optimize.running.cluster.workers``: a number of
    processes, a scheduler's address or Client of Dask, "slurm:8". The chunks of one that is lost on
    the way are done again by the others. The result is the same to the last bit where the kind
    of processor is.

    Ctrl-C ends it after a chunk, as KeyboardInterrupt. Raises, before anything is written, KeyError
    for unknown paths and measures, ValueError for invalid values and for a result that does not fit
    on the disk, RunChanged for a resumed run that began with something else, FileExistsError for a
    folder that holds something, ImportError without xarray or zarr.

    >>> table = sweep("walk", {"model.friction": [0.4, 0.8]}, seconds=0.01)
    >>> table["distance"].dims, bool(table["failed"].any())
    (('model.friction', 'start'), False)
    """
    if values is None and not resume:
        raise ValueError("a sweep needs a scenario or problem, and the values of some numbers")
    request = Request(
        what,
        values or {},
        measures,
        starts,
        sample,
        count,
        seed,
        seconds,
        set,
        backend,
        chunk,
        edge,
    )
    return run_request(
        request,
        out,
        resume=resume,
        accept_changes=accept_changes,
        progress=progress,
        command=command,
        cluster=cluster,
    )


def run_request(
    request: Request,
    out: str | os.PathLike | None = None,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = False,
    command: list[str] | None = None,
    cluster: Any = None,
) -> "Dataset":
    """Run the sweep of a request, see ``sweep``."""
    store.need_xarray()
    if resume:
        return _resumed(out, request, accept_changes, progress, cluster)
    swept = make(request)
    store.check_room(swept.layout, out)
    with workers(cluster) as pool:
        if out is None:
            arrays = store.in_memory(swept.layout)
            swept.run(arrays, 0, lambda boxes: None, progress, pool)
            return store.dataset_of(swept.layout, arrays)
        store.need_zarr()
        try_folder(out)
        with lock_folder(out):
            config = _config(swept, request, command)
            folder = RunFolder.create(out, config, digest=_digest(config, swept))
            store.create_store(folder, swept.layout)
            return _go_on(folder, swept, 0, progress, pool)


def _resumed(
    out: Any, request: Request, accept_changes: bool, progress: bool, cluster: Any
) -> "Dataset":
    if out is None:
        raise ValueError("to resume, name the folder of the run (out=)")
    folder = RunFolder.open(out)
    with lock_folder(folder), contextlib.ExitStack() as stack:
        if not request.values:
            kept, own = kept_request(folder, request.what), request.measures
            request = kept if own is None else replace(kept, measures=own)
        swept = make(request)
        now = _digest(_config(swept, request, []), swept)
        changed = changes_since(folder, now, accept_changes)
        store.need_zarr()
        done = store.read_progress(folder, int(np.prod(swept.design.boxes)))
        pool = stack.enter_context(workers(cluster))
        accept(folder, now, changed, at=done or 0)
        if done is None:  # it ended before there was a store
            store.check_room(swept.layout, out)
            store.create_store(folder, swept.layout)
        return _go_on(folder, swept, done or 0, progress, pool)


def _go_on(
    folder: RunFolder, swept: Sweep, done: int, progress: bool, pool: Workers | None
) -> "Dataset":
    arrays = store.open_arrays(folder)
    swept.run(arrays, done, lambda boxes: store.write_progress(folder, boxes), progress, pool)
    return store.open_store(folder)


def _config(swept: Sweep, request: Request, command: list[str] | None) -> dict[str, Any]:
    problem, what = swept.problem, request.what
    return {
        "sweep": swept.design.as_json(),
        "measures": None if request.measures is None else list(request.measures),
        "edge": None if request.edge is None else request.edge.as_json(),
        "measured by": sources(request.measures if request.edge is None else request.edge.measures),
        "units": dict(swept.units),
        "weights": {
            name: dict(judged.weights) for name, (judged, _) in swept.columns.totals.items()
        },
        # A Problem or a Scenario of Python cannot be made again from the folder alone.
        "scenario": os.fspath(what) if isinstance(what, (str, os.PathLike)) else None,
        "set": dict(request.set or {}),
        "seed": problem.seed,
        "dt": float(problem.scenario.scheme.dt),
        "seconds": problem.seconds,
        "backend": problem.backend,
        "precision": problem.scenario.model.mass.dtype.name,
        "command": command_line() if command is None else command,
        **request.noted,
    }


def _digest(config: Mapping[str, Any], swept: Sweep) -> dict[str, Any]:
    scenario = swept.problem.scenario
    arrays = {part: x for part, x in scenario.tree.items() if part != "model"}
    script = scenario.files.get("script.scl")
    return digest(config, script, scenario.model, {**arrays, "starts": swept.problem.starts()})


# ---- what is in a folder


def open_sweep(folder: str | os.PathLike) -> "Dataset":
    """Open the result in a folder, as far as it is complete; large ones are read lazily.

    Raises FileNotFoundError where there is none, ValueError where it is damaged.
    """
    found = RunFolder.open(folder)
    _kept(found)
    return store.open_store(found)


def kept_request(folder: RunFolder, what: Any = None) -> Request:
    """Request of the sweep in a folder.

    what: the Problem or Scenario that it was of, where that was made in Python. Raises ValueError
    where it is needed, and where the options are damaged.
    """
    config = _kept(folder)
    try:
        what = config["scenario"] if what is None else what
        design = design_of_json(config["sweep"])
        drawn = design.starts, design.sample, design.count, design.seed, config["seconds"]
        rest = config["set"], config["backend"], design.chunk
        edge = Edge(**config["edge"]) if config.get("edge") else None
        request = Request(what, design.values, config["measures"], *drawn, *rest, edge)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{folder / RunFolder.CONFIG} holds options that no run writes ({error}); {RESTORE}"
        ) from error
    if what is None:
        raise ValueError(
            f"{folder.path} holds a sweep of a problem or scenario that was made in Python; give"
            " it again (what=)"
        )
    return request


def kept_sweep(folder: RunFolder, what: Any = None) -> Sweep:
    """Sweep of a folder, rebuilt without its measures; see ``kept_request``."""
    return make(replace(kept_request(folder, what), measures=None))


def _kept(folder: RunFolder) -> dict[str, Any]:
    config = folder.read_config()
    if "sweep" not in config:
        raise ValueError(f"{folder.path} holds another kind of run, no sweep")
    return config
