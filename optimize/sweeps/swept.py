"""Checked request for a sweep: its problem, the members of a design, the measures; and its run."""

import contextlib
import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from jaxsim.fused.fuse import BACKENDS
from jaxsim.ranges import within
from jaxsim.simulation.checks import check_kind
from jaxsim.tree_paths import leaves_by_path, resolve
from optimize.interrupts import defer_interrupts
from optimize.problems.problem import Problem
from optimize.running.cluster import Workers, each
from optimize.running.objectives import Objective
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario
from optimize.sweeps import store
from optimize.sweeps.design import CHUNK, Design, Values
from optimize.sweeps.edge import Edge, Edges, measure_name, with_unsolved
from optimize.sweeps.measures import Columns, Measures, available, columns
from optimize.sweeps.quantities import check_bounds, overlap, quantity

FORBIDDEN = re.compile(r'[<>:"/\\|?*]+')  # in a name that is a file's too


@dataclass(frozen=True)
class Request:
    """Arguments of ``optimize.sweep`` that define what is simulated; see there."""

    what: Any
    values: Values
    measures: Measures | None = None
    starts: int | None = None
    sample: str | None = None
    count: int | None = None
    seed: int = 0
    seconds: float | None = None
    set: Mapping[str, Any] | None = None
    backend: str | None = None
    chunk: int = CHUNK
    edge: Edge | None = None
    noted: Mapping[str, Any] = field(default_factory=dict)  # by who asks, in config.json too


