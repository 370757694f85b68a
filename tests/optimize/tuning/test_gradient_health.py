"""Whether a derivative is worth following: of losses for which that is known."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.registered import Limp
from jaxsim import TimeStepping
from jaxsim.model import ModelBuilder, neutral_state, slide
from jaxsim.simulation.measures import final
from optimize import Evaluation, gradient_health, objective, smoothed_slopes
from optimize.problems.problem import Problem
from optimize.running.objectives import Objective, Term
from optimize.scenarios.scenario import Scenario
from optimize.tuning.descent import optimiser
from optimize.tuning.gradient import PART, health_of

STEPS, DT = 4, 0.001
PER_GRAVITY = DT**2 * STEPS * (STEPS - 1) / 2  # fallen before the last step [m] by [m/s^2]


def of_gravity(loss) -> Problem:
    """The loss of the gravity that a weight on a rail has fallen by."""
    b = ModelBuilder()
    b.add_link("weight", "world", mass=1.0, inertia=[1.0] * 3, joints=[slide("rail", (0, 0, 1))])
    model = b.build()

    def height(model):
        return final(lambda sample: sample.state.q[0])

    term = Term("loss", "1", height, lambda fallen: loss(fallen / PER_GRAVITY))
    own = Scenario(model, Limp(), neutral_state(model), TimeStepping(dt=DT))
    judge = Objective("loss", STEPS * DT, {"loss": 1.0}, terms=(term,))
    numbers = {"model.gravity[2]": (-20.0, 0.0, 1.0), "model.gravity[0]": (-1.0, 1.0, 1.0)}
    return Problem(own, numbers, judge, backend="xla")


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
def test_a_bowl_keeps_what_it_promises_but_for_its_curvature():
    """At gravity -9.81 + z the loss (g + 15)^2 falls by r |g'| - r^2."""
    health = gradient_health(of_gravity(lambda g: (g + 15.0) ** 2), np.zeros(2), 0.5)
    assert health.trusted and health.kept.shape == (16,)
    expected = 1 - 0.5 / (2 * (15 - 9.81 + np.array([-0.5, 0.5])))
    assert expected[0] < health.kept.min() < health.kept.max() < expected[1]
    assert list(health.norms) == [STEPS * DT / 2, STEPS * DT]
    half = (STEPS // 2) * (STEPS // 2 - 1) / (STEPS * (STEPS - 1))  # has fallen by then
    at_half = 2 * half * (half * -9.81 + 15.0)
    assert np.median(health.norms[STEPS * DT / 2]) == pytest.approx(at_half, rel=0.05)
    assert str(health).splitlines()[-1] == "trusted"


class Curve:
    """A loss by the first of two numbers, in place of a problem."""

    def __init__(self, loss):
        both = jax.vmap(jax.value_and_grad(lambda z: loss(z[0])))
        self.both = lambda z: tuple(map(np.asarray, both(jnp.asarray(z))))
        self.steps, self.scenario = STEPS, SimpleNamespace(scheme=TimeStepping(dt=DT))

    def evaluate(self, z):
        loss = self.both(z)[0]
        return Evaluation(loss, {}, ~np.isfinite(loss))

    def values_and_slopes(self, z):
        return self.both(z)


def health_at(loss, z, length, **options):
    return gradient_health(Curve(loss), np.array(z), length, horizons=(), **options)  # type: ignore


def saw(g):
    """Falls by 1 per unit, on teeth with slopes of -4 to 6."""
    return g + 0.05 * jnp.sin(100.0 * g)


def test_a_saw_is_not_trusted_and_its_smoothed_slope_is():
    health = health_at(saw, [0.0, 0.0], 0.5)
    assert not health.trusted and np.isfinite(health.kept).all()
    assert health.reason in str(health)
    assert np.median(health.smoothed) > 0.5


def test_a_smoothed_slope_is_that_of_the_line_within_its_error():
    """Of the saw, without bias: within five standard errors, that shrink with the pairs."""
    problem: Any = Curve(saw)
    few, wide = smoothed_slopes(problem, np.zeros((3, 2)), 0.5, pairs=16)
    many, close = smoothed_slopes(problem, np.zeros((3, 2)), 0.5, pairs=256)
    for slopes, errors in ((few, wide), (many, close)):
        assert (np.abs(slopes - np.array([1.0, 0.0])) < 5 * errors).all()
    assert close.mean() < 0.5 * wide.mean()


def test_members_that_fail_are_counted_and_not_trusted():
    """Of a loss that is not a number for half of the points."""
    health = health_at(lambda g: jnp.where(g > 0, jnp.nan, (g + 5) ** 2), [0, 0], 0.5, points=32)
    finite = np.isfinite(health.kept)
    assert 4 < finite.sum() < 28 and health.trusted == (np.median(health.kept) > 0.5)
    assert f"finite: {finite.sum()}" in str(health)
    assert (health.kept[~finite] == -np.inf).all()


def test_points_are_spread_over_runs():
    """Of two runs, one where the loss is flat and one where it is steep."""
    flat = lambda g: jnp.where(g > 0, 0.0, (g + 9) ** 2)  # noqa: E731
    health = health_at(flat, [[3.0, 0.0], [-3.0, 0.0]], 0.1)
    assert (health.kept[::2] == 0.0).all() and (health.kept[1::2] > 0.9).all()


def test_the_step_is_a_part_of_the_first_of_the_optimiser():
    """Of Adam its rate by number, of plain descent in proportion to the slope; a slope of zero
    promises nothing."""

    def step(loss, name):
        curve: Any = Curve(loss)
        return health_of(curve, optimiser(name), np.zeros((1, 2)), 0.1, horizons=()).length

    assert step(saw, "adam@0.3") == pytest.approx(PART * 0.1 * 0.3)
    assert step(saw, "sgd@0.3") == pytest.approx(PART * 0.1 * 0.3 * 6.0)
    assert step(jnp.square, "adam") == pytest.approx(PART * 0.1 * 0.2)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="a standard error needs at least 2"):
        smoothed_slopes(Curve(saw), np.zeros((1, 2)), 0.1, pairs=1)  # type: ignore
    with pytest.raises(ValueError, match=r"length is 0\.0"):
        health_at(saw, [0.0, 0.0], 0.0)
    survive = replace(of_gravity(saw), objective=objective("survive"))
    with pytest.raises(ValueError, match="survive counts successes, which has no derivative"):
        gradient_health(survive, np.zeros(2), 0.1)
