"""What a controller by goals perceives."""

import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.sensors import Objects, reachable, reachable_points
from controllers.goals.surroundings import ARMS
from jaxsim.characters.human import start
from jaxsim.characters.standing import effectors_of
from jaxsim.synthesis.config import units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.surroundings import bearing_shapes
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit

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
def test_balls_of_scenarios_fly_above_the_ground_to_where_they_are_aimed(name):
    made = scenario(name)
    thrown, ball = made.controller.objects, tomllib.loads(made.files["scenario.toml"])["body"][0]
    assert (np.asarray(thrown.position)[:, 2] > np.asarray(thrown.radius)).all()
    there = thrown.at(jnp.asarray(ball["arrives"]), np.asarray(made.model.gravity))
    np.testing.assert_allclose(there.position[0], ball["target"], atol=1e-9)
    np.testing.assert_allclose(there.velocity[0], ball["velocity"], atol=1e-9)


def test_hands_reach_walls_holds_and_the_hands_of_another_who_is_near():
    """Two humans face to face, the other on a step; a wall in front of the first."""
    model = scenario("near_wall", {"fixed.pos": [0.55, 0.0, 1.25]}).model
    own = effectors_of(model)

    @quick_jit
    def sensed(away):
        q = start(model, "standing").q
        turned_round = jnp.array([0.0, 0.0, 0.0, 1.0])
        other = q.at[0].add(away).at[2].add(0.5).at[3:7].set(turned_round)
        none = jnp.zeros(model.topology.nv)
        views = [configuration_at(model, own, x, none) for x in (q, other)]
        count = jnp.zeros(own.count)
        here = EffectorObservation(
            views[0], count > 0, count[:, None] * jnp.ones(3), *jnp.ones((3,)), units(model)
        )
        theirs = views[1].position[own.of("rightHand")]
        shoulder = views[0].kin.link_pos[model.topology.link("leftUpperArm")]
        arm = views[0].kin.link_pos[model.topology.link("leftForearm")] - shoulder
        return (
            reachable(here, ARMS),
            reachable_points(here, ARMS, theirs),
            reachable_points(here, ARMS, shoulder + 0.99 * jnp.stack([arm, 3 * arm])),
        )

    hands = own.of("leftHand") | own.of("rightHand")
    walls = [model.topology.shape_names[s] for s in bearing_shapes(model.topology)]
    surfaces, near, along = map(np.asarray, sensed(0.4))
    assert not surfaces[~hands].any()  # feet have no limb here
    assert surfaces[hands][:, walls.index("wall")].all()
    assert not surfaces[hands][:, walls.index("ground")].any()
    assert near[own.of("leftHand")].all()
    assert not near[~hands].any()
    np.testing.assert_array_equal(along[own.of("leftHand")], [[True, False]])
    assert not np.asarray(sensed(2.0)[1]).any()
