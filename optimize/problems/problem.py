"""What is searched, swept or mapped: a scenario, numbers that vary, how they are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxsim.fused import choose_backend, fuse
from jaxsim.model import State
from jaxsim.simulation.rollout import begin, rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.tree_paths import element_name, leaves_by_path, read, resolve, write
from optimize.problems.defaults import default_numbers
from optimize.problems.evaluation import Evaluation
from optimize.problems.racing import better_half, merged
from optimize.problems.score import check_score, scored, succeeded
from optimize.problems.slopes import slopes, slopes_fused
from optimize.problems.starts import ANGLE, RATE, drawn_values, start_maker
from optimize.problems.survival import outcome_of, outlast, standing_measure, survival_parts
from optimize.problems.tunables import Tunables
from optimize.running.batch import CHUNK, batched, in_pieces
from optimize.running.objectives import Objective
from optimize.scenarios.scenario import Scenario
from optimize.scenarios.sizes import check_sizes

SOUND = "sound_while_standing"  # beside the terms of survival: its motion meant something so long
WIDEST = 32  # characters whose steps are optimised together on a device: all wait for the slowest


@dataclass(frozen=True)
class Problem:
    """Numbers of a scenario and what they are worth; ``evaluate`` is for ``evolve``.

    numbers: path or label -> (lower, upper[, scale]), scale "log" for positive numbers; by default
    ``default_numbers``. seconds: of a trial, the objective's by default. A member is judged by
    ``trials``, the same for all: the first begins from the scenario's state, the joints of the
    others with small random deviations (``spread`` [rad], [rad/s]). variants: path or label ->
    values that the trials take in turn; drawn: path or label -> (lower, upper), a value for each
    trial, the same for all elements that the path selects. What is random is of ``seed`` alone, or
    with ``fresh`` of it and the number of the generation that is judged. score: what a member is
    worth by its trials, see ``scored``. also: problems of other scenarios with the same numbers,
    such as another body, whose trials count with those of this one. racing: after so many trials
    the worse half of the members gets no more, and ranks behind the others, whose worth stays what
    it is without. backend: "fused" runs all trials as one kernel, "xla" in chunks (see
    ``optimize.running.batch``); None: the faster one. Raises ValueError if nothing
    varies or a number makes no sense, KeyError for a path that there is none of.
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
    score: str = "mean"
    drawn: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fresh: bool = False
    racing: int = 0
    also: tuple["Problem", ...] = ()

    def __post_init__(self):
        check_score(self.score)
        if not 0 <= self.racing < max(1, self.trials):
            raise ValueError(
                f"racing is {self.racing} of {self.trials} trials; give fewer than all, or 0"
            )

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of; compiled programs are made anew where it is sent."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

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
        for name, (lower, upper, *_) in numbers.items():
            check_sizes(paths[name], [np.min(lower), np.max(upper)])
        found = Tunables.select(scenario.tree, {paths[n]: spec for n, spec in numbers.items()})
        origin = np.zeros(found.size)
        for other in self.also:
            same = other.tunables.names == found.names
            if not (same and np.array_equal(other.tunables.decode(origin), found.decode(origin))):
                raise ValueError(
                    f"{other.scenario.name}: its numbers begin elsewhere than those of"
                    f" {scenario.name}, with which it is to be judged; name numbers that both have"
                )
        return found

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
    def _start_maker(self):
        tree = self.scenario.tree
        return start_maker(tree["model"], tree["state"], self.trials, self.spread)

    def starts(self, generation: int = 0) -> State:
        """The states the trials begin from, with a leading axis; of the body before its sizes."""
        if self.trials == 1:
            return jax.tree.map(lambda x: np.asarray(x)[None], self.scenario.tree["state"])
        key = jax.random.key(self.seed)
        if self.fresh:
            key = jax.random.fold_in(key, generation + 1)  # the start of a search is number -1
        return jax.tree.map(np.asarray, self._start_maker(key))

    def varied(self, generation: int = 0) -> dict[str, np.ndarray]:
        """Path -> (trials,) or (trials, k) values, one for each trial. Raises for what cannot be
        written in the scenario, and ValueError for bounds that are none."""
        out, tree = {}, self.scenario.tree
        for name, values in self.variants.items():
            path, given = self.scenario.path(name), np.asarray(values)
            write(tree, path, given[0])  # its errors show now
            check_sizes(path, given)
            out[path] = given[np.arange(self.trials) % len(given)]
        random = np.random.default_rng([self.seed, generation + 1 if self.fresh else 0])
        for name, bounds in self.drawn.items():
            path = self.scenario.path(name)
            own = np.shape(read(tree, path))
            check_sizes(path, bounds)
            out[path] = drawn_values(bounds, self.trials, own, random)
        return out

    @cached_property
    def _trials(self) -> tuple[State, dict[str, np.ndarray]]:
        """Starts, and what varies, of the trials of generation 0."""
        return self.starts(), self.varied()

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
        tree = self.scenario.tree
        return {name: tree[name] for name in names}

    def _member(self, member: Any, shared: Any) -> Scenario:
        x, start, varied = member
        return self.trial(x, start, varied, shared)

    def trial(
        self, x: Any, start: State, varied: Mapping[str, Any], shared: Any = None
    ) -> Scenario:
        """The scenario of one trial of a member x (n,), in the numbers' units, or (0,) for the
        scenario's own; start, varied: as in ``members``; shared: parts in the place of the
        scenario's. Traceable."""
        tree = {**self.scenario.tree, **(shared or {}), "state": start}
        for path, value in varied.items():
            tree = write(tree, path, value)
        if x.shape[0]:
            tree = self.tunables.write(tree, x)
        return self.scenario.with_tree(tree)

    def _outcome(self, own: Scenario, first: Any = None) -> tuple[dict[str, Any], Any]:
        """Parts of the objective, and whether the motion was whole."""
        model, scheme = own.model, own.scheme
        measures = self.objective.measures(model if own.sizes else self.scenario.model)
        if self.objective.ends_with_a_fall:
            first = begin(model, own.controller, scheme, own.state) if first is None else first
            out, folded = outlast(
                model, own.controller, scheme, first, own.forces, self.steps, measures
            )
            found = self.objective.parts({**folded, **survival_parts(out)})
            told = {"unsolved": out.unsolved, "root_residual": out.root_residual}
            sound = {SOUND: out.finite} if self.objective.to_the_end else {}
            return {**found, **told, **sound}, out.finite
        if self.objective.of_survival:
            measures[SOUND] = standing_measure(model, scheme)
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
        if not self.objective.of_survival:
            return self.objective.parts(result.measures), good
        out = outcome_of(result, result.measures[SOUND], self.steps, scheme.dt)
        found = self.objective.parts({**result.measures, **survival_parts(out)})
        return {**found, SOUND: out.finite}, good

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
        if isinstance(self.scenario.scheme, TimeStepping):
            return CHUNK
        return min(WIDEST, max(1, self.trials))

    @property
    def _whole(self) -> int:
        """How many trials go to all devices at once."""
        return self._width * jax.device_count()

    def evaluate(self, z: np.ndarray, generation: int = 0) -> Evaluation:
        """Judge members given in the optimiser's coordinates (P, n)."""
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
        """Of trials of members (P, n), in their units: the objective's raw terms and what the
        motion tells beside them, (P, trials) each; and whether it was whole, (P, trials) bool.
        Those of the problems that are judged with it follow its own, ``which`` of each."""
        parts, good = self._outcomes(self.members(x, generation, which), len(x))
        for other in self.also:
            more, whole = other.outcomes(x, generation, which)
            parts = {name: np.concatenate([p, more[name]], axis=1) for name, p in parts.items()}
            good = np.concatenate([good, whole], axis=1)
        return parts, good

    def outcomes_at(
        self, numbers: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """As ``outcomes``, of members that are given by path -> (P,), one value for all numbers of
        the path, or (P, k). What ``numbers`` of the problem leave free stays as the scenario has
        it."""
        size = len(next(iter(numbers.values())))
        x, starts, varied = self.members(np.zeros((size, 0)))
        own = {path: np.repeat(v, self.trials, axis=0) for path, v in numbers.items()}
        return self._outcomes((x, starts, {**varied, **own}), size)

    def outcomes_of(
        self, numbers: Mapping[str, np.ndarray], trial: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """As ``outcomes_at``, (m,) each, of single trials (m,) by their number; numbers: path ->
        (m,) or (m, k). One program does any number of them."""
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
        """Judge members given by the numbers themselves (P, n), in their units."""
        x, where = np.asarray(x), np.arange(len(x))
        if not isinstance(self.scenario.scheme, TimeStepping):  # a step is worth not doing twice
            x, where = np.unique(x, axis=0, return_inverse=True)
            where = where.reshape(-1)
        found = self._raced(x, generation) if self.racing else self._judged(x, generation)
        return replace(
            found,
            fitness=found.fitness[where],
            parts={name: part[where] for name, part in found.parts.items()},
            failed=found.failed[where],
        )

    def _judged(self, x: np.ndarray, generation: int) -> Evaluation:
        return self._scored(*self.outcomes(x, generation))

    def _raced(self, x: np.ndarray, generation: int) -> Evaluation:
        parts, good = self.outcomes(x, generation, slice(self.racing))
        early = self._scored(parts, good)
        kept = better_half(early)
        more, well = self.outcomes(x[kept], generation, slice(self.racing, None))
        parts = {name: np.concatenate([parts[name][kept], more[name]], axis=1) for name in parts}
        late = self._scored(parts, np.concatenate([good[kept], well], axis=1))
        steps = self.steps * (good.size + well.size)
        return replace(merged(early, late, kept), steps=steps)

    def _scored(self, parts: dict[str, np.ndarray], good: np.ndarray) -> Evaluation:
        """Members by their trials, (P, trials) each."""
        means = {
            name: part.max(axis=1) if name == "root_residual" else part.mean(axis=1)
            for name, part in parts.items()
        }
        ok = succeeded(parts)
        if self.score == "mean":
            fitness = np.asarray(self.objective.total(means))
        else:
            fitness = scored(np.asarray(self.objective.total(parts)), ok, self.score)
        if ok is not None and good.shape[1] > 1:
            means["succeeded"] = (ok & good).mean(axis=1)
        steps = self.steps * good.size
        if self.objective.ends_with_a_fall and "fallen" in parts:
            steps -= round(steps * float(np.mean(parts["fallen"])))  # a fall ends a trial
        # of survival one that is not finite is a fall like any other
        whole = np.asarray(good.any(axis=1) if self.objective.of_survival else good.all(axis=1))
        return Evaluation(
            # of its motions' precision, which tells a search what differences are rounding
            fitness=fitness.astype(self.scenario.model.mass.dtype),
            parts=means,
            failed=~(whole & np.isfinite(fitness)),
            steps=steps,
        )

    # ---- derivatives

    def _loss(self, z: Any, member: Any, shared: Any) -> Any:
        """() of one trial at z (n,); member: the rest of it."""
        parts, _ = self._outcome(self._member((self.tunables.decode(z), *member), shared))
        return self.objective.total(parts)

    @cached_property
    def _derivative(self):
        """See ``slopes``: of fused kernels where they have them, of XLA else, forward where each
        step is an optimisation, a loop without a fixed end."""
        forward = not isinstance(self.scenario.scheme, TimeStepping)
        if self._fused and not forward:
            return slopes_fused(self._loss)
        width = min(WIDEST, -(-self.trials // jax.device_count()))
        return slopes(self._loss, width, forward)

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
        found = [own._slopes_of_trials(z) for own in (self, *self.also)]
        values, rows = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        return values.mean(axis=1), rows.mean(axis=1)

    def _slopes_of_trials(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P, trials) losses and their derivatives (P, trials, n)."""
        values, rows = map(np.asarray, self._derivative(self.members(z), self._shared))
        shape = len(z), self.trials
        return values.reshape(shape), rows.reshape(*shape, -1)
