"""Random falls of the 3-D human: within bounds at every step, at rest in the end."""

import jax
import numpy as np
import pytest

from benchmarks._ragdolls import GROUNDS, Limp, falls, measures, ragdoll
from benchmarks.ragdolls import main
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import StepConfig
from tests.compiling import quick_jit

MEMBERS = 8


def fallen(ground, self_collision, config, seconds, lower=0.0):
    """The measures of a few falls, which begin nearer to the ground by ``lower`` [m]."""
    model = ragdoll(ground, self_collision)
    state = falls(model, MEMBERS)
    state = state.replace(q=state.q.at[:, 2].add(-lower))
    steps = round(seconds / config.dt)

    def one(state):
        found = rollout(
            model,
            Limp(),
            state,
            config,
            steps,
            measures=measures(config, seconds),
            backend="xla",
        )
        return {**found.measures, "finite": found.finite}

    found = jax.device_get(quick_jit(jax.vmap(one))(state))
    assert found["finite"].all()
    assert (found["left_out"] == 0).all()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ground", GROUNDS)
def test_half_a_second_of_falls(ground):
    """At 4 ms: no joint over 2 degrees beyond its limit, little energy without cause."""
    found = fallen(ground, False, StepConfig(dt=0.004), 0.6)
    assert np.rad2deg(found["beyond"].max()) < 2.0
    assert (found["energy"][2] < 0.05 * found["first_energy"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--quick"]])
def test_the_study_runs(words):
    assert "energy without cause [J]" in main(words)
