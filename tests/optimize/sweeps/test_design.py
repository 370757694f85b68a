"""Which members a sweep has, and how they are drawn and boxed."""

import numpy as np
import pytest

from optimize.sweeps.design import Design, design_of_json
from optimize.sweeps.distributions import LogUniform, Normal, Uniform

GRID = {"a": np.arange(5.0), "b": np.arange(7.0) * 10}


@pytest.mark.parametrize("chunk", [1, 2, 6, 7, 20, 1000])
@pytest.mark.parametrize("starts", [1, 3])
def test_boxes_hold_every_point_once_within_the_chunk(chunk, starts):
    design = Design(GRID, starts=starts, chunk=chunk)
    seen = []
    for region in design.regions():
        held = design.at(region)
        size = np.prod([part.stop - part.start for part in region])
        assert held["a"].shape == held["b"].shape == (size,)
        assert size <= np.prod(design.box) and size * starts <= max(chunk, starts)
        seen += zip(held["a"], held["b"])
    assert sorted(seen) == [(a, b) for a in GRID["a"] for b in GRID["b"]]
    assert len(list(design.regions())) == np.prod(design.boxes)
    assert design.members == 35 * starts


def test_what_is_drawn_is_an_axis_beside_the_grid():
    design = Design({"d": Uniform(1, 2), "a": [0.0, 1.0], "e": LogUniform(1, 100)}, count=3)
    assert design.shape == (2, 3) and design.sample == "random"
    held = design.at((slice(1, 2), slice(0, 3)))
    np.testing.assert_array_equal(held["a"], 1.0)
    np.testing.assert_array_equal(held["d"], design.samples[:, 0])
    again = design_of_json(design.as_json())
    np.testing.assert_array_equal(again.samples, design.samples)
    other = Design({"d": Uniform(1, 2), "e": LogUniform(1, 100)}, count=3, seed=1)
    assert not np.isin(other.samples, design.samples).any()


@pytest.mark.parametrize("sample", ["random", "sobol"])
def test_samples_have_their_distribution(sample):
    given = {"u": Uniform(2, 4), "l": LogUniform(0.01, 100), "n": Normal(5, 2, low=5)}
    u, l, n = Design(given, sample, 1024).samples.T
    few = 1.63 / 32  # of a Kolmogorov-Smirnov test at 1%: 1.63 / sqrt(1024)
    for values, quantile in ((u, 3.0), (l, 1.0), (n, 5 + 2 * 0.6745)):  # each one's median
        assert abs((values < quantile).mean() - 0.5) < few
    assert u.min() >= 2 and u.max() <= 4 and l.min() >= 0.01 and l.max() <= 100 and n.min() >= 5


def test_saltelli_changes_one_number_at_a_time():
    groups = Design({"x": Uniform(0, 1), "y": Uniform(0, 1)}, "saltelli", 8).samples
    first, x, y, second = np.moveaxis(groups.reshape(8, 4, 2), 1, 0)
    np.testing.assert_array_equal(x, np.stack([second[:, 0], first[:, 1]], axis=1))
    np.testing.assert_array_equal(y, np.stack([first[:, 0], second[:, 1]], axis=1))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (({},), "nothing varies"),
        (({"a": [1.0, np.nan]},), "a: give finite values"),
        (({"a": ["x"]},), "a: .* no distribution"),
        (({"a": [1.0]}, "sobol"), "nothing to draw"),
        (({"a": Uniform(0, 1)}, "sobol", 100), "give 64 or 128"),
        (({"a": Uniform(0, 1)}, "halton"), "there are random, sobol, saltelli"),
        (({"a": Uniform(0, 1), "b": [1.0]}, "saltelli", 8), "b has values"),
        (({"a": [1.0]}, None, None, 0, 0), "starts is 0"),
    ],
)
def test_what_cannot_be_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        Design(*arguments)


@pytest.mark.parametrize(
    "make", [lambda: Uniform(2, 1), lambda: LogUniform(0, 1), lambda: Normal(0, -1)]
)
def test_distributions_that_cannot_be(make):
    with pytest.raises(ValueError, match=r"low|positive"):
        make()
