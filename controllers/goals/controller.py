"""Controller of a goal machine: it observes, selects the state, and gives each step its tasks."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.goals.account import Reach, account, flight, goal_shares
from controllers.goals.clip import FollowedClip, following_error
from controllers.goals.compose import Composed
from controllers.goals.machine import GoalMachine, MachineState, goal_levels
from controllers.goals.response import Response
from controllers.goals.sensors import Objects
from controllers.source import NumberSource, range_around
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.checks import check_array, has_values
from jaxsim.synthesis.observation import EffectorObservation


@dataclass(frozen=True, kw_only=True)
class GoalNumbers(NumberSource):
    """Source of weights of goals and numbers of a gait, with their ranges by path."""

    of_goals: Mapping[str, tuple]

    def ranges(self) -> dict[str, tuple]:
        return {self.prefix + path: spec for path, spec in self.of_goals.items()}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GoalController(Controller):
    """For ``PerStepOptimisation``. Its numbers are the weights of the goals, or their times and
    priorities, and the machine's variables at the start, the gait of a balance among them:
    ``weights[2,1]``, ``variables.gait.time``.

    Its numbers are the weights of the goals, or their times and priorities, and the machine's
    initial variables, the gait of a balance among them: ``weights[2,1]``, ``variables.gait.time``.
    Build it with ``GoalController.of(machine, model)``.
    """

    weights: Array  # (ns, ng), or priorities, see ``GoalMachine.weights``
    variables: Any
    objects: Objects | None  # that fly about since time 0, without drag
    machine: GoalMachine = dataclasses.field(metadata={"static": True})
    # goals of the machine that bring an effector to a point for a while, to be told of
    reach_targets: tuple[Reach, ...] = dataclasses.field(default=(), metadata={"static": True})
    times: Array | None = None  # (ns, ng) [s], see ``GoalMachine.times``
    clip: FollowedClip | None = None  # that goals of ``controllers.goals.clip`` follow
    # (goal, priority) of goals with strict priorities, see ``machine.goal_levels``
    priorities: tuple[tuple[str, float], ...] = dataclasses.field(
        default=(), metadata={"static": True}
    )

    @classmethod
    def of(
        cls,
        machine: GoalMachine,
        model: Model,
        objects: Objects | None = None,
        priorities: Mapping[str, float] | None = None,
    ) -> "GoalController":
        """Controller with the machine's own numbers, in the model's precision.

        priorities: strict ones, by goal; raises ValueError as ``goal_levels`` does.
        """
        goal_levels(machine, priorities or {})
        weights, times = jax.tree.map(
            lambda x: jnp.asarray(x, model.mass.dtype), (machine.weights(), machine.times())
        )
        strict = tuple((priorities or {}).items())
        return cls(weights, machine.variables, objects, machine, times=times, priorities=strict)

    @property
    def labels(self) -> dict[str, str]:
        """Mapping from label to path.

        Weights are "takeStep.damping" (state and goal), of a response "balance.reach_1.time" and
        ".priority"; numbers of the gait "gait.time", of a submachine "stand.gait.time".
        """
        goals = [goal.name for goal in self.machine.goals]
        paths = {}
        for s, (name, state) in enumerate(self.machine.states.items()):
            for goal, weight in state.goals.items():
                label, at = f"{name}.{goal}", f"[{s},{goals.index(goal)}]"
                if isinstance(weight, Response):
                    paths |= {f"{label}.time": f"times{at}", f"{label}.priority": f"weights{at}"}
                else:
                    paths[label] = f"weights{at}"
        return paths | _gaits(self.variables, "variables")

    def number_source(self, files: Mapping[str, str], model: Model) -> NumberSource:
        """Ranges of the weights that are not 0, and of the numbers of the gait."""
        weights = np.asarray(self.weights)
        ranges = {f"weights[{s},{g}]": range_around(weights[s, g]) for s, g in np.argwhere(weights)}
        gait = getattr(self.variables, "gait", None)
        for own in dataclasses.fields(gait) if gait is not None else ():
            ranges[f"variables.gait.{own.name}"] = range_around(getattr(gait, own.name))
        return GoalNumbers(of_goals=ranges)

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the machine's states."""
        return self.machine.state_names

    def check(self, model: Model) -> None:
        """Raise ModelError unless weights and times have the machine's shape, times positive."""
        shape = (len(self.machine.states), len(self.machine.goals))
        check_array("controller.weights", self.weights, shape, model.mass.dtype)
        if self.times is not None:
            check_array("controller.times", self.times, shape, model.mass.dtype)
            if has_values(self.times) and not (np.asarray(self.times) > 0).all():
                raise ModelError("controller.times: a time constant is positive, such as 0.3 s")

    def summary_entries(
        self, scheme: Any, model: Model, frames: Any, time: np.ndarray
    ) -> dict[str, Any]:
        """Results of the goals for a summary, see ``controllers.goals.account``."""
        return account(self, scheme, model, frames, time)

    def goal_shares(self, frames: Any) -> dict[str, np.ndarray]:
        """Share (T,) of each goal in the objective, see ``controllers.goals.account``."""
        return goal_shares(self.machine, frames)

    def flying_objects(self, model: Model, time: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """Flying balls for pages of the motion: (radius, positions (T, 3)) [m]."""
        if self.objects is None:
            return []
        places = flight(self.objects, model, time)
        return [(float(r), places[:, k]) for k, r in enumerate(np.asarray(self.objects.radius))]

    def phase(self, memory: MachineState) -> tuple[Array, Array]:
        """Index of the machine's state, and the time at which it was entered [s]."""
        return memory.state, memory.since

    def init(self, model: Model, state: State, obs: EffectorObservation) -> MachineState:
        obs = self._sees(model, obs)
        return self._measured(self.machine.begin(obs, self.variables), obs)

    def update(
        self, memory: MachineState, model: Model, state: State, obs: EffectorObservation, dt: Array
    ) -> tuple[MachineState, Any]:
        obs = self._sees(model, obs)
        memory = self._measured(self.machine.advance(memory, obs), obs)
        return memory, self._tasks(memory, obs, dt)

    def tasks_at(
        self, memory: MachineState, model: Model, obs: EffectorObservation, dt: Array
    ) -> Any:
        """Tasks of the machine's present state, which does not advance."""
        return self._tasks(memory, self._sees(model, obs), dt)

    def _tasks(self, memory: MachineState, obs: EffectorObservation, dt: Array) -> Any:
        strict = dict(self.priorities)
        return self.machine.tasks(memory, obs, self.weights, obs.unit, dt, self.times, strict)

    def _measured(self, memory: MachineState, obs: EffectorObservation) -> MachineState:
        """Memory with the present error of following the clip."""
        if self.clip is None:
            return memory
        return dataclasses.replace(memory, clip_error=following_error(obs))

    def _sees(self, model: Model, obs: EffectorObservation) -> EffectorObservation:
        """Observation with the clip, and with the objects at their present positions."""
        if self.clip is not None:
            obs = dataclasses.replace(obs, clip=self.clip)
        if self.objects is None:
            return obs
        return dataclasses.replace(obs, objects=self.objects.at(obs.time, model.gravity))


def _gaits(variables: Any, path: str) -> dict[str, str]:
    """Mapping from label to path of the numbers of gaits, also of submachines."""
    if isinstance(variables, Composed):
        paths = _gaits(variables.outer, f"{path}.outer")
        for name, start in variables.starts.items():
            inner = _gaits(start, f"{path}.starts.{name}")
            paths |= {f"{name}.{label}": at for label, at in inner.items()}
        return paths
    gait = getattr(variables, "gait", None)
    fields = () if gait is None else dataclasses.fields(gait)
    return {f"gait.{f.name}": f"{path}.gait.{f.name}" for f in fields}
