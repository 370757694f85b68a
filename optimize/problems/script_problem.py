"""What is tuned: free numbers of a script, and any array of the model, judged by an objective."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from controllers.scl.ast import Script
from controllers.scl.controller import ScriptController
from controllers.scl.load import script_controller
from controllers.scl.roles import number_roles
from jaxsim.fused import choose_backend, fuse
from jaxsim.model import Model, State
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from optimize.problems.evaluation import Evaluation
from optimize.problems.tunables import Tunables
from optimize.running.batch import CHUNK, batched
from optimize.running.objectives import Objective


@dataclass(frozen=True)
class ScriptProblem:
    """A motion with free numbers as an optimisation problem; ``evaluate`` is for ``evolve``.

    Free are the script's '@' numbers, with bounds and scales by their roles (``number_range``),
    and whatever ``also`` selects: paths below "model." or "controller." with (lower, upper[,
    scale]). A member is worth the mean of ``trials`` motions: the first begins from ``start``, the
    joints of the others with small random speeds (``noise`` [rad/s], normal, always the same ones),
    so that a motion that only works by luck is worth little. backend: "fused" runs a population
    as one kernel, with the model built in and the script's numbers passed; "xla" runs it in chunks
    (see ``optimize.running.batch``). Raises ValueError if nothing is free.
    """

    model: Model
    script: Script
    start: State
    objective: Objective
    config: TimeStepping = field(default_factory=lambda: TimeStepping(dt=0.001))
    also: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    chunk: int = CHUNK
    trials: int = 1
    noise: float = 0.05
    backend: str = "fused"

    def __post_init__(self):
        if not self.script.free_indices() and not self.also:
            raise ValueError(
                f"{self.script.file}: no free number; mark those to tune with '@', as [waist @30]"
            )

    @property
    def steps(self) -> int:
        """Time steps of one rollout."""
        return round(self.objective.seconds / float(self.config.dt))

    @cached_property
    def starts(self) -> State:
        """The states the trials begin from, with a leading axis."""
        joints = self.model.topology.actuated_dofs
        speeds = np.random.default_rng(0).normal(size=(self.trials, len(joints))) * self.noise
        speeds[0] = 0.0

        def one(speed):
            return self.start.replace(qd=self.start.qd.at[joints].add(speed))

        return jax.vmap(one)(jnp.asarray(speeds, self.start.qd.dtype))

    @cached_property
    def controller(self) -> ScriptController:
        return script_controller(self.script, self.model)

    @cached_property
    def tree(self) -> dict:
        """What tunable paths begin from."""
        return {"model": self.model, "controller": self.controller}

    @cached_property
    def tunables(self) -> Tunables:
        """The free numbers with their bounds and scales."""
        numbers = {
            f"controller.values[{i}]": number_range(self.script, i)
            for i in self.script.free_indices()
        }
        return Tunables.select(self.tree, {**numbers, **self.also})

    @cached_property
    def _run(self):
        measures = self.objective.measures(self.model)
        fused = choose_backend(self.backend) == "fused"

        def one(member, values):
            x, start = member
            controller = self.controller.replace(values=values)
            tree = self.tunables.write({"model": self.model, "controller": controller}, x)
            result = rollout(
                tree["model"],
                tree["controller"],
                start,
                self.config,
                self.steps,
                measures,
                backend="xla",  # the whole of ``one`` is fused, or nothing
            )
            good = result.finite & (result.health.status == Status.OK)
            return self.objective.parts(result.measures), good

        return fuse(one, in_axes=(0, None)) if fused else batched(one, self.chunk)

    def evaluate(self, z: np.ndarray) -> Evaluation:
        """Judge members given in the optimiser's coordinates (P, n)."""
        x = np.stack([self.tunables.decode(row) for row in np.atleast_2d(np.asarray(z, float))])
        return self.evaluate_values(x)

    def evaluate_values(self, x: np.ndarray) -> Evaluation:
        """Judge members given by the free numbers themselves (P, n), in their units."""
        dtype, trials = self.model.mass.dtype, self.trials
        starts = jax.tree.map(lambda s: np.tile(s, (len(x), *[1] * (s.ndim - 1))), self.starts)
        members = np.repeat(np.asarray(x, dtype), trials, axis=0), starts
        parts, good = self._run(members, self.controller.values)
        parts = {
            name: np.asarray(part, float).reshape(-1, trials).mean(axis=1)
            for name, part in parts.items()
        }
        fitness = np.asarray(self.objective.total(parts))
        good = np.asarray(good).reshape(-1, trials).all(axis=1)
        return Evaluation(
            fitness=fitness,
            parts=parts,
            failed=~(good & np.isfinite(fitness)),
            steps=self.steps * len(members[0]),
        )

    def script_values(self, z: np.ndarray) -> np.ndarray:
        """All numbers of the script (n,) for one member z (free,), as ``rewrite`` takes them."""
        values = np.array(self.script.values())
        free = list(self.script.free_indices())
        values[free] = self.tunables.decode(np.asarray(z, float))[: len(free)]
        return values


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
