"""Rows of contacts: what no joint can give way to is no row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.contacts import find_contacts
from jaxsim.constraints.rows import contact_frame, contact_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import ModelBuilder, box, capsule, hinge
from jaxsim.model.state import neutral_state
from jaxsim.simulation.records import no_control
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit, quick_map

AXIS = tuple(np.array([1.0, 2.0, 0.0]) / np.sqrt(5))

UPRIGHT = (np.sqrt(0.5), 0, np.sqrt(0.5), 0)  # turns x to z


@pytest.fixture(scope="module")
def hanging():
    """A rod of half a metre, hinged where it touches the ceiling."""
    b = ModelBuilder()
    rod = dict(mass=1.0, com=(0, 0, -0.25), inertia=(0.02, 0.02, 0.001))
    b.add_link("rod", "world", pos=(0.3, 0.1, 1.0), joints=[hinge("swing", AXIS)], **rod)
    b.add_shape("rod", capsule(0.03, 0.25, pos=(0, 0, -0.25), quat=UPRIGHT))
    b.add_shape("world", box((1, 1, 0.1), pos=(0, 0, 1.1)))
    return b.build()


def test_a_normal_through_the_axis_is_no_row(hanging):
    def rows(angle):
        kin = forward_kinematics(hanging, angle[None], jnp.ones(1, angle.dtype))
        contacts = find_contacts(hanging, kin)
        frame = contact_frame(hanging.topology, contacts.normal)
        return contact_jacobian(hanging, kin, contacts, frame)[..., 0], contacts.gap

    angles = jnp.linspace(-1.2, 1.2, 25)
    J, gap = quick_jit(jax.vmap(rows))(angles)
    inside = np.asarray(gap) < 0.02  # the end at the hinge; the other one has a lever
    assert inside.any()
    assert (np.asarray(J)[..., 0][inside] == 0).all()
    assert (np.abs(np.asarray(J)[..., 0][~inside]) > 0.01).any()


def test_a_rod_hinged_in_its_ceiling_swings(hanging):
    """It gains what gravity gives in two steps, and the derivative of a step is finite."""
    config = TimeStepping(dt=1e-3)

    def step(angle, speed):
        start = neutral_state(hanging).replace(q=angle[None], qd=speed[None])
        state = config.init(hanging, start)
        obs = config.observe(hanging, state)
        state, _ = config.step(hanging, state, obs, no_control(hanging))
        return state.qd[0], state.q[0]

    run = quick_map(jax.value_and_grad(step, argnums=(0, 1), has_aux=True))
    angles = jnp.linspace(-1.0, 1.0, 5)
    (speeds, angles), first = run(angles, jnp.zeros(5))
    (speeds, _), second = run(angles, speeds)
    assert np.isfinite([first, second]).all()
    assert np.abs(speeds).max() < 0.1
