"""A loop with a loop inside, and carries that never change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.fused import fuse


@pytest.mark.parametrize("rounds", [1, 100])
def test_a_carry_that_stays_and_a_loop_inside(rounds):
    """Of one loop, or of two. Dr.Jit, left to find the first out, lost what the second made."""
    table = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)

    def inner(x):
        def add(carry):
            k, y = carry
            factor = jax.lax.dynamic_index_in_dim(x, k, keepdims=False)
            return k + 1, y + factor * jnp.asarray(table)[k]

        begun = jnp.zeros((), jnp.int32), jnp.zeros(8, jnp.float32)
        return jax.lax.while_loop(lambda carry: carry[0] < 20, add, begun)[1]

    def outer(x):
        def step(carry, _):
            x, kept, held, memory = carry
            y = inner(jnp.concatenate([x, x[:4]]))
            memory = jnp.where(x[0] > 0, y, memory)
            x = 0.9 * x + 0.01 * jnp.concatenate([memory, memory])
            return (x, kept + 0.001 * jnp.zeros(()), jnp.maximum(held, 0.0), memory), None

        def several(carry, _):
            return jax.lax.scan(step, carry, length=100)[0], None

        begun = x, jnp.zeros(()), jnp.zeros(()), jnp.zeros(8)
        return jax.lax.scan(several, begun, length=rounds)[0]

    x = np.random.default_rng(1).normal(size=(5, 16)).astype(np.float32)
    for one, other in zip(fuse(outer)(x), jax.vmap(outer)(x)):
        np.testing.assert_allclose(one, other, atol=1e-5)
