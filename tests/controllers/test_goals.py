"""Goals: the Jacobians that are given are those that automatic differentiation finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import goals
from controllers.senses import Senses
from jaxsim.dynamics.kinematics import integrate
from jaxsim.synthesis.view import look
from tests.compiling import quick_jit
from tests.synthesis.hopper import JOINTS, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

PLACE = (0.2, -0.1)  # [m]
ANGLES = (0.1, -0.2, 0.3)  # [rad]


def spine(senses, _):
    z = senses.view.kin.link_rot[senses.view.link("trunk")][:, 2]
    return jnp.stack([z[1], -z[0]])  # z x up


def angles(senses, _):
    top = senses.view.model.topology
    return senses.view.q[np.array([top.q_start[top.joint(j)] for j in JOINTS])] - np.array(ANGLES)


GOALS = {
    "com_over": (
        goals.com_over("com", lambda s, _: np.array(PLACE)),
        lambda s, _: s.view.com[:2] - np.array(PLACE),
    ),
    "upright": (goals.upright("trunk"), spine),
    "pose": (goals.pose("pose", JOINTS, lambda s, _: np.array(ANGLES)), angles),
}


@pytest.fixture(scope="module")
def senses(x64_module):
    """Tilted and moving."""
    model = hopper()
    state = crouched(model, height=0.2)
    tilt = jnp.array([0.8, 0.3, -0.4, 0.33])
    q = state.q.at[3:7].set(tilt / jnp.linalg.norm(tilt))
    v = jnp.linspace(-1, 1, model.topology.nv)
    view = look(model, hopper_effectors(model), q, v)
    none = jnp.zeros(view.effectors.count)
    zero = jnp.array(0.0)
    forces = none[:, None] * jnp.ones(3)
    return Senses(view, none > 0, forces, jnp.array(400.0), jnp.array(1.0), zero)


@pytest.mark.parametrize("name", GOALS)
def test_given_jacobians_are_the_automatic_ones(senses, name):
    given, residual = GOALS[name]
    automatic = goals.residual_goal(name, given.unit, residual)
    (error, J), (own_error, own_J) = (
        quick_jit(lambda s, goal=goal: goal.rows(s, None))(senses) for goal in (given, automatic)
    )
    assert np.abs(J).max() > 0.1
    np.testing.assert_allclose(error, own_error, rtol=0, atol=1e-12)
    np.testing.assert_allclose(J, own_J, rtol=0, atol=1e-12)


def test_velocity_goals_name_the_velocity_that_they_measure(senses):
    """J v is the rate at which the centre of mass moves; the error is minus the target."""
    view, target = senses.view, jnp.array([0.3, 0.0, 0.1])
    error, J = goals.com_velocity("com", lambda s, _: target).rows(senses, None)

    def com(dt):
        q = integrate(view.model, view.q, view.v, dt)
        return look(view.model, view.effectors, q, view.v).com

    rate = quick_jit(jax.jacfwd(com))(jnp.zeros(()))
    np.testing.assert_allclose(J @ view.v, rate, atol=1e-12)
    np.testing.assert_array_equal(error, -target)
