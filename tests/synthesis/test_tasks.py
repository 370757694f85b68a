"""Weights of tasks."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.synthesis.tasks import root_of_weight


def test_a_weight_of_zero_has_a_root_and_a_finite_slope():
    weights = jnp.array([-1.0, 0.0, 4.0, jnp.nan])
    np.testing.assert_allclose(root_of_weight(weights), [0.0, 0.0, 2.0, np.nan])
    slope = jax.vmap(jax.grad(root_of_weight))(weights)
    np.testing.assert_allclose(slope[:3], [0.0, 0.0, 0.25])
