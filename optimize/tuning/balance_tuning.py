"""Tuning of the balance controller: the weights of its goals and the numbers of its steps.

    tune_balance(TuningOptions(method="cma"), out="runs/tuned", progress=True)

Two ways. "cma": CMA-ES on a smooth stand-in for the smallest push of the map, which changes in
steps and costs a bisection: the mean part of the time that the character stands, over a fixed
batch of pushes about as strong as the map's. "gradient": see ``optimize.tuning.balance_gradient``.

The document's weights stay the default; what is found here goes into a file that ``jaxsim pushmap
--weights`` takes, and only such a map, with other starts, says what was gained.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import Gait, balance_machine
from controllers.goals.machine import GoalMachine
from jaxsim.fused.fuse import BACKENDS
from jaxsim.io.files import try_folder
from jaxsim.synthesis.config import SynthesisConfig
from optimize.interrupts import noting
from optimize.problems.evaluation import Evaluation
from optimize.results.digest import Digest, accept, accepted, changes_since, digest
from optimize.results.folder import RunFolder, command_line
from optimize.results.lock import locked
from optimize.scenarios.synthesis_scenes import SynthesisScene, changed, find_scene
from optimize.scenarios.synthesis_setting import set_up
from optimize.studies.push_map import CONFIG, kept_options
from optimize.studies.push_survival import PUSHED_AT, Trial, start_states, survival
from optimize.tuning.checkpoint import has_begun, next_generation
from optimize.tuning.evolution import evolve, settings_of

METHODS = ("cma", "gradient")
PARTS = ("weights", "gait")
DURATION = 0.2  # of each push [s]
AFTER = 4.0  # that it should stand after the push [s]: of who falls, many do after two
DIRECTIONS = 8
TUNED_ON = 1000  # the first seed of starts: a map of the same seed has others
OFFSET = 0.1  # what one means for a number that is not positive


@dataclass(frozen=True)
class TuningOptions:
    """How to tune. Raises ValueError for what there is not or cannot be."""

    method: str = "cma"
    generations: int = 10  # or steps of the gradient
    population: int = 8
    pushes: int = 16  # that a member is judged by
    forces: tuple[float, ...] = (450.0, 650.0)  # of them, in turn; about as many are survived [N]
    sigma: float = 0.15  # first step size, and that of the gradient: of logarithms
    seed: int = 0
    only: str | None = None  # one of PARTS instead of both
    build: str | None = None  # who is pushed, and on what ground: those of the scene "push"
    friction: float | None = None
    torque_limits: bool | None = None  # whether joints keep to theirs
    backend: str | None = None  # "fused" or "xla"; the faster one; the gradient: "xla"

    def __post_init__(self):
        if self.only not in (None, *PARTS):
            raise ValueError(f"only {self.only!r}: there are {', '.join(PARTS)}")
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r}: there are {', '.join(METHODS)}")
        backends = (None, "xla") if self.method == "gradient" else (None, *BACKENDS)
        if self.backend not in backends:
            raise ValueError(
                f"backend {self.backend!r}: {self.method} takes {' or '.join(backends[1:])}"
            )
        if self.generations < 1 or self.pushes < 1:
            raise ValueError("at least one generation and one push are needed")
        if not self.forces or not all(0 < force < np.inf for force in self.forces):
            raise ValueError(f"forces {self.forces}: give at least one, each more than zero [N]")

    def changed_scene(self) -> SynthesisScene:
        """What the pushes happen in. ValueError for what cannot be."""
        own = {name: getattr(self, name) for name in ("build", "friction", "torque_limits")}
        return changed(find_scene("push"), **own)

    @property
    def config(self) -> SynthesisConfig:
        """Of the steps."""
        return replace(CONFIG, torque_limits=self.changed_scene().torque_limits)


class Numbers(NamedTuple):
    """What is tuned, as a vector x (n,) of logarithms of factors; zero is the controller as it is.

    A number that is not positive gets ``OFFSET`` x added.
    """

    names: tuple[str, ...]
    places: np.ndarray  # (n,) among all weights that are not zero, then the gait
    weights: np.ndarray  # (ns, ng)
    gait: Gait

    def control(self, x: Array | np.ndarray) -> tuple[Array, Gait]:
        """weights (ns, ng) and gait at x (n,)."""
        rows, columns = np.nonzero(self.weights)
        x = jnp.asarray(x)
        x = jnp.zeros(len(rows) + len(fields(Gait)), x.dtype).at[self.places].set(x)
        own = self.weights[rows, columns] * jnp.exp(x[: len(rows)])
        weights = jnp.zeros(self.weights.shape, x.dtype).at[rows, columns].set(own)
        moved = {}
        for field, by in zip(fields(Gait), x[len(rows) :]):
            own = getattr(self.gait, field.name)
            moved[field.name] = own * jnp.exp(by) if own > 0 else own + OFFSET * by
        return weights, Gait(**moved)


class Tuned(NamedTuple):
    x: np.ndarray
    report: str
    interrupted: bool


def tunable_numbers(machine: GoalMachine, only: str | None = None) -> Numbers:
    """Weights that are not zero, then the gait; or one of these ``PARTS``."""
    weights = np.asarray(machine.weights())
    goals = [goal.name for goal in machine.goals]
    names = [f"{machine.state_names[s]}.{goals[g]}" for s, g in np.argwhere(weights)]
    own = {"weights": names, "gait": [f"gait.{f.name}" for f in fields(Gait)]}
    part = np.repeat(PARTS, [len(own[p]) for p in PARTS])
    places = np.flatnonzero((part == only) | (only is None))
    every = [*own["weights"], *own["gait"]]
    return Numbers(tuple(every[k] for k in places), places, weights, machine.notes.gait)


def fixed_pushes(
    setting, numbers: Numbers, count: int, forces: tuple[float, ...], seed: int
) -> Callable[[np.ndarray], Trial]:
    """trials(x): for x (m, n) the same ``count`` pushes each, (m * count) in all: around the body,
    of ``forces`` [N] in turn, each from a start of its own."""
    starts = jax.tree.map(
        np.asarray, start_states(setting.model, setting.state, count, TUNED_ON + seed)
    )
    dtype = starts.q.dtype
    k = np.arange(count)
    direction = (2 * np.pi * (k % DIRECTIONS) / DIRECTIONS).astype(dtype)
    force = np.asarray(forces, dtype)[(k // DIRECTIONS) % len(forces)]
    controls = jax.jit(jax.vmap(numbers.control))

    def trials(x: np.ndarray) -> Trial:
        members = len(x)
        weights, gait = jax.tree.map(
            lambda a: np.repeat(np.asarray(a), count, axis=0), controls(jnp.asarray(x, dtype))
        )

        def every(a):
            return np.concatenate([a] * members)

        return Trial(
            start=jax.tree.map(every, starts),
            force=every(force),
            direction=every(direction),
            duration=np.full(members * count, DURATION, dtype),
            weights=weights,
            gait=gait,
        )

    return trials


def tune_balance(
    options: TuningOptions | None = None,
    out: str | os.PathLike = "tuned",
    *,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = False,
    command: list[str] | None = None,
) -> Tuned:
    """Tune in a folder: config, history, the state after each generation, best.json, report.txt.

    resume, accept_changes: go on with the run in the folder, with its own options. Raises as
    ``push_map.push_map`` does.
    """
    try_folder(out)
    with noting(), contextlib.ExitStack() as stack:
        folder = kept = None
        if resume:
            options, folder, kept = _resumed(out, options, accept_changes, stack)
        options = options or TuningOptions()
        setting = set_up(replace(options.changed_scene(), pushes=()), config=options.config)
        numbers = tunable_numbers(balance_machine(), options.only)
        if folder is None:
            stack.enter_context(locked(out))
            folder = _created(out, options, command)
        if kept is not None:
            settings = settings_of(**_search(numbers, options))
            accept(folder, *kept, next_generation(folder, settings))
        trials = fixed_pushes(setting, numbers, options.pushes, options.forces, options.seed)
        if options.method == "gradient":
            from optimize.tuning.balance_gradient import descend

            method = descend
        else:
            method = _evolved
        x, lines, interrupted = method(setting, numbers, trials, options, folder, resume, progress)
        report = "\n".join([*lines, "", *changes(numbers, x)])
        weights, gait = jax.tree.map(np.asarray, numbers.control(x))
        best: dict[str, Any] = {"weights": weights, "gait": asdict(gait), "x": x}
        folder.write_json(RunFolder.BEST, best)
        folder.write_text("report.txt", report + "\n")
        return Tuned(x, report, interrupted)


def changes(numbers: Numbers, x: np.ndarray) -> list[str]:
    """A table: each number before and after."""

    def flat(x):
        weights, gait = numbers.control(x)
        every = [*np.asarray(weights)[np.nonzero(numbers.weights)], *asdict(gait).values()]
        return [every[k] for k in numbers.places]

    rows = zip(numbers.names, flat(np.zeros_like(x)), flat(x))
    return [f"{name:<22} {before:10.4g} -> {after:10.4g}" for name, before, after in rows]


def _evolved(setting, numbers, trials, options: TuningOptions, folder, resume, progress):
    """Best x (n,), lines of the report, and whether it was interrupted."""
    members = options.population * options.pushes
    run, width = survival(setting, DURATION + AFTER, members, options.backend)

    def evaluate(x: np.ndarray) -> Evaluation:
        members, where = np.unique(x, axis=0, return_inverse=True)
        given, parts = trials(members), []
        for first in range(0, len(given.force), width):
            part = slice(first, first + width)
            parts.append(run(jax.tree.map(lambda a: a[part], given)))  # noqa: B023
        together = (np.concatenate(a).reshape(len(members), -1) for a in list(zip(*parts))[:3])
        stood, finite, lasted = together
        where = where.reshape(-1)
        return Evaluation(
            fitness=1 - lasted.mean(1)[where],
            parts={"stood": stood.mean(1)[where]},
            failed=np.logical_not(finite.any(1))[where],
            steps=len(given.force) * round((PUSHED_AT + DURATION + AFTER) / float(CONFIG.dt)),
        )

    result = evolve(
        evaluate,
        **_search(numbers, options),
        folder=folder,
        resume=resume and has_begun(folder),
        progress=progress,
        changes=accepted(folder),
    )
    if not result.history:
        raise KeyboardInterrupt  # there is nothing to tell yet
    start, best = result.history[0], result.best_parts
    forces = " and ".join(f"{force:g}" for force in options.forces)
    lines = [
        f"CMA-ES, {result.generations} generations of {options.population},"
        f" {options.pushes} pushes of {forces} N for {DURATION} s",
        f"part of the time that it fell: {start.best:.4f} before, {result.best_fitness:.4f} after",
        f"pushes survived: {start.best_parts['stood']:.4f} before, {best.get('stood')} after",
    ]
    return result.best_x, lines, result.interrupted


def _search(numbers: Numbers, options: TuningOptions) -> dict[str, Any]:
    """The arguments of ``evolve``."""
    names = ("sigma", "population", "generations", "seed")
    mean = np.zeros(len(numbers.names))
    return {"mean": mean, **{name: getattr(options, name) for name in names}}


def _created(out, options: TuningOptions, command: list[str] | None) -> RunFolder:
    config = {
        "objective": "balance",
        "tune_balance": asdict(options),
        "seed": options.seed,
        "seconds": AFTER,
        "dt": float(CONFIG.dt),
        "weights": None,
        "precision": jnp.zeros(()).dtype.name,
        "command": command or command_line(),
    }
    return RunFolder.create(out, config, digest=digest(config))


def _resumed(
    out, options: TuningOptions | None, accept_changes: bool, stack: contextlib.ExitStack
) -> tuple[TuningOptions, RunFolder, tuple[Digest, list[str]]]:
    """The options of the run in a folder, which is locked; its digest now and what has changed."""
    if options is not None:
        raise ValueError("a run that is resumed goes on with its own options; give no others")
    folder = RunFolder.open(out)
    stack.enter_context(locked(folder))
    config = folder.read_config()
    kept = config.get("tune_balance")
    if kept is None:
        raise ValueError(f"{folder.path} holds another kind of run, no tuning of the balance")
    now = digest(config)
    changed = changes_since(folder, now, accept_changes)
    seconds = config.get("seconds")
    if seconds != AFTER:
        was = f"{seconds:g}" if isinstance(seconds, (int, float)) else seconds
        raise ValueError(
            f"{folder.path} was judged by {was} s after a push, now it is {AFTER:g} s;"
            " begin a new run"
        )
    return kept_options(folder, TuningOptions, kept, "forces"), folder, (now, changed)
