"""Push map: the largest push that is survived, by direction, duration and start.

    push_map(MapOptions(set={"character.build": "child"}), out="runs/child", progress=True)

It is a sweep over durations and directions whose edge is the force (``optimize.sweeps``);
``optimize.studies.push_options`` describes the options, ``optimize.problems.survival`` the
survival.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxsim.io.files import try_folder
from jaxsim.model.roles import FEET
from jaxsim.simulation.pushes import push
from optimize.interrupts import defer_interrupts, note_interrupts
from optimize.problems.problem import WIDEST, Problem
from optimize.results.folder import RESTORE, RunFolder
from optimize.results.lock import lock_folder
from optimize.running.objectives import Objective
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.studies.push_options import MapOptions, PushMap
from optimize.studies.push_report import write_report
from optimize.sweeps.bisection import UNTRIED
from optimize.sweeps.edge import Edge
from optimize.sweeps.sweep import run_request
from optimize.sweeps.swept import Request

if TYPE_CHECKING:
    from xarray import Dataset

PUSHED_AT = 0.5  # [s], until which a start has settled
FORCE, DURATION, DIRECTION = "forces.force[0,0]", "forces.duration", "forces.direction"
UNSOLVED, RESIDUAL = "unsolved_while_standing", "residual_while_standing"


@note_interrupts()
def push_map(
    options: MapOptions | None = None,
    out: str | os.PathLike | None = None,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = False,
    command: list[str] | None = None,
    cluster: Any = None,
) -> PushMap:
    """Compute a push map; with ``out`` also a folder with its sweep, table, CSV, arrays and plot.

    Chunks, ``resume`` (``options`` must be None: the folder has its own), ``accept_changes``,
    ``cluster`` and Ctrl-C are those of ``optimize.sweep``, and so are the errors. Raises ValueError
    for options that cannot be, and for a folder with no map that can be gone on with.
    """
    if resume:
        options = _kept(out, options)
    elif out is not None:
        try_folder(out)
    options = options or MapOptions()
    request = map_request(options)
    table = run_request(
        request,
        out,
        resume=resume,
        accept_changes=accept_changes,
        progress=progress,
        command=command,
        cluster=cluster,
    )
    with defer_interrupts():
        result = map_of(options, table)
        result = replace(result, settings=request.what.scenario.scheme.settings_text)
        return result if out is None else write_report(RunFolder.open(out), result)


def map_request(options: MapOptions) -> Request:
    """Request for the sweep of a push map."""
    problem = map_problem(options)
    values = {
        **(options.vary or {}),
        DURATION: options.durations,
        DIRECTION: np.deg2rad(options.directions_deg),
    }
    edge = Edge(
        FORCE,
        0.0,
        options.top * options.resolution,
        parts=options.top,
        holds="survived",
        checks=options.checks,
    )
    own: dict[str, Any] = {"seed": options.seed, "chunk": options.chunk, "edge": edge}
    return Request(problem, values, **own, noted={"push_map": asdict(options)})


def map_problem(options: MapOptions) -> Problem:
    """Problem of a push map: pushed starts, simulated long enough to see which fall."""
    cells = min(options.chunk, int(np.prod(options.shape)))
    seconds = PUSHED_AT + max(options.durations) + options.seconds
    return Problem(
        map_scenario(options),
        None,
        Objective("push map", seconds, {}),
        trials=options.starts,
        backend=options.backend,
        chunk=min(WIDEST, -(-cells // jax.device_count())),
        seed=options.seed,
    )


def map_scenario(options: MapOptions) -> Scenario:
    """Scenario of a push map with one push, forward, at the centre of mass of the link."""
    made = scenario(options.scenario, options.set)
    made.model.topology.require("a push map", *FEET)
    if made.model.topology.planar and options.directions > 2:
        raise ValueError("a planar character is pushed forward and backward: 2 directions at most")
    one = push(made.model, options.link, (0.0, 0.0, 0.0), PUSHED_AT, options.durations[0])
    made = replace(made, forces=one)
    made = replace(made, scheme=made.scheme.for_search())
    return set_numbers(made, options.numbers)


def set_numbers(scenario: Scenario, numbers: Mapping[str, Any] | None) -> Scenario:
    """Copy of a scenario with numbers by label or path.

    Raises KeyError for an unknown name, ValueError for values that are no numbers.
    """
    for name, value in (numbers or {}).items():
        try:
            given = np.asarray(value, float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {value!r} is no number: {error}") from None
        if not np.isfinite(given).all():
            raise ValueError(f"{name}: {value!r} is not finite")
        scenario = scenario.set(name, given)
    return scenario


def map_of(options: MapOptions, table: "Dataset") -> PushMap:
    """Convert the table of its sweep to a push map."""

    def found(name: str) -> np.ndarray:
        return np.asarray(table[name]) if name in table else np.zeros(options.shape)

    before = [found(f"before_{k + 1}") for k in range(options.checks)]
    below = np.reshape(before, (options.checks, *options.shape))
    edge = found("edge")
    return PushMap(
        options,
        tolerated=np.where(edge < 0, np.nan, edge),
        below=np.nan_to_num(below, nan=UNTRIED).astype(int),
        failed=found("not_finite").astype(int),
        unsolved=np.nan_to_num(found(UNSOLVED)).astype(int),
        residual=np.nan_to_num(found(RESIDUAL)),
    )


def _kept(out: str | os.PathLike | None, options: MapOptions | None) -> MapOptions:
    """Options of the push map in a folder."""
    if out is None or options is not None:
        raise ValueError("to resume, name the folder of the run, and no options: it has its own")
    folder = RunFolder.open(out)
    with lock_folder(folder):
        config = folder.read_config()
    saved: Any = config.get("push_map")
    if saved is None:
        raise ValueError(f"{folder.path} holds another kind of run, no push map")
    if "sweep" not in config:
        raise ValueError(
            f"{folder.path} holds a push map of an earlier version, which this one cannot go on"
            " with; begin it anew in another folder"
        )
    try:
        durations = tuple(map(float, saved["durations"]))
        vary = saved.get("vary")
        if vary is not None:
            vary = {name: tuple(map(float, values)) for name, values in vary.items()}
        return MapOptions(**{**saved, "durations": durations, "vary": vary})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{folder / RunFolder.CONFIG} holds options that no run writes ({error}); {RESTORE}"
        ) from error
