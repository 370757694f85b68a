"""Virtual actuators: the transposed Jacobian of a tree that is rooted at the feet, without one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.tracking.parts import parts
from controllers.tracking.virtual_actuators import virtual_torque, whole_inertia
from controllers.virtual_forces import gravity_compensation
from jaxsim import articulated_human, ball_joint_human, planar_human, start
from jaxsim.dynamics.jacobians import angular_jacobian, center_of_mass, com_jacobian, point_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.momentum import angular_momentum
from jaxsim.model import ModelError
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")
TORQUE, FORCE = np.array([12.0, -7.0, 5.0]), np.array([40.0, -25.0, 600.0])


@pytest.fixture(scope="module", params=[ball_joint_human, articulated_human])
def body(request, x64_module):
    """A human in a pose of chance, the model with its kinematics and centre of mass."""
    model = request.param()
    way = np.random.default_rng(3).normal(size=model.topology.nv)

    @quick_jit
    def placed(model, q, way):
        q = integrate(model, q, way, 1.0)
        kin = forward_kinematics(model, q, jnp.zeros_like(way))
        return q, kin, center_of_mass(model, kin)

    return model, *placed(model, start(model, "standing").q, jnp.asarray(0.4 * way))


@quick_jit
def acting(model, kin, own, com, share, torque, force):
    return virtual_torque(model, kin, own, com, share, torque, force)


@quick_jit
def wrench_jacobian(model, q, kin, com):
    """(6, nv) by definition: angular momentum over the whole inertia, and the mean velocity."""

    def momentum(qd):
        return angular_momentum(model, forward_kinematics(model, q, qd))

    turning = jax.jacfwd(momentum)(jnp.zeros(model.topology.nv))
    upper = jnp.linalg.solve(whole_inertia(model, kin, com), turning)
    return jnp.concatenate([upper, com_jacobian(model, kin)])


@partial(quick_jit, static_argnums=2)
def twist_jacobian(model, kin, link, point):
    at = angular_jacobian(model, kin, link), point_jacobian(model, kin, link, point)
    return jnp.concatenate(at)


def rooted_at(foot, model, q, kin, com) -> np.ndarray:
    """The first one, of a tree whose root is a foot."""
    of_foot = twist_jacobian(model, kin, int(parts(model).feet[foot]), com)
    return np.asarray(wrench_jacobian(model, q, kin, com) - of_foot)


@pytest.mark.slow
@pytest.mark.parametrize("foot", [0, 1])
def test_one_foot_is_the_root_of_the_jacobian(body, foot):
    model, _, kin, com = body
    own = parts(model)
    share = jnp.eye(2)[foot]
    found, _ = acting(model, kin, own, com, share, TORQUE, FORCE)
    rooted = rooted_at(foot, *body)
    assert np.abs(rooted[:, :6]).max() < 1e-12  # the old root moves nothing any more
    wanted = rooted.T @ np.concatenate([TORQUE, FORCE])
    np.testing.assert_allclose(found, wanted, atol=1e-11)


def test_its_columns_are_motions_with_the_foot_at_rest(body):
    """A joint is turned, and the whole body is moved so that the foot is where it was."""
    model, q, kin, _ = body
    own, eps = parts(model), 1e-6
    rooted = rooted_at(0, *body)

    @quick_jit
    @jax.vmap
    def moved(way):
        after = forward_kinematics(model, integrate(model, q, way, 1.0), jnp.zeros_like(way))
        foot = own.feet[0]
        turn = kin.link_rot[foot] @ after.link_rot[foot].T
        return kin.link_pos[foot] + turn @ (center_of_mass(model, after) - after.link_pos[foot])

    dofs = np.flatnonzero(own.mask("inner"))
    ways = eps * np.eye(model.topology.nv)[dofs]
    slopes = (moved(ways) - moved(-ways)) / (2 * eps)
    np.testing.assert_allclose(slopes, rooted[3:, dofs].T, atol=1e-8)


def test_weight_on_one_foot_is_gravity_compensation(body):
    model, _, kin, com = body
    own = parts(model)
    for foot, link in enumerate(own.feet):
        weight = -model.mass.sum() * model.gravity
        found, _ = acting(model, kin, own, com, jnp.eye(2)[foot], jnp.zeros(3), weight)
        base = jnp.asarray(model.topology.link_dofs[link], float)
        wanted = quick_jit(gravity_compensation)(model, kin, com, base)
        np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_feet_that_share_a_quiet_stand_need_no_torque_on_the_ankles():
    model = ball_joint_human()
    state, own = start(model, "standing"), parts(model)
    kin = quick_jit(forward_kinematics)(model, state.q, state.qd)
    weight = -model.mass.sum() * model.gravity
    com = center_of_mass(model, kin)
    _, on_feet = acting(model, kin, own, com, jnp.full(2, 0.5), jnp.zeros(3), weight)
    np.testing.assert_allclose(on_feet, 0.0, atol=1e-9)
    ahead = com.at[0].add(0.05)  # what leans forward presses on the toes
    _, on_feet = acting(model, kin, own, ahead, jnp.full(2, 0.5), jnp.zeros(3), weight)
    np.testing.assert_allclose(on_feet[:, 1], 0.5 * 0.05 * 72 * 9.81, rtol=1e-6)


def test_a_foot_takes_the_whole_moment_of_what_stands_on_it(body):
    """Also about the axis that an ankle of two hinges lacks; of motors no more than they give."""
    model, _, kin, com = body
    own, up = parts(model), -9.81 * model.mass.sum() * jnp.array([0.0, 0.0, -1.0])
    for foot, link in enumerate(own.feet):
        above = np.flatnonzero(~own.mask("foot_links")[foot])
        ankle = own.ankle(kin)[foot]
        weight = 9.81 * np.asarray(model.mass)[above, None] * [0.0, 0.0, 1.0]
        wanted = -np.cross(np.asarray(kin.com)[above] - np.asarray(ankle), weight).sum(axis=0)

        def on_feet(model, foot=foot):
            share = jnp.eye(2)[foot]
            return acting(model, kin, own, com, share, jnp.zeros(3), up)[1][foot]

        strong = model.replace(torque_limit=jnp.full_like(model.torque_limit, np.inf))
        np.testing.assert_allclose(on_feet(strong), wanted, atol=1e-10)
        weak = model.replace(torque_limit=0.01 * model.torque_limit)
        dofs = model.topology.dof_link == link
        axes, limits = np.asarray(kin.axis)[dofs, :3], np.asarray(weak.torque_limit)[dofs]
        given, asked = axes @ np.asarray(on_feet(weak)), axes @ wanted
        np.testing.assert_allclose(given, np.clip(asked, -limits, limits), atol=1e-10)
        assert (np.abs(asked) > limits).any()


def test_the_whole_inertia_is_the_sum_of_the_links(body):
    model, _, kin, com = body
    wanted = np.zeros((3, 3))
    for link in range(model.topology.n_links):
        rot, s = np.asarray(kin.link_rot[link]), np.asarray(kin.com[link] - com)
        wanted += rot @ np.asarray(model.inertia[link]) @ rot.T
        wanted += float(model.mass[link]) * (s @ s * np.eye(3) - np.outer(s, s))
    np.testing.assert_allclose(whole_inertia(model, kin, com), wanted, rtol=1e-10, atol=1e-10)


def test_a_body_without_ankles_or_space_is_told():
    with pytest.raises(ModelError, match="in space"):
        parts(planar_human())
