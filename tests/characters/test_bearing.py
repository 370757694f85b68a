"""Parts of a body that may bear besides feet and hands."""

import numpy as np
import pytest

from jaxsim.characters.bearing import bearing
from jaxsim.characters.human import articulated_human
from jaxsim.characters.standing import effectors_of, standing_kinematics
from jaxsim.model import ModelError


@pytest.mark.parametrize("build", ["adult", "child"])
def test_points_are_on_the_surface_half_ahead_and_to_both_sides(build):
    model = bearing(articulated_human(build), ["pelvis", "chest", "head"])
    points, (kin, _) = effectors_of(model), standing_kinematics(model)
    assert points.group_names[4:] == ("pelvis", "chest", "head")
    place, link = np.asarray(points.positions(kin)), np.asarray(kin.link_pos)
    for part in points.group_names[4:]:
        left, right = place[points.of(part)] - link[model.topology.part(part)]
        np.testing.assert_allclose(left, right * [1, -1, 1], atol=1e-5)
        shape = model.topology.shape(part)
        radius, *more = np.asarray(model.shape_size[shape])
        half = float(more[-1]) if model.topology.shape_kinds[shape] == "capsule" else 0.0
        assert left[0] == pytest.approx(radius / np.sqrt(2), rel=1e-4)
        assert left[1] == pytest.approx(half + radius / np.sqrt(2), rel=1e-4)


def test_what_bears_anyway_and_what_there_is_not_is_told():
    model = articulated_human("adult")
    with pytest.raises(ModelError, match="'leftHand' bears anyway; leave it out"):
        bearing(model, ["leftHand"])
    with pytest.raises(ModelError, match="'tail'"):
        bearing(model, ["tail"])
