"""Additions of the balance controller to Jain, Ye and Liu: steps that follow on each other, feet
that stay where they land."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.balance import (
    Gait,
    bearing_feet,
    com_ahead,
    com_is_supported,
    foot,
    next_place,
    no_step,
    sole_down,
    start_step,
    step_time,
)
from jaxsim.characters.human import articulated_human, start
from jaxsim.characters.standing import effectors_of
from jaxsim.synthesis.config import units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")


def standing(build="adult"):
    """EffectorObservation of a body that stands on both feet, with no forces yet."""
    model = articulated_human(build)
    effectors, state = effectors_of(model), start(model, "standing")

    @quick_jit
    def seen(model, q, v):
        unit = units(model)
        conf = configuration_at(model, effectors, q, v)
        none = jnp.zeros_like(conf.position)
        return EffectorObservation(
            conf, conf.near.gap <= 5e-4, none, unit.force, unit.shift, jnp.zeros(()), unit
        )

    return seen(model, state.q, state.qd)


def moving(obs, velocity):
    """The same body, all of it with a velocity along the ground."""
    v = obs.conf.v.at[: len(velocity)].set(jnp.array(velocity))
    return replace(obs, conf=replace(obs.conf, v=v))


@pytest.fixture(scope="module")
def both_feet(x64_module):
    return standing()


@pytest.fixture(scope="module")
def obs(both_feet):
    """The right foot is 2 cm in the air, the left one carries the body."""
    conf, left = both_feet.conf, both_feet.group("leftFoot")
    gap = jnp.where(both_feet.group("rightFoot"), 0.02, conf.near.gap)
    force = jnp.where(left[:, None], both_feet.weight / left.sum(), 0.0) * conf.near.normal
    return replace(
        both_feet,
        conf=replace(conf, near=replace(conf.near, gap=gap)),
        touching=gap <= 5e-4,
        force=force,
    )


def test_a_step_starts_with_the_farther_foot_unless_that_carries_load(obs):
    falling_right = moving(obs, (0.0, -1.0))
    begin = quick_jit(start_step)
    left_is_loaded = begin(falling_right, no_step(Gait(), swing=1))
    assert int(left_is_loaded.swing) == 1  # the left foot is farther, but carries the body
    free = replace(falling_right, force=0 * obs.force)
    step = begin(free, no_step(Gait(), swing=1))
    assert int(step.swing) == 0
    assert bool(step.stepping) and not bool(step.placing)


def test_a_step_ends_further_inside_of_the_support_than_balance_is_lost(both_feet):
    """Of one body and the same support: it falls forward so that its margin is between the two."""
    supported = quick_jit(com_is_supported)
    gait, answers = Gait(), []
    for velocity in np.linspace(0.0, 1.0, 41):
        s = moving(both_feet, (velocity,))
        calm = bool(supported(s, no_step(gait)))
        stepping = bool(supported(s, replace(no_step(gait), stepping=jnp.asarray(True))))
        answers.append((calm, stepping))
        assert calm or not stepping
    assert answers[0] == (True, True) and answers[-1] == (False, False)
    assert (True, False) in answers


@pytest.mark.parametrize("swing", [0, 1])
def test_both_feet_have_between_them_where_the_body_is_going(both_feet, swing):
    """The foot on its way lands to its own side of that, or past it where it has to cross."""
    gait = Gait(time=0.0, landing=0.0, beyond=0.0)
    ahead = quick_jit(lambda s: (com_ahead(s)[1], next_place(s, no_step(gait, swing))[1]))
    own = 1.0 if swing == 0 else -1.0
    stance = own * float(both_feet.place(foot(both_feet, 1 - swing))[1])
    beyond = []
    for velocity in np.linspace(-1.0, 0.5, 31):
        going, place = (own * float(y) for y in ahead(moving(both_feet, (0.0, own * velocity))))
        assert (place > going) == (going > stance)
        beyond.append(place - going)
    assert np.min(np.diff(beyond)) > -1e-12
    assert beyond[0] == pytest.approx(-gait.across * beyond[-1])
    assert np.max(np.diff(beyond)) < 0.02  # no jump where it begins to cross


def test_the_foot_that_stands_during_a_step_comes_down_where_it_is(obs):
    """Where it does not touch it is not to move at all; the foot on its way is left alone."""
    rows = quick_jit(lambda s, step: sole_down().rows(s, step))
    ne = obs.conf.effectors.count
    stepping = replace(no_step(Gait(), swing=0), stepping=jnp.asarray(True))
    error, J = (np.asarray(x).reshape(ne, 3, -1) for x in rows(obs, stepping))
    error = error[..., 0]
    right, left = (np.asarray(foot(obs, k)) for k in (1, 0))
    np.testing.assert_allclose(error[right], [[0.0, 0.0, 0.02]] * right.sum(), atol=1e-12)
    np.testing.assert_allclose(J[right], np.asarray(obs.conf.jacobian)[right], atol=1e-12)
    assert not error[left].any() and not J[left].any()
    error, J = rows(obs, no_step(Gait()))  # no step: what touches, along the normal alone
    J = np.asarray(J).reshape(ne, 3, -1)
    np.testing.assert_allclose(J[left][:, 2], np.asarray(obs.conf.jacobian)[left][:, 2])
    assert not J[left][:, :2].any()
    np.testing.assert_allclose(J[right], np.asarray(obs.conf.jacobian)[right], atol=1e-12)


def test_bodies_of_any_size_step_alike(both_feet):
    """Times go with the root of the height, so that Froude's number of a step is one."""
    bodies = both_feet, standing("child")
    times = [float(step_time(s, no_step(Gait()))) for s in bodies]
    heights = [float(s.height) for s in bodies]
    assert 0.6 < heights[1] / heights[0] < 0.8
    assert times[0] / times[1] == pytest.approx(np.sqrt(heights[0] / heights[1]))
    assert times[0] == pytest.approx(Gait().time * np.sqrt(heights[0] / 9.81), rel=1e-3)


def test_a_body_that_is_put_down_has_not_lost_its_balance(both_feet):
    """Its feet are just above the ground, or one point of them has come down; in a step only a foot
    that touches bears."""
    ne, near = both_feet.conf.effectors.count, both_feet.conf.near
    feet = both_feet.group("leftFoot") | both_feet.group("rightFoot")
    above = replace(near, gap=jnp.where(feet, 0.01, near.gap))
    one = np.arange(ne) == np.flatnonzero(feet)[0]
    supported, bearing = quick_jit(com_is_supported), quick_jit(bearing_feet)
    stepping = replace(no_step(Gait()), stepping=jnp.asarray(True))
    for touching in (np.zeros(ne, bool), one):
        s = replace(both_feet, conf=replace(both_feet.conf, near=above), touching=touching)
        assert bool(supported(s, no_step(Gait())))
        assert not bool(supported(s, stepping))
        np.testing.assert_array_equal(bearing(s, no_step(Gait())), feet)
    lifted = replace(near, gap=jnp.where(both_feet.group("rightFoot"), 0.06, 0.0))
    s = replace(both_feet, conf=replace(both_feet.conf, near=lifted), touching=lifted.gap == 0)
    np.testing.assert_array_equal(bearing(s, no_step(Gait())), both_feet.group("leftFoot"))
