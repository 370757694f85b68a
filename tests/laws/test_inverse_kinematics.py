"""Feet and hands at places, within the ranges of the joints."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.human import articulated_human
from jaxsim.characters.standing import effectors_of, stand
from jaxsim.dynamics.inverse_kinematics import reach_points
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics

pytestmark = pytest.mark.usefixtures("x64_module")


@pytest.fixture(scope="module")
def body():
    """Model, effectors, of its feet and a hand the last effectors, and the standing q."""
    model = articulated_human()
    points = effectors_of(model)
    ends = tuple(points.names.index(n) for n in ("leftToesTip", "rightToesTip", "leftHand"))
    return model, points, ends, stand(model).q


def seen(body, q):
    """(3, 3) where the ends are, and (3,) the centre of mass."""
    model, points, ends, _ = body
    kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv))
    return points.positions(kin)[np.array(ends)], center_of_mass(model, kin)


def test_ends_come_to_places_in_reach_and_joints_stay_in_range(body):
    model, points, ends, q = body
    place, com = seen(body, q)
    goal = place + jnp.array([[0.2, 0.1, 0.3], [0.0, 0.0, 0.0], [0.4, 0.1, 0.5]])
    found = reach_points(model, points, ends, q, goal, com)
    at, after = seen(body, found)
    np.testing.assert_allclose(at, goal, atol=2e-3)
    assert np.linalg.norm(after - com) < 0.1
    top = model.topology
    for j in np.flatnonzero(top.joint_limited):
        angle = float(found[top.q_start[j]])
        assert model.joint_lower[j] - 1e-12 <= angle <= model.joint_upper[j] + 1e-12


def test_what_is_there_already_stays(body):
    model, points, ends, q = body
    np.testing.assert_allclose(reach_points(model, points, ends, q, *seen(body, q)), q, atol=1e-9)


def test_out_of_reach_it_comes_as_near_as_the_limb_goes(body):
    model, points, ends, q = body
    place, com = seen(body, q)
    goal = place.at[2].set(place[2] + jnp.array([0.0, 5.0, 0.0]))
    at, _ = seen(body, reach_points(model, points, ends, q, goal, com))
    assert np.isfinite(at).all() and at[2, 1] - place[2, 1] > 0.5
