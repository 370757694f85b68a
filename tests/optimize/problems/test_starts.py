"""Random starts: what stays in place while the joints deviate."""

import numpy as np
import pytest

from optimize.problems.starts import start_states
from optimize.scenarios.find import scenario


@pytest.mark.parametrize("name, grips", [("swing", 2), ("climb", 4)])
def test_a_body_that_holds_on_does_so_from_every_start(name, grips):
    scene = scenario(name)
    points = scene.scheme.grip_points(scene.model, scene.state)
    starts = start_states(scene.model, scene.state, 16, 3, scheme=scene.scheme)
    places = np.stack([points(q) for q in starts.q])  # (16, grips, 3)
    assert places.shape[1] == grips and np.ptp(places, axis=0).max() > 0.01
    np.testing.assert_allclose(
        places.mean(axis=1), places[:1].mean(axis=1).repeat(16, 0), atol=1e-5
    )
    again = scene.scheme.grip_points(scene.model, scene.state.replace(q=starts.q[-1]))
    assert len(again(starts.q[-1])) == grips


def test_nothing_grips_where_nothing_is_in_reach():
    scene = scenario("swing")
    q = np.array(scene.state.q)
    q[2] -= 1.0
    assert scene.scheme.grip_points(scene.model, scene.state.replace(q=q)) is None
    assert scenario("push").scheme.grip_points(scene.model, scene.state) is None
