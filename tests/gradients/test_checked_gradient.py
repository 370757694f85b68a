"""Members whose gradient rounding decides are named, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.checked_gradient import ROUNDINGS, checked_gradient
from jaxsim.model import State

STEP = ROUNDINGS * float(np.finfo(np.float32).eps)


def states_at(q) -> State:
    q = jnp.asarray(q, jnp.float32).reshape(-1, 1)
    return State(q=q, qd=jnp.ones_like(q), time=jnp.zeros(len(q)))


def bend(states, scale):
    """Slopes 1 above q = 1 and -2 below."""
    slope = jax.vmap(jax.grad(lambda q: jnp.where(q > 1, q, -2 * q)))
    return {"scaled": scale * slope(states.q[:, 0]), "plain": slope(states.q[:, 0])[:, None]}


def test_a_switch_within_a_few_roundings_is_named():
    near = [1 + STEP / 2, 1 - STEP / 2, 1 + 4 * STEP, 1 - 4 * STEP, 3.0]
    either = np.zeros(5, bool)
    for seed in range(8):
        checked = checked_gradient(bend, states_at(near), jnp.ones(5), seed=seed)
        named = np.asarray(checked.named)
        assert not named[2:].any()
        np.testing.assert_array_equal(checked.change[2:], 0)
        either |= named
    assert either[:2].all()  # which way a copy goes is drawn


def test_gradients_are_those_of_the_members_themselves():
    states, scale = states_at([0.5, 2.0]), jnp.array([1.0, 10.0])
    checked = checked_gradient(bend, states, scale)
    np.testing.assert_array_equal(checked.gradient["scaled"], [-2, 10])
    np.testing.assert_array_equal(checked.gradient["plain"], [[-2], [1]])


def test_the_leaf_that_changes_most_decides_whatever_its_size():
    def slopes(states):
        jump = jnp.where(states.q[:, 0] > 1, 1e-6, 2e-6)
        return jnp.full(2, 1e6), jump

    checked = [checked_gradient(slopes, states_at([1.0, 2.0]), seed=k) for k in range(4)]
    assert np.any([c.named[0] for c in checked]) and not np.any([c.named[1] for c in checked])


def test_gradients_that_are_not_finite_are_named_and_zeros_are_not():
    def slopes(states):
        return jnp.array([jnp.nan, jnp.inf, 0.0, 1.0])

    checked = checked_gradient(slopes, states_at([0.1, 0.2, 0.3, 0.4]))
    assert checked.named.tolist() == [True, True, False, False]


def test_smooth_gradients_differ_by_what_the_copy_is_moved():
    def slopes(states):
        return jnp.exp(states.q)

    q = jnp.linspace(0.0, 5.0, 9)
    checked = checked_gradient(slopes, states_at(q))
    assert not checked.named.any()
    assert 0.2 * STEP < float(checked.change.max()) < 10 * STEP


def test_what_is_no_batch_of_states_is_refused():
    with pytest.raises(TypeError, match="states is a float; give the members' State"):
        checked_gradient(jnp.sin, 1.0)  # pyright: ignore[reportArgumentType]
    one = State(q=jnp.zeros(3), qd=jnp.zeros(3), time=jnp.zeros(()))
    with pytest.raises(ValueError, match=r"states.q has shape \(3,\); expected \(members, nq\)"):
        checked_gradient(lambda s: s.q, one)
    with pytest.raises(ValueError, match=r"a gradient has shape \(\); expected \(2, ...\)"):
        checked_gradient(lambda s: jnp.sum(s.q), states_at([0.1, 0.2]))
