"""Composition of goal machines: a state may be a machine itself.

``composed`` takes the arguments of a ``GoalMachine``, except that a state may be a ``Submachine``;
the result is a ``GoalMachine`` again, so that it composes further. Its states are all of them in
one table, "stand.takeStep" being ``takeStep`` of the machine that is the state ``stand``; one
program runs characters in any of them.

The conditions of the outer machine have precedence. While that of a submachine holds, its machine
continues as it would alone; where it fails, or no state of the machine applies, the first
applicable state along the outer transitions follows. A machine that is entered starts again: with
its initial variables, in its first state or, where that does not apply, the first along its
transitions.

Source: Jain, Ye, Liu (2009), section 6.4, which composes controllers and does not say how.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from controllers.goals.effector_constraints import EffectorConstraint
from controllers.goals.machine import GoalMachine, GoalState, pick, same
from controllers.goals.response import Response
from controllers.goals.tasks import Goal
from jaxsim.synthesis.observation import EffectorObservation

NOWHERE = -1  # outer state of a machine before its start


@dataclass(frozen=True)
class Submachine:
    """A machine as a state of another, see ``GoalState``; its functions see the outer variables.

    goals: of the outer machine, in all states of this one besides its own. lifts: besides its own.
    holds: instead of its own, if not None.
    """

    machine: GoalMachine
    condition: Callable[[EffectorObservation, Any], Array]
    goals: Mapping[str, float | Response] = field(default_factory=dict)
    enter: Callable[[EffectorObservation, Any], Any] = same
    during: Callable[[EffectorObservation, Any], Any] = same
    lifts: Callable[[EffectorObservation, Any], Array] | None = None
    holds: Callable[[EffectorObservation, Any], Array] | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Composed:
    """Variables of a composed machine."""

    outer: Any  # its own
    starts: dict[str, Any]  # by submachine, as it begins
    parts: dict[str, Any]  # by submachine, as they are
    at: Array | int = NOWHERE  # () int: the outer state, by its place among these


def composed(
    goals: tuple[Goal, ...],
    states: Mapping[str, GoalState | Submachine],
    transitions: Mapping[str, tuple[str, ...]],
    variables: Any = (),
    constraints: tuple[EffectorConstraint, ...] = (),
    clasps: Callable[[EffectorObservation, Any], Array] | None = None,
) -> GoalMachine:
    """Compose goal machines into one ``GoalMachine``.

    goals: those that the outer machine weighs; the submachines bring theirs. Goals of one name are
    one goal, and see the variables of the machine that weighs them. Raises ValueError as
    ``GoalMachine`` does, for two different goals of one name, and for a transition of a submachine
    to itself, which has no meaning.
    """
    names, inner = tuple(states), _machines(states)
    outer = GoalMachine(
        goals,
        {name: GoalState(s.goals, s.condition) for name, s in states.items()},
        transitions,
        variables,
        constraints,
    )
    for name in inner:
        if name in transitions.get(name, ()):
            raise ValueError(
                f"transition {name!r} -> {name}: a machine is not entered anew by itself; lead to"
                " another state and back"
            )
    flat: dict[str, GoalState] = {}
    for k, (name, state) in enumerate(states.items()):
        for key, substate in _states(k, name, state).items():
            if key in flat:
                raise ValueError(f"two states have one name: {key}")
            flat[key] = substate
    entries = [_entries(name, inner.get(name)) for name in names]
    follow = {}
    for name, order in zip(names, outer.order):
        after = tuple(entry for k in order for entry in entries[k])
        machine = inner.get(name)
        if machine is None:
            follow[name] = after
            continue
        inside = [_within(name, s) for s in machine.state_names]
        for substate, followers in zip(inside, machine.order):
            follow[substate] = (*(inside[k] for k in followers), *after)
    starts = {name: machine.variables for name, machine in inner.items()}
    fixed = [*constraints, *(c for machine in inner.values() for c in machine.constraints)]
    return GoalMachine(
        goals=_united(goals, names, inner),
        states=flat,
        transitions=follow,
        variables=Composed(variables, starts, dict(starts)),
        constraints=tuple(dict.fromkeys(fixed)),
        clasps=_clasps(clasps, names, inner),
        onward=False,
    )


def renamed(machine: GoalMachine, names: Mapping[str, str]) -> GoalMachine:
    """Copy of a machine whose goals have other names; names: old -> new.

    For a machine that is composed with another whose goal of that name is a different one. Raises
    KeyError for an unknown goal.
    """
    known = [goal.name for goal in machine.goals]
    for name in names:
        if name not in known:
            raise KeyError(f"no goal {name!r}; there are {', '.join(known)}")
    goals = tuple(replace(goal, name=names.get(goal.name, goal.name)) for goal in machine.goals)
    states = {
        key: replace(state, goals={names.get(g, g): w for g, w in state.goals.items()})
        for key, state in machine.states.items()
    }
    return replace(machine, goals=goals, states=states)


def _machines(states: Mapping[str, GoalState | Submachine]) -> dict[str, GoalMachine]:
    return {name: s.machine for name, s in states.items() if isinstance(s, Submachine)}


def _within(name: str, state: str) -> str:
    return f"{name}.{state}"


def _entries(name: str, machine: GoalMachine | None) -> tuple[str, ...]:
    """Names of the states by which an outer state may be entered, the first comes first."""
    if machine is None:
        return (name,)
    known = machine.state_names
    order = dict.fromkeys([0, *machine.order[0]])
    return tuple(_within(name, known[k]) for k in order)


def _states(k: int, name: str, state: GoalState | Submachine) -> dict[str, GoalState]:
    """The k-th outer state, as states of the composed machine."""
    if not isinstance(state, Submachine):
        return {name: _plain(k, state)}
    both = {g for g in state.goals if g in {goal.name for goal in state.machine.goals}}
    if both:
        raise ValueError(
            f"state {name!r} weighs {', '.join(sorted(both))}, and so does its machine; leave it to"
            " one of them (``GoalMachine.weighing`` changes the machine's)"
        )
    inner = state.machine.states
    return {_within(name, one): _inner(k, name, state, inner[one]) for one in inner}


def _plain(k: int, state: GoalState) -> GoalState:
    """A state that belongs to no submachine, whose functions see the outer variables."""

    def lent(function: Callable) -> Callable:
        return lambda obs, now: function(obs, now.outer)

    def kept(function: Callable) -> Callable:
        return lambda obs, now: replace(now, outer=function(obs, now.outer), at=jnp.asarray(k))

    return GoalState(
        state.goals,
        condition=lent(state.condition),
        enter=kept(state.enter),
        during=kept(state.during),
        lifts=lent(state.lifts),
        holds=lent(state.holds),
    )


def _inner(k: int, name: str, outer: Submachine, state: GoalState) -> GoalState:
    """A state of the machine that is the k-th outer state."""

    def condition(obs, now: Composed):
        return outer.condition(obs, now.outer) & state.condition(obs, now.parts[name])

    def enter(obs, now: Composed) -> Composed:
        anew = jnp.where(now.at == k, 0, 1)
        own = pick(anew, [now.outer, outer.enter(obs, now.outer)])
        part = state.enter(obs, pick(anew, [now.parts[name], now.starts[name]]))
        return Composed(own, now.starts, {**now.parts, name: part}, jnp.asarray(k))

    def during(obs, now: Composed) -> Composed:
        part = state.during(obs, now.parts[name])
        return replace(now, outer=outer.during(obs, now.outer), parts={**now.parts, name: part})

    def lifts(obs, now: Composed):
        found = state.lifts(obs, now.parts[name])
        return found if outer.lifts is None else found | outer.lifts(obs, now.outer)

    def holds(obs, now: Composed):
        if outer.holds is not None:
            return outer.holds(obs, now.outer)
        return state.holds(obs, now.parts[name])

    return GoalState({**state.goals, **outer.goals}, condition, enter, during, lifts, holds)


def _united(
    goals: tuple[Goal, ...], names: tuple[str, ...], inner: Mapping[str, GoalMachine]
) -> tuple[Goal, ...]:
    """Each goal once, with the variables of the active machine."""
    owners_of: dict[str, dict[str | None, Goal]] = {}
    for owner, each in [(None, goals), *((n, m.goals) for n, m in inner.items())]:
        for goal in each:
            owners = owners_of.setdefault(goal.name, {})
            first, one = next(iter(owners.items()), (owner, goal))
            if _meant(one) != _meant(goal):
                where = "the outer machine" if first is None else repr(first)
                raise ValueError(
                    f"goal {goal.name!r} of {owner!r} is another than that of {where}; give one of"
                    f' them another name: renamed(machine, {{"{goal.name}": "..."}})'
                )
            owners[owner] = goal
    return tuple(
        replace(next(iter(owners.values())), rows=_Shared(owners, names))
        for owners in owners_of.values()
    )


def _meant(goal: Goal) -> Goal:
    """The goal as it was before composition."""
    while isinstance(goal.rows, _Shared):
        goal = next(iter(goal.rows.owners.values()))
    return goal


@dataclass(frozen=True, eq=False)
class _Shared:
    """Rows of a goal as each of its owners defines it, while that one is active.

    Owner None: the outer machine. names: of the outer states.
    """

    owners: Mapping[str | None, Goal]
    names: tuple[str, ...]

    def __call__(self, obs: EffectorObservation, now: Composed) -> Any:
        alike: dict[Any, list[str | None]] = {}
        for owner, goal in self.owners.items():
            alike.setdefault((goal, _structure(_variables(now, owner))), []).append(owner)
        results, group = [], {}
        for (goal, _), each in alike.items():
            group |= dict.fromkeys(each, jnp.asarray(len(results)))
            variables = pick(self._place(now, each), [_variables(now, owner) for owner in each])
            results.append(goal.rows(obs, variables))
        at = self._place(now, list(self.owners))
        return pick(pick(at, [group[owner] for owner in self.owners]), results)

    def _place(self, now: Composed, owners: list[str | None]) -> Array:
        """Index () of the active machine among owners; where none is, of the outer one, or 0."""
        place = jnp.asarray(owners.index(None) if None in owners else 0)
        for k, owner in enumerate(owners):
            if owner is not None:
                place = jnp.where(now.at == self.names.index(owner), k, place)
        return place


def _variables(now: Composed, owner: str | None) -> Any:
    return now.outer if owner is None else now.parts[owner]


def _structure(variables: Any) -> Any:
    """Structure, shapes and dtypes of variables; equal where ``pick`` may choose between them."""
    leaves, kind = jax.tree.flatten(variables)
    return kind, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves)


def _clasps(
    own: Callable | None, names: tuple[str, ...], inner: Mapping[str, GoalMachine]
) -> Callable[[EffectorObservation, Any], Array] | None:
    """Hand holds requested by the outer machine and by the active submachine."""
    requests = {
        name: machine.clasps for name, machine in inner.items() if machine.clasps is not None
    }
    if own is None and not requests:
        return None

    def clasps(obs: EffectorObservation, now: Composed) -> Array:
        masks = [] if own is None else [own(obs, now.outer)]
        for name, clasps_of in requests.items():
            masks.append(clasps_of(obs, now.parts[name]) & (now.at == names.index(name)))
        return jnp.stack(masks).any(axis=0)

    return clasps