@dataclass(frozen=True)
class Sweep:
    """Checked sweep: problem, design, and its measures or the edge of a number."""

    problem: Problem
    design: Design
    columns: Columns
    edge: Edge | None = None

    def __post_init__(self):
        self._check_paths()
        for name, path in self.paths.items():
            check_bounds(self.problem, name, path, self.design.all_of(name))
        if self.edge is not None:
            check_bounds(self.problem, self.edge.number, self.edge_path, self.edge.grid)
        taken = [*self.units, store.START, store.SAMPLE, store.FAILED]
        for name, dim in self.dims.items():
            if dim in taken:
                raise ValueError(
                    f"{name} is the name of a measure or an axis too; name the number by its path,"
                    f" {self.paths[name]}"
                )

    @cached_property
    def paths(self) -> dict[str, str]:
        """Paths by name. Raises KeyError for an unknown name, with the nearest."""
        return {name: self.problem.scenario.path(name) for name in self.design.values}

    @cached_property
    def dims(self) -> dict[str, str]:
        """Names of the numbers in the result."""
        return {name: FORBIDDEN.sub("-", name.replace(": ", " ")) for name in self.design.values}

    @cached_property
    def edge_path(self) -> str:
        """Path of the edge's number."""
        assert self.edge is not None
        return self.problem.scenario.path(self.edge.number)

    @cached_property
    def units(self) -> dict[str, str]:
        """Units by measure."""
        if self.edge is None:
            return self.columns.units
        unit, edge, own = quantity(self.problem.scenario, self.edge_path).unit, self.edge, {}
        for name in map(measure_name, (*edge.total, *edge.largest)):
            own[name] = self.columns.units[name]
        return {**dict.fromkeys(edge.found, "1"), "edge": unit, **own}

    @cached_property
    def outcomes(self) -> Callable[[Mapping[str, np.ndarray]], Any]:
        """Function that simulates the points of a box: ``Problem.outcomes_at``, or ``Edges``."""
        if self.edge is None:
            return self.problem.outcomes_at
        return Edges(self.problem, self.columns, self.edge_path, self.edge)

    def _check_paths(self) -> None:
        scenario, seen = self.problem.scenario, {}
        leaves = leaves_by_path(scenario.tree)
        ended = {} if self.edge is None else {self.edge.number: self.edge_path}
        for name, path in (*self.paths.items(), *ended.items()):
            entry = resolve(path, leaves)
            if entry.leaf == "scheme.dt":
                raise ValueError(
                    "scheme.dt decides how many steps the program has; sweep once for each time"
                    " step, with --set scheme.dt=... (set=)"
                )
            if not jnp.issubdtype(jnp.result_type(leaves[entry.leaf]), jnp.floating):
                raise ValueError(f"{name}: {entry.leaf} holds no floating-point numbers")
            given = np.zeros(1) if name in ended else self.design.all_of(name)
            width = given.shape[-1]
            if given.ndim == 2 and width != len(entry.flat):
                raise ValueError(
                    f"{name} has {len(entry.flat)} numbers, its values are {width} wide"
                )
            for other, theirs in seen.items():
                if overlap(entry, theirs):
                    raise ValueError(f"{name} and {other} share a number; vary it once")
            seen[name] = entry
        shared = {*self.paths.values(), *ended.values()} & set(self.problem.varied())
        if shared:
            raise ValueError(f"{', '.join(shared)}: the problem's variants set it already")

    @cached_property
    def layout(self) -> store.SweepLayout:
        """Layout of the result."""
        design, scenario = self.design, self.problem.scenario
        sampled = [store.SAMPLE] if design.drawn else []
        dims = (*(self.dims[n] for n in design.gridded), *sampled, store.START)
        coords: dict[str, Any] = {}
        for name, path in self.paths.items():
            attrs = {"path": path, "long_name": name}
            unit = quantity(scenario, path).unit
            attrs |= {"units": unit} if unit else {}
            values, dim = design.all_of(name), self.dims[name]
            if values.ndim == 2:  # its numbers go by their place in the list
                coords[f"{dim} values"] = ((dim, f"{dim} number"), values, attrs)
                values = np.arange(len(values))
            coords[dim] = ((store.SAMPLE if name in design.drawn else dim,), values, attrs)
        if sampled:
            coords[store.SAMPLE] = ((store.SAMPLE,), np.arange(design.shape[-1]), {})
        coords[store.START] = ((store.START,), np.arange(design.starts), {})
        return store.SweepLayout(
            dims,
            (*design.shape, design.starts),
            (*design.box, design.starts),
            coords,
            self.units,
            {
                "scenario": scenario.name,
                "seconds": self.problem.steps * float(scenario.scheme.dt),
                "dt": float(scenario.scheme.dt),
                "precision": scenario.model.mass.dtype.name,
                "sample": design.sample or "",
                "seed": design.seed,
            },
        )

    def run(
        self,
        arrays: Mapping[str, Any],
        done: int,
        keep: Callable[[int], None],
        progress: bool,
        pool: Workers | None = None,
    ) -> None:
        """Simulate the boxes after the first ``done`` into arrays; keep(boxes) after each."""
        design = self.design
        width = int(np.prod(design.box))
        regions = list(enumerate(design.regions()))[done:]
        total = design.members
        sizes = [int(np.prod([p.stop - p.start for p in r])) * design.starts for _, r in regions]
        options: dict[str, Any] = dict(
            total=total, initial=total - sum(sizes), unit="member", desc="sweep"
        )
        calls = ((self.numbers(region, width),) for _, region in regions)
        with (
            contextlib.closing(each(pool, self.outcomes, calls)) as found,
            defer_interrupts() as check,
            tqdm(**options, disable=not progress) as bar,
        ):
            for (number, region), size, outcomes in zip(regions, sizes, found):
                for name, values in self.computed(region, *outcomes).items():
                    arrays[name][(*region, slice(None))] = values
                keep(number + 1)
                bar.update(size)
                check()

    def numbers(self, region: tuple[slice, ...], width: int) -> dict[str, np.ndarray]:
        """Values by path of the points of a box.

        A box is filled up with its first point; for edges one program serves any number of points.
        """
        held = self.design.at(region)
        size = len(next(iter(held.values())))
        index = np.arange(width if self.edge is None else size)
        index[size:] = 0
        return {self.paths[name]: values[index] for name, values in held.items()}

    def computed(
        self, region: tuple[slice, ...], parts: Mapping[str, np.ndarray], good: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Columns of a box from its outcomes."""
        found = dict(parts)
        if self.edge is None:
            found, sound = self.columns.of(parts), self.columns.sound(parts, good)
            found = {
                name: np.where(sound[name] & np.isfinite(x), x, np.nan) for name, x in found.items()
            }
        shape = (*(part.stop - part.start for part in region), self.design.starts)
        size = math.prod(shape[:-1])
        out = {name: x[:size].reshape(shape) for name, x in found.items()}
        return {**out, store.FAILED: ~good[:size].reshape(shape)}


def make(request: Request) -> Sweep:
    """Create the sweep of a request. Raises as ``optimize.sweep`` does."""
    what, seconds, backend = request.what, request.seconds, request.backend
    check_kind("what", what, Problem, Scenario, str, os.PathLike, how=": a name or a file")
    if backend not in (None, *BACKENDS):
        raise ValueError(f"backend {backend!r}: there are {', '.join(BACKENDS)}")
    if seconds is not None:
        within("seconds", seconds)
    if isinstance(what, Problem):
        problem = what
        if request.set:
            raise ValueError("set changes a scenario; a Problem has its own: change that")
    else:
        found = find_scenario(what, request.set)
        problem = Problem(found, None, Objective("sweep", found.seconds, {}), seed=request.seed)
    changes = {"trials": request.starts, "seconds": seconds, "backend": backend}
    given: dict[str, Any] = {k: v for k, v in changes.items() if v is not None}
    problem = dataclasses.replace(problem, **given)
    drawn = request.sample, request.count, request.seed
    design = Design(request.values, *drawn, problem.trials, request.chunk)
    measures, edge = request.measures, request.edge
    if edge is not None:
        edge = with_unsolved(edge, available(problem.scenario))
        if measures is not None:
            raise ValueError("an edge is of what holds (Edge(holds=...)); leave the measures out")
        measures = edge.measures
    folded = columns(problem, measures)
    length = problem.objective.seconds if problem.seconds is None else problem.seconds
    problem = dataclasses.replace(problem, objective=folded.objective, seconds=length)
    return Sweep(problem, design, folded, edge)
