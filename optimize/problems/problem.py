"""What is searched, swept or mapped: a scenario, numbers that vary, how they are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.goals.controller import GoalController
from controllers.scl.ast import Script
from controllers.scl.load import vocabulary
from controllers.scl.parser import parse
from controllers.scl.roles import number_roles
from jaxsim.fused import choose_backend, fuse
from jaxsim.model import State
from jaxsim.simulation.rollout import begin, rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.tree_paths import element_name, leaves_by_path, resolve, written
from optimize.problems.evaluation import Evaluation
from optimize.problems.starts import ANGLE, RATE, start_states
from optimize.problems.survival import outlast
from optimize.problems.tunables import Tunables
from optimize.running.batch import CHUNK, batched
from optimize.running.objectives import Objective
from optimize.scenarios.scenario import Scenario

WIDEST = 32  # characters whose steps are optimised together on a device: all wait for the slowest
FACTOR = 100.0  # that a weight of a goal may change by, either way
OFFSET = 0.1  # one unit of the optimiser for a number of a gait that is not positive


@dataclass(frozen=True)
class Problem:
    """Numbers of a scenario and what they are worth; ``evaluate`` is for ``evolve``.

    numbers: path or label -> (lower, upper[, scale]), scale "log" for positive numbers; by default
    ``default_numbers``. seconds: of a trial, the objective's by default. A member is worth the mean
    of ``trials``: the first begins from the scenario's state, the joints of the others with small
    random deviations (``spread`` [rad], [rad/s]; always the same ones, of ``seed``). variants: path
    or label -> values that the trials take in turn. backend: "fused" runs all trials as one kernel,
    "xla" in chunks (see ``optimize.running.batch``); None: the faster one. Raises ValueError if
    nothing varies, KeyError for a path that there is none of.
    """

    scenario: Scenario
    numbers: Mapping[str, Sequence] | None
    objective: Objective
    seconds: float | None = None
    trials: int = 1
    spread: tuple[float, float] = (ANGLE, RATE)
    variants: Mapping[str, Sequence[float]] = field(default_factory=dict)
    backend: str | None = None
    chunk: int | None = None
    seed: int = 0

    @property
    def steps(self) -> int:
        """Of one trial."""
        seconds = self.objective.seconds if self.seconds is None else self.seconds
        return round(seconds / float(self.scenario.scheme.dt))

    @cached_property
    def tunables(self) -> Tunables:
        """The numbers that vary, in their order."""
        scenario = self.scenario
        numbers = default_numbers(scenario) if self.numbers is None else self.numbers
        paths = {name: scenario.path(name) for name in numbers}
        return Tunables.select(scenario.tree, {paths[n]: spec for n, spec in numbers.items()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the numbers, by label where there is one."""
        leaves = leaves_by_path(self.scenario.tree)
        labels = {}
        for label, path in self.scenario.labels.items():
            entry = resolve(path, leaves)
            if len(entry.flat) == 1:
                labels[element_name(entry, entry.flat[0])] = label.removeprefix("controller.")
        return tuple(labels.get(path, path) for path in self.tunables.names)

    @cached_property
    def starts(self) -> State:
        """The states the trials begin from, with a leading axis."""
        scenario = self.scenario
        if self.trials == 1:
            return jax.tree.map(lambda x: np.asarray(x)[None], scenario.state)
        made = start_states(scenario.model, scenario.state, self.trials, self.seed, self.spread)
        return jax.tree.map(np.asarray, made)

    @cached_property
    def varied(self) -> dict[str, np.ndarray]:
        """Path -> (trials,) or (trials, k) values, one for each trial."""
        out = {}
        for name, values in self.variants.items():
            path, given = self.scenario.path(name), np.asarray(values)
            written(self.scenario.tree, path, given[0])  # its errors show now
            out[path] = given[np.arange(self.trials) % len(given)]
        return out

    @property
    def _fused(self) -> bool:
        backend = self.backend
        if backend is None:
            optimises = isinstance(self.scenario.scheme, PerStepOptimisation)
            slow = optimises and jax.default_backend() != "cpu"  # to compile
            backend = "xla" if slow else "fused"
        return choose_backend(backend) == "fused"

    @property
    def _shared(self) -> dict[str, Any]:
        """Arguments of the program; the rest of the scenario is built in."""
        names = ("controller",)
        if not isinstance(self.scenario.scheme, TimeStepping):
            names = "model", "scheme", "controller"
        return {name: getattr(self.scenario, name) for name in names}

    def _member(self, member: Any, shared: Any) -> Scenario:
        """The scenario of one trial; traceable."""
        x, start, varied = member
        tree = {**self.scenario.tree, **(shared or {}), "state": start}
        for path, value in varied.items():
            tree = written(tree, path, value)
        if x.shape[0]:
            tree = self.tunables.write(tree, x)
        return self.scenario.with_tree(tree)

    def _outcome(self, own: Scenario, first: Any = None) -> tuple[dict[str, Any], Any]:
        """Parts of the objective, and whether the motion was whole."""
        model, scheme = own.model, own.scheme
        measures = self.objective.measures(self.scenario.model)
        if self.objective.of_survival:
            first = begin(model, own.controller, scheme, own.state) if first is None else first
            out, folded = outlast(
                model, own.controller, scheme, first, own.forces, self.steps, measures
            )
            stood = jnp.where(out.stood, 1.0, 0.0)
            folded = {**folded, "fallen": 1 - out.lasted, "toppled": 1 - stood}
            told = {"unsolved": out.unsolved, "root_residual": out.root_residual}
            return {**self.objective.parts(folded), **told}, out.finite
        result = rollout(
            model,
            own.controller,
            own.state,
            scheme,
            self.steps,
            measures,
            backend="xla",  # the whole of it is fused, or nothing
            pushes=own.forces,
        )
        good = result.finite & (result.health.status == Status.OK)
        return self.objective.parts(result.measures), good

    @cached_property
    def _run(self):
        def one(member, shared):
            return self._outcome(self._member(member, shared))

        if not self._fused:
            return batched(one, self._width)
        if not (self.objective.of_survival and "model" in self._shared):
            return fuse(one, in_axes=(0, None))

        def ready(member, shared):
            own = self._member(member, shared)
            return begin(own.model, own.controller, own.scheme, own.state)

        first = batched(ready, self._width)
        kernel = fuse(lambda member, first: self._outcome(self._member(member, None), first))
        return lambda members, shared: kernel(members, first(members, shared))

    @property
    def _width(self) -> int:
        if self.chunk is not None:
            return self.chunk
        if isinstance(self.scenario.scheme, TimeStepping):
            return CHUNK
        return min(WIDEST, max(1, self.trials))

    def evaluate(self, z: np.ndarray) -> Evaluation:
        """Judge members given in the optimiser's coordinates (P, n)."""
        x = np.stack([self.tunables.decode(row) for row in np.atleast_2d(np.asarray(z, float))])
        return self.evaluate_values(x)

    def members(self, x: np.ndarray) -> Any:
        """All trials of members (P, n), with a leading axis of P * trials."""
        dtype, trials = self.scenario.model.mass.dtype, self.trials
        tiled = jax.tree.map(
            lambda s: np.tile(s, (len(x), *[1] * (s.ndim - 1))), (self.starts, self.varied)
        )
        return np.repeat(np.asarray(x, dtype), trials, axis=0), *tiled

    def outcomes(self, x: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Of each trial of members (P, n), in their units: the objective's raw terms and what the
        motion tells beside them, (P, trials) each; and whether it was whole, (P, trials) bool."""
        return self._outcomes(self.members(x), len(x))

    def outcomes_at(
        self, numbers: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """As ``outcomes``, of members that are given by path -> (P,), one value for all numbers of
        the path, or (P, k). What ``numbers`` of the problem leave free stays as the scenario has
        it."""
        size = len(next(iter(numbers.values())))
        x, starts, varied = self.members(np.zeros((size, 0)))
        repeated = {path: np.repeat(v, self.trials, axis=0) for path, v in numbers.items()}
        return self._outcomes((x, starts, {**varied, **repeated}), size)

    def _outcomes(self, members: Any, size: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        shape = size, self.trials
        parts, good = self._run(members, self._shared)
        parts = {name: np.asarray(part, float).reshape(shape) for name, part in parts.items()}
        return parts, np.asarray(good).reshape(shape)

    def evaluate_values(self, x: np.ndarray) -> Evaluation:
        """Judge members given by the numbers themselves (P, n), in their units."""
        x, where = np.asarray(x), np.arange(len(x))
        if not isinstance(self.scenario.scheme, TimeStepping):  # a step is worth not doing twice
            x, where = np.unique(x, axis=0, return_inverse=True)
            where = where.reshape(-1)
        parts, good = self.outcomes(x)
        parts = {
            name: (part.max(axis=1) if name == "root_residual" else part.mean(axis=1))[where]
            for name, part in parts.items()
        }
        fitness = np.asarray(self.objective.total(parts))
        # of survival one that is not finite is a fall like any other
        whole = np.asarray(good.any(axis=1) if self.objective.of_survival else good.all(axis=1))
        return Evaluation(
            fitness=fitness,
            parts=parts,
            failed=~(whole[where] & np.isfinite(fitness)),
            steps=self.steps * len(x) * self.trials,
        )

    # ---- derivatives

    def _loss(self, z: Any, member: Any, shared: Any) -> Any:
        parts, _ = self._outcome(self._member((self.tunables.decode(z), *member), shared))
        return self.objective.total(parts)

    @cached_property
    def _derivative(self):
        """Forward where each step is an optimisation, a loop without a fixed end; else reverse."""
        forward = not isinstance(self.scenario.scheme, TimeStepping)

        def sloped(member, shared):
            z, *rest = member

            def loss(z):
                return self._loss(z, rest, shared)

            if not forward:
                return jax.value_and_grad(loss)(z)
            along = jax.vmap(lambda way: jax.jvp(loss, (z,), (way,)), out_axes=(None, 0))
            return along(jnp.eye(z.shape[0], dtype=z.dtype))

        width = min(WIDEST, -(-self.trials // jax.device_count()))
        valued = batched(lambda m, shared: self._loss(m[0], m[1:], shared), width)
        return valued, batched(sloped, width)

    def value(self, z: np.ndarray) -> float:
        """The mean loss of the trials at z (n,)."""
        return float(self._derivative[0](self.members(z[None]), self._shared).mean())

    def value_and_slope(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean loss at z (n,), and its derivative (n,); see ``values_and_slopes``."""
        values, rows = self.values_and_slopes(z[None])
        return float(values[0]), rows[0]

    def values_and_slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean losses (P,) at z (P, n), and their derivatives (P, n) by the optimiser's
        coordinates.

        Raises ValueError for an objective of survival, which has none.
        """
        if self.objective.of_survival:
            raise ValueError(
                f"the objective {self.objective.name} counts who stands, which has no derivative;"
                " choose a smooth one, as capture, or the method cma"
            )
        values, rows = self._derivative[1](self.members(z), self._shared)
        shape = len(z), self.trials
        return values.reshape(shape).mean(axis=1), rows.reshape(*shape, -1).mean(axis=1)


def script_in(scenario: Scenario) -> Script | None:
    """The script that drives a scenario, None where none does."""
    text = scenario.files.get("script.scl")
    return None if text is None else parse(text, vocabulary(scenario.model), scenario.name)


def default_numbers(scenario: Scenario) -> dict[str, tuple]:
    """What varies if nobody says: the '@' numbers of a script by their roles; of goals the weights
    that are not zero, then the gait. Raises ValueError where there are none."""
    script, found = script_in(scenario), {}
    if script is not None:
        free = script.free_indices()
        found = {f"controller.values[{k}]": number_range(script, k) for k in free}
    elif isinstance(scenario.controller, GoalController):
        weights = np.asarray(scenario.controller.weights)
        found = {
            f"controller.weights[{s},{g}]": _around(weights[s, g]) for s, g in np.argwhere(weights)
        }
        gait = getattr(scenario.controller.variables, "gait", None)
        for own in fields(gait) if gait is not None else ():
            found[f"controller.variables.gait.{own.name}"] = _around(getattr(gait, own.name))
    if not found:
        raise ValueError(
            f"{scenario.name}: no number is free; mark those of a script with '@', as in"
            " [waist @30], free every one with free='all' (--free all), or name some, as in"
            " numbers={'model.friction': (0.4, 1.2)} (--tune model.friction=0.4:1.2)"
        )
    return found


def _around(value: Any) -> tuple:
    """A factor for a positive number, else an offset."""
    value = float(value)
    if value > 0:
        return value / FACTOR, value * FACTOR, "log"
    return value - 10 * OFFSET, value + 10 * OFFSET, OFFSET


def number_range(script: Script, index: int) -> tuple[float, float, float]:
    """(lower, upper, scale) of a script's number, from its role.

    Angles may leave the printed value by 90 degrees, forces by 500 N, points by 0.5 m; times lie
    between 0 and 3 s, strengths between 0 and 1. One unit of the optimiser is one scale.
    """
    value = script.values()[index]
    role = number_roles(script)[index]
    if role == "angle":
        return value - 90.0, value + 90.0, 45.0
    if role == "force":
        return value - 500.0, value + 500.0, 200.0
    if role == "gain":
        return 0.0, max(2 * value, 200.0), max(value / 2, 50.0)
    if role == "time":
        return 0.0, max(3.0, 2 * value), 0.3
    if role == "strength":
        return 0.0, 1.0, 0.2
    return value - 0.5, value + 0.5, 0.1
