"""Velocities after a move: no energy beyond what is due, momentum, and what is prescribed stays."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.model import ModelBuilder, ball, free, hinge
from jaxsim.model.state import neutral_q
from jaxsim.simulation.move import TURN, joint_momentum, momentum_change, share, whip_weight
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

H = 2e-3


@pytest.fixture(scope="module")
def whip(x64_module):
    """A body, an arm on a ball and a light hand; and velocities that turn the hand by 0.4 rad."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=10.0, inertia=(0.3, 0.2, 0.1), joints=[free("root")])
    arm = dict(pos=(0, 0, 0.3), com=(0.1, 0, 0), mass=1.0, inertia=(1e-3, 4e-3, 4e-3))
    b.add_link("arm", "body", joints=[ball("shoulder")], **arm)
    hand = dict(pos=(0.2, 0, 0), com=(0.05, 0, 0.02), mass=0.4, inertia=(2e-4, 3e-4, 3e-4))
    b.add_link("hand", "arm", joints=[hinge("wrist", (0, 1, 0))], **hand)
    model = b.build()
    qd = jnp.array([1.0, 0, -2, 3, 1, 2, 10, -60, 30, 200])
    return model, qd


def moved(model, qd):
    """Kinematics before and after a step of the move alone."""
    q = jnp.asarray(neutral_q(model))
    q = q.at[-1].set(0.5)
    kin = forward_kinematics(model, q, qd)
    return kin, forward_kinematics(model, integrate(model, q, qd, H), qd)


def test_momentum_at_one_pose_is_that_of_the_mass_matrix(whip):
    model, qd = whip
    ours, by_matrix = quick_jit(
        lambda qd: (
            joint_momentum(model, (kin := moved(model, qd)[0]), kin, qd),
            mass_matrix(model, kin) @ qd,
        )
    )(qd)
    np.testing.assert_allclose(ours, by_matrix, atol=1e-12)


def test_only_as_much_is_taken_as_is_too_much(whip):
    """Energy falls by the excess where momentum allows it, by less where not, and never without;
    what is prescribed keeps its velocity."""
    model, qd = whip

    def changed(qd, excess, free):
        kin, after = moved(model, qd)
        M = free[:, None] * free * mass_matrix(model, kin) + jnp.diag(1 - free)

        def solve(momentum):
            return free * jnp.linalg.solve(M, free * momentum)

        change = momentum_change(model, kin, qd, after, qd, excess, solve)
        energies = [kinetic_energy(model, after_at, v) for after_at, v in _at(model, qd, change)]
        return change, energies[1] - energies[0]

    run = quick_jit(changed)
    free = jnp.ones(model.topology.nv)
    all_of_it = float(run(qd, 1e9, free)[1])
    assert all_of_it < -1.0
    for excess in (0.1, 1.0):
        np.testing.assert_allclose(run(qd, excess, free)[1], -excess, rtol=1e-9)
    assert not np.any(run(qd, -1.0, free)[0])
    held = free.at[6:9].set(0.0)
    change, fell = run(qd, 0.01, held)
    assert not np.any(change[6:9])
    np.testing.assert_allclose(fell, -0.01, rtol=1e-9)


def _at(model, qd, change):
    q = jnp.asarray(neutral_q(model)).at[-1].set(0.5)
    q = integrate(model, q, qd, H)
    return [(forward_kinematics(model, q, v), v) for v in (qd, qd + change)]


@pytest.mark.parametrize(
    "excess, slope, curve, wanted",
    [
        (1.0, -2.0, 2.0, 1.0),  # the bottom itself
        (0.75, -2.0, 2.0, 0.5),
        (5.0, -2.0, 2.0, 1.0),  # never: the bottom
        (5.0, -2.0, 8.0, 0.25),
        (5.0, -2.0, 0.5, 1.0),  # beyond all of it
        (-1.0, -2.0, 2.0, 0.0),
        (1.0, 2.0, 2.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
    ],
)
def test_share(excess, slope, curve, wanted):
    assert float(share(*map(jnp.asarray, (excess, slope, curve)))) == pytest.approx(wanted)


def test_what_turns_little_is_left_alone(whip):
    top = whip[0].topology
    turn = np.zeros(top.nv)
    turn[:3] = 1.0  # sliding is no turn
    assert whip_weight(top, jnp.asarray(turn)) == 0
    for angle, wanted in ((TURN, 0.0), (1.5 * TURN, 0.5), (3 * TURN, 1.0)):
        turn[-1] = -angle
        assert float(whip_weight(top, jnp.asarray(turn))) == pytest.approx(wanted)
