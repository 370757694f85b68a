"""Wrenches on links and friction by link, as a controller gives them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim import EventDriven, TimeStepping, articulated_human, push, start
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.momentum import angular_momentum, linear_momentum
from jaxsim.model import ModelBuilder, ModelError, box, free, plane
from jaxsim.model.state import neutral_state
from jaxsim.simulation.external import link_wrenches
from jaxsim.simulation.pushes import push_torque
from jaxsim.simulation.records import no_control
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")


@pytest.fixture(scope="module")
def human(x64_module):
    model = articulated_human()
    state = start(model, "standing")
    return model, state.replace(q=state.q.at[2].add(1.0))  # nothing touches


def test_a_force_is_that_of_a_push(human):
    model, state = human
    hand, force = model.topology.link("rightHand"), np.array([3.0, -20.0, 11.0])
    wrench = np.zeros((model.topology.n_links, 6))
    wrench[hand, 3:] = force
    pushed = push(model, "rightHand", force)

    @quick_jit
    def both(state):
        kin = forward_kinematics(model, state.q, state.qd)
        return link_wrenches(model, kin, wrench), push_torque(model, kin, pushed, state.time)

    found, wanted = both(state)
    assert np.abs(wanted).max() > 1
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [TimeStepping(dt=1e-4), EventDriven(dt=1e-4)])
def test_momentum_grows_with_the_wrench(human, scheme):
    model, state = human
    model = model.replace(gravity=jnp.zeros(3))
    wrench = np.zeros((model.topology.n_links, 6))
    wrench[model.topology.link("leftFoot")] = 5.0, -3.0, 8.0, 10.0, 20.0, -30.0
    control = replace(no_control(model), external=jnp.asarray(wrench))
    state = scheme.init(model, state)
    after, _ = quick_jit(scheme.step)(model, state, scheme.observe(model, state), control)
    kin = forward_kinematics(model, after.q, after.qd)
    before = forward_kinematics(model, state.q, state.qd)
    np.testing.assert_allclose(linear_momentum(model, kin), 1e-4 * wrench.sum(0)[3:], rtol=1e-3)
    foot = before.com[model.topology.link("leftFoot")]
    turned = angular_momentum(model, kin, foot)
    np.testing.assert_allclose(turned, 1e-4 * wrench.sum(0)[:3], rtol=2e-3)


def test_a_slippery_link_slides_on():
    b = ModelBuilder()
    for name in ("rough", "smooth"):
        b.add_link(name, "world", mass=2.0, inertia=(0.02, 0.02, 0.02), joints=[free(name)])
        b.add_shape(name, box((0.2, 0.2, 0.1), name=name, friction=0.5))
    b.add_shape("world", plane(name="ground", friction=0.5))
    model = b.build()
    state, scheme = neutral_state(model), TimeStepping(dt=0.005)
    q = state.q.at[jnp.array([2, 9])].set(0.1).at[8].set(2.0)
    state = scheme.init(model, state.replace(q=q, qd=state.qd.at[jnp.array([0, 6])].set(1.0)))
    control = replace(no_control(model), friction=jnp.array([1.0, 0.25]))

    @quick_jit
    def step(state):
        return scheme.step(model, state, scheme.observe(model, state), control)[0]

    for _ in range(10):
        state = step(state)
    lost = 1.0 - np.asarray(state.qd)[[0, 6]]
    # the geometric mean of both surfaces, times the factor
    np.testing.assert_allclose(lost, 0.05 * 9.81 * 0.5 * np.array([1.0, 0.25]), rtol=1e-3)


def test_arrays_of_another_size_are_told(human):
    model, state = human
    scheme = TimeStepping(dt=0.001)
    state = scheme.init(model, state)
    obs = quick_jit(scheme.observe)(model, state)
    for changes in ({"external": jnp.zeros((3, 6))}, {"friction": jnp.ones(3)}):
        with pytest.raises(ModelError, match=f"control.{next(iter(changes))} has shape"):
            scheme.step(model, state, obs, replace(no_control(model), **changes))
    events = EventDriven(dt=0.001)
    slippery = replace(no_control(model), friction=jnp.ones(model.topology.n_links))
    with pytest.raises(ModelError, match="friction is for TimeStepping"):
        events.step(model, events.init(model, state.replace(solver=None)), obs, slippery)
