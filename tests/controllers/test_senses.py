"""What a controller by goals perceives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.senses import Objects
from optimize.synthesis_scenes import SCENES
from optimize.synthesis_setting import thrown_balls
from tests.synthesis.hopper import hopper

pytestmark = pytest.mark.usefixtures("x64_module")

GRAVITY = np.array([0.0, 0.0, -9.81])


def test_a_ball_flies_and_stays_where_it_lands():
    start = Objects(
        jnp.array([[0.0, 0.0, 1.0], [1.0, 2.0, 0.5]]),
        jnp.array([[2.0, 0.0, 3.0], [0.0, -1.0, 0.0]]),
        jnp.array([0.1, 0.5]),
    )
    at = jax.jit(lambda t: start.at(t, GRAVITY))
    early = at(jnp.asarray(0.2))
    drop = 9.81 * 0.2**2 / 2
    np.testing.assert_allclose(early.position[0], [0.4, 0.0, 1.0 + 0.6 - drop], atol=1e-12)
    np.testing.assert_allclose(early.velocity[0], [2.0, 0.0, 3.0 - 9.81 * 0.2], atol=1e-12)
    np.testing.assert_array_equal(early.position[1], [1.0, 2.0, 0.5])  # it lies there already
    late, later = at(jnp.asarray(3.0)), at(jnp.asarray(9.0))
    np.testing.assert_allclose(late.position[:, 2], start.radius, atol=1e-12)
    np.testing.assert_array_equal(late.position, later.position)
    np.testing.assert_array_equal(late.velocity, np.zeros((2, 3)))
    free = start.at(jnp.asarray(3.0), np.zeros(3))
    np.testing.assert_allclose(free.position, start.position + 3.0 * start.velocity)


@pytest.mark.parametrize("name", ["dodge_tennis_ball", "dodge_harmful_ball"])
def test_balls_of_scenes_fly_above_the_ground_to_where_they_are_aimed(name):
    balls = SCENES[name].balls
    model = hopper()
    thrown = thrown_balls(model, balls)
    assert (np.asarray(thrown.position)[:, 2] > np.asarray(thrown.radius)).all()
    for k, ball in enumerate(balls):
        there = thrown.at(jnp.asarray(ball.arrives), np.asarray(model.gravity))
        np.testing.assert_allclose(there.position[k], ball.target, atol=1e-9)
        np.testing.assert_allclose(there.velocity[k], ball.velocity, atol=1e-9)
