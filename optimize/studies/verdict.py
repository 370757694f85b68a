"""Verdict of a motion: success rates over time steps, back ends, precisions and schemes.

Each column of the table simulates the same starts: the joints with small random deviations, those
of tuning and of maps, the friction of all shapes sampled too. A motion succeeds whose head stays
above standing height through its last seconds. The motion is cut into parts of ``PART`` steps, so
that one program for each back end, precision and scheme serves every time step and length.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import above_standing
from jaxsim.fused import fuse
from jaxsim.model import State
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.rollout import SimulationCarry, begin, take_steps
from jaxsim.tree_paths import read, write
from optimize.problems.starts import ANGLE, RATE, sample_values, spread_text, start_states
from optimize.results.intervals import wilson
from optimize.running.batch import batched
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario

PART = 1000  # steps
WIDTH = 25  # motions that XLA computes together
# Of the event-driven scheme: an interval [s], and how many contacts it solves for; its kernels and
# their compiling grow with the square of them.
EVENT_KEYS = {"world.dt": 0.001, "world.contacts": 12}


@dataclass(frozen=True)
class VerdictOptions:
    """Options of a verdict.

    starts: of which the first has no deviations; angle, rate: of the joints of the others
    [rad], [rad/s]; friction: from, to, the same for all shapes, or () for the scenario's own; dts:
    time steps [s]; seconds: of a motion; still: at its end, in which it stands throughout [s];
    wanted: required share of the starts; seed: of all random numbers.
    """

    starts: int = 100
    angle: float = ANGLE
    rate: float = RATE
    friction: tuple[float, ...] = (0.5, 0.8)
    dts: tuple[float, ...] = (0.00025, 0.0005, 0.001)
    seconds: float = 8.0
    still: float = 3.0
    wanted: float = 0.95
    seed: int = 900_000

    def __post_init__(self):
        if len(self.friction) not in (0, 2) or list(self.friction) != sorted(self.friction):
            raise ValueError(f"friction {self.friction}: give the least and the most, as 0.5,0.8")
        if not 0 < self.still <= self.seconds:
            raise ValueError(f"still is {self.still} s of {self.seconds} s; give less than all")
        if not self.dts or not all(0 < dt <= self.seconds for dt in self.dts):
            raise ValueError(f"dts {self.dts}: give time steps above 0, up to the length [s]")


@dataclass(frozen=True)
class Column:
    """One way to compute the motions, and which starts stood, (starts,) bool."""

    scheme: str
    backend: str
    precision: str
    dt: float
    stood: np.ndarray

    @property
    def ok(self) -> int:
        """Number of starts that stood."""
        return int(self.stood.sum())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the success rate, 95 % (Wilson)."""
        return wilson(self.ok, len(self.stood))

    @property
    def name(self) -> str:
        """Label in the report."""
        return f"{self.scheme}, {self.backend}, {self.precision}, {1000 * self.dt:g} ms"


@dataclass(frozen=True)
class Verdict:
    """Verdict of a scenario: a column for each way to compute it."""

    scenario: str
    options: VerdictOptions
    columns: list[Column] = field(default_factory=list)

    @property
    def starts(self) -> str:
        """Description of the starts in words."""
        settings = self.options
        friction = "friction as it is"
        if settings.friction:
            friction = f"friction {settings.friction[0]:g} to {settings.friction[-1]:g}"
        spread = spread_text(settings.angle, settings.rate)
        return f"{settings.starts} starts (seed {settings.seed}): {spread}; {friction}"

    @property
    def failing(self) -> list[Column]:
        """Columns whose success rate is lower than required."""
        least = self.options.wanted * self.options.starts
        return [column for column in self.columns if column.ok < least]


def verdict(
    name: str,
    options: VerdictOptions | None = None,
    set: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda text: None,
    backend: str | None = None,
    precision: str | None = None,
    scheme: str | None = None,
) -> Verdict:
    """Evaluate a scenario by name or file, with keys or numbers of it changed.

    backend, precision, scheme: only these columns. A scenario without time stepping is evaluated
    with its own scheme and time step. Raises ValueError (ModelError among them) for a character
    without a head, an invalid scenario, or a choice that leaves no column.
    """
    settings = options or VerdictOptions()
    only = scheme, backend, precision
    ways = [way for way in _ways(name, set) if all(a in (None, b) for a, b in zip(only, way))]
    if not ways:
        known = "; ".join(", ".join(way) for way in _ways(name, set))
        raise ValueError(f"{name}: there is no such way to compute it; there are: {known}")
    columns = []
    for own, by, wide in ways:
        with jax.enable_x64(wide == "float64"):
            base = _made(name, set, own)
            dts = settings.dts if own == "time_stepping" else (float(base.scheme.dt),)
            run = _program(base, settings, by)
            for dt in dts:
                columns.append(Column(own, by, wide, dt, run(dt)))
                told = f"{columns[-1].ok} of {settings.starts} stand"
                progress(f"{name}: {columns[-1].name}: {told}")
    return Verdict(name, settings, columns)


