"""The neutral state, and the checks that a state passes before a simulation."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder, ModelError, ball, check_state, free, hinge, neutral_state

BODY = dict(mass=1.0, inertia=(0.1, 0.1, 0.1))


@pytest.fixture
def model():
    """q = (free: 7, hinge: 1, ball: 4)."""
    b = ModelBuilder()
    b.add_link("trunk", "world", joints=[free("root")], **BODY)
    b.add_link("arm", "trunk", joints=[hinge("bend", (0, 1, 0)), ball("wrist")], **BODY)
    return b.build()


def test_neutral_state(model):
    state = neutral_state(model)
    assert state.q.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert state.qd.shape == (10,) and state.solver is None and state.time.shape == ()
    assert {x.dtype for x in (state.q, state.qd, state.time)} == {model.mass.dtype}
    check_state(model, state)


def test_neutral_state_in_float64(x64):
    b = ModelBuilder()
    b.add_link("trunk", "world", joints=[ball("root")], **BODY)
    assert neutral_state(b.build()).q.dtype == np.float64


def test_batches_pass(model):
    state = neutral_state(model)
    batch = state.replace(q=jnp.tile(state.q, (4, 2, 1)), qd=jnp.zeros((4, 2, 10)))
    check_state(model, batch)


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("q", np.zeros(11), r"state.q has shape \(11,\), the model needs \(..., 12\)"),
        ("qd", np.zeros(()), r"state.qd has shape \(\), the model needs \(..., 10\)"),
        ("qd", np.where(np.arange(10) == 3, np.nan, 0), r"state.qd\[3\] is nan"),
        ("qd", np.diag([0, np.inf, 0, 0, 0, 0, 0, 0, 0, 0]), r"qd\[1\] of .* \(1,\) is inf"),
        ("q", np.zeros(12), "quaternion of joint 'root' has length 0; normalise it"),
        ("q", np.array([0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0]), "joint 'wrist' has length 2"),
    ],
)
def test_bad_states(model, field, value, words):
    state = neutral_state(model).replace(**{field: value})
    with pytest.raises(ModelError, match=words):
        check_state(model, state)
