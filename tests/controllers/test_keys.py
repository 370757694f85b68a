"""Keys of scenario files, as their readers declare them, entries of registries, goals by kind."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from controllers.goals.balance import balance_machine
from controllers.goals.machine import goal_levels
from controllers.goals.step_to import adding_step
from controllers.goals.tables import GOALS
from controllers.policy.observations import OBSERVATIONS
from controllers.registry import CONTROLLERS, ControllerKeys
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import WorldError
from jaxsim.options import option, unit
from optimize.cli.entries import entry_tables
from optimize.cli.main import main
from optimize.cli.scenario_keys import (
    RECORDS,
    controller_tables,
    file_tables,
    scheme_tables,
    shape_tables,
)
from optimize.cli.scenario_schema import scenario_schema
from optimize.environments.rewards import REWARDS
from optimize.environments.terminations import TERMINATIONS
from optimize.problems.problem import Problem
from optimize.running.objectives import TERMS, Term
from optimize.scenarios.find import scenario
from optimize.sweeps.quantities import quantity

ROOT = Path(__file__).parents[2]


def test_every_controller_declares_its_keys():
    tables = {table.name: table for table in controller_tables()}
    assert set(CONTROLLERS) <= set(tables)
    for table in tables.values():
        assert table.about and all(option.meaning for option in table.options)
    assert {o.key: o.default for o in tables["hold_on"].options}["alarm"] == 0.3
    for kind in GOALS:
        assert f'[[controller.goal]] kind = "{kind}"' in tables


def undocumented(table, setup):
    return None


def test_a_controller_that_declares_none_is_named(monkeypatch):
    monkeypatch.setitem(CONTROLLERS, "bare", f"{__name__}:undocumented")
    monkeypatch.setattr("optimize.cli.scenario_keys.builder", lambda name: undocumented)
    with pytest.raises(TypeError, match="declares no keys"):
        controller_tables()


def test_every_table_of_a_file_declares_its_keys():
    tables = {table.name: table for table in [*file_tables(), *shape_tables()]}
    assert {"[world]", "[[body]]", "[[driven.motion]]", "[repeat]", "[environment]"} <= set(tables)
    for table in tables.values():
        assert table.about and all(option.meaning for option in table.options), table.name
    assert [o.key for o in tables["[[companion]]"].options] == ["name", "controller"]


def test_a_table_without_keys_or_meanings_is_named(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Bare(Keys):
        """Controller with a key that nobody explains."""

        strength: float = option(1.0, "")

    monkeypatch.setitem(RECORDS, "controller", Bare)
    with pytest.raises(TypeError, match="'controller': the key 'strength' lacks a meaning"):
        file_tables()
    monkeypatch.setitem(RECORDS, "environment", None)
    monkeypatch.setitem(RECORDS, "controller", ControllerKeys)
    with pytest.raises(TypeError, match="the table 'environment' declares no keys"):
        file_tables()


def test_terms_rewards_and_observations_have_units_and_meanings():
    tables = entry_tables()
    assert {e.name: e.unit for e in tables["terms"]}["unrest"] == "rad^2/s"
    assert set(REWARDS) == {e.name for e in tables["rewards"]}
    assert len(tables["observations"]) > 8 and len(tables["terminations"]) == 3


@pytest.mark.parametrize(
    ("kind", "registry", "entry"),
    [
        ("terms", TERMS, Term("bare", "m", None)),
        ("terms", TERMS, Term("bare", "", None, meaning="a number without a unit")),
        ("rewards", REWARDS, undocumented),
        ("observations", OBSERVATIONS, undocumented),
        ("terminations", TERMINATIONS, unit("true, false")(lambda view: True)),
    ],
)
def test_an_entry_without_unit_or_meaning_is_named(monkeypatch, kind, registry, entry):
    monkeypatch.setitem(registry, "bare", entry)
    with pytest.raises(TypeError, match=f"'bare' of the {kind} lacks a unit or a meaning"):
        entry_tables()


def test_list_prints_keys_with_units(capsys):
    assert main(["list", "--keys", "swing"]) == 0
    text = capsys.readouterr().out
    assert "threshold_deg" in text and "[deg]" in text and "dismount" not in text
    assert main(["list", "--keys", "driven.motion"]) == 0
    assert "amplitude_deg" in capsys.readouterr().out
    assert main(["list", "--keys", "swim"]) == 2
    assert "no table, controller or scheme 'swim'" in capsys.readouterr().err


WRONG = (
    "[world]\nsweeps = 0",
    "[wrold]\nseconds = 1",
    '[character]\nmodel = "planar_human"\nstarts = "standing"',
    '[[fixed]]\nshape = "sphere"\nhalf_extents = [1, 1, 1]',
    '[[body]]\nname = "a"\nshape = "plane"\nmass = 1\npos = [0, 0, 1]',
    '[[driven]]\nname = "a"\nshape = "sphere"\nradius = 1\nmotion = [{ trun = [0, 0, 1] }]',
    '[[push]]\nlink = "pelvis"\nforce = "much"',
    '[environment]\nobservation = ["roots"]',
    "[environment]\ncommand = { speed = [1, 2, 3] }",
)


def test_the_schema_takes_every_shipped_scenario_and_refuses_a_wrong_key():
    jsonschema = pytest.importorskip("jsonschema")  # of nbmake, which the tests need
    schema = scenario_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    files = sorted((ROOT / "optimize" / "scenarios" / "shipped").glob("*.toml"))
    assert len(files) > 30
    for file in files:
        errors = list(check.iter_errors(tomllib.loads(file.read_text("utf-8"))))
        assert not errors, (file.name, errors[0].message)
    wrong = {"controller": {"name": "swing", "bar": "bar", "treshold_deg": 3.0}}
    assert not check.is_valid(wrong)
    for text in WRONG:
        assert not check.is_valid(tomllib.loads(text)), text


def test_options_of_a_scheme_reach_the_scenario_by_their_declaration():
    made = scenario("push", {"world.passes": 3, "world.search_iterations": 9})
    assert (made.scheme.passes, made.scheme.iterations) == (3, 40)
    assert made.scheme.for_search().iterations == 9
    stepped = scenario("walk", {"world.tolerance": 0.2})
    assert float(stepped.scheme.tolerance) == pytest.approx(0.2)
    with pytest.raises(WorldError, match='belongs to the scheme "per_step_optimisation"'):
        scenario("walk", {"world.passes": 3})
    keys = {table.name: {option.key for option in table.options} for table in scheme_tables()}
    assert "bounded_move" in keys["time_stepping"] and "passes" in keys["per_step_optimisation"]


def test_goals_of_a_scenario_have_labels_and_strengths():
    goals = [
        {"kind": "look_at", "place": [2.0, 1.0, 1.5], "time": 0.3},
        {"kind": "wave", "weight": 4.0, "frequency": 0.5},
        {"kind": "upright", "link": "head", "name": "nod"},
        {"kind": "pose", "angles": {"leftElbowFlexion": 90.0}},
    ]
    made = scenario("push", {"controller.goal": goals})
    assert float(made.get("balance.wave")) == 4.0
    assert float(made.get("balance.look_at.time")) == pytest.approx(0.3)
    assert float(made.get("takeStep.nod")) == 2.0
    assert "balance.pose" in made.controller.labels
    names = [goal.name for goal in made.controller.machine.goals]
    assert names[-4:] == ["look_at", "wave", "nod", "pose"]


PATH = {"kind": "path", "effector": "rightHand", "points": [[1, 0.3, -0.3, 1], [2, 0.4, 0, 1]]}
STEP = {"kind": "step_to", "foot": "rightFoot", "place": [0.35, -0.15]}
SEAT = {"kind": "sit", "place": [-0.24, 0.0, 0.48], "start": 1.0}


def test_a_step_and_a_seat_add_states_to_the_balance():
    wave = {"kind": "wave", "weight": 4.0}
    made = scenario("push", {"controller.goal": [wave, STEP, {**SEAT, "weight": 3.0}]})
    names = ["balance", "relaxFoot", "takeStep"]
    names += ["shift", "lift", "toMark", "settle", "lower", "sit"]
    assert list(made.controller.phase_names) == names
    assert float(made.get("toMark.step_to.time")) == 0.25
    assert float(made.get("toMark.step_to.priority")) == 10.0
    assert float(made.get("lower.sit")) == 3.0
    assert all(float(made.get(f"{name}.wave")) == 4.0 for name in names)
    assert float(made.get("toMark.spine")) == 70.0 and "toMark.com" not in made.labels
    assert made.scheme.effectors.of("seat").sum() == 4
    faster = made.set("toMark.step_to.time", 0.2)
    assert float(faster.get("toMark.step_to.time")) == pytest.approx(0.2)
    assert quantity(made, made.path("toMark.step_to.time")).least < 0.2
    Problem(made, {"toMark.step_to.time": (0.1, 1.0)}, "balance", seconds=0.1, backend="xla")
    machine = made.controller.machine
    alone = adding_step(balance_machine(), "rightFoot", (0.35, -0.15))
    assert alone.weights().shape == (7, 9) and len(machine.states) == 9


def test_a_firm_balance_steps_with_its_responses():
    made = scenario("push", {"controller.firm": True, "controller.goal": [STEP, SEAT]})
    assert float(made.get("toMark.spine.time")) == pytest.approx(0.3)
    assert float(made.get("settle.com.priority")) == 100.0
    assert float(made.get("lower.spine.priority")) == pytest.approx(30 / 70)


def test_set_changes_a_goal_by_its_name_kind_or_index(tmp_path):
    file = tmp_path / "step.toml"
    file.write_text(
        (ROOT / "optimize/scenarios/shipped/push.toml").read_text("utf-8")
        + """
