"""Fast rotation keeps energy and momentum, on its own, in chains and beside contacts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.momentum import angular_momentum, kinetic_energy, potential_energy
from jaxsim.model import ModelBuilder, ball, free, hinge, plane, sphere
from jaxsim.model.state import neutral_state
from jaxsim.simulation.measures import Measure
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit, quick_map
from tests.laws.bodies import Limp

pytestmark = pytest.mark.usefixtures("x64_module")

DT = 1e-3


def energy(model, state):
    kin = forward_kinematics(model, state.q, state.qd)
    return kinetic_energy(model, kin, state.qd) + potential_energy(model, kin)


def spin(model, state):
    return angular_momentum(model, forward_kinematics(model, state.q, state.qd))


def flight(model, state, velocities, config, seconds):
    """Largest changes of energy and angular momentum, and the last states; velocities (n, nv)."""

    @quick_map
    def run(qd):
        begin = state.replace(qd=qd)
        first = energy(model, begin), spin(model, begin)

        def update(worst, sample):
            error = jnp.abs(energy(model, sample.state) / first[0] - 1)
            turned = jnp.linalg.norm(spin(model, sample.state) - first[1])
            turned = turned / jnp.linalg.norm(first[1])
            return jnp.maximum(worst[0], error), jnp.maximum(worst[1], turned)

        watched = {"worst": Measure((0.0, 0.0), update)}
        steps = round(seconds / config.dt)
        result = rollout(model, Limp(), begin, config, steps, watched, backend="xla")
        return *result.measures["worst"], result.state

    return jax.device_get(run(jnp.asarray(velocities)))


def test_a_body_that_tumbles_keeps_energy_and_momentum():
    """A human's inertia about a skew axis: by default, as it hangs on nothing."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=75.0, inertia=(12.0, 11.0, 1.2), joints=[free("root")])
    model = b.build().replace(gravity=jnp.zeros(3))
    axis = np.array([0, 0, 0, 0.3, 0.5, 0.81]) / np.linalg.norm([0.3, 0.5, 0.81])
    rates = np.array([5.0, 20.0, 50.0, 100.0])
    moved, turned, _ = flight(
        model, neutral_state(model), rates[:, None] * axis, TimeStepping(dt=DT), 2.0
    )
    assert (moved < 1e-4).all()
    assert (turned < [1e-4, 1e-4, 1e-3, 2e-3]).all()


def test_a_fast_top_precesses():
    """On a ball joint, under gravity: where a step of an eighth of the time leads."""
    b = ModelBuilder()
    top = dict(com=(0, 0, 0.1), mass=0.5, inertia=(6e-4, 6e-4, 1e-3))
    b.add_link("top", "world", joints=[ball("tip")], **top)
    model = b.build()
    begun = neutral_state(model).replace(q=jnp.array([np.cos(0.15), np.sin(0.15), 0, 0]))
    ends = []
    for dt in (DT, DT / 8):
        moved, _, state = flight(model, begun, [[0, 0, 300.0]], TimeStepping(dt=dt), 0.25)
        assert moved[0] < 0.01
        kin = forward_kinematics(model, state.q[0], state.qd[0])
        ends.append(kin.link_rot[0, :, 2])
    assert np.degrees(np.arccos(ends[0] @ ends[1])) < 1.0
    assert np.degrees(np.arccos(ends[0][2])) > 5


@pytest.fixture(scope="module")
def chain(x64_module):
    """Five links in flight, with balls and hinges between them."""
    b = ModelBuilder()
    b.add_link("link0", "world", mass=1.0, inertia=(0.01, 0.012, 0.003), joints=[free("root")])
    rod = dict(pos=(0.3, 0, 0), com=(0.15, 0, 0), mass=1.0, inertia=(0.002, 0.01, 0.011))
    for k in range(1, 5):
        joint = ball(f"ball{k}") if k % 2 else hinge(f"hinge{k}", (0, 1, 0))
        b.add_link(f"link{k}", f"link{k - 1}", joints=[joint], **rod)
    return b.build().replace(gravity=jnp.zeros(3))


def thrown(model, rates):
    """(n, nv) velocities whose fastest joint turns at a rate."""
    turn = np.random.default_rng(0).normal(size=model.topology.nv)
    turn[:3] = 0
    return np.asarray(rates)[:, None] * turn / np.abs(turn).max()


def test_a_chain_that_tumbles_keeps_energy_and_momentum(chain):
    """Of second order: within 1%, and 1e-3 of momentum. Of first order momentum shows an offset of
    half a step, and energy wanders."""
    state, velocities = neutral_state(chain), thrown(chain, [5.0, 10.0])
    moved, turned, _ = flight(chain, state, velocities, TimeStepping(dt=DT, order=2), 0.4)
    assert (moved < 2e-3).all() and (turned < 1e-3).all()
    once, offset, _ = flight(chain, state, velocities, TimeStepping(dt=DT, order=1), 0.4)
    assert (once > 3 * moved).all() and (offset > 3 * turned).all()
    assert (once < 0.1).all() and (offset < 0.05).all()


def test_gradients_of_a_tumbling_landing():
    """A chain turns fast and falls on the ground: the derivative is that of differences."""
    b = ModelBuilder()
    b.add_link("low", "world", mass=1.0, inertia=(0.008, 0.01, 0.012), joints=[free("root")])
    b.add_shape("low", sphere(0.08, name="low"))
    rod = dict(pos=(0.1, 0, 0), com=(0.15, 0, 0), mass=0.5, inertia=(0.002, 0.01, 0.011))
    b.add_link("high", "low", joints=[ball("neck")], **rod)
    b.add_shape("world", plane(name="ground"))
    model = b.build()
    zero = neutral_state(model)
    start = zero.replace(q=zero.q.at[2].set(0.1))
    config = TimeStepping(dt=DT, order=2, sweeps=20, most_sweeps=0)
    first = jnp.array([0.3, 0, -3.0, 4, 9, 7, 9, -60, 80.0])
    weights = jnp.asarray(np.random.default_rng(1).normal(size=model.topology.nv))

    def loss(qd):
        result = rollout(model, Limp(), start.replace(qd=qd), config, 15, backend="xla")
        return result.state.qd @ weights

    along = jnp.asarray(np.random.default_rng(2).normal(size=model.topology.nv))
    h = 1e-6
    run = quick_jit(jax.value_and_grad(loss))
    ahead, behind = run(first + h * along)[0], run(first - h * along)[0]
    np.testing.assert_allclose(run(first)[1] @ along, (ahead - behind) / (2 * h), rtol=1e-5)


def test_orders_are_refused_by_name():
    with pytest.raises(ValueError, match="order is 3; give 1 or 2"):
        TimeStepping(order=3)
