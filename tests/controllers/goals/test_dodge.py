"""Dodging: where a ball passes the body, and how the body leaves its way."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.dodge import (
    EARLY,
    STRIKES,
    STRUCK,
    BodyCapsule,
    Flight,
    dodge,
    hand_of_another,
    passing,
    shorter_side,
)
from controllers.goals.sensors import Objects
from jaxsim.characters.human import start
from jaxsim.characters.standing import effectors_of
from jaxsim.io.toml_table import WorldError
from jaxsim.synthesis.config import units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

GRAVITY = np.array([0.0, 0.0, -9.81])
LEFT = np.array([0.0, 1.0, 0.0])  # of what flies along x
HEAD = BodyCapsule(np.array([0.0, 0.0, 1.6]), np.array([0.0, 0.0, 0.1]), np.array(0.1))


def brute(flight, capsule):
    """Time and point of the axis of the least distance, by a fine grid."""
    times, parts = np.linspace(0, 2, 4001), np.linspace(-1, 1, 401)
    path = flight.place + times[:, None] * flight.velocity
    path = path + times[:, None] ** 2 / 2 * flight.acceleration
    axis = capsule.middle + parts[:, None] * capsule.half
    apart = np.linalg.norm(path[:, None] - axis[None], axis=-1)
    at = np.unravel_index(apart.argmin(), apart.shape)
    return times[at[0]], axis[at[1]]


@pytest.mark.parametrize("aside", [0.0, 0.11, -0.2])
def test_a_ball_passes_where_a_fine_search_says(aside):
    arrives, velocity = 0.8, np.array([7.0, 0.4, -2.0])
    aim = np.array([0.0, aside, 1.63])
    before = velocity - arrives * GRAVITY
    place = aim - arrives * before - arrives**2 / 2 * GRAVITY
    flight = Flight(*map(jnp.asarray, (place, before, GRAVITY)))
    at = jax.jit(lambda: passing(flight, jnp.asarray(LEFT), HEAD, jnp.asarray(0.25), 1.5))()
    time, point = brute(flight, HEAD)
    assert at.time == pytest.approx(time, abs=2e-3)
    np.testing.assert_allclose(at.point, point, atol=2e-3)


@pytest.mark.parametrize(
    "place, left, right",
    [
        ((-4.0, 0.0, 1.6), 0.25, 0.25),
        ((-4.0, 0.1, 1.6), 0.35, 0.15),  # on the left of the head: to the right is nearer
        ((-4.0, 0.0, 1.85), 0.2, 0.2),  # 0.15 above the axis: 0.2 is clear, by Pythagoras
        ((-4.0, 0.0, 2.0), 0.0, 0.0),  # above it
        ((4.0, 0.0, 1.6), 0.0, 0.0),  # it has passed
        ((-40.0, 0.0, 1.6), 0.0, 0.0),  # later than the horizon
    ],
)
def test_ways_to_both_sides(place, left, right):
    flight = Flight(jnp.array(place), jnp.array([8.0, 0.0, 0.0]), jnp.zeros(3))
    at = jax.jit(lambda f: passing(f, jnp.asarray(LEFT), HEAD, jnp.asarray(0.25), 1.5))(flight)
    assert (float(at.left), float(at.right)) == pytest.approx((left, right), abs=1e-9)


def test_distances_of_points_from_capsules():
    points = jnp.array([[0.3, 0.0, 1.65], [0.0, 0.0, 1.9], [0.0, 0.0, 1.6]])
    ball = BodyCapsule(HEAD.middle, np.zeros(3), HEAD.radius)
    np.testing.assert_allclose(jax.vmap(HEAD.distance)(points), [0.2, 0.1, -0.1], atol=1e-12)
    np.testing.assert_allclose(jax.vmap(ball.distance)(points)[1:], [0.2, -0.1], atol=1e-12)


@pytest.fixture(scope="module")
def standing():
    """Function from balls, and a shift of the body to the left [m], to the rows of the goal."""
    model = scenario("push").model
    own, unit = effectors_of(model), units(model)

    def observed(balls, left):
        none, q = jnp.zeros(own.count), start(model, "standing").q.at[1].add(left)
        conf = configuration_at(model, own, q, jnp.zeros(model.topology.nv))
        shift = unit.shift
        return EffectorObservation(
            conf, none > 0, none, unit.force, shift, jnp.zeros(()), unit, objects=balls
        )

    goal = dodge(1.5)
    return quick_jit(lambda balls, left=0.0: goal.rows(observed(balls, left), None))


def thrown(*places, velocity=(8.0, 0.0, 0.0), radius=0.1):
    n = len(places)
    return Objects(jnp.array(places), jnp.array([velocity] * n, float), jnp.full(n, radius))


def test_all_leave_the_way_to_one_side_in_time(standing):
    """A ball that comes from behind at the left of the chest: all that is in its way goes right."""
    arrives = 0.5
    balls = thrown((-4.0, 0.05, 1.3 + 9.81 / 2 * arrives**2))
    error, J = map(np.asarray, standing(balls))
    asked = np.flatnonzero(error)
    assert 3 < len(asked) < len(error)
    np.testing.assert_allclose(J[asked, 1], -1.0, atol=1e-9)  # by a shift of all to the left
    assert not J[error == 0].any()
    way = -error.min() * (arrives - EARLY)
    assert 0.2 < way < 0.5
    assert np.asarray(standing(balls, -0.8 * way)[0]).any()
    assert not np.asarray(standing(balls, -1.1 * way)[0]).any()


def test_a_ball_that_misses_asks_for_nothing(standing):
    for balls in (
        thrown((-4.0, 1.0, 1.3 + 9.81 / 8)),  # beside the body
        thrown((-4.0, 0.05, 1.3 + 9.81 / 8), velocity=(-8.0, 0.0, 0.0)),  # it flies away
        thrown((-4.0, 0.05, 0.1), velocity=(0.0, 0.0, 0.0)),  # it lies there
    ):
        error, J = map(np.asarray, standing(balls))
        assert not error.any() and not J.any()


def test_a_body_without_capsules_is_told():
    model = scenario("push").model
    own, unit = effectors_of(model), units(model)
    none, q = jnp.zeros(own.count), start(model, "standing").q
    conf = configuration_at(model, own, q, jnp.zeros(model.topology.nv))
    balls = thrown((-4.0, 0.0, 1.3))
    obs = EffectorObservation(
        conf, none > 0, none, unit.force, unit.shift, jnp.zeros(()), unit, objects=balls
    )
    with pytest.raises(ValueError, match="needs a body with capsules or spheres at one of: tail"):
        dodge(1.5, watched=("tail",)).rows(obs, None)


def test_a_ball_from_straight_above_has_a_way_out(standing):
    error, J = map(np.asarray, standing(thrown((0.0, 0.0, 4.0), velocity=(0.0, 0.0, -3.0))))
    assert error.min() < -0.1 and np.isfinite(J).all()


def test_hands_of_another_are_dodged_as_they_come():
    """Two humans face to face; the other moves along x, to and from the first. Of its hands the one
    that is nearer to the head counts."""
    model = scenario("push").model
    own, unit = effectors_of(model), units(model)

    @quick_jit
    def sensed(speed, ahead=0.6, aside=0.05):
        q, none = start(model, "standing").q, jnp.zeros(model.topology.nv)
        other = q.at[0].add(ahead).at[1].add(aside).at[3:7].set(jnp.array([0.0, 0.0, 0.0, 1.0]))
        views = (
            configuration_at(model, own, q, none),
            configuration_at(model, own, other.at[2].add(0.6), none.at[0].set(speed)),
        )
        count, one = jnp.zeros(own.count), jnp.ones(())
        force = jnp.zeros((own.count, 3))
        obs = EffectorObservation(
            views[0], count > 0, force, one, one, one, unit, company=views, me=0
        )
        theirs = own.of("leftHand") | own.of("rightHand")
        return (
            hand_of_another(obs),
            views[1].position[theirs],
            dodge(1.0, hand_of_another, STRUCK).rows(obs, None),
            views[0].kin.com[model.topology.link("head")],
        )

    hands, places, (error, J), head = sensed(-2.0)
    nearer = np.abs(np.asarray(places)[:, 1]).argmin()
    np.testing.assert_allclose(hands.position, places[nearer : nearer + 1], atol=1e-9)
    np.testing.assert_allclose(hands.velocity, [[-2.0, 0.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(hands.radius, STRIKES)
    assert np.asarray(error).min() < -0.1 and np.abs(J).max() > 0.1
    for speed in (2.0, 0.0, -0.3):
        _, _, (error, J), _ = sensed(speed)
        assert not np.asarray(error).any() and not np.asarray(J).any()

    # at rest before the head, it drives the head straight away
    off = np.asarray(head)[:2] - np.asarray(places)[nearer, :2]
    _, _, (error, J), _ = sensed(0.0, 0.6 + off[0] + 0.2, 0.05 + off[1])
    asked = np.flatnonzero(error)
    assert len(asked) and (np.asarray(error)[asked] < 0).all()
    np.testing.assert_allclose(np.asarray(J)[asked, :2], [[-1.0, 0.0]] * len(asked), atol=0.05)


def test_the_side_that_is_not_nearer_to_the_other_is_chosen():
    """A hand comes along y at a head; to one side of it stands whose hand it is."""
    flight = Flight(*map(jnp.asarray, (np.array([0.02, -1.0, 1.6]), 2 * LEFT, np.zeros(3))))
    at = passing(flight, jnp.asarray([-1.0, 0.0, 0.0]), HEAD, jnp.asarray(0.25), 1.5)
    assert float(at.right) > float(at.left) > 0
    assert shorter_side(at.left, at.right, jnp.asarray(0.0))
    assert not shorter_side(at.left, at.right, jnp.asarray(1.0))
    assert shorter_side(at.left, at.right, jnp.asarray(-1.0))


def test_what_is_not_there_to_be_dodged_is_told():
    alone = SimpleNamespace(conf=None, objects=None, company=(), me=0)
    with pytest.raises(ValueError, match="needs objects that fly"):
        dodge().rows(alone, None)
    with pytest.raises(ValueError, match=r"no hands of others to dodge; .*\[\[companion\]\]"):
        hand_of_another(alone)
    with pytest.raises(WorldError, match=r"key 'hands': there are no others; .*\[\[companion\]\]"):
        scenario("push", {"controller.dodge": {"hands": True}})
