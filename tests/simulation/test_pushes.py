"""Forces from outside: momentum, moments, timing, batches, both back ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.momentum import linear_momentum
from jaxsim.model import ModelBuilder, ModelError, free, hinge
from jaxsim.model.state import neutral_state
from jaxsim.simulation.pushes import push, push_torque, pushes_together
from jaxsim.simulation.records import no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit, quick_map

pytestmark = pytest.mark.usefixtures("x64_module")

MASS, STEPS, DT = 2.0, 100, 0.001
FIRST_ORDER = 3e-3  # semi-implicit Euler turns the body after the force was counted


@jax.tree_util.register_static
class Limp:
    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, no_control(model)


@pytest.fixture(scope="module")
def flyer(x64_module):
    """A body and an arm, without gravity."""
    builder = ModelBuilder((0, 0, 0))
    builder.add_link(
        "body", "world", mass=MASS, inertia=0.1 * np.eye(3), com=(0, 0, 0.1), joints=[free("root")]
    )
    builder.add_link(
        "arm",
        "body",
        pos=(0.2, 0, 0),
        mass=0.5,
        com=(0.2, 0, 0),
        inertia=0.01 * np.eye(3),
        joints=[hinge("elbow", (0, 1, 0))],
    )
    return builder.build()


def fly(model, pushes, backend="xla"):
    state = neutral_state(model)
    return rollout(model, Limp(), state, TimeStepping(dt=DT), STEPS, backend=backend, pushes=pushes)


@jax.jit
def momentum(model, state):
    return linear_momentum(model, forward_kinematics(model, state.q, state.qd))


def test_momentum_gained_is_force_times_time(flyer):
    force = np.array([3.0, -1.0, 2.0])
    together = pushes_together(
        push(flyer, "body", force, start=0.02, duration=0.05),
        push(flyer, "arm", -0.5 * force, start=0.04, duration=0.02, point=(0.4, 0, 0)),
        push(flyer, "arm", force, start=0.2),  # after the end
    )
    run = quick_jit(lambda p: momentum(flyer, fly(flyer, p).state))
    np.testing.assert_allclose(run(together), force * 0.05 - 0.5 * force * 0.02, rtol=FIRST_ORDER)


def test_torque_is_that_of_the_point_jacobian(flyer):
    rng = np.random.default_rng(0)
    q = (
        jnp.asarray(rng.normal(size=flyer.topology.nq))
        .at[3:7]
        .set(jnp.array([0.5, -0.5, 0.5, 0.5]))
    )
    force, local = rng.normal(size=(2, 3))
    one = push(flyer, "arm", force, start=1.0, duration=2.0, point=local)

    @quick_jit
    def both(time):
        kin = forward_kinematics(flyer, q, jnp.zeros(flyer.topology.nv))
        at = kin.link_pos[1] + kin.link_rot[1] @ local
        wanted = point_jacobian(flyer, kin, 1, at).T @ force
        return push_torque(flyer, kin, one, time), wanted

    for time, acts in ((0.999, 0), (1.0, 1), (2.9, 1), (3.0, 0)):
        found, wanted = both(jnp.asarray(time))
        np.testing.assert_allclose(found, acts * wanted, atol=1e-12)


def test_members_are_pushed_each_in_its_way_and_both_backends_agree(flyer):
    links = ["body", "arm", "arm"]
    rng = np.random.default_rng(1)
    single = [
        push(
            flyer, link, rng.normal(size=3), start=0.01 * k, duration=0.03, point=rng.normal(size=3)
        )
        for k, link in enumerate(links)
    ]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *single)
    fused = jax.vmap(lambda p: fly(flyer, p, "fused"))(batch)
    plain = quick_map(lambda p: fly(flyer, p))(batch)
    np.testing.assert_allclose(fused.state.q, plain.state.q, rtol=0, atol=1e-12)
    for k, force in enumerate(batch.force[:, 0]):
        found = momentum(flyer, jax.tree.map(lambda x, k=k: x[k], plain.state))
        np.testing.assert_allclose(found, 0.03 * force, rtol=FIRST_ORDER)


def test_a_push_of_nothing_changes_no_bit(flyer):
    state = quick_jit(lambda p: fly(flyer, p).state)(push(flyer, "arm", (0, 0, 0)))
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(fly(flyer, None).state)):
        np.testing.assert_array_equal(a, b)


def test_wrong_pushes_are_told(flyer):
    with pytest.raises(ModelError, match="no link 'leg' to push; there are body, arm"):
        push(flyer, "leg", (1, 0, 0))
    with pytest.raises(ValueError, match=r"push on 'arm': force has shape \(2,\), not \(3,\)"):
        push(flyer, "arm", (1, 0))
    with pytest.raises(ValueError, match="push on 'arm': start is not a number"):
        push(flyer, "arm", (1, 0, 0), start=np.nan)


@pytest.mark.parametrize("backend", ["xla", "fused"])
def test_a_direction_turns_the_force_to_the_left(flyer, backend):
    turn, force = 0.7, np.array([3.0, -1.0, 2.0])
    cos, sin = np.cos(turn), np.sin(turn)
    by_hand = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]]) @ force
    turned = fly(flyer, push(flyer, "arm", force, duration=0.05, direction=turn), backend)
    given = fly(flyer, push(flyer, "arm", by_hand, duration=0.05), backend)
    np.testing.assert_allclose(turned.state.qd, given.state.qd, rtol=1e-12, atol=1e-14)
    left = fly(flyer, push(flyer, "arm", (3.0, 0, 0), duration=0.05, direction=np.pi / 2), backend)
    np.testing.assert_allclose(momentum(flyer, left.state), [0, 0.15, 0], atol=FIRST_ORDER)
