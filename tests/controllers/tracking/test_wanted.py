"""What the whole body is to feel along a motion: its rates of momentum, and where they press."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.tracking.balance import Balance
from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from controllers.tracking.wanted import desired_wrench, pressed_ahead
from jaxsim import ball_joint_human, start
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")
RATE, FRAMES = 120.0, 121
STANDING = np.array([True, True])


@pytest.fixture(scope="module")
def swaying(x64_module):
    """A human whose joints and root swing once a second; the motion and its kinematics at 0.4 s."""
    model = ball_joint_human()
    way = jnp.asarray(0.1 * np.random.default_rng(5).normal(size=model.topology.nv))
    rest, phase = start(model, "standing").q, jnp.sin(2 * jnp.pi * jnp.arange(FRAMES) / RATE)
    q = quick_jit(jax.vmap(lambda s: integrate(model, rest, way * s, 1.0)))(phase)
    motion = reference(model, np.asarray(q), RATE, np.ones((FRAMES, 2), bool), parts(model))
    now = quick_jit(motion.at)(model, jnp.asarray(0.4))
    return model, motion, now, quick_jit(forward_kinematics)(model, now.q, now.qd)


def test_rates_of_momentum_add_up_to_what_changed(swaying):
    _, motion, _, _ = swaying
    for name, rate in (("com_velocity", "com_acceleration"), ("momentum", "momentum_rate")):
        value, its_rate = (np.asarray(getattr(motion, key))[20:101] for key in (name, rate))
        added = np.sum((its_rate[1:] + its_rate[:-1]) / 2, axis=0) / RATE
        assert np.abs(its_rate).max() > 0.1
        np.testing.assert_allclose(added, value[-1] - value[0], atol=0.01 * np.abs(value).max())


def test_inertia_adds_the_rates_of_momentum(swaying):
    model, _, now, kin = swaying
    own, com = parts(model), (now.com, now.com_velocity)

    def found(inertia):
        balance = dataclasses.replace(Balance(), inertia=inertia)
        return quick_jit(desired_wrench)(balance, model, kin, own, com, now, STANDING)

    (turn, push), (more_turn, more_push) = found(0.0), found(1.0)
    np.testing.assert_allclose(more_turn - turn, now.momentum_rate, atol=1e-9)
    np.testing.assert_allclose(more_push - push, model.mass.sum() * now.com_acceleration, atol=1e-9)


def test_height_is_held_by_a_part_of_the_gains(swaying):
    model, _, now, kin = swaying
    own, sunk = parts(model), (now.com - np.array([0.0, 0.0, 0.05]), now.com_velocity)
    balance = dataclasses.replace(Balance(), com_height=0.5)
    _, lower = quick_jit(desired_wrench)(Balance(), model, kin, own, sunk, now, STANDING)
    _, held = quick_jit(desired_wrench)(balance, model, kin, own, sunk, now, STANDING)
    np.testing.assert_allclose(held - lower, [0.0, 0.0, 0.5 * 450.0 * 0.05], atol=1e-9)


def test_no_level_moment_is_left_where_it_presses(swaying):
    model, _, now, kin = swaying
    ankle = parts(model).ankle(kin)
    way = quick_jit(pressed_ahead)(model, now.com, ankle, now)
    point = (now.com + way).at[2].set(ankle[:, 2].min())
    force = model.mass.sum() * (now.com_acceleration - model.gravity)
    moment = now.momentum_rate - jnp.cross(point - now.com, force)
    assert np.abs(way).max() > 0.001
    np.testing.assert_allclose(moment[:2], 0.0, atol=1e-9)
