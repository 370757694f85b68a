"""Impacts one after the other: rows of balls that touch, against pairs in closed form; float64."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.laws.bodies import Limp, add_ball, begin

pytestmark = pytest.mark.usefixtures("x64_module")

RADIUS, BALLS = 0.05, 5
LINE = np.array([2.0, 1.0, 2.0]) / 3
CONFIG = TimeStepping(dt=1e-3, impacts="successive")
FIRST, BOTH = [1, 0, 0, 0, 0], [1, 0, 0, 0, -1]
CASES = {  # speeds at the begin, masses, e, friction
    "one": (FIRST, [1, 1, 1, 1, 1], 1.0, 0.0),
    "one from behind": ([0, 0, 0, 0, -1], [1, 1, 1, 1, 1], 1.0, 0.0),
    "three": ([1, 1, 1, 0, 0], [1, 1, 1, 1, 1], 1.0, 0.0),
    "both ends": (BOTH, [1, 1, 1, 1, 1], 1.0, 0.0),
    "lighter and lighter": (FIRST, [16, 8, 4, 2, 1], 1.0, 0.0),
    "heavier and heavier": (FIRST, [1, 2, 4, 8, 16], 1.0, 0.0),
    "half of it lost": (FIRST, [1, 1, 1, 1, 1], 0.5, 0.0),
    "rough": (FIRST, [1, 3, 1, 2, 1], 0.8, 0.6),
}


def build():
    b = ModelBuilder((0, 0, 0))
    names = [f"ball{k}" for k in range(BALLS)]
    for name in names:
        add_ball(b, name, RADIUS)
    for pair in pairwise(names):
        b.add_pair(*pair)
    return b.build()


def in_turn(speed, mass, e: float) -> np.ndarray:
    """Speeds after collisions of pairs, in order, until none approaches to bounce."""
    v, m = np.array(speed, float), np.array(mass, float)
    for _ in range(100):
        for k in range(len(v) - 1):
            come = v[k] - v[k + 1]
            if come > CONFIG.bounce_speed:
                blow = (1 + e) * come * m[k] * m[k + 1] / (m[k] + m[k + 1])
                v[k] -= blow / m[k]
                v[k + 1] += blow / m[k + 1]
    return v


@pytest.fixture(scope="module")
def struck(x64_module):
    """Of each case velocities before and after (BALLS, 6), masses, and summed forces (3,)."""
    model = build()

    def one(mass, e, mu, qd):
        q = np.zeros((BALLS, 7))
        q[:, :3], q[:, 3] = np.arange(BALLS)[:, None] * 2 * RADIUS * LINE, 1
        inertia = (0.4 * RADIUS**2) * mass[:, None, None] * jnp.eye(3)
        changed = model.replace(
            mass=mass,
            inertia=inertia,
            restitution=jnp.full_like(model.restitution, e),
            friction=jnp.full_like(model.friction, mu),
        )
        start = begin(changed, q, qd)
        done = rollout(changed, Limp(), start, CONFIG, 3, record=lambda s: s.info.contact_force)
        return done.state.qd.reshape(BALLS, 6), done.record

    before = []
    for speed, _, _, mu in CASES.values():
        qd = np.zeros((BALLS, 6))
        qd[:, :3] = np.array(speed)[:, None] * LINE
        qd[0, 3:] = mu * np.array([10, -20, 5])
        before.append(qd)
    mass, e, mu = (np.array(x, float) for x in zip(*(case[1:] for case in CASES.values())))
    after, force = quick_jit(jax.vmap(one))(mass, e, mu, np.array(before))
    return dict(zip(CASES, zip(before, np.asarray(after), mass, np.asarray(force))))


@pytest.mark.parametrize("name", [name for name in CASES if name != "rough"])
def test_a_row_that_touches_is_struck_ball_by_ball(struck, name):
    speed, mass, e, _ = CASES[name]
    _, after, _, force = struck[name]
    expected = in_turn(speed, mass, e)
    reached = after[:, :3] @ LINE
    # what comes more slowly than bounces is left to the problem of all at once
    np.testing.assert_allclose(reached, expected, atol=1e-6 if e == 1 else CONFIG.bounce_speed)
    # the last ball's change of momentum is the force on it over the steps
    gained = mass[-1] * (reached[-1] - speed[-1])
    pushed = -force[:, -1].sum(axis=0) @ LINE * CONFIG.dt
    np.testing.assert_allclose(pushed, gained, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_momentum_is_kept_and_no_energy_made(struck, name):
    before, after, mass, _ = struck[name]

    def energy(v):
        turning = 0.4 * RADIUS**2 * (v[:, 3:] ** 2).sum(axis=1)
        return 0.5 * np.sum(mass * ((v[:, :3] ** 2).sum(axis=1) + turning))

    np.testing.assert_allclose(mass @ after[:, :3], mass @ before[:, :3], atol=1e-9)
    assert energy(after) < energy(before) * (1 + 1e-9)
    if CASES[name][2] == 1:
        np.testing.assert_allclose(energy(after), energy(before), rtol=1e-9)
    assert (np.diff(after[:, :3] @ LINE) > -1e-6).all()  # they part


def test_kinds_of_impacts_are_named():
    with pytest.raises(ValueError, match="at_once, successive"):
        TimeStepping(impacts="in_turn")
