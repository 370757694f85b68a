"""Environment of a Problem: pure functions ``reset`` and ``step`` of one character.

    env = as_env(problem, observation=("joint_angles", "joint_rates", "root"), action="offsets",
                 reward={"alive": 1.0, "speed": 2.0}, done=("fallen",))
    at = env.reset(key)                   # () uint32, of ``draws.member_keys``
    at, step = env.step(at, action)       # (na,) from -1 to 1; jax.vmap, or jaxsim.fused.fuse

An episode begins as one of the problem's trials does, with the numbers that vary in it; trial and
command are sampled by the key. An action is held for several steps of the simulation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.actions import Action, action_of
from controllers.policy.observations import Part, check_roles, look_up, observation_vector, part_of
from controllers.policy.view import PolicyInput, stance
from controllers.tracking.reference import Reference
from controllers.tracking.track import Track
from jaxsim.model import Model, State
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.rollout import SimulationCarry, begin, initial_folds, take_steps
from optimize.environments.checks import check_command, check_no_clip, finite_parts, name_of, scalar
from optimize.environments.draws import uniform
from optimize.environments.numbers import Numbers
from optimize.environments.records import EnvState, EnvStep, HeldAction
from optimize.environments.rewards import REWARDS, Moment
from optimize.environments.starts import starts_among, starts_on
from optimize.environments.terminations import TERMINATIONS
from optimize.problems.problem import Problem
from optimize.scenarios.scenario import Scenario

EFFORT = "effort of the action"  # measure beside those of the objective
OBJECTIVE = "objective"  # the reward that is the fall of the problem's objective
OBSERVATION = ("joint_angles", "joint_rates", "root", "contacts", "command")


@dataclass(frozen=True)
class Environment:
    """Reinforcement-learning environment, see ``as_env``. Hashed by identity, as its problem is."""

    problem: Problem
    observation: tuple[Part, ...]
    action: Action | Numbers
    reward: Mapping[str | Callable[[Moment], Array], float]
    done: tuple[str | Callable[[PolicyInput], Array], ...]
    command: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    every: int = 20
    seconds: float | None = None
    clip: Reference | None = None
    stands: State | None = None
    states: State | None = None

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def model(self) -> Model:
        return self.problem.scenario.model

    @property
    def dt(self) -> float:
        """Time for which an action is held [s]."""
        return self.every * float(self.problem.scenario.scheme.dt)

    @property
    def pose(self) -> np.ndarray:
        """Pose (nq,) that observed angles and heights count from."""
        return self._stance[0]

    @property
    def rest(self) -> np.ndarray:
        """Pose (nq,) that actions count from: the scenario's start."""
        return np.asarray(self.problem.scenario.state.q)

    @property
    def track(self) -> Track | None:
        """Poses of the clip."""
        return None if self.clip is None else self.clip.track

    @property
    def limit(self) -> int | None:
        """Number of actions in an episode that nothing ends; None without a time limit."""
        return None if self.seconds is None else max(1, round(self.seconds / self.dt))

    @cached_property
    def action_size(self) -> int:
        """Size na of an action."""
        return self.action.size(self.model)

    @cached_property
    def observation_size(self) -> int:
        """Size no of an observation."""
        key = jax.ShapeDtypeStruct((), jnp.uint32)
        return jax.eval_shape(self.reset, key).observation.shape[0]

    # ---- episodes

    def reset(self, key: Array) -> EnvState:
        """Initial state of a member's first episode; key () uint32."""
        return self._begun(key, jnp.zeros((), jnp.uint32))

    def step(self, at: EnvState, action: Array) -> tuple[EnvState, EnvStep]:
        """Hold an action (na,); the episode goes on whatever the outcome is.

        Raises ValueError for an action of another size.
        """
        return self.step_with_faults(at, action)[:2]

    def step_with_faults(
        self, at: EnvState, action: Array
    ) -> tuple[EnvState, EnvStep, dict[str, Array]]:
        """Step with the causes of ``EnvStep.failed``, () bool each, by name; see ``step``.

        The names are "state", "observation" and "reward NAME".
        """
        after, view, parts = self._led_to(at, self._checked(action))
        finite = finite_parts(after.state, after.observation, parts)
        good = jnp.stack([jnp.asarray(each) for each in finite.values()]).all()
        parts = {name: jnp.where(good, part, 0.0) for name, part in parts.items()}
        done = ~good
        for condition in self.done:
            done = done | scalar(_condition(condition)(view), "termination", condition)
        late = jnp.asarray(False) if self.limit is None else after.steps >= self.limit
        reward = sum(parts.values(), start=jnp.zeros((), after.state.q.dtype))
        step = EnvStep(after.observation, reward, parts, done, late & ~done, ~good)
        return after, step, {name: ~jnp.asarray(each) for name, each in finite.items()}

    def step_on(self, at: EnvState, action: Array) -> tuple[EnvState, EnvStep]:
        """Step with automatic reset: where the episode ended the state is that of a new one."""
        after, step = self.step(at, action)
        return self.renewed(after, step), step

    def renewed(self, after: EnvState, step: EnvStep) -> EnvState:
        """State after a step, or where the episode ended the initial state of the next one."""
        ended = step.done | step.truncated
        return jax.lax.cond(
            ended, lambda one: self._begun(one.key, one.count), lambda one: one, after
        )

    # ---- parts of both

    def _led_to(
        self, at: EnvState, action: Array
    ) -> tuple[EnvState, PolicyInput, dict[str, Array]]:
        """The state after an action, what is seen there, and the rewards."""
        scenario = self._scenario(at.trial)
        state, memory, measured, effort = self._simulated(scenario, at, action)
        after = replace(
            at, state=state, memory=memory, action=action, steps=at.steps + 1, measured=measured
        )
        view = self._view(scenario, after, scenario.scheme.observe(scenario.model, state))
        seconds = jnp.asarray(self.dt, effort.dtype)
        clip = None if self.clip is None else self.clip.at(scenario.model, state.time)
        moment = Moment(view, at.action, effort, view.obs.com - at.com, seconds, clip)
        parts = self._rewards(moment, at.measured, measured)
        seen = observation_vector(self.observation, view)
        return replace(after, com=view.obs.com, observation=seen), view, parts

    def _begun(self, key: Array, count: Array) -> EnvState:
        """Initial state of an episode, by numbers that are sampled with index ``count``."""
        pool, dtype = self._pool, self.model.mass.dtype
        drawn = uniform(key, count, 1 + len(self.command), dtype)
        trials = self.problem.trials
        trial = jnp.minimum((drawn[0] * trials).astype(jnp.int32), trials - 1)
        state, memory, obs = jax.tree.map(lambda x: jnp.asarray(x)[trial], pool)
        command = {
            name: low + (high - low) * drawn[1 + k]
            for k, (name, (low, high)) in enumerate(sorted(self.command.items()))
        }
        at = EnvState(
            state=state,
            memory=memory,
            trial=trial,
            command=command,
            action=jnp.zeros(self.action_size, dtype),
            com=obs.com,
            steps=jnp.zeros((), jnp.int32),
            measured=self._unmeasured(),
            key=key,
            count=count + np.uint32(1),
            observation=jnp.zeros(0, dtype),
        )
        view = self._view(self._scenario(trial), at, obs)
        return replace(at, observation=observation_vector(self.observation, view))

    @cached_property
    def beginnings(self) -> Any:
        """Initial states of all trials, and the values that vary by path."""
        _, starts, varied = self.problem.members(np.zeros((1, 0)))
        standing = self.problem.scenario.tree["state"]
        if self.clip is not None:
            starts = starts_on(self.model, self.clip, standing, starts)
        if self.states is not None:
            starts = starts_among(self.model, self.states, standing, starts)
        return starts, varied

    @cached_property
    def _pool(self) -> tuple[State, Any, Any]:
        """Initial states of all trials as the scheme has them, memories, and observations."""
        starts, varied = self.beginnings

        def ready(start, varied):
            own = self.problem.trial(np.zeros(0), start, varied)
            state, memory = begin(own.model, own.controller, own.scheme, own.state)
            obs = own.scheme.observe(own.model, state)
            return state, memory if isinstance(self.action, Numbers) else None, obs

        return jax.tree.map(np.asarray, jax.jit(jax.vmap(ready))(starts, varied))

    @cached_property
    def _stance(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pose, upright and height of views."""
        scenario = self.problem.scenario
        stands = scenario.state if self.stands is None else self.stands
        upright, height = jax.jit(stance)(scenario.model, stands)
        return np.asarray(stands.q), np.asarray(upright), np.asarray(height)

    def _scenario(self, trial: Array) -> Scenario:
        """Scenario of a trial."""
        _, varied = self.beginnings
        own = {path: jnp.asarray(values)[trial] for path, values in varied.items()}
        return self.problem.trial(np.zeros(0), self.problem.scenario.tree["state"], own)

    def _view(self, scenario: Scenario, at: EnvState, obs: Any) -> PolicyInput:
        pose, upright, height = map(jnp.asarray, self._stance)
        wanted = None if self.track is None else self.track.at(scenario.model, at.state.time)
        return PolicyInput(
            scenario.model, at.state, obs, pose, upright, height, at.command, at.action, wanted
        )

    def _simulated(self, scenario: Scenario, at: EnvState, action: Array):
        """State, memory, measures and mean effort after all steps of an action."""
        measures, pose = self._measures, jnp.asarray(self.rest)
        if isinstance(self.action, Numbers):
            controller = self.action.controller(scenario, action)
        else:
            controller = HeldAction(action, pose, self.track, self.action)
        limit = scenario.model.torque_limit
        motors = jnp.isfinite(limit) & (limit > 0)
        share = jnp.where(motors, 1 / jnp.where(motors, limit, 1.0), 0.0)
        share = share / max(1, len(scenario.model.topology.actuated_dofs)) ** 0.5

        def add_effort(effort: Array, sample: Sample) -> Array:
            torque = share * scenario.scheme.torque(sample.control, sample.info)
            return effort + jnp.sum(torque * torque)

        none = jnp.zeros((), at.state.q.dtype)
        start = SimulationCarry(at.state, at.memory, {**at.measured, EFFORT: none})
        end = take_steps(
            scenario.model, controller, scenario.scheme, start, self.every,
            {**measures, EFFORT: Measure(none, add_effort)}, scenario.forces,
        )  # fmt: skip
        measured = dict(end.folded)
        return end.state, end.memory, measured, measured.pop(EFFORT) / self.every

    @cached_property
    def _measures(self) -> dict[str, Any]:
        """Measures of the objective, where it is a reward."""
        return self.problem.objective.measures(self.model) if OBJECTIVE in self.reward else {}

    def _unmeasured(self) -> dict[str, Any]:
        return initial_folds(self._measures, self.model.mass.dtype)

    def _rewards(self, moment: Moment, before: Any, after: Any) -> dict[str, Array]:
        found = {}
        for name, weight in self.reward.items():
            if name == OBJECTIVE:
                objective = self.problem.objective
                total = objective.total(objective.parts(before))
                value = total - objective.total(objective.parts(after))
            else:
                value = _reward(name)(moment)
            found[name_of(name)] = weight * scalar(value, "reward", name)
        return found

    def _checked(self, action: Array) -> Array:
        action = jnp.asarray(action, self.model.mass.dtype)
        if action.shape != (self.action_size,):
            raise ValueError(
                f"the action has shape {action.shape}; of this environment it has"
                f" ({self.action_size},), and a batch of them takes jax.vmap or fuse"
            )
        return action


def as_env(
    problem: Problem,
    observation: Sequence[Part] = OBSERVATION,
    action: str | Action = "offsets",
    reward: Mapping[str | Callable[[Moment], Array], float] | None = None,
    done: Sequence[str | Callable[[PolicyInput], Array]] = ("fallen",),
    command: Mapping[str, tuple[float, float]] | None = None,
    rate: float | None = None,
    seconds: float | None = None,
    clip: Reference | None = None,
    stands: State | None = None,
    states: State | None = None,
) -> Environment:
    """Environment of a problem for one character; ``jax.vmap`` or ``fuse`` makes a batch of it.

    observation: parts by name (``controllers.policy.observations.OBSERVATIONS``), or functions of a
    PolicyInput. action: "offsets", "targets", "torques", "numbers" (those of the problem, which the
    scenario's own controller obeys), or an Action with other scales. reward: names
    (``rewards.REWARDS``) or functions of a Moment -> weight; "objective" is the fall of the
    problem's objective, and alone by default. done: names (``terminations.TERMINATIONS``) or
    functions of a PolicyInput that end an episode; a number that is not finite always does, as does
    an observation beyond ``FARTHEST``.

    command: name -> (lower, upper), sampled for each episode. rate: actions a second, by default
    50, or one a step where a step is longer. seconds: after which an episode is cut off; None:
    never. clip: a motion to follow (``controllers.tracking.reference``). Episodes then begin
    anywhere on it, as the clock shows, whose "period" is the clip's if no command says otherwise.
    stands: a standing state, which observed angles and heights count from; the scenario's start, or
    the first pose of the clip. states (m, ...): of another motion, in which half of the episodes
    begin; not with a clip.

    The problem's ``trials`` are the starts, with its ``spread``, ``variants`` and ``drawn``
    numbers (friction, masses, pushes); sizes of the body take scenarios of their own. Raises
    KeyError for an unknown name, with the nearest; ModelError where the body lacks what an action
    or observation needs; ValueError for an invalid rate.
    """
    scenario = problem.scenario
    dt = float(scenario.scheme.dt)
    rate = min(50.0, 1 / dt) if rate is None else rate
    if not 0 < rate <= 1.001 / dt:
        raise ValueError(
            f"rate is {rate:g} actions a second; give one from 0 to {1 / dt:g}, a step"
        )
    if command is not None:
        check_command(command)
    check_roles(scenario.model, observation)
    if clip is not None and states is not None:
        raise ValueError("episodes begin on the clip; leave the states of another motion out")
    if clip is not None:
        length = float(clip.duration())
        command = {"period": (length, length), **(command or {})}
        # not the scenario's start: that is another one where a policy already follows the clip
        stands = scenario.state.replace(q=clip.q[0]) if stands is None else stands
    env = Environment(
        problem=problem,
        observation=tuple(observation),
        action=_kind(problem, action),
        reward={OBJECTIVE: 1.0} if reward is None else dict(reward),
        done=tuple(done),
        command={} if command is None else dict(command),
        every=max(1, round(1 / (rate * dt))),
        seconds=seconds,
        clip=clip,
        stands=stands,
        states=states,
    )
    _check_named(env)
    _ = env.action_size, env._pool, env._stance  # now: they cannot be had within a trace
    return env


def _kind(problem: Problem, action: str | Action) -> Action | Numbers:
    """Action by its name. Raises ValueError for one that the scheme cannot take."""
    scenario = problem.scenario
    if action == "numbers":
        return Numbers(problem)
    kind = action_of(action) if isinstance(action, str) else action
    if scenario.scheme.takes_tasks:
        raise ValueError(
            f"{scenario.name}: a scheme of per-step optimisation takes goals, not torques;"
            ' choose action="numbers"'
        )
    return kind


def _check_named(env: Environment) -> None:
    """Raise KeyError or ValueError for unknown or invalid parts, rewards and terminations."""
    for part in env.observation:
        part_of(part)
    if env.clip is None:
        check_no_clip((*env.observation, *env.reward, *env.done), env.action)
    for name, weight in env.reward.items():
        _reward(name)
        if not np.isfinite(weight):
            raise ValueError(f"the reward {name_of(name)!r} has the weight {weight}")
    for name in env.done:
        _condition(name)


def _reward(name: str | Callable[[Moment], Array]) -> Callable[[Moment], Array]:
    if callable(name):
        return name
    return look_up(name, {**REWARDS, OBJECTIVE: None}, "reward")


def _condition(name: str | Callable[[PolicyInput], Array]) -> Callable[[PolicyInput], Array]:
    return name if callable(name) else look_up(name, TERMINATIONS, "termination")
