"""Keys of scenario files that controllers and schemes declare, and goals by kind."""

import tomllib
from pathlib import Path

import pytest

from controllers.goals.tables import GOALS
from controllers.registry import CONTROLLERS
from jaxsim.io.toml_table import WorldError
from optimize.cli.main import main
from optimize.scenarios.find import scenario
from optimize.scenarios.keys import controller_tables, scheme_tables
from optimize.scenarios.schema import scenario_schema

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
    monkeypatch.setattr("optimize.scenarios.keys.builder", lambda name: undocumented)
    with pytest.raises(TypeError, match="declares no keys"):
        controller_tables()


def test_list_prints_keys_with_units(capsys):
    assert main(["list", "--keys", "swing"]) == 0
    text = capsys.readouterr().out
    assert "threshold_deg" in text and "[deg]" in text and "dismount" not in text
    assert main(["list", "--keys", "swim"]) == 2
    assert "no controller or scheme 'swim'" in capsys.readouterr().err


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
    assert not check.is_valid({"world": {"sweeps": 0}})


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


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"kind": "look"}, "did you mean 'look_at'"),
        ({"kind": "look_at"}, "key 'place'"),
        ({"kind": "look_at", "place": [0, 0, 1], "link": "haed"}, "key 'link'"),
        ({"kind": "wave", "hand": "left"}, "key 'hand'"),
        ({"kind": "wave", "weight": 1.0, "time": 1.0}, "key 'weight'.*one or the other"),
        ({"kind": "pose", "angles": {"elbow": 1.0}}, "no hinge 'elbow'"),
        ({"kind": "wave", "name": "com"}, "a goal 'com' already"),
        ({"kind": "wave", "often": 3}, "key 'often'"),
    ],
)
def test_a_wrong_goal_is_named(goal, message):
    with pytest.raises(WorldError, match=message):
        scenario("push", {"controller.goal": [goal]})


def test_an_earlier_key_is_read_with_a_warning():
    pin = {"effector": "leftHand", "start": 0.0, "end": 1.0}
    with pytest.warns(FutureWarning, match="'hold' is now 'pin'"):
        made = scenario("push", {"controller.hold": [pin]})
    again = scenario("push", {"controller.pin": [pin]})
    assert made.controller.machine.constraints == again.controller.machine.constraints
    with pytest.raises(WorldError, match="earlier name of 'pin'"):
        scenario("push", {"controller.hold": [pin], "controller.pin": [pin]})
