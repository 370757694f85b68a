"""Who counts as standing: what the optimisation said of its frames is part of it."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxsim import neutral_state
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.simulation.health import finite_only
from jaxsim.simulation.scheme import Scheme
from jaxsim.solvers.status import Status
from optimize.problems.survival import UNPHYSICAL, outlast
from tests.synthesis.hopper import hopper

STEPS = 10


class Info(NamedTuple):
    status: Array
    root_residual: Array


class Told:
    """Nothing moves; each step's optimisation says what it is told to say."""

    dt = 0.1
    characters = Scheme.characters

    def __init__(self, status, residual):
        self.status, self.residual = jnp.asarray(status), jnp.asarray(residual)

    def observe(self, model, state):
        return SimpleNamespace(kin=forward_kinematics(model, state.q, state.qd))

    def step(self, model, state, obs, command, forces):
        k = jnp.round(state.time / self.dt).astype(int)
        return state.replace(time=state.time + self.dt), Info(self.status[k], self.residual[k])

    def watch(self, health, model, state, obs, after, info):
        return finite_only(health, after)


class Idle:
    def update(self, memory, model, state, obs, dt):
        return memory, None


@pytest.fixture(scope="module")
def trial():
    model = hopper()
    state = jax.tree.map(jnp.asarray, neutral_state(model))
    first = state.replace(q=state.q.at[2].set(1.0)), jnp.zeros(())

    @jax.jit
    def run(status, residual):
        scheme: Any = Told(status, residual)
        return outlast(model, Idle(), scheme, first, None, STEPS)[0]

    def of(unsolved, residual):
        status, worst = np.zeros(STEPS, np.int32), np.zeros(STEPS, np.float32)
        status[unsolved], worst[4] = int(Status.UNFINISHED), residual
        return run(status, worst)

    return of


def test_unsolved_frames_are_counted_and_forgiven_where_they_are_physical(trial):
    out = trial([2, 7], 0.9 * UNPHYSICAL)
    assert out.stood and out.finite and out.unsolved == 2
    np.testing.assert_allclose(out.root_residual, 0.9 * UNPHYSICAL)
    assert out.lasted == 1


def test_a_run_with_an_unsolved_frame_and_force_without_a_source_is_not_survived(trial):
    before, after = trial([2], 1.1 * UNPHYSICAL), trial([7], 1.1 * UNPHYSICAL)
    assert before.finite and not before.stood and not after.stood
    np.testing.assert_allclose([before.lasted, after.lasted], [0.4, 0.7])


def test_a_run_whose_frames_are_all_solved_is_survived(trial):
    assert trial([], 1.1 * UNPHYSICAL).stood
