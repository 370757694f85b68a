"""Machines within machines: by plain numbers in the place of obs, and on a small body."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals import tasks as goals
from controllers.goals.balance import balance_machine, sole_down
from controllers.goals.compose import Composed, Submachine, composed, renamed
from controllers.goals.controller import GoalController
from controllers.goals.effector_constraints import EffectorConstraint
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.tasks import Goal
from jaxsim.synthesis.config import units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from tests.compiling import quick_jit
from tests.synthesis.hopper import JOINTS, crouched, hopper, hopper_effectors


def told(name):
    """A goal whose error says which variables it saw."""
    return Goal(name, "one", lambda obs, seen: (jnp.reshape(seen, (1,)), jnp.zeros((1, 1))))


A, B, OUTER = told("a"), told("b"), told("outer")


def obs(x, y=0.0, time=0.0):
    """What conditions look at here: one number each, of the inner machine and of the outer one."""
    return SimpleNamespace(
        x=jnp.asarray(x),
        y=jnp.asarray(y),
        time=jnp.asarray(time),
        conf=SimpleNamespace(q=jnp.zeros(1)),
    )


def inner(start=0.0):
    """Three states by x, no way from "low" but to "middle"; counts how often it enters that."""
    return GoalMachine(
        goals=(A, B),
        states={
            "low": GoalState({"a": 1.0}, lambda s, n: s.x < 1),
            "middle": GoalState(
                {"b": 2.0},
                lambda s, n: (s.x >= 1) & (s.x < 2),
                enter=lambda s, n: n + 1,
                during=lambda s, n: n + 0.25,
            ),
            "high": GoalState({"a": 0.5}, lambda s, n: (s.x >= 2) & (s.x < 3)),
        },
        transitions={"low": ("middle",), "middle": ("high", "low"), "high": ("low", "high")},
        variables=jnp.asarray(start),
    )


def outer(**changes):
    """By y: a machine, a state, the same machine with another start. Counts its entries by 10."""
    count = dict(enter=lambda s, n: n + 10.0)
    options = {
        "goals": (OUTER,),
        "states": {
            "one": Submachine(inner(), lambda s, n: s.y < 1, {"outer": 3.0}, **count),
            "plain": GoalState({"outer": 4.0}, lambda s, n: (s.y >= 1) & (s.y < 2), **count),
            "two": Submachine(inner(5.0), lambda s, n: (s.y >= 2) & (s.y < 3)),
        },
        "transitions": {"one": ("plain",), "plain": ("two", "one"), "two": ("plain",)},
        "variables": jnp.zeros(()),
    }
    return composed(**(options | changes))


class ByHand:
    """What ``outer`` is to do, said once more: machine within machine, in plain Python."""

    inside = (
        lambda x: x < 1,
        lambda x: 1 <= x < 2,
        lambda x: 2 <= x < 3,
    )
    outside = (lambda y: y < 1, lambda y: 1 <= y < 2, lambda y: 2 <= y < 3)
    inside_order = ((1, 2), (2, 0), (0, 2, 1))
    outside_order = ((1, 2), (2, 0), (1, 0))
    names = ("low", "middle", "high")

    def __init__(self):
        self.at, self.own, self.part, self.count = 0, 0, 0.0, 10.0

    @property
    def name(self):
        return ("one", "plain", "two")[self.at] + (
            "" if self.at == 1 else f".{self.names[self.own]}"
        )

    def go_in(self, at, own):
        if at != self.at:
            self.part = 5.0 if at == 2 else 0.0
            self.count += 10.0 if at < 2 else 0.0
        self.at, self.own = at, own
        self.part += 1.0 if own == 1 and at != 1 else 0.0

    def advance(self, x, y):
        machine = self.at != 1
        if machine and self.own == 1:
            self.part += 0.25
        if self.outside[self.at](y):
            if not machine or self.inside[self.own](x):
                return
            for own in self.inside_order[self.own]:
                if self.inside[own](x):
                    return self.go_in(self.at, own)
        for at in self.outside_order[self.at]:
            if not self.outside[at](y):
                continue
            for own in (0,) if at == 1 else (0, 1, 2):
                if at == 1 or self.inside[own](x):
                    return self.go_in(at, own)


@pytest.mark.parametrize("seed", range(5))
def test_the_table_does_what_a_machine_within_a_machine_does(seed):
    machine, by_hand = outer(), ByHand()
    memory, seen = machine.begin(obs(0.0)), set()
    advance = jax.jit(lambda memory, x, y, time: machine.advance(memory, obs(x, y, time)))
    numbers = np.random.default_rng(seed)
    x, y = np.repeat(numbers.uniform(-0.2, 3.4, (2, 150)), numbers.integers(1, 4, 150), axis=1)
    for k, (a, b) in enumerate(zip(x, y)):
        memory = advance(memory, a, b, 0.1 * k)
        by_hand.advance(a, b)
        name = machine.state_names[int(memory.state)]
        assert name == by_hand.name
        assert float(memory.variables.outer) == by_hand.count
        if by_hand.at != 1:
            part = memory.variables.parts[name.partition(".")[0]]
            assert float(part) == by_hand.part
        seen.add(name)
    assert len(seen) == 7  # every state


def test_a_machine_of_one_machine_is_that_machine():
    alone, within = inner(), composed((), {"it": Submachine(inner(), lambda s, _: True)}, {})
    twice = composed((), {"this": Submachine(within, lambda s, _: True)}, {})
    assert twice.state_names == tuple(f"this.it.{name}" for name in alone.state_names)
    machines = alone, within, twice
    memories = [m.begin(obs(0.0)) for m in machines]
    for k, x in enumerate(np.random.default_rng(3).uniform(-0.2, 3.4, 60)):
        memories = [m.advance(memory, obs(x, 0.0, k)) for m, memory in zip(machines, memories)]
        plain, one, two = memories
        for other, part in ((one, one.variables), (two, two.variables.parts["this"])):
            assert int(other.state) == int(plain.state)
            assert float(other.since) == float(plain.since)
            assert other.steps.tolist() == plain.steps.tolist()
            assert float(part.parts["it"]) == float(plain.variables)


def test_the_outer_condition_takes_over_within_the_frame_and_a_machine_begins_anew():
    m = outer()
    memory = m.begin(obs(0.0))
    went = []
    for x, y in [(1.5, 0.0), (1.5, 1.5), (1.5, 0.5), (1.5, 2.5)]:
        memory = m.advance(memory, obs(x, y))
        went.append((m.state_names[int(memory.state)], dict(memory.variables.parts)))
    assert [name for name, _ in went] == ["one.middle", "plain", "one.middle", "two.middle"]
    assert float(went[2][1]["one"]) == 1.0  # not 2: it began at 0 again
    assert float(went[3][1]["two"]) == 6.0


def test_a_machine_of_which_no_state_applies_leaves():
    m = outer(
        states={
            "one": Submachine(inner(), lambda s, n: s.y < 1),
            "plain": GoalState({"outer": 1.0}, lambda s, n: s.x >= 3),
        },
        transitions={"one": ("plain",)},
    )
    memory = m.advance(m.begin(obs(0.0)), obs(3.5))
    assert m.state_names[int(memory.state)] == "plain"


def test_a_goal_sees_the_variables_of_the_machine_at_work():
    m = outer()
    rows = {goal.name: goal.rows for goal in m.goals}
    assert list(rows) == ["outer", "a", "b"]
    now = Composed(jnp.asarray(7.0), {}, {"one": jnp.asarray(1.0), "two": jnp.asarray(2.0)})
    for at, seen in ((0, 1.0), (2, 2.0)):
        there = replace(now, at=jnp.asarray(at))
        assert float(rows["a"](None, there)[0][0]) == seen
        assert float(rows["outer"](None, there)[0][0]) == 7.0
    weights = dict(zip(m.state_names, m.weights().tolist()))
    assert weights["one.middle"] == [3.0, 0.0, 2.0] and weights["plain"] == [4.0, 0.0, 0.0]


def test_what_the_outer_state_asks_of_hands_and_feet_goes_before():
    left, right = jnp.array([True, False]), jnp.array([False, True])
    own = GoalState({"a": 1.0}, lambda s, n: True, lifts=lambda s, n: left, holds=lambda s, n: 1)
    machine = GoalMachine((A,), {"only": own}, {}, jnp.zeros(()))
    state = Submachine(machine, lambda s, n: True, lifts=lambda s, n: right, holds=lambda s, n: 2)
    for outer_state, lifted, held in (
        (state, [True, True], 2),
        (replace(state, lifts=None, holds=None), [True, False], 1),
    ):
        made = composed((), {"it": outer_state}, {})
        flat, now = made.states["it.only"], made.variables
        assert flat.lifts(None, now).tolist() == lifted and flat.holds(None, now) == held


def test_constraints_and_hands_of_others_are_those_of_all():
    hold = EffectorConstraint("leftHand", 0.0, 1.0)
    alone = replace(inner(), constraints=(hold,), clasps=lambda s, n: jnp.array([True, False]))
    always = dict(condition=lambda s, n: True)
    m = composed(
        (),
        {"with": Submachine(alone, **always), "without": Submachine(inner(), **always)},
        {},
        constraints=(hold,),
    )
    assert m.constraints == (hold,)
    for at, asked in ((0, [True, False]), (1, [False, False])):
        assert m.clasps(None, replace(m.variables, at=jnp.asarray(at))).tolist() == asked


def test_machines_share_the_goals_that_are_one():
    balance = balance_machine()
    other = GoalMachine(
        (goals.damping(), goals.upright("chest"), sole_down()),
        {"only": GoalState({"damping": 1.0, "sole": 2.0}, lambda s, _: True)},
        {},
        balance.variables,
    )
    always = lambda s, _: True  # noqa: E731
    states = {"stand": Submachine(balance, always), "other": Submachine(other, always)}
    m = composed((), states, {})
    assert [goal.name for goal in m.goals] == [goal.name for goal in balance.goals]
    controller = GoalController.of(m, hopper())
    assert controller.get("stand.takeStep.foot") == pytest.approx(0.8)
    changed = controller.set("stand.gait.time", 0.5)
    assert float(changed.variables.starts["stand"].gait.time) == 0.5
    deeper = composed(
        (goals.damping(),), {"all": Submachine(m, always), "other": states["other"]}, {}
    )
    assert [goal.name for goal in deeper.goals] == list(dict.fromkeys(g.name for g in deeper.goals))
    assert GoalController.of(deeper, hopper()).get("all.stand.gait.time") == pytest.approx(0.78)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": {"one": ("nowhere",)}}, "no state 'nowhere'; the states are one, plain"),
        ({"transitions": {"one": ("one",)}}, "'one' -> one: a machine is not entered anew"),
        ({"goals": ()}, "state 'one' weighs a goal 'outer'"),
        ({"goals": (OUTER, told("a"))}, r"'a' of 'one' is another than that of the outer.*renamed"),
        (
            {"states": {"one": Submachine(inner(), lambda s, n: True, {"a": 1.0})}, "goals": (A,)},
            "state 'one' weighs a, and so does its machine",
        ),
        (
            {
                "states": {
                    "one": Submachine(inner(), lambda s, n: True),
                    "two": Submachine(inner().weighing({"a": Response(0.3)}), lambda s, n: True),
                }
            },
            "goal 'a' has a weight in one state and a response in another",
        ),
        (
            {
                "states": {
                    "one": Submachine(inner(), lambda s, n: True),
                    "one.low": GoalState({}, lambda s, n: True),
                }
            },
            "two states have one name: one.low",
        ),
    ],
)
def test_mistakes_are_told(change, message):
    with pytest.raises(ValueError, match=message):
        outer(**({"transitions": {}} | change))


def test_goals_can_have_other_names():
    other = renamed(inner(), {"a": "c"})
    assert [goal.name for goal in other.goals] == ["c", "b"]
    assert other.states["low"].goals == {"c": 1.0} and other.order == inner().order
    with pytest.raises(KeyError, match="no goal 'd'; there are a, b"):
        renamed(inner(), {"d": "c"})


def bending():
    """The hopper bends its knee and stretches it again."""

    def knees(angle):
        return lambda obs, n: jnp.asarray((-angle / 2, angle, -angle / 2))

    def over(obs, n):
        return obs.conf.position[:4, :2].mean(axis=0)

    common = {"damping": 0.5, "com": 20.0}
    return GoalMachine(
        (
            goals.damping(),
            goals.com_over("com", over),
            goals.pose("deep", JOINTS, knees(-1.2)),
            goals.pose("high", JOINTS, knees(-0.6)),
        ),
        {
            "down": GoalState({**common, "deep": 20.0}, lambda s, n: s.conf.q[8] > -1.0),
            "up": GoalState(
                {**common, "high": 20.0}, lambda s, n: s.conf.q[8] < -0.7, lambda s, n: n + 1
            ),
        },
        {"down": ("up",), "up": ("down",)},
        variables=jnp.zeros(()),
    )


def test_on_a_body_it_asks_a_step_for_what_the_machine_alone_asks_for():
    with jax.enable_x64(True):
        model, dt = hopper(), 0.01
        points, unit = hopper_effectors(model), units(model)
        within = composed((), {"it": Submachine(bending(), lambda s, _: True)}, {})

        @quick_jit
        @jax.vmap
        def asked(q):
            none = jnp.zeros(points.count)
            conf = configuration_at(model, points, q, jnp.linspace(-0.1, 0.2, model.topology.nv))
            force = jnp.zeros((points.count, 3))
            time = jnp.asarray(0.0)
            obs = EffectorObservation(conf, none == 0, force, unit.force, unit.shift, time, unit)
            found = []
            for machine in (bending(), within):
                memory = machine.advance(machine.begin(obs), obs)
                weights = machine.weights()
                tasks = machine.tasks(memory, obs, weights, unit, dt)(conf, conf.v)
                found.append((memory.state, tasks))
            return found

        q = (
            jnp.repeat(crouched(model).q[None], 3, axis=0)
            .at[:, 8]
            .set(jnp.array([-0.5, -0.9, -1.2]))
        )
        (state, tasks), (other, same) = jax.tree.map(np.asarray, asked(q))
    assert state.tolist() == other.tolist() == [0, 0, 1]
    assert not np.allclose(tasks.goals.J[0], tasks.goals.J[2])
    jax.tree.map(np.testing.assert_array_equal, tasks, same)
