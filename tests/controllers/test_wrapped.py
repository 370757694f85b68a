"""Every wrapper forwards every member of the controller that it runs."""

import dataclasses
import inspect
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import Controller, Wrapped
from controllers.goals.company import Company
from controllers.goals.torques import GoalTorques
from controllers.source import NumberSource
from jaxsim.simulation.records import Control
from optimize.running.recording import _Continued
from optimize.running.simulate import simulate
from optimize.scenarios.build import Gripping
from optimize.scenarios.find import scenario

NUMBERS = {"get", "set"}  # by ``labels``, of the wrapper itself
OF_A_WRAPPER = {"init", "update", "check", "resized"}  # each wrapper has its own, or the base's
SHOWN = {
    name
    for name, member in vars(Controller).items()
    if not name.startswith("_") and (callable(member) or isinstance(member, property))
} - (NUMBERS | OF_A_WRAPPER)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Spy(Controller):
    """Answers every member with its name and what it was called with."""

    size: Any = 1.0

    labels = MappingProxyType({"size": "size"})
    phase_names = ("one", "two")
    reach_targets = ("there",)

    def number_source(self, files, model):
        return NumberSource(prefix=f"{files}:")

    def phase(self, memory):
        return "phase", memory

    def phase_changes(self, before, after):
        return ["changes", before, after]

    def gauges(self, memory):
        return {"gauge": memory}

    def gauge_limits(self):
        return {"gauge": ("m", (1.0,))}

    def record(self, model, state, memory):
        return {"record": memory}

    def reference_poses(self, model, time):
        return model, time

    def flying_objects(self, model, time):
        return [(model, time)]

    def goal_shares(self, frames):
        return {"goal": frames}

    def summary_entries(self, scheme, model, frames, time):
        return {"entry": time}


def wrappers():
    """Each wrapper around the spy, and a memory of the wrapper with the spy's memory in it."""
    spy, here = Spy(), "memory"
    now = SimpleNamespace(inner=here)
    frames = SimpleNamespace(contact_pos=np.zeros((1, 2, 3)), contact_force=np.zeros((1, 2, 3)))
    return {
        Gripping: (Gripping(spy, jnp.zeros(1), jnp.ones(1)), here, "inner.size"),
        _Continued: (_Continued(spy, here), here, "inner.size"),
        GoalTorques: (GoalTorques(spy, None, "own"), now, "inner.size"),
        Company: (Company((spy, Spy(2.0)), ("a", "b")), (here, "other"), "members[0].size"),
    }, frames


def test_the_spy_answers_every_member_that_is_shown():
    own = {name for name in vars(Spy) if not name.startswith("_")}
    assert own - {"size"} == SHOWN
    assert SHOWN <= {name for name in vars(Wrapped) if not name.startswith("_")}


def test_there_is_no_other_wrapper():
    def below(kind):
        return {kind}.union(*(below(each) for each in kind.__subclasses__()))

    assert below(Wrapped) - {Wrapped} == set(wrappers()[0])


@pytest.mark.parametrize("kind", [Gripping, _Continued, GoalTorques, Company])
def test_members_are_those_of_the_inner_controller(kind):
    wrapped, memory, path = wrappers()[0][kind]
    here = "memory"
    assert wrapped.labels["size"] == path
    assert wrapped.get("size") == 1.0
    assert wrapped.number_source("text", "world").prefix == path.removesuffix("size") + "text:"
    assert wrapped.phase_names == ("one", "two")
    assert wrapped.reach_targets == ("there",)
    assert wrapped.phase(memory) == ("phase", here)
    assert wrapped.phase_changes(memory, memory) == ["changes", here, here]
    assert wrapped.gauges(memory) == {"gauge": here}
    assert wrapped.gauge_limits() == {"gauge": ("m", (1.0,))}
    model = "own" if kind is GoalTorques else "world"
    assert wrapped.reference_poses("world", 1.0) == (model, 1.0)
    assert wrapped.flying_objects("world", 1.0) == [(model, 1.0)]
    assert wrapped.goal_shares("frames") == {"goal": "frames"}
    for name in SHOWN:  # nothing but the base and what needs the inner memory defines them
        own = ("labels", "record", "number_source", "summary_entries")
        assert name not in vars(kind) or name in own


def test_earlier_names_of_members_still_work_for_a_version():
    with pytest.warns(DeprecationWarning, match="Old.ghost is now reference_poses"):

        class Old(Controller):
            def ghost(self, model, time):
                return "poses"

    assert Old().reference_poses(None, None) == "poses"
    with pytest.warns(DeprecationWarning, match="is now controllers.Controller"):
        from controllers.numbers import Numbered
    assert Numbered is Controller


def test_a_controller_without_the_base_is_refused_with_the_remedy():
    @jax.tree_util.register_static
    class Bare:
        def init(self, model, state, obs):
            return None

        def update(self, memory, model, state, obs, dt):
            zero = jnp.zeros(model.topology.nv)
            return None, Control(torque=zero, damping=zero)

    made = scenario("planar_human")
    with pytest.raises(TypeError, match=r"class Bare\(Controller\)"):
        dataclasses.replace(made, controller=Bare())


def test_a_member_that_the_base_lacks_is_not_looked_for():
    """Consumers ask the base, so no attribute of a controller is found by its name alone."""
    import optimize.running.motion as motion
    import optimize.running.recording as recording
    import optimize.running.summary as summary

    for module in (motion, recording, summary):
        source = inspect.getsource(module)
        assert "hasattr(scenario.controller" not in source
        assert "getattr(scenario.controller" not in source


@pytest.fixture(scope="module")
def balanced():
    """A second of balance, pushed, by both schemes."""
    made = {
        "optimised": scenario("push", {"push.start": 0.1, "push.force": 400.0}),
        "stepped": scenario(
            "push",
            {
                "push.start": 0.1,
                "push.force": 400.0,
                "world.scheme": "time_stepping",
                "world.dt": 0.002,
            },
        ),
    }
    return {name: simulate(each, seconds=0.6, backend="xla") for name, each in made.items()}


def test_balance_tells_as_much_when_its_torques_are_simulated(balanced):
    optimised, stepped = balanced["optimised"], balanced["stepped"]
    assert isinstance(stepped.scenario.controller, GoalTorques)
    entries = {
        "steps_begun",
        "longest_step",
        "hand_support_time",
        "sliding_time",
        "slip_distance",
        "goals_against",
        "reach_distance",
        "hold_drift",
        "largest_hold_force",
        "clip_error",
        "largest_clip_error",
        "ball_clearance",
    }
    for run in (optimised, stepped):
        assert entries <= run.summary.keys()
        assert run.motion.phase_names == optimised.motion.phase_names
        assert sum(run.motion.shares.values()) == pytest.approx(np.ones(len(run.motion.time)))
        steps = [phase["name"] == "takeStep" for phase in run.summary["phases"]]
        assert run.summary["steps_begun"] == sum(steps)
    assert optimised.summary["steps_begun"] >= 1 and stepped.summary["steps_begun"] >= 1
    assert set(stepped.motion.shares) & set(optimised.motion.shares)
