"""What a user is told of masses and contacts that the solver cannot bring together."""

import pytest

from controllers.pose.registered import Limp
from jaxsim.model import ModelBuilder, box, free, neutral_state, plane
from optimize.running.simulate import depth_notes, mass_ratio_notes, of_model


def lying(low: float, high: float):
    b = ModelBuilder()
    for name, mass in (("low", low), ("high", high)):
        b.add_link(name, "world", mass=mass, inertia=[mass / 150] * 3, joints=[free(name)])
        b.add_shape(name, box([0.1] * 3, name=name))
    b.add_shape("world", plane(name="ground"))
    b.add_pair("low", "high")
    model = b.build()
    return of_model(model, Limp(), neutral_state(model))


@pytest.mark.parametrize("low, high", [(0.01, 1000.0), (1000.0, 0.01)])
def test_masses_that_differ_much_are_told(low, high):
    [note] = mass_ratio_notes(lying(low, high))
    assert "(1000 kg) may lie on" in note and "(0.01 kg) and sink into it" in note
    assert mass_ratio_notes(lying(1.0, 900.0)) == []


def test_deep_overlaps_are_told_unless_they_were_there():
    measured = {"largest_penetration": 0.165, "largest_residual": 10.0}
    [note] = depth_notes(measured)
    assert "by up to 165.0 mm" in note and "residual of up to 10" in note
    assert depth_notes(measured | {"first_penetration": 0.16}) == []
    assert depth_notes(measured | {"largest_penetration": 0.001}) == []
    [note] = depth_notes({"largest_penetration": 0.05})  # of per-step optimisation
    assert "50.0 mm: only hands and feet are kept out" in note