def _ways(name: str, set: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Ways to compute a scenario: scheme, back end, precision."""
    own = scenario(name, set).scheme
    precisions, backends = ("float64", "float32"), ("fused", "xla")
    if own.takes_tasks:
        return [("per_step_optimisation", b, p) for b in backends for p in precisions]
    stepped = [("time_stepping", b, p) for b in backends for p in precisions]
    return [*stepped, ("event_driven", "fused", "float64")]


def _made(name: str, set: Mapping[str, Any] | None, scheme: str) -> Scenario:
    keys = dict(set or {})
    if scheme == "per_step_optimisation":
        return scenario(name, keys)
    keys |= {"world.scheme": scheme}
    if scheme == "event_driven":
        keys = EVENT_KEYS | keys
    return scenario(name, keys)


def _drawn(base: Scenario, settings: VerdictOptions) -> tuple[State, Any]:
    """Sampled starts and frictions, the same in all columns but for their precision."""
    dtype = base.model.mass.dtype
    with jax.enable_x64(True):
        model, state = jax.tree.map(
            lambda x: np.asarray(x, float) if np.asarray(x).dtype.kind == "f" else x,
            (base.model, base.state),
        )
        starts = start_states(
            model, state, settings.starts, settings.seed, (settings.angle, settings.rate)
        )
    starts = jax.tree.map(lambda x, own: np.asarray(x, own.dtype), starts, base.state)
    friction = np.asarray(read(base.tree, "model.friction"))
    if not settings.friction:
        return starts, np.repeat(friction[None], settings.starts, axis=0).astype(dtype)
    bounds, random = (
        (settings.friction[0], settings.friction[-1]),
        np.random.default_rng(settings.seed),
    )
    drawn = sample_values(bounds, settings.starts, friction.shape, random)
    return starts, drawn.astype(dtype)


def _program(
    base: Scenario, settings: VerdictOptions, backend: str
) -> Callable[[float], np.ndarray]:
    """Program ``run(dt)`` -> which starts stand."""
    dtype = base.model.mass.dtype
    above = above_standing(base.model)

    def own(friction: Array, shared) -> Scenario:
        dt, _, controller = shared
        tree = write({**base.tree, "controller": controller}, "model.friction", friction)
        return base.with_tree(write(tree, "scheme.dt", dt))

    def first(member, shared):
        start, friction = member
        its = own(friction, shared)
        return begin(its.model, its.controller, its.scheme, start), jnp.asarray(jnp.inf, dtype)

    def part(member, shared):
        """Simulate ``PART`` steps; the fold is the lowest head height in the last seconds."""
        (_, friction), ((state, memory), low) = member
        its = own(friction, shared)

        def lowest(low: Array, sample: Sample) -> Array:
            high = above(sample.obs.kin.com)
            high = jnp.where(jnp.isnan(high), -jnp.inf, high)
            return jnp.where(sample.state.time >= shared[1], jnp.minimum(low, high), low)

        measures = {"low": Measure(jnp.inf, lowest)}
        start = SimulationCarry(state, memory, {"low": low})
        end = take_steps(its.model, its.controller, its.scheme, start, PART, measures, its.forces)
        return (end.state, end.memory), end.folded["low"]

    start_all = batched(first, WIDTH)
    if backend == "fused":
        parts = fuse(part, in_axes=(0, None))
    else:
        parts = batched(part, WIDTH)
    members = _drawn(base, settings)

    def run(dt: float) -> np.ndarray:
        since = np.asarray(settings.seconds - settings.still, dtype)
        shared = np.asarray(dt, dtype), since, base.controller
        now = start_all(members, shared)
        for _ in range(-(-round(settings.seconds / dt) // PART)):
            now = parts((members, now), shared)
        return np.asarray(now[1]) >= 0

    return run
