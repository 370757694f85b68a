"""Constraints that are added to a machine for a while."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.controller import GoalController
from controllers.goals.effector_constraints import EffectorConstraint
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.tasks import damping
from jaxsim.simulation.pushes import push
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from tests.compiling import quick_jit
from tests.synthesis.hopper import HANDLE, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

ALWAYS = GoalState({"damping": 0.01}, lambda obs, _: jnp.asarray(True))
FRAMES = 24
BEGIN, END = 0.05, 0.155  # of the hold [s]


def machine(*holds):
    return GoalMachine((damping(),), {"only": ALWAYS}, {}, constraints=holds)


@pytest.fixture(scope="module")
def flight(x64_module):
    """A hopper in the air, thrown sideways and pushed; its handle is held for a while."""
    model = hopper()
    scheme = PerStepOptimisation.of(model, hopper_effectors(model), SynthesisConfig(passes=1))
    held = GoalController.of(machine(EffectorConstraint("handle", BEGIN, END)), model)
    state = crouched(model, height=0.5)
    state = state.replace(qd=state.qd.at[0].set(0.5))
    pushes = push(model, "foot", (0.0, 60.0, 0.0), start=0.0, duration=0.2)

    def record(sample):
        return sample.obs.time, sample.obs.conf.position, sample.info

    def fly():
        options = dict(record=record, pushes=pushes, backend="xla")
        return rollout(model, held, state, scheme, FRAMES, **options).record

    return quick_jit(fly)()


def test_an_effector_stays_where_it_was_as_the_hold_began(flight):
    time, position, _ = flight
    handle = np.asarray(position[:, HANDLE])
    time = np.asarray(time)
    during = np.flatnonzero((time >= BEGIN - 1e-9) & (time < END))
    assert len(during) == 11
    assert np.ptp(handle[during], axis=0) == pytest.approx(0, abs=2e-4)  # second order in dt
    assert np.ptp(np.asarray(position[during, 0]), axis=0).max() > 0.02  # the sole moves on
    before, after = handle[: during[0]], handle[during[-1] + 1 :]
    assert np.linalg.norm(before[-1] - before[0]) > 0.01
    assert np.linalg.norm(after[-1] - after[0]) > 0.01


def test_it_takes_force_in_any_direction_and_nothing_without_a_source(flight):
    time, _, info = flight
    held = (np.asarray(time) >= BEGIN - 1e-9) & (np.asarray(time) < END)
    force = np.asarray(info.force[:, HANDLE])
    np.testing.assert_array_equal(force[~held], 0)
    assert np.linalg.norm(force[held], axis=1).min() > 1
    assert np.asarray(info.root_residual).max() < 1e-6
    np.testing.assert_array_equal(info.status, 0)


def test_mistakes_are_told():
    for start, end in ((1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (0.0, np.nan)):
        with pytest.raises(ValueError, match=r"hold of 'handle': from .* is no interval"):
            EffectorConstraint("handle", start, end)
    found = hopper_effectors(hopper())
    conf = SimpleNamespace(q=jnp.zeros(1), position=jnp.zeros((found.count, 3)), effectors=found)
    obs = SimpleNamespace(time=jnp.zeros(()), conf=conf)
    with pytest.raises(ValueError, match=r"no effector 'tail'; there are .*handle"):
        machine(EffectorConstraint("tail", 0.0, 1.0)).begin(obs)
