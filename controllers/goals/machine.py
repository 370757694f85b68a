"""State machines of goals: which goals count now, with what weights.

A controller is M = (S, T). A state is a set of weighted goals and a condition D; where D fails, the
first applicable of the states that transitions lead to takes over, the nearest first. A transition
from a state to itself enters it anew. All of it is tables and masks, so one program runs many
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
    """Nothing is noted."""
    return variables


def _nothing(obs, variables):
    return jnp.zeros(obs.conf.effectors.count, bool)


def _as_held(obs, variables):
    return obs.conf.holds.grips.held


@dataclass(frozen=True)
class GoalState:
    """goals: name -> weight, or a ``Response``. condition(obs, variables) is the document's D;
    enter(obs, variables) is done when the state takes over, during(obs, variables) in every step
    that it lasts.
    lifts(obs, variables) (ne,) bool: the effectors that need not stay where they touch.
    holds(obs, variables) (ng,) int: of each gripper the hold that it asks for, or
    ``synthesis.holds.NO_HOLD``; as it is, where nothing else is said."""

    goals: Mapping[str, float | Response]
    condition: Callable[[EffectorObservation, Any], Array]
    enter: Callable[[EffectorObservation, Any], Any] = same
    during: Callable[[EffectorObservation, Any], Any] = same
    lifts: Callable[[EffectorObservation, Any], Array] = _nothing
    holds: Callable[[EffectorObservation, Any], Array] = _as_held


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MachineState:
    """Where a machine is."""

    state: Array  # () int
    since: Array  # () time at which it came there [s]
    steps: Array  # (ns,) int: how often each state was entered
    variables: Any  # what the machine's own conditions and goals remember
    constraints: ConstraintMemory | None = None  # of the machine's effector constraints


@dataclass(frozen=True, eq=False)
class GoalMachine:
    """states by name, the first is the start; transitions: name -> names, the first comes first.

    variables: what conditions and goals remember at the start, a pytree. constraints: besides the
    goals, whatever the state. clasps(obs, variables) (nc,) bool: the hands of others that it asks
    for, whatever the state. onward: the search goes on along the transitions of states that do not
    apply; else transitions name all that there is to ask (``controllers.goals.compose``).

    Raises ValueError for a state or a transition that names something unknown, for a goal that has
    a weight in one state and a response in another, or a response where it asks for no contact
    force, and for two constraints of an effector at once.
    """

    goals: tuple[Goal, ...]
    states: Mapping[str, GoalState]
    transitions: Mapping[str, tuple[str, ...]]
    variables: Any = ()
    constraints: tuple[EffectorConstraint, ...] = ()
    clasps: Callable[[EffectorObservation, Any], Array] | None = None
    onward: bool = True
    order: tuple[tuple[int, ...], ...] = field(init=False)  # by state, whom to ask, nearest first

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
        return tuple(self.states)

    @property
    def timed(self) -> tuple[bool, ...]:
        """(ng,) of each goal whether it has a response."""
        return tuple(
            any(isinstance(s.goals.get(goal.name), Response) for s in self.states.values())
            for goal in self.goals
        )

    def weights(self) -> Array:
        """(ns, ng) as declared, of responses the priority: what a tuner tunes and a batch may
        vary."""
        return jnp.array(self._table(lambda one: one.priority, lambda weight: weight))

    def times(self) -> Array | None:
        """(ns, ng) of responses [s], 1 where there is none; None if no goal has one."""
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
        """With one more goal: one weight or response for all states, or by state; changes: of
        fields."""
        by_state = weight if isinstance(weight, Mapping) else dict.fromkeys(self.states, weight)
        states = {
            name: replace(state, goals={**state.goals, goal.name: by_state.get(name, 0.0)})
            for name, state in self.states.items()
        }
        return replace(self, goals=(*self.goals, goal), states=states, **changes)

    def weighing(self, goals: Mapping[str, float | Response]) -> "GoalMachine":
        """With other weights or responses, by goal, in the states that have the goal. KeyError for
        a goal that no state has."""
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
        """In the first state; variables: others than its own."""
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
        """Stay where the condition holds, else search along the transitions."""
        states = list(self.states.values())
        kept = pick(memory.state, [s.during(obs, memory.variables) for s in states])
        entered = [s.enter(obs, kept) for s in states]
        may_stay = pick(memory.state, [s.condition(obs, kept) for s in states])
        applies = jnp.stack([s.condition(obs, e) for s, e in zip(states, entered)])
        follower = pick(memory.state, [self._first(order, applies) for order in self.order])
        moved = ~may_stay & (follower >= 0)
        chosen = jnp.where(moved, follower, memory.state)
        variables = pick(chosen, entered)
        return MachineState(
            state=chosen,
            since=jnp.where(moved, obs.time, memory.since),
            steps=memory.steps + jnp.where(moved & (chosen == jnp.arange(len(states))), 1, 0),
            variables=jax.tree.map(lambda new, old: jnp.where(moved, new, old), variables, kept),
            constraints=constraints_now(self.constraints, obs, memory.constraints)
            if self.constraints
            else None,
        )

    def _first(self, order: tuple[int, ...], applies: Array) -> Array:
        """The first state of an order that applies, else -1."""
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
    ):
        """``synthesize``'s tasks(conf, at_v): the goals of the present state. weights and times: of
        ``weights`` and ``times``."""

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
        """Of each goal that has rows. here: as ``at_v`` leads to, from obs; stays (ne,) bool."""
        conf, now = here.conf, weights[memory.state]
        factor = None if times is None else ease(obs.conf, stays, unit, dt)
        rows = []
        for k, (goal, timed) in enumerate(zip(self.goals, self.timed)):
            if goal.level in VANISH:
                continue
            found = goal.rows(here, memory.variables)
            error, J = found
            scale = root_of_weight(now[k]) / (
                1.0 if goal.unit == "one" else getattr(unit, goal.unit)
            )
            if timed and times is not None and factor is not None:
                own = times[memory.state, k], now[k]
                rows.append(response_rows(obs.conf, found, goal.level, at_v, *own, factor, dt))
            elif goal.level == "velocity":
                rows.append(velocity_rows(J, -error, scale))
            else:
                rows.append(position_rows(conf, error, J, at_v, scale, dt))
        return rows

    def _vanishing(
        self, level: str, memory: MachineState, here: EffectorObservation, weights: Array
    ) -> Array | None:
        """(ne,) weights on contact forces, or (nv,) on torques; None where no goal asks for any."""
        now, dtype = weights[memory.state], here.conf.v.dtype
        asked = [
            jnp.where(goal.rows(here, memory.variables), now[k], 0.0).astype(dtype)
            for k, goal in enumerate(self.goals)
            if goal.level == level
        ]
        return sum(asked[1:], asked[0]) if asked else None

    @property
    def row_names(self) -> tuple[str, ...]:
        """Of the goals that have rows, as ``Tasks.of_goal`` counts them."""
        return tuple(goal.name for goal in self.goals if goal.level not in VANISH)


def pick(index: Array, options: list) -> Any:
    """The index-th of some pytrees of one structure."""

    def one(*leaves):
        out = leaves[0]
        for k, leaf in enumerate(leaves[1:], start=1):
            out = jnp.where(index == k, leaf, out)
        return out

    return jax.tree.map(one, *options)
