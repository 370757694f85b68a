"""What the limbs of a climber bear."""

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks._stances import Body, least_effort
from controllers.goals.climb import three_bear
from controllers.goals.climbing_moves import LIMBS
from controllers.goals.climbing_stance import Cones, efforts
from controllers.goals.climbing_state import order_of
from jaxsim.dynamics.rigid import gravity_force
from optimize.scenarios.find import scenario

FEET = (0, 1)
SOME = [some for n in (4, 3) for some in combinations(range(4), n)]
CHOICES = np.array([[k in some for k in range(4)] for some in (*SOME, FEET)])  # of limbs that hold


@pytest.fixture(scope="module")
def start():
    """Efforts of all choices of limbs at the start of ``climb``, and what makes them; efforts of a
    body twice as heavy."""
    made = scenario("climb")
    climb = made.controller.variables
    left, up, out = climb.frame
    friction = made.model.friction[made.scheme.holds.shapes[0]]
    cones = Cones(FEET, jnp.stack([up, left, out]), friction)

    @jax.jit
    def seen(model, state):
        obs = made.scheme.observe(model, made.scheme.init(model, state))
        conf, tips = obs.conf, np.array(made.scheme.holds.grippers)[order_of(obs)]
        found = efforts(conf, tips, jnp.asarray(CHOICES), cones, obs.weight, obs.height)
        return found, three_bear(obs, climb), gravity_force(model, conf.kin), conf.jacobian[tips]

    once = [np.asarray(x) for x in seen(made.model, made.state)]
    heavy = replace(made.model, gravity=2 * made.model.gravity)
    body = Body.of(made, strong_toes=False)
    return made, body, once, np.asarray(seen(heavy, made.state)[0])


def test_no_forces_need_less_than_those_of_the_linear_problem_and_ours_not_much_more(start):
    made, body, (found, _, load, slopes), _ = start
    frame = np.asarray(made.controller.variables.frame)
    for stays, effort in zip(CHOICES, found):
        q, limbs = np.asarray(made.state.q), np.array(LIMBS)[stays]
        least = least_effort(body, q, load, slopes[stays], frame, limbs)
        if stays.sum() == 2:  # it turns about the line through two points
            assert np.isinf(least) and np.isinf(effort)
        else:
            assert least - 0.02 < effort < 1.7 * least


def test_of_each_limb_the_others_are_asked(start):
    _, _, (found, three, _, _), _ = start
    without = [
        int(np.flatnonzero((CHOICES == (np.arange(4) != k)).all(axis=1))[0]) for k in range(4)
    ]
    np.testing.assert_allclose(three, found[without], rtol=1e-5)
    assert found[0] < min(three)  # all four


def test_twice_the_weight_takes_twice_the_torques(start):
    _, _, (found, *_), twice = start
    np.testing.assert_allclose(twice, 2 * found, rtol=2e-3)
