"""Characters, controllers, goals, objectives, terms and scenarios of other packages."""

import sys
from importlib import metadata
from types import ModuleType

import pytest

from controllers.goals.tables import GOALS, UprightKeys
from jaxsim import CHARACTERS, Character, ModelBuilder, Roles, free, sphere
from jaxsim.io.toml_table import WorldError
from jaxsim.model import neutral_state
from jaxsim.plugins import PluginError, Registry, entry_points, load
from jaxsim.simulation.measures import total
from optimize.running.objectives import OBJECTIVES, TERMS, Objective, Term, objective
from optimize.running.simulate import simulate
from optimize.scenarios.find import known_scenarios, scenario

GROUPS = "characters controllers goals objectives terms scenarios".split()


def ball_model(**_):
    builder = ModelBuilder()
    inertia = (0.1, 0.1, 0.1)
    builder.add_link("ball", "world", mass=1.0, inertia=inertia, joints=[free("root")])
    builder.add_shape("ball", sphere(0.1))
    builder.set_roles(Roles("bouncer", (("pelvis", "ball"),)))
    return builder.build()


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package ``outside``, installed as far as entry points go."""
    module = ModuleType("outside")
    module.bouncer = Character(ball_model, ("resting",), lambda model, _: neutral_state(model))
    module.slack = lambda table, setup: sys.modules["controllers.pose.registered"].Limp()
    module.steady = UprightKeys
    module.Height = Term("Height", "m s", lambda model: total(lambda s: s.obs.com[2]))
    module.high = Objective("high", 1.0, {"Height": -1.0}, terms=(module.Height,))
    module.falling = tmp_path / "falling.toml"
    module.falling.write_text(
        '[world]\ntitle = "A ball falls"\nseconds = 0.05\n[character]\nmodel = "bouncer"\n'
        '[controller]\nname = "slack"\n'
    )
    monkeypatch.setitem(sys.modules, "outside", module)
    names = ["bouncer", "slack", "steady", "high", "Height", "falling"]
    found = [
        metadata.EntryPoint(name, f"outside:{name}", f"jaxsim.{group}")
        for group, name in zip(GROUPS, names)
    ]
    found.append(metadata.EntryPoint("broken", "outside:nothing", "jaxsim.controllers"))
    own = metadata.entry_points
    monkeypatch.setattr(
        metadata,
        "entry_points",
        lambda *, group: [e for e in found if e.group == group] or own(group=group),
    )
    entry_points.cache_clear()
    load.cache_clear()
    yield module
    entry_points.cache_clear()
    load.cache_clear()


def test_without_packages_registries_hold_what_ships():
    assert "planar_human" in CHARACTERS and "bouncer" not in CHARACTERS
    assert list(CHARACTERS) == list(CHARACTERS.keys()) and len(GOALS) == 9
    with pytest.raises(KeyError):
        Registry("jaxsim.characters", {})["bouncer"]


def test_a_scenario_of_another_package_runs_with_its_character_and_controller(package):
    assert "falling" in known_scenarios() and "bouncer" in CHARACTERS and "slack" not in TERMS
    run = simulate("falling", seconds=0.05)
    assert run.motion.title.startswith("A ball falls")
    assert float(run.motion.com[-1, 2]) < float(run.motion.com[0, 2])


def test_goals_objectives_and_terms_of_another_package(package):
    made = scenario(
        "push", {"controller.goal": [{"kind": "steady", "link": "head", "name": "nod"}]}
    )
    assert "balance.nod" in made.controller.labels
    assert objective("high") is package.high
    assert Objective("by name", 1.0, {"Height": 1.0}).term("Height") is package.Height
    assert OBJECTIVES.get("high") is package.high and OBJECTIVES.get("low") is None


def test_what_cannot_be_loaded_names_the_package_and_the_remedy(package):
    with pytest.raises(PluginError, match=r"'broken' of jaxsim\.controllers.*uninstall it"):
        scenario("falling", {"controller.name": "broken"})
    with pytest.raises(WorldError, match="did you mean 'slack'"):
        scenario("falling", {"controller.name": "slac"})
