"""The implicit derivative of a contact problem that the sweeps left unsolved is told."""

import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder, plane
from jaxsim.simulation.rollout import RolloutResult, rollout, warn_of_residual
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.laws.bodies import Limp, add_crate, begin


@pytest.fixture(scope="module")
def landing():
    """``run(sweeps, derivative)`` of a tilted crate that meets the ground."""
    b = ModelBuilder()
    add_crate(b, "crate", (0.1, 0.1, 0.1))
    b.add_shape("world", plane(name="ground"))
    model = b.build()
    state = begin(model, [0, 0, 0.1, 1, 0, 0, 0], [1.0, 0, -1.0, 2.0, 0, 0])

    @partial(quick_jit, static_argnums=(1, 2))
    def run(state, sweeps, derivative):
        config = TimeStepping(dt=0.002, sweeps=sweeps, derivative=derivative)
        return rollout(model, Limp(), state, config, 10, backend="xla")

    return lambda sweeps, derivative: run(state, sweeps, derivative)


def test_few_sweeps_are_told_and_many_are_not(landing):
    few, many = landing(1, "implicit"), landing(300, "implicit")
    assert few.residual > 1e-2 > 1e-3 > many.residual
    with pytest.warns(UserWarning, match="the rollout left contact problems unsolved, by up to"):
        warn_of_residual(few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_residual(many)
        warn_of_residual(few, tolerance=10.0)


def test_the_derivative_of_the_iteration_needs_no_word(landing):
    result = landing(1, "iteration")
    assert result.residual is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_residual(result)


def test_members_of_a_batch_are_counted(landing):
    one = landing(1, "implicit")
    batch: RolloutResult = jax.tree.map(lambda x: jnp.stack([x] * 4), one)
    batch = replace(batch, residual=jnp.array([0.0, 0.5, jnp.nan, 1e-4]))
    with pytest.warns(UserWarning, match="2 of 4 members left .* by up to nan m/s where 0.001"):
        warn_of_residual(batch)


def test_a_rollout_that_is_not_traced_says_it_itself(landing, monkeypatch):
    from jaxsim.simulation import rollout as module

    result = landing(1, "implicit")
    monkeypatch.setattr(module, "_simulate", lambda *_: result)
    b = ModelBuilder()
    add_crate(b, "crate", (0.1, 0.1, 0.1))
    model = b.build()
    config = TimeStepping(dt=0.002, sweeps=1, derivative="implicit")
    with pytest.warns(UserWarning, match="More sweeps") as told:
        rollout(model, Limp(), begin(model), config, 10, backend="xla")
    assert told[0].filename == __file__
    assert np.isfinite(result.residual)
