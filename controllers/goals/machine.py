"""State machines of goals: each state selects goals and their weights.

A controller is M = (S, T). A state is a set of weighted goals and a condition D; where D fails, the
first applicable of the states that transitions lead to takes over, the nearest first. A transition
from a state to itself enters it again. All of it is tables and masks, so one program runs many
characters in different states.

Source: Jain, Ye, Liu (2009), section 5.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.effector_constraints import (
    ConstraintMemory,
    EffectorConstraint,
    check_constraints,
    constraint_rows,
    constraints_now,
)
from controllers.goals.response import Response, ease, response_rows
from controllers.goals.tasks import VANISH, Goal
from jaxsim.synthesis.config import Units
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.tasks import (
    TaskRows,
    Tasks,
    position_rows,
    root_of_weight,
    stack_rows,
    velocity_rows,
)


def same(obs, variables):
    """Return the variables unchanged."""
    return variables


def _nothing(obs, variables):
    """Mask (ne,) without any effector."""
    return jnp.zeros(obs.conf.effectors.count, bool)


def _as_held(obs, variables):
    """Present hold (ng,) of each gripper."""
    return obs.conf.holds.grips.held


@dataclass(frozen=True)
class GoalState:
    """State of a goal machine: weighted goals, a condition, and functions for entry and each step.

    goals: name -> weight, or a ``Response``. condition(obs, variables) is D of Jain, Ye, Liu
    (2009); enter(obs, variables) updates the variables when the state takes over, during(obs,
    variables) in every step that it lasts. lifts(obs, variables) (ne,) bool: effectors that need
    not stay where they touch. holds(obs, variables) (ng,) int: the hold that each gripper requests,
    or ``synthesis.holds.NO_HOLD``; default: keep the current grip.
    """

    goals: Mapping[str, float | Response]
    condition: Callable[[EffectorObservation, Any], Array]
    enter: Callable[[EffectorObservation, Any], Any] = same
    during: Callable[[EffectorObservation, Any], Any] = same
    lifts: Callable[[EffectorObservation, Any], Array] = _nothing
    holds: Callable[[EffectorObservation, Any], Array] = _as_held


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MachineState:
    """Memory of a goal machine: its state, the time of entry, and its variables."""

    state: Array  # () int
    since: Array  # () time at which the state was entered [s]
    steps: Array  # (ns,) int: number of entries of each state
    variables: Any  # memory of the machine's own conditions and goals
    constraints: ConstraintMemory | None = None  # of the machine's effector constraints
    # () [m] of a controller with a clip, see ``controllers.goals.clip.following_error``
    clip_error: Array | None = None


@dataclass(frozen=True, eq=False)
class GoalMachine:
    """State machine of goals, with transitions between its states.

    states by name, the first is the initial one; transitions: name -> names, the first has
    precedence. variables: initial memory of conditions and goals, a pytree. constraints: pins, in
    every state. clasps(obs, variables) (nc,) bool: the hand holds requested, in every state.
    onward: the search continues along the transitions of states that do not apply; else the
    transitions list all candidates (``controllers.goals.compose``).

    Raises ValueError for a state or a transition that names something unknown, for a goal that has
    a weight in one state and a response in another, or a response on forces or torques, and for two
    pins of an effector at once.
    """

    goals: tuple[Goal, ...]
    states: Mapping[str, GoalState]
    transitions: Mapping[str, tuple[str, ...]]
    variables: Any = ()
    constraints: tuple[EffectorConstraint, ...] = ()
    clasps: Callable[[EffectorObservation, Any], Array] | None = None
    onward: bool = True
    order: tuple[tuple[int, ...], ...] = field(init=False)  # by state: successors, nearest first

    def __post_init__(self):
        names, known = list(self.states), [goal.name for goal in self.goals]
        if len(set(known)) < len(known):
            raise ValueError(f"two goals have one name: {', '.join(known)}")
        for name, state in self.states.items():
            for goal, weight in state.goals.items():
                if goal not in known:
                    raise ValueError(
                        f"state {name!r} weighs a goal {goal!r}; there are {', '.join(known)}"
                    )
                if not isinstance(weight, Response) and not np.isfinite(weight):
                    raise ValueError(f"state {name!r}: the weight of {goal!r} is {weight}")
        for name, followers in self.transitions.items():
            for end in (name, *followers):
                if end not in names:
                    raise ValueError(
                        f"transition {name!r} -> {', '.join(followers)}: no state {end!r}; the "
                        f"states are {', '.join(names)}"
                    )
        for goal in self.goals:
            self._check_responses(goal)
        check_constraints(self.constraints)
        order = []
        for name in names:
            reached = list(dict.fromkeys(self.transitions.get(name, ())))
            for at in reached if self.onward else ():
                more = self.transitions.get(at, ()) if at != name else ()
                reached += [s for s in more if s not in (name, *reached)]
            order.append(tuple(names.index(s) for s in reached))
        object.__setattr__(self, "order", tuple(order))

    def _check_responses(self, goal: Goal) -> None:
        given = [s.goals[goal.name] for s in self.states.values() if goal.name in s.goals]
        kinds = {isinstance(one, Response) for one in given if one != 0.0}
        if len(kinds) > 1:
            raise ValueError(
                f"goal {goal.name!r} has a weight in one state and a response in another; give it"
                " one of the two"
            )
        if True in kinds and goal.level in VANISH:
            raise ValueError(
                f"goal {goal.name!r} asks {VANISH[goal.level]} to vanish, which takes no time; give"
                " it a weight"
            )

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, in their order."""
        return tuple(self.states)

    @property
    def timed(self) -> tuple[bool, ...]:
        """Flag (ng,) of each goal: it has a response."""
        return tuple(
            any(isinstance(s.goals.get(goal.name), Response) for s in self.states.values())
            for goal in self.goals
        )

    def weights(self) -> Array:
        """Weights (ns, ng) as declared, of responses the priority: a search may change them."""
        return jnp.array(self._table(lambda one: one.priority, lambda weight: weight))

    def times(self) -> Array | None:
        """Time constants (ns, ng) of responses [s], 1 for weights; None without responses."""
        if not any(self.timed):
            return None
        return jnp.array(self._table(lambda one: one.time, lambda _: 1.0))

    def _table(self, of_response: Callable, of_weight: Callable) -> list[list[float]]:
        given = [[s.goals.get(g.name, 0.0) for g in self.goals] for s in self.states.values()]
        return [
            [of_response(x) if isinstance(x, Response) else of_weight(x) for x in row]
            for row in given
        ]

    def adding(
        self,
        goal: Goal,
        weight: float | Response | Mapping[str, float | Response],
        **changes: Any,
    ) -> "GoalMachine":
        """Machine with one more goal.

        weight: a weight or response for all states, or by state; changes: of other fields.
        """
        by_state = weight if isinstance(weight, Mapping) else dict.fromkeys(self.states, weight)
        states = {
            name: replace(state, goals={**state.goals, goal.name: by_state.get(name, 0.0)})
            for name, state in self.states.items()
        }
        return replace(self, goals=(*self.goals, goal), states=states, **changes)

    def weighing(self, goals: Mapping[str, float | Response]) -> "GoalMachine":
        """Machine with other weights or responses, by goal, in the states that have the goal.

        Raises KeyError for a goal that no state has.
        """
        known = {name for state in self.states.values() for name in state.goals}
        for name in goals:
            if name not in known:
                there = ", ".join(sorted(known))
                raise KeyError(f"no state has a goal {name!r}; there are {there}")
        states = {
            name: replace(state, goals={g: goals.get(g, w) for g, w in state.goals.items()})
            for name, state in self.states.items()
        }
        return replace(self, states=states)

    def begin(self, obs: EffectorObservation, variables: Any = None) -> MachineState:
        """Initial memory, in the first state; variables: in place of the machine's own."""
        first = next(iter(self.states.values()))
        dtype = obs.conf.q.dtype

        def typed(x):
            x = jnp.asarray(x)
            return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

        variables = jax.tree.map(
            typed,
            first.enter(
                obs, jax.tree.map(typed, self.variables if variables is None else variables)
            ),
        )
        return MachineState(
            state=jnp.asarray(0),
            since=obs.time,
            steps=jnp.zeros(len(self.states), int),
            variables=variables,
            constraints=constraints_now(self.constraints, obs, None) if self.constraints else None,
        )

    def advance(self, memory: MachineState, obs: EffectorObservation) -> MachineState:
        """Memory after a step: stay while the state's condition holds, else follow transitions."""
        states = list(self.states.values())
        present = pick(memory.state, [s.during(obs, memory.variables) for s in states])
        entered = [s.enter(obs, present) for s in states]
        may_stay = pick(memory.state, [s.condition(obs, present) for s in states])
        applies = jnp.stack([s.condition(obs, e) for s, e in zip(states, entered)])
        follower = pick(memory.state, [self._first(order, applies) for order in self.order])
        moved = ~may_stay & (follower >= 0)
        chosen = jnp.where(moved, follower, memory.state)
        variables = pick(chosen, entered)
        return MachineState(
            state=chosen,
            since=jnp.where(moved, obs.time, memory.since),
            steps=memory.steps + jnp.where(moved & (chosen == jnp.arange(len(states))), 1, 0),
            variables=jax.tree.map(lambda new, old: jnp.where(moved, new, old), variables, present),
            constraints=constraints_now(self.constraints, obs, memory.constraints)
            if self.constraints
            else None,
        )

    def _first(self, order: tuple[int, ...], applies: Array) -> Array:
        """First state of an order that applies, else -1."""
        chosen = jnp.asarray(-1)
        for k in reversed(order):
            chosen = jnp.where(applies[k], k, chosen)
        return chosen

    def tasks(
        self,
        memory: MachineState,
        obs: EffectorObservation,
        weights: Array,
        unit: Units,
        dt,
        times: Array | None = None,
        priorities: Mapping[str, float] | None = None,
    ):
        """Function tasks(conf, at_v) for ``synthesize``: the tasks of the present state's goals.

        weights and times: of ``weights`` and ``times``; priorities: see ``goal_levels``.
        """
        levels = goal_levels(self, priorities or {})

        def tasks(conf, at_v) -> Tasks:
            here = obs.with_conf(conf)
            lifted = [s.lifts(here, memory.variables) for s in self.states.values()]
            lifted = pick(memory.state, lifted)
            still = jnp.where(lifted, 0.0, 1.0).astype(conf.v.dtype)
            rows = self._rows(
                memory, obs, here, at_v, weights, times, obs.touching & ~lifted, unit, dt
            )
            relaxed = self._vanishing("force", memory, here, weights)
            fixed = grip = hold = clasp = None
            if conf.clasps is not None and self.clasps is not None:
                clasp = self.clasps(here, memory.variables)
            if conf.holds is not None:
                asked = [s.holds(here, memory.variables) for s in self.states.values()]
                hold = pick(memory.state, asked)
            if memory.constraints is not None:
                fixed, grip = constraint_rows(
                    self.constraints, memory.constraints, conf, at_v, unit, dt
                )
            return Tasks(
                goals=stack_rows(*rows),
                relax=jnp.zeros_like(still) if relaxed is None else relaxed,
                effort=self._vanishing("torque", memory, here, weights),
                of_goal=np.repeat(np.arange(len(rows)), [len(part.r) for part in rows]),
                n_goals=len(rows),
                levels=tuple(k for k, part in zip(levels, rows) for _ in range(len(part.r))),
                still=still,
                torque=jnp.ones((), conf.v.dtype),
                fixed=fixed,
                grip=grip,
                hold=hold,
                clasp=clasp,
            )

        return tasks

    def _rows(
        self, memory, obs, here, at_v, weights, times, stays, unit: Units, dt
    ) -> list[TaskRows]:
        """Task rows of each goal that has rows, at the configuration ``here``.

        here: where ``at_v`` leads; obs: of the step's beginning; stays (ne,) bool: effectors in
        contact that do not lift.
        """
        conf, now = here.conf, weights[memory.state]
        factor = None if times is None else ease(obs.conf, stays, unit, dt)
        rows = []
        for k, (goal, timed) in enumerate(zip(self.goals, self.timed)):
            if goal.level in VANISH:
                continue
            error_rows = goal.rows(here, memory.variables)
            error, J = error_rows
            scale = root_of_weight(now[k]) / (
                1.0 if goal.unit == "one" else getattr(unit, goal.unit)
            )
            if timed and times is not None and factor is not None:
                response = times[memory.state, k], now[k]
                rows.append(
                    response_rows(obs.conf, error_rows, goal.level, at_v, *response, factor, dt)
                )
            elif goal.level == "velocity":
                rows.append(velocity_rows(J, -error, scale))
            else:
                rows.append(position_rows(conf, error, J, at_v, scale, dt))
        return rows

    def _vanishing(
        self, level: str, memory: MachineState, here: EffectorObservation, weights: Array
    ) -> Array | None:
        """Weights (ne,) on contact forces, or (nv,) on torques; None if no goal has such rows."""
        now, dtype = weights[memory.state], here.conf.v.dtype
        asked = [
            jnp.where(goal.rows(here, memory.variables), now[k], 0.0).astype(dtype)
            for k, goal in enumerate(self.goals)
            if goal.level == level
        ]
        return sum(asked[1:], asked[0]) if asked else None

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the goals that have rows, as ``Tasks.of_goal`` counts them."""
        return tuple(goal.name for goal in self.goals if goal.level not in VANISH)


def goal_levels(machine: GoalMachine, priorities: Mapping[str, float]) -> tuple[int, ...]:
    """Level of each goal that has rows, from 0 on, or () without priorities.

    priorities: goal -> priority, 1 the first; goals without one come after all others. Raises
    ValueError for a goal that the machine lacks or that has no rows, and a priority below 1.
    """
    if not priorities:
        return ()
    for name, priority in priorities.items():
        if name not in machine.row_names:
            known = ", ".join(machine.row_names)
            raise ValueError(f"priority of a goal {name!r}: goals of the machine are {known}")
        if priority < 1 or priority != int(priority):
            raise ValueError(f"priority of {name!r} is {priority:g}; give 1 for the first, 2, ...")
    last = max(priorities.values()) + 1
    order = [priorities.get(name, last) for name in machine.row_names]
    return tuple(sorted(set(order)).index(priority) for priority in order)


def pick(index: Array, options: list) -> Any:
    """Select one of several pytrees of the same structure by an index, which may be traced."""

    def one(*leaves):
        out = leaves[0]
        for k, leaf in enumerate(leaves[1:], start=1):
            out = jnp.where(index == k, leaf, out)
        return out

    return jax.tree.map(one, *options)
