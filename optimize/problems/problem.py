"""Optimisation problem: a scenario, the numbers that vary, and the objective over its trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxsim.fused import choose_backend, fuse
from jaxsim.model import State
from jaxsim.renamed import renamed_fields
from jaxsim.simulation.rollout import begin, rollout
from jaxsim.solvers.status import Status
from jaxsim.tree_paths import element_name, leaves_by_path, read, resolve, write
from optimize.problems.fitness import (
    Evaluation,
    aggregate,
    better_half,
    check_aggregation,
    merge_evaluations,
    successes,
)
from optimize.problems.slopes import fused_loss_gradients, loss_gradients
from optimize.problems.starts import ANGLE, RATE, sample_values, start_maker
from optimize.problems.survival import outcome_of, outlast, standing_measure, survival_parts
from optimize.problems.tunables import Tunables
from optimize.running.batch import CHUNK, batched, in_pieces
from optimize.running.objectives import Objective
from optimize.scenarios.scenario import Scenario
from optimize.scenarios.sizes import check_sizes

SOUND = "sound_while_standing"  # beside the terms of survival: its motion meant something so long
WIDEST = 32  # characters whose steps are optimised together on a device: all wait for the slowest


def default_numbers(scenario: Scenario) -> dict[str, tuple]:
    """Default tunables: numbers that the controller's file marks, or else weights and gait.

    Raises ValueError where there are none.
    """
    numbers = scenario.number_source.ranges()
    if not numbers:
        raise ValueError(
            f"{scenario.name}: no number is free; mark those of a script with '@', as in"
            " [waist @30], free every one with free='all' (--free all), or name some, as in"
            " numbers={'model.friction': (0.4, 1.2)} (--tune model.friction=0.4:1.2)"
        )
    return numbers


@renamed_fields(
    variants="vary",
    score="aggregate",
    drawn="sample",
    fresh="resample",
    racing="halve_after",
    also="others",
)
@dataclass(frozen=True)
class Problem:
    """Numbers of a scenario with their fitness; ``evaluate`` is for ``evolve``.

    numbers: path or label -> (lower, upper[, scale]), scale "log" for positive numbers; by default
    ``default_numbers``. seconds: of a trial, the objective's by default. A member is evaluated by
    ``trials``, the same for all: the first begins from the scenario's state, the joints of the
    others with small random deviations (``spread`` [rad], [rad/s]). vary: path or label -> values
    that the trials take in turn; sample: path or label -> (lower, upper), a value for each trial,
    the same for all elements that the path selects. Random values follow from ``seed`` alone, or
    with ``resample`` from it and the number of the generation that is evaluated. aggregate: how
    the trials of a member make its fitness (``aggregation``). others: problems of other scenarios
    with the same numbers, such as another character, whose trials count with those of this one.
    halve_after: after so many trials the worse half of the members gets no more, and ranks behind
    the others, whose fitness stays what it is without. backend: "fused" runs all trials as one
    kernel, "xla" in chunks (see ``optimize.running.batch``); None: the faster one. Raises
    ValueError if nothing varies or a number makes no sense, KeyError for an unknown path.
    """

    scenario: Scenario
    numbers: Mapping[str, Sequence] | None
    objective: Objective
    seconds: float | None = None
    trials: int = 1
    spread: tuple[float, float] = (ANGLE, RATE)
    vary: Mapping[str, Sequence[float]] = field(default_factory=dict)
    backend: str | None = None
    chunk: int | None = None
    seed: int = 0
    aggregate: str = "mean"
    sample: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    resample: bool = False
    halve_after: int = 0
    others: tuple["Problem", ...] = ()

    def __post_init__(self):
        check_aggregation(self.aggregate)
        if not 0 <= self.halve_after < max(1, self.trials):
            raise ValueError(
                f"halve_after is {self.halve_after} of {self.trials} trials; give fewer than all,"
                " or 0"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Fields of the dataclass only; compiled programs are created again where it is sent."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @property
    def steps(self) -> int:
        """Number of steps in one trial."""
        seconds = self.objective.seconds if self.seconds is None else self.seconds
        return round(seconds / float(self.scenario.scheme.dt))

    @cached_property
    def tunables(self) -> Tunables:
        """Numbers that vary, in their order."""
        scenario = self.scenario
        numbers = default_numbers(scenario) if self.numbers is None else self.numbers
        paths = {name: scenario.path(name) for name in numbers}
        for name, (lower, upper, *_) in numbers.items():
            check_sizes(paths[name], [np.min(lower), np.max(upper)])
        found = Tunables.select(scenario.tree, {paths[n]: spec for n, spec in numbers.items()})
        origin = np.zeros(found.size)
        for other in self.others:
            same = other.tunables.names == found.names
            if not (same and np.array_equal(other.tunables.decode(origin), found.decode(origin))):
                raise ValueError(
                    f"{other.scenario.name}: its numbers begin elsewhere than those of"
                    f" {scenario.name}, with which it is evaluated; name numbers that both have"
                )
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, by label where there is one."""
        leaves = leaves_by_path(self.scenario.tree)
        labels = {}
        for label, path in self.scenario.labels.items():
            entry = resolve(path, leaves)
            if len(entry.flat) == 1:
                labels[element_name(entry, entry.flat[0])] = label.removeprefix("controller.")
        return tuple(labels.get(path, path) for path in self.tunables.names)

    @cached_property
    def _start_maker(self):
        tree = self.scenario.tree
        return start_maker(tree["model"], tree["state"], self.trials, self.spread, tree["scheme"])

    def starts(self, generation: int = 0) -> State:
        """Initial states of the trials, with a leading axis; before sizes of the character vary."""
        if self.trials == 1:
            return jax.tree.map(lambda x: np.asarray(x)[None], self.scenario.tree["state"])
        key = jax.random.key(self.seed)
        if self.resample:
            key = jax.random.fold_in(key, generation + 1)  # the start of a search is number -1
        return jax.tree.map(np.asarray, self._start_maker(key))

    def varied(self, generation: int = 0) -> dict[str, np.ndarray]:
        """Values that vary over the trials: path -> (trials,) or (trials, k).

        Raises for values that cannot be written in the scenario, and ValueError for invalid bounds.
        """
        out, tree = {}, self.scenario.tree
        for name, values in self.vary.items():
            path, given = self.scenario.path(name), np.asarray(values)
            write(tree, path, given[0])  # its errors show now
            check_sizes(path, given)
            out[path] = given[np.arange(self.trials) % len(given)]
        random = np.random.default_rng([self.seed, generation + 1 if self.resample else 0])
        for name, bounds in self.sample.items():
            path = self.scenario.path(name)
            own = np.shape(read(tree, path))
            check_sizes(path, bounds)
            out[path] = sample_values(bounds, self.trials, own, random)
        return out

    @cached_property
    def _trials(self) -> tuple[State, dict[str, np.ndarray]]:
        """Starts and varied values of the trials of generation 0."""
        return self.starts(), self.varied()

    @property
    def _fused(self) -> bool:
        backend = self.backend
        if backend is None:
            slow = self.scenario.scheme.takes_tasks and jax.default_backend() != "cpu"  # to compile
            backend = "xla" if slow else "fused"
        return choose_backend(backend) == "fused"

    @property
    def _shared(self) -> dict[str, Any]:
        """Arguments of the program that all members share; the rest of the scenario is built in."""
        names = ("controller",)
        if not self.scenario.scheme.cheap:
            names = "model", "scheme", "controller"
        tree = self.scenario.tree
        return {name: tree[name] for name in names}

    def _member(self, member: Any, shared: Any) -> Scenario:
        x, start, varied = member
        return self.trial(x, start, varied, shared)

    def trial(
        self, x: Any, start: State, varied: Mapping[str, Any], shared: Any = None
    ) -> Scenario:
        """Scenario of one trial of a member x (n,), in the numbers' units.

        x (0,) leaves the scenario's own numbers; start, varied: as in ``members``; shared: parts in
        place of the scenario's. Traceable.
        """
        tree = {**self.scenario.tree, **(shared or {}), "state": start}
        for path, value in varied.items():
            tree = write(tree, path, value)
        if x.shape[0]:
            tree = self.tunables.write(tree, x)
        return self.scenario.with_tree(tree)

    def _outcome(self, scenario: Scenario, first: Any = None) -> tuple[dict[str, Any], Any]:
        """Terms of the objective, and whether the motion stayed finite and physical."""
        model, scheme = scenario.model, scenario.scheme
        measures = self.objective.measures(model if scenario.sizes else self.scenario.model)
        if self.objective.ends_with_a_fall:
            first = (
                begin(model, scenario.controller, scheme, scenario.state)
                if first is None
                else first
            )
            out, folded = outlast(
                model, scenario.controller, scheme, first, scenario.forces, self.steps, measures
            )
            terms = self.objective.parts({**folded, **survival_parts(out)})
            unsolved = {"unsolved": out.unsolved, "root_residual": out.root_residual}
            sound = {SOUND: out.finite} if self.objective.to_the_end else {}
            return {**terms, **unsolved, **sound}, out.finite
        if self.objective.of_survival:
            measures[SOUND] = standing_measure(model, scheme)
        result = rollout(
            model,
            scenario.controller,
            scenario.state,
            scheme,
            self.steps,
            measures,
            backend="xla",  # the whole of it is fused, or nothing
            pushes=scenario.forces,
        )
        good = result.finite & (result.health.status == Status.OK)
        if not self.objective.of_survival:
            return self.objective.parts(result.measures), good
        out = outcome_of(result, result.measures[SOUND], self.steps, scheme.dt)
        terms = self.objective.parts({**result.measures, **survival_parts(out)})
        return {**terms, SOUND: out.finite}, good

    @cached_property
    def _run(self):
        def one(member, shared):
            return self._outcome(self._member(member, shared))

        if not self._fused:
            return batched(one, self._width)
        if not (self.objective.ends_with_a_fall and "model" in self._shared):
            return fuse(one, in_axes=(0, None))

        def ready(member, shared):
            own = self._member(member, shared)
            return begin(own.model, own.controller, own.scheme, own.state)

        first = in_pieces(batched(ready, self._width), self._whole)
        kernel = fuse(lambda member, first: self._outcome(self._member(member, None), first))
        return lambda members, shared: kernel(members, first(members, shared))

    @property
    def _width(self) -> int:
        if self.chunk is not None:
            return self.chunk
        if self.scenario.scheme.cheap:
            return CHUNK
        return min(WIDEST, max(1, self.trials))

    @property
    def _whole(self) -> int:
        """Number of trials that go to all devices at once."""
        return self._width * jax.device_count()

    def evaluate(self, z: np.ndarray, generation: int = 0) -> Evaluation:
        """Evaluate members given in the optimiser's coordinates (P, n)."""
        x = np.stack([self.tunables.decode(row) for row in np.atleast_2d(np.asarray(z, float))])
        return self.evaluate_values(x, generation)

    def members(self, x: np.ndarray, generation: int = 0, which: slice = slice(None)) -> Any:
        """Trials (all, or a slice of them) of members (P, n), with a leading axis of P * trials."""
        dtype = self.scenario.model.mass.dtype
        own = self.starts(generation), self.varied(generation)
        own = jax.tree.map(lambda s: s[which], own)
        trials = len(range(self.trials)[which])
        tiled = jax.tree.map(lambda s: np.tile(s, (len(x), *[1] * (s.ndim - 1))), own)
        return np.repeat(np.asarray(x, dtype), trials, axis=0), *tiled

    def outcomes(
        self, x: np.ndarray, generation: int = 0, which: slice = slice(None)
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outcomes of the trials of members (P, n), in the numbers' units.

        Returns the objective's raw terms with the other measures of the motion, (P, trials) each;
        and whether it stayed finite and physical, (P, trials) bool. The trials of the problems in
        ``others`` follow, ``which`` of each.
        """
        parts, good = self._outcomes(self.members(x, generation, which), len(x))
        for other in self.others:
            more, whole = other.outcomes(x, generation, which)
            parts = {name: np.concatenate([p, more[name]], axis=1) for name, p in parts.items()}
            good = np.concatenate([good, whole], axis=1)
        return parts, good

    def outcomes_at(
        self, numbers: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outcomes of members given by path -> (P,) or (P, k), see ``outcomes``.

        (P,) is one value for all numbers of the path. Tunables that ``numbers`` does not name stay
        as the scenario has them.
        """
        size = len(next(iter(numbers.values())))
        x, starts, varied = self.members(np.zeros((size, 0)))
        own = {path: np.repeat(v, self.trials, axis=0) for path, v in numbers.items()}
        return self._outcomes((x, starts, {**varied, **own}), size)

    def outcomes_of(
        self, numbers: Mapping[str, np.ndarray], trial: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outcomes of single trials (m,) by their number, (m,) each, see ``outcomes_at``.

        numbers: path -> (m,) or (m, k). One program serves any number of them.
        """
        starts, varied = jax.tree.map(lambda s: s[trial], self._trials)
        x = np.zeros((len(trial), 0), self.scenario.model.mass.dtype)
        run = self._run if self._fused else in_pieces(self._run, self._whole)
        parts, good = run((x, starts, {**varied, **numbers}), self._shared)
        return {name: np.asarray(part, float) for name, part in parts.items()}, np.asarray(good)

    def _outcomes(self, members: Any, size: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        shape = size, -1
        parts, good = self._run(members, self._shared)
        parts = {name: np.asarray(part, float).reshape(shape) for name, part in parts.items()}
        return parts, np.asarray(good).reshape(shape)

    def evaluate_values(self, x: np.ndarray, generation: int = 0) -> Evaluation:
        """Evaluate members given by the numbers themselves (P, n), in their units."""
        x, where = np.asarray(x), np.arange(len(x))
        if not self.scenario.scheme.cheap:  # steps are costly: no duplicates
            x, where = np.unique(x, axis=0, return_inverse=True)
            where = where.reshape(-1)
        evaluation = self._halved(x, generation) if self.halve_after else self._plain(x, generation)
        return replace(
            evaluation,
            fitness=evaluation.fitness[where],
            parts={name: part[where] for name, part in evaluation.parts.items()},
            failed=evaluation.failed[where],
        )

    def _plain(self, x: np.ndarray, generation: int) -> Evaluation:
        return self._aggregated(*self.outcomes(x, generation))

    def _halved(self, x: np.ndarray, generation: int) -> Evaluation:
        parts, good = self.outcomes(x, generation, slice(self.halve_after))
        early = self._aggregated(parts, good)
        survivors = better_half(early)
        more, well = self.outcomes(x[survivors], generation, slice(self.halve_after, None))
        parts = {
            name: np.concatenate([parts[name][survivors], more[name]], axis=1) for name in parts
        }
        late = self._aggregated(parts, np.concatenate([good[survivors], well], axis=1))
        steps = self.steps * (good.size + well.size)
        return replace(merge_evaluations(early, late, survivors), steps=steps)

    def _aggregated(self, parts: dict[str, np.ndarray], good: np.ndarray) -> Evaluation:
        """Evaluation of members from the outcomes of their trials, (P, trials) each."""
        means = {
            name: part.max(axis=1) if name == "root_residual" else part.mean(axis=1)
            for name, part in parts.items()
        }
        ok = successes(parts)
        if self.aggregate == "mean":
            fitness = np.asarray(self.objective.total(means))
        else:
            fitness = aggregate(np.asarray(self.objective.total(parts)), ok, self.aggregate)
        if ok is not None and good.shape[1] > 1:
            means["succeeded"] = (ok & good).mean(axis=1)
        steps = self.steps * good.size
        if self.objective.ends_with_a_fall and "fallen" in parts:
            steps -= round(steps * float(np.mean(parts["fallen"])))  # a fall ends a trial
        # of survival one that is not finite is a fall like any other
        whole = np.asarray(good.any(axis=1) if self.objective.of_survival else good.all(axis=1))
        return Evaluation(
            # in the precision of the motions, so that a search knows what differences are rounding
            fitness=fitness.astype(self.scenario.model.mass.dtype),
            parts=means,
            failed=~(whole & np.isfinite(fitness)),
            steps=steps,
        )

    # ---- derivatives

    def _loss(self, z: Any, member: Any, shared: Any) -> Any:
        """Loss () of one trial at z (n,); member: the rest of it."""
        parts, _ = self._outcome(self._member((self.tunables.decode(z), *member), shared))
        return self.objective.total(parts)

    @cached_property
    def _derivative(self):
        """Losses with derivatives of many members as one program, see ``loss_gradients``.

        Of fused kernels where they have derivatives, else of XLA; forward where each step is an
        optimisation, a loop without a fixed end.
        """
        forward = not self.scenario.scheme.reverse_mode
        if self._fused and not forward:
            return fused_loss_gradients(self._loss)
        width = min(WIDEST, -(-self.trials // jax.device_count()))
        return loss_gradients(self._loss, width, forward)

    def value_and_slope(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean loss at z (n,), and its derivative (n,); see ``values_and_slopes``."""
        values, rows = self.values_and_slopes(z[None])
        return float(values[0]), rows[0]

    def values_and_slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean losses (P,) at z (P, n), and derivatives (P, n) by the optimiser's coordinates.

        Raises ValueError for an objective of survival, which has none.
        """
        if self.objective.of_survival:
            raise ValueError(
                f"the objective {self.objective.name} counts successes, which has no derivative;"
                " choose a smooth one, as capture, or the method cma"
            )
        found = [own._slopes_of_trials(z) for own in (self, *self.others)]
        values, rows = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        return values.mean(axis=1), rows.mean(axis=1)

    def _slopes_of_trials(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Losses (P, trials) of single trials, and their derivatives (P, trials, n)."""
        values, rows = map(np.asarray, self._derivative(self.members(z), self._shared))
        shape = len(z), self.trials
        return values.reshape(shape), rows.reshape(*shape, -1)
