"""The search among states, by a machine of plain numbers in the place of obs."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.balance import balance_machine
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.tasks import Goal

GOALS = (
    Goal("a", "one", lambda obs, variables: None),
    Goal("b", "one", lambda obs, variables: None),
)


def obs(value, time=0.0):
    """What conditions look at here: one number."""
    return SimpleNamespace(
        x=jnp.asarray(value), time=jnp.asarray(time), conf=SimpleNamespace(q=jnp.zeros(1))
    )


def machine():
    return GoalMachine(
        goals=GOALS,
        states={
            "low": GoalState({"a": 1.0}, lambda s, _: s.x < 1),
            "middle": GoalState(
                {"b": 2.0},
                lambda s, n: (s.x >= 1) & (s.x < 2),
                enter=lambda s, n: n + 1,
                during=lambda s, n: n * 2,
            ),
            "high": GoalState({"a": 0.5, "b": 0.5}, lambda s, _: s.x >= 2),
        },
        transitions={"low": ("middle",), "middle": ("high", "low"), "high": ("low",)},
        variables=jnp.zeros(()),
    )


def walk(values):
    m = machine()
    memory = m.begin(obs(values[0]))
    seen = []
    for k, value in enumerate(values):
        memory = m.advance(memory, obs(value, 0.1 * k))
        seen.append(m.state_names[int(memory.state)])
    return memory, seen


def test_a_state_lasts_while_its_condition_holds():
    memory, seen = walk([0.0, 0.5, 0.9])
    assert seen == ["low"] * 3
    assert memory.steps.tolist() == [0, 0, 0]


def test_the_search_goes_on_past_a_neighbour_that_does_not_apply():
    _, seen = walk([0.0, 2.5])  # low leads to middle alone, which does not hold
    assert seen == ["low", "high"]


def test_what_no_state_applies_to_changes_nothing():
    _, seen = walk([0.0, float("nan")])
    assert seen == ["low", "low"]


def test_notes_are_made_on_entering_and_kept_after():
    memory, seen = walk([0.0, 1.5, 1.5, 1.5])
    assert seen == ["low", "middle", "middle", "middle"]
    assert float(memory.variables) == 4.0  # 1, then doubled twice
    assert float(memory.since) == pytest.approx(0.1)
    assert memory.steps.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("transitions", "entered", "mark"),
    [
        ({"on": ("off", "on")}, 2, 3.3),
        ({"on": ("off",), "off": ("on",)}, 0, 1.0),  # a way round is no transition to itself
    ],
)
def test_a_transition_to_itself_enters_a_state_anew(transitions, entered, mark):
    """A state that lasts until x passes its mark; entering it sets the mark to x + 1."""
    on = GoalState({"a": 1.0}, lambda s, mark: s.x < mark, enter=lambda s, mark: s.x + 1)
    off = GoalState({"a": 1.0}, lambda s, mark: s.x < 0)
    m = GoalMachine(GOALS, {"on": on, "off": off}, transitions, variables=jnp.zeros(()))
    memory = m.begin(obs(0.0))
    for k, x in enumerate([0.5, 1.2, 1.4, 1.8, 2.3]):
        memory = m.advance(memory, obs(x, 0.1 * k))
    assert m.state_names[int(memory.state)] == "on"
    assert memory.steps.tolist() == [entered, 0]
    assert float(memory.variables) == pytest.approx(mark)


def test_members_of_a_batch_are_in_different_states():
    m = machine()
    memory = m.begin(obs(0.0))
    step = jax.vmap(lambda x: m.advance(memory, obs(x)).state)
    assert step(jnp.array([0.0, 1.5, 2.5])).tolist() == [0, 1, 2]


def test_weights_are_as_declared():
    assert machine().weights().tolist() == [[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]]
    balance = balance_machine()
    names = [goal.name for goal in balance.goals]
    printed = {  # Jain, Ye, Liu (2009), sections 6.1.1 and 6.1.2
        "balance": {"com": 5.0, "spine": 70.0, "damping": 0.5},
        "relaxFoot": {"damping": 0.2, "com_foot": 50.0, "relax": 1.0},
        "takeStep": {"damping": 3.0, "spine": 20.0, "foot": 0.8},
    }
    table = np.asarray(balance.weights())
    for state, weights in printed.items():
        row = table[balance.state_names.index(state)]
        for goal, weight in weights.items():
            assert row[names.index(goal)] == pytest.approx(weight)


def test_a_goal_can_be_added():
    more = machine().adding(Goal("c", "one", lambda obs, variables: None), {"high": 3.0})
    assert more.weights()[:, 2].tolist() == [0.0, 0.0, 3.0]


def test_goals_can_be_weighed_anew_where_they_stand():
    anew = machine().weighing({"a": 4.0})
    assert anew.weights().tolist() == [[4.0, 0.0], [0.0, 2.0], [4.0, 0.5]]
    firm = machine().weighing({"a": Response(0.3, 7.0)})
    assert firm.timed == (True, False)
    assert firm.weights()[:, 0].tolist() == [7.0, 0.0, 7.0]
    assert np.asarray(firm.times()) == pytest.approx(np.array([[0.3, 1], [1, 1], [0.3, 1]]))
    with pytest.raises(KeyError, match="no state has a goal 'c'; there are a, b"):
        machine().weighing({"c": 1.0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": {"low": ("nowhere",)}}, "no state 'nowhere'.*low, middle, high"),
        ({"transitions": {"lost": ("low",)}}, "no state 'lost'"),
        ({"goals": GOALS[:1]}, "state 'middle' weighs a goal 'b'; there are a"),
        ({"goals": (*GOALS, GOALS[0])}, "two goals have one name"),
    ],
)
def test_mistakes_are_told(change, message):
    good = machine()
    fields = {"goals": good.goals, "states": good.states, "transitions": good.transitions}
    with pytest.raises(ValueError, match=message):
        GoalMachine(**{**fields, **change})


def test_a_weight_that_is_no_number_is_told():
    with pytest.raises(ValueError, match="weight of 'a' is nan"):
        GoalMachine(GOALS, {"only": GoalState({"a": float("nan")}, lambda s, _: True)}, {})
    with pytest.raises(ValueError, match="unit 'inch'; there are one, com"):
        Goal("x", "inch", lambda obs, variables: None)
    with pytest.raises(ValueError, match="level 'speed'"):
        Goal("x", "one", lambda obs, variables: None, "speed")
