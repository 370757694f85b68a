"""What a gradient says nothing about is told, number by number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.gradients import (
    FINITE,
    NO_DERIVATIVE,
    NOT_FINITE,
    UNSEEN,
    ZERO,
    gradient_report,
)


def steps_of(duration, dt=0.01):
    return jnp.floor(duration / dt)


def example(tree):
    """A bit of everything that controllers do with their numbers."""
    path = jnp.array([1.0, 4.0, 9.0, 16.0])[tree["phase"]]
    force = tree["force"][0] * jnp.sin(tree["angle"]) + 0.0 * tree["force"][1]
    late = jnp.where(tree["on"], steps_of(tree["duration"]), 2.0)
    return force + late * path + jnp.sqrt(tree["slack"] ** 2) * 0.5


TREE = {
    "angle": jnp.float32(0.5),
    "duration": jnp.array([0.3]),
    "force": jnp.array([2.0, 3.0]),
    "on": jnp.array(True),
    "phase": jnp.array([1]),
    "slack": jnp.array(0.0),
    "unused": jnp.array([1, 2]),
}


@pytest.fixture(scope="module")
def report():
    labels = {"duration": ["time of the swing"]}
    return gradient_report(lambda t: jnp.sum(example(t)), TREE, labels=labels)


def test_verdicts(report):
    verdicts = {leaf.path: leaf.verdict.tolist() for leaf in report.leaves}
    assert verdicts == {
        "angle": [FINITE],
        "duration": [UNSEEN],
        "force": [FINITE, ZERO],
        "on": [NO_DERIVATIVE],
        "phase": [NO_DERIVATIVE],
        "slack": [NOT_FINITE],
        "unused": [NO_DERIVATIVE, NO_DERIVATIVE],
    }


def test_what_matters_and_is_not_seen(report):
    assert report.unseen == ["duration[0] (time of the swing)", "on", "phase[0]"]
    assert report.not_finite == ["slack"]


def test_the_slopes_beside_it(report):
    """Of the smallest step that changes anything: a duration has to grow by a whole time step."""
    leaf = {leaf.path: leaf for leaf in report.leaves}
    np.testing.assert_allclose(leaf["angle"].slope, leaf["angle"].gradient, rtol=1e-2)
    change = float(example({**TREE, "duration": jnp.array([0.303])})[0] - example(TREE)[0])
    back = float(example({**TREE, "duration": jnp.array([0.297])})[0] - example(TREE)[0])
    small = float(example({**TREE, "duration": jnp.array([0.2997])})[0] - example(TREE)[0])
    step, ends = (0.0003, -small) if small else (0.003, change - back)
    np.testing.assert_allclose(leaf["duration"].slope, ends / (2 * step), rtol=1e-2)
    assert leaf["phase"].slope.tolist() != [0] and leaf["unused"].slope.tolist() == [0, 0]


def test_it_prints(report):
    text = str(report)
    assert "duration (1,) float32" in text
    assert "1  zero, but the value matters; slopes of differences: duration[0] (time of the" in text
    assert "1  not finite; differences: slack" in text
    assert "2  whole numbers have no derivative: without effect" in text


def test_many_numbers_are_looked_at_here_and_there():
    report = gradient_report(lambda x: jnp.sum(x[:50] ** 2), jnp.ones(200), most=5)
    (leaf,) = report.leaves
    assert leaf.index.tolist() == [0, 50, 100, 149, 199]
    assert leaf.verdict.tolist() == [FINITE, *[ZERO] * 4]
    assert "the tree (200,) float32, 5 looked at" in str(report)


def test_what_returns_no_number_is_refused():
    with pytest.raises(ValueError, match="expected one float of shape"):
        gradient_report(lambda x: x, jnp.ones(3))
    with pytest.raises(ValueError, match="expected one float"):
        gradient_report(lambda x: jnp.sum(x > 0), jnp.ones(3))


def test_in_float64_small_effects_are_seen():
    with jax.enable_x64(True):
        report = gradient_report(lambda x: 1.0 + 1e-9 * jnp.floor(x), jnp.array(3.0))
        assert report.unseen == ["the tree"]
