"""Heights in float32 beside float64: of the same positions, and over many steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.human import ball_joint_human
from jaxsim.characters.planar_human import planar_human
from jaxsim.characters.registry import start
from jaxsim.collision.contacts import find_contacts
from jaxsim.dynamics.kinematics import forward_kinematics, integrate, integrate_finely
from jaxsim.fused import fuse
from jaxsim.math.rotation import quat_normalize
from jaxsim.model import ModelBuilder, free, hinge, slide
from tests.compiling import quick_jit

MEMBERS, NEAR = 64, 0.05  # gaps that are looked at [m]
FINE = 1.2e-8  # root of the mean square of a gap's error [m]
HUMANS = {"planar": planar_human, "in space": ball_joint_human}


def gaps(model, q, rest=None):
    kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype), rest)
    return find_contacts(model, kin).gap


def positions(model, name, seed):
    """Poses near a start, of float32."""
    turn = np.random.default_rng(seed).normal(size=(MEMBERS, model.topology.nv))
    turn = jnp.asarray(0.1 * turn * np.where(np.arange(turn.shape[1]) < 3, 0.2, 1.0), jnp.float32)
    q = start(model, name).q
    return quick_jit(jax.vmap(lambda turn: integrate(model, q, turn, 1.0)))(turn)


def in_float64(tree):
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), tree)


def of_unit_length(model, q):
    """Quaternions that float32 has of length 1 within its rounding, exactly so."""
    for kind, at in zip(model.topology.joint_kinds, model.topology.q_start):
        if kind in ("ball", "free"):
            at += 3 * (kind == "free")
            q = q.at[:, at : at + 4].set(quat_normalize(q[:, at : at + 4]))
    return q


@pytest.mark.parametrize("human", HUMANS)
def test_gaps_are_finer_than_float32_has_them(human):
    model = HUMANS[human]()
    q = jnp.concatenate([positions(model, "standing", 1), positions(model, "supine", 2)])
    zeros = jnp.zeros_like(q)
    plain = np.asarray(quick_jit(jax.vmap(lambda q: gaps(model, q)))(q), float)
    by = {
        "xla": quick_jit(jax.vmap(lambda q, rest: gaps(model, q, rest)))(q, zeros),
        "fused": fuse(lambda q, rest: gaps(model, q, rest))(q, zeros),
    }
    with jax.enable_x64(True):
        exact_model = in_float64(model)
        exact = of_unit_length(model, in_float64(q))
        exact = np.asarray(quick_jit(jax.vmap(lambda q: gaps(exact_model, q)))(exact))
    near = np.abs(exact) < NEAR

    def error(gap):
        return np.sqrt(np.mean((np.asarray(gap, float) - exact)[near] ** 2))

    assert near.sum() > 500
    for name, gap in by.items():
        assert error(gap) < FINE, name
        assert error(gap) < error(plain) / 3, name


def test_the_derivative_is_that_of_the_heights():
    """The corrections have none; what has one goes on as it was."""
    model = planar_human()
    q = start(model, "standing").q

    def both(q, rest):
        finely = jax.grad(lambda q, rest: jnp.sum(gaps(model, q, rest)), argnums=(0, 1))
        return *finely(q, rest), jax.grad(lambda q: jnp.sum(gaps(model, q)))(q)

    by_q, by_rest, plain = quick_jit(both)(q, jnp.zeros_like(q))
    np.testing.assert_allclose(by_q, plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(by_rest, 0)


def flying_arm():
    """A free body with an arm on a hinge and a slide."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=1.0, inertia=[0.1] * 3, joints=[free("root")])
    joints = [hinge("turn", (0, 1, 0)), slide("reach", (1, 0, 0))]
    b.add_link("arm", "body", mass=1.0, inertia=[0.1] * 3, joints=joints)
    return b.build()


def test_nothing_is_lost_over_many_small_steps():
    model, steps, dt = flying_arm(), 1000, np.float32(1e-3)
    begin = jnp.array([1.0, -2.0, 0.9, 1, 0, 0, 0, 1.5, 0.3], jnp.float32)
    qd = jnp.array([0.1, 0.017, -0.03, 0, 0, 0, 0.11, -0.007], jnp.float32)

    def finely(carry, _):
        return integrate_finely(model, carry[0], qd, dt, carry[1]), None

    def plainly(q, _):
        return integrate(model, q, qd, dt), None

    zeros = jnp.zeros_like(begin)
    q, rest = quick_jit(lambda: jax.lax.scan(finely, (begin, zeros), length=steps)[0])()
    plain = quick_jit(lambda: jax.lax.scan(plainly, begin, length=steps)[0])()
    moved = np.zeros(9)
    at = [0, 1, 2, 7, 8]
    moved[at] = np.asarray(qd * dt, float)[[0, 1, 2, 6, 7]] * steps
    exact = np.asarray(begin, float) + moved
    np.testing.assert_allclose(np.asarray(q, float) + np.asarray(rest, float), exact, atol=1e-10)
    assert np.abs(np.asarray(plain, float) - exact).max() > 1e-6
    np.testing.assert_array_equal(np.asarray(rest)[3:7], 0)
    assert np.all(np.abs(rest) <= np.spacing(np.abs(q)))
