"""The objective by goal adds up to the objective, and who pulls against whom is told."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.synthesis.shares import shares
from jaxsim.synthesis.tasks import TaskRows, Tasks

pytestmark = pytest.mark.usefixtures("x64")

NV = 5


def tasks(J, r, of_goal=(0, 0, 1, 2)):
    none = jnp.zeros(2)
    goals = {} if of_goal is None else {"of_goal": np.array(of_goal), "n_goals": 3}
    return Tasks(TaskRows(jnp.asarray(J), jnp.asarray(r)), none, none, jnp.ones(()), **goals)


def test_goals_add_up_to_the_objective():
    rng = np.random.default_rng(1)
    J, r, v = rng.normal(size=(4, NV)), rng.normal(size=4), rng.normal(size=NV)
    rest = (J @ v - r) ** 2
    cost, _ = shares(tasks(J, r), jnp.asarray(v))
    np.testing.assert_allclose(cost, [rest[:2].sum(), rest[2], rest[3]], rtol=1e-12)
    whole, _ = shares(tasks(J, r, None), jnp.asarray(v))  # rows that nobody told apart
    np.testing.assert_allclose(whole, [rest.sum()], rtol=1e-12)


def test_two_that_ask_for_opposite_ways_are_told():
    """At rest the first two goals ask to go the same way, the third the other way."""
    J = np.broadcast_to(np.eye(NV)[0], (4, NV))
    _, against = shares(tasks(J, np.array([1.0, 0.0, 2.0, -3.0])), jnp.zeros(NV))
    np.testing.assert_allclose(against, [[0, 0, 3], [0, 0, 6], [3, 6, 0]], atol=1e-12)
