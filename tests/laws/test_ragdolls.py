"""Random falls of the 3-D human: within bounds at every step, at rest in the end."""

import jax
import numpy as np
import pytest

from benchmarks._ragdolls import GROUNDS, TALLEST, Limp, falls, measures, ragdoll
from benchmarks.ragdolls import main
from jaxsim.characters.human import articulated_human
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import StepConfig
from tests.compiling import quick_jit


def fallen(model, members, config, seconds, lower=0.0):
    """The measures of a few falls, which begin nearer to the ground by ``lower`` [m]."""
    state = falls(model, members)
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


def test_falls_on_flat_ground():
    """0.2 s at 4 ms, from where it meets the ground at once."""
    found = fallen(articulated_human(), 4, StepConfig(dt=0.004), 0.2, lower=TALLEST)
    assert np.rad2deg(found["beyond"].max()) < 1.0
    assert (found["energy"][2] < 0.01 * found["first_energy"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("ground", GROUNDS)
def test_falls_on_boxes_and_rough_ground(ground):
    """2 s at 4 ms."""
    found = fallen(ragdoll(ground, False), 8, StepConfig(dt=0.004, sweeps=30), 2.0)
    assert np.rad2deg(found["beyond"].max()) < 1.0
    assert (found["energy"][2] < 0.05 * found["first_energy"]).all()


@pytest.mark.slow
def test_the_study_runs():
    assert "energy without cause [J]" in main(["--quick"])