[[controller.goal]]
kind = "wave"
name = "greet"
[[controller.goal]]
kind = "step_to"
foot = "rightFoot"
place = [0.35, -0.15]
""",
        "utf-8",
    )
    for key in ("greet", "step_to"):
        made = scenario(file, {f"controller.goal.{key}.time": 0.4})
        label = "toMark.step_to.time" if key == "step_to" else "balance.greet.time"
        assert float(made.get(label)) == pytest.approx(0.4)
    made = scenario(file, {"controller.goal[1].weight": 5.0})
    assert float(made.get("toMark.step_to")) == 5.0
    with pytest.raises(WorldError, match=r"key 'place'.*2 numbers"):
        scenario(file, {"controller.goal.step_to.place": [1.0, 2.0, 3.0]})
    with pytest.raises(KeyError, match="name one of greet, step_to"):
        scenario(file, {"controller.goal.time": 0.4})
    with pytest.raises(KeyError, match=r"there are 2 .*tables, counted"):
        scenario(file, {"controller.goal[2].time": 0.4})


def test_strict_priorities_are_keys_of_controllers_by_goals():
    made = scenario("push", {"controller.priorities": {"spine": 1, "com": 3}})
    assert made.controller.priorities == (("spine", 1), ("com", 3))
    machine = made.controller.machine
    levels = dict(zip(machine.row_names, goal_levels(machine, dict(made.controller.priorities))))
    assert levels["spine"] == 0 and levels["com"] == 1
    assert {level for name, level in levels.items() if name not in ("spine", "com")} == {2}
    for changes, message in (
        ({"controller.priorities": {"heart": 1}}, "key 'priorities'.*goal 'heart'.*com"),
        ({"controller.priorities": {"com": 1.5}}, "key 'priorities'.*'com' is 1.5; give 1"),
        ({"controller.priorities": {"com": 1}, "world.window": 3}, "give window = 1"),
    ):
        with pytest.raises(WorldError, match=message):
            scenario("push", changes)
    with pytest.raises(WorldError, match="'priorities': strict priorities are of one character"):
        scenario("holding_hands", {"controller.priorities": {"com": 1}})


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({**STEP, "foot": "foot"}, "key 'foot'.*leftFoot"),
        ({"kind": "step_to", "foot": "leftFoot"}, "key 'place'"),
        ({**STEP, "weight": 1.0, "priority": 2.0}, "key 'weight'.*one or the other"),
        ({**STEP, "start": -1.0}, "key 'start'"),
        ({**STEP, "name": "over"}, "two goals have one name"),
        ({**SEAT, "place": [0.0, 0.5]}, "key 'place'"),
        ({"kind": "look"}, "did you mean 'look_at'"),
        ({"kind": "look_at"}, "key 'place'"),
        ({"kind": "look_at", "place": [0, 0, 1], "link": "haed"}, "key 'link'"),
        ({"kind": "wave", "hand": "left"}, "key 'hand'"),
        ({"kind": "wave", "weight": 1.0, "time": 1.0}, "key 'weight'.*one or the other"),
        ({"kind": "pose", "angles": {"elbow": 1.0}}, "no hinge 'elbow'"),
        ({"kind": "wave", "name": "com"}, "a goal 'com' already"),
        ({**PATH, "effector": "rightHnad"}, "key 'effector'.*did you mean 'rightHand'"),
        ({**PATH, "points": [[1, 0, 0, 1]]}, "key 'points'.*two points or more"),
        ({"kind": "path", "effector": "com"}, "key 'points'"),
        ({"kind": "angular_momentum", "momentum": [0, 1]}, "key 'momentum'.*3 numbers"),
        ({"kind": "wave", "often": 3}, "key 'often'"),
    ],
)
def test_a_wrong_goal_is_named(goal, message):
    with pytest.raises(WorldError, match=message):
        scenario("push", {"controller.goal": [goal]})


def test_a_step_starts_from_a_balance_and_is_one(tmp_path):
    with pytest.raises(WorldError, match='choose the controller name = "balance"'):
        scenario("one_foot", {"controller.goal": [STEP]})
    with pytest.raises(WorldError, match="a step to a mark already; give one"):
        scenario("push", {"controller.goal": [STEP, {**STEP, "name": "again"}]})
    text = (ROOT / "optimize/scenarios/shipped/holding_hands.toml").read_text("utf-8")
    goal = '[[companion.controller.goal]]\nkind = "sit"\nplace = [0.0, 0.0, 0.5]\n'
    (tmp_path / "two.toml").write_text(f"{text}\n{goal}", "utf-8")
    with pytest.raises(WorldError, match=r"only the \[character\] may have"):
        scenario(tmp_path / "two.toml")


def test_an_earlier_key_is_read_with_a_warning():
    pin = {"effector": "leftHand", "start": 0.0, "end": 1.0}
    with pytest.warns(FutureWarning, match="'hold' is now 'pin'"):
        made = scenario("push", {"controller.hold": [pin]})
    again = scenario("push", {"controller.pin": [pin]})
    assert made.controller.machine.constraints == again.controller.machine.constraints
    with pytest.raises(WorldError, match="earlier name of 'pin'"):
        scenario("push", {"controller.hold": [pin], "controller.pin": [pin]})
