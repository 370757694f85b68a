"""Memory at computed indices where the members of a batch part ways in a loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim import TimeStepping, ball_joint_human, no_control, start
from jaxsim.fused import fuse

ROWS = 10
SPEEDS = np.array([0.0, 0.02, 0.005, 0.012, 0.001, 0.016, 0.0, 0.02], np.float32)


@pytest.mark.parametrize("members", [2, 5, 8, 40])
def test_each_member_reads_at_its_own_index(members):
    """The carries begin as one number for all; what they become differs."""

    def member(speed):
        def body(carry, _):
            at = jnp.clip((carry[-1] * 7).astype(int), 0, ROWS - 1)
            table = jnp.where(carry < 0.01, 1.0, 2.0) * jnp.arange(1.0, ROWS + 1)
            return carry + speed * jnp.linspace(0, 1, ROWS), table[at]

        return jax.lax.scan(body, jnp.zeros(ROWS), None, length=60)[1]

    speeds = jnp.asarray(np.resize(SPEEDS, members))
    found = np.asarray(fuse(member)(speeds))
    np.testing.assert_allclose(found, jax.vmap(member)(speeds), rtol=1e-6)
    assert len(np.unique(found[:, -1])) > 1


def test_bodies_that_fall_apart_lie_on_the_ground():
    """Which contacts have a place is found by computed indices; with few places for them."""
    model = ball_joint_human()
    scheme = TimeStepping(dt=0.004, contacts=16)
    standing = start(model, "standing")

    def member(speed):
        state = scheme.init(model, standing.replace(qd=standing.qd.at[1].set(speed)))

        def body(state, _):
            after, info = scheme.step(model, state, scheme.observe(model, state), no_control(model))
            return after, info.penetration

        return jax.lax.scan(body, state, None, length=350)[1]

    deepest = np.asarray(fuse(member)(jnp.array([0.2, 1.0, 1.5, 0.6]))).max(axis=1)
    assert (deepest < 0.005).all()
