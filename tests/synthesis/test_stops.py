"""A joint at its stop is held by the stop, not by its motor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.effectors import effectors
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.model import ModelBuilder, box, hinge, neutral_state, plane
from jaxsim.solvers.qp import SOLVED
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.tasks import Tasks, position_rows, stack_rows, velocity_rows
from tests.compiling import quick_map

pytestmark = pytest.mark.usefixtures("x64_module")

MASS, LENGTH, G, DT = 10.0, 0.5, 9.81, 0.01  # of each of two links, whose middles are at LENGTH
STOPS, WEAK = (0.3, 0.2), 5.0  # where the lower ones are [rad]; a motor's greatest torque [N m]


def arm():
    """Two rods, one on the other, that gravity turns towards their lower stops."""
    b = ModelBuilder()
    parent, pos = "world", (0.0, 0.0, 0.0)
    for name, stop in zip(("upper", "lower"), STOPS):
        joint = hinge(name, (0, 1, 0), limits=(stop, 2.5), max_torque=WEAK)
        b.add_link(
            name,
            parent,
            pos=pos,
            joints=[joint],
            mass=MASS,
            com=(0, 0, -LENGTH),
            inertia=(0.4, 0.4, 0.05),
        )
        b.add_shape(name, box((0.05, 0.05, LENGTH), name=name, pos=(0, 0, -LENGTH)))
        parent, pos = name, (0.0, 0.0, -2 * LENGTH)
    b.add_shape("world", plane(name="ground", pos=(0, 0, -20.0)))
    return b.build()


def moved(q, steps, goal=None, limits: float | np.ndarray = WEAK):
    """The model, states before and after, and infos of arms that start at rest at q (n, 2) [rad]:
    relaxed, or with the goal to come to angles (2,) within a step. limits: of torques (n,) [N m]"""
    model = arm()
    points = effectors(model, [("tip", "tip", "lower", (0, 0, -1))])
    scheme = PerStepOptimisation.of(model, points, SynthesisConfig(dt=DT, torque_limits=True))
    eye = jnp.eye(2)

    def tasks(conf, at_v):
        rows = velocity_rows(eye, jnp.zeros(2), 1e-3)
        if goal is not None:
            error = conf.q - jnp.asarray(goal)
            rows = stack_rows(rows, position_rows(conf, error, eye, at_v, jnp.asarray(100.0), DT))
        return Tasks(rows, jnp.zeros(1), jnp.zeros(1), jnp.ones(()))

    def run(q, limit):
        own = model.replace(torque_limit=jnp.full(2, limit))

        def step(state, _):
            after, info = scheme.step(own, state, scheme.observe(own, state), tasks)
            return after, (state, after, info)

        state = scheme.init(model, neutral_state(model).replace(q=q))
        return jax.lax.scan(step, state, None, length=steps)[1]

    starts = jnp.asarray(q), jnp.broadcast_to(jnp.asarray(limits), len(q))
    return model, *jax.tree.map(np.asarray, quick_map(run)(*starts))


def energy(model, state):
    """() kinetic and potential [J]."""
    kin = forward_kinematics(model, state.q, state.qd)
    kinetic = state.qd @ mass_matrix(model, kin) @ state.qd / 2
    return kinetic + model.mass.sum() * G * center_of_mass(model, kin)[2]


@pytest.fixture(scope="module")
def relaxed(x64_module):
    """Of an arm at its stops, and of three that fall on them."""
    return moved([STOPS, [1.2, 0.5], [0.5, 1.5], [1.5, 0.2]], 150)


def test_a_relaxed_arm_hangs_against_its_stops_without_motors(relaxed):
    _, _, after, info = relaxed
    assert (info.status == SOLVED).all()
    np.testing.assert_allclose(after.q[0], np.broadcast_to(STOPS, (150, 2)), atol=1e-5)
    first, second = STOPS[0], sum(STOPS)
    weight = MASS * G * LENGTH * np.array([3 * np.sin(first) + np.sin(second), np.sin(second)])
    assert (weight > 4 * WEAK).all()  # far more than the motors could
    np.testing.assert_allclose(info.stop[0, -1], weight, rtol=1e-5)
    np.testing.assert_allclose(info.torque[0, -1], 0.0, atol=1e-9)


def test_an_arm_that_falls_on_its_stops_stays_within_its_range_and_its_limits(relaxed):
    model, before, after, info = relaxed
    assert (after.q > np.array(STOPS) - 1e-6).all()
    assert (info.stop[1:].max(axis=(1, 2)) > 10 * WEAK).all()  # no motor could
    assert np.abs(info.torque).max() < WEAK * 1.01
    assert info.stop.min() >= 0  # they push upwards, and only what is at them
    assert (after.q - np.array(STOPS))[info.stop > 0].max() < 1e-3

    def given(before, info):
        kin = forward_kinematics(model, before.q, before.qd)
        return articulated_body(model, kin, info.torque + info.stop)

    qdd = jax.jit(jax.vmap(jax.vmap(given)))(before, info)
    np.testing.assert_allclose(before.qd + DT * qdd, after.qd, atol=1e-9)
    worked = DT * np.sum(info.torque * after.qd, axis=-1)
    each = jax.jit(jax.vmap(jax.vmap(lambda s: energy(model, s))))
    gained = np.diff(each(before), axis=1)
    assert (gained <= worked[:, :-1] + 0.5).all()


def test_a_stop_does_not_push_a_joint_away():
    """Asked to leave its stops at once, an arm gets no further than its motors take it."""
    limits = np.array([WEAK, 100.0])
    _, _, after, info = moved([STOPS, STOPS], 30, goal=(1.5, 1.5), limits=limits)
    assert (info.status == SOLVED).all()
    assert (np.abs(info.torque).max(axis=(1, 2)) < 1.01 * limits).all()
    far = after.q - np.array(STOPS)
    assert (info.stop[far > 1e-3] == 0).all()
    assert far[0].max() < 1e-3 and far[1, -1, 1] > 0.5  # the weak one hangs, the other rises
