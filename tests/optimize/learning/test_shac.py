"""SHAC: what a window earns by hand, a cut of what is derived, a task that it solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimize.environments.environment import as_env
from optimize.learning.learn import learn
from optimize.learning.methods import learner_of
from optimize.learning.shac import SHAC, _bounded, _cut
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario
from tests.optimize.learning.test_ppo import cart  # noqa: F401  a fixture

OPTIONS = {"members": 64, "length": 25, "hidden": (16,)}


def test_what_is_derived_is_cut_for_each_member():
    x = [jnp.asarray([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]), jnp.asarray([1.0, 1.0, 1.0])]
    given = [jnp.asarray([[3.0, 0.0], [0.3, 0.0], [jnp.nan, 0.0]]), jnp.asarray([4.0, 0.4, 1.0])]
    pull = jax.vjp(lambda leaves: _bounded(1.0, leaves), x)[1]
    np.testing.assert_array_equal(_cut(x, 1.0)[0], x[0])
    ((first, second),) = pull(given)
    np.testing.assert_allclose(first, [[0.6, 0.0], [0.3, 0.0], [0.0, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(second, [0.8, 0.4, 0.0], rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_the_derivative_is_that_of_what_the_window_earns(cart):  # noqa: F811
    """Beside differences of the loss along a random direction, float64."""
    env = table_env(cart)
    learner = SHAC(env, members=8, length=6, hidden=(8,), steepest=1e9)
    state, _ = learner.update(learner.init(0))
    key = jax.random.key(1)
    loss = jax.jit(lambda params: learner._loss(params, state, key)[0])
    slope = jax.grad(loss)(state.params)
    draw = np.random.default_rng(0)
    way = jax.tree.map(lambda x: jnp.asarray(draw.normal(size=x.shape)), state.params)
    step = 1e-6
    ends = [loss(jax.tree.map(lambda p, w: p + s * step * w, state.params, way)) for s in (1, -1)]  # noqa: B023
    wanted = (ends[0] - ends[1]) / (2 * step)
    found = sum(map(jnp.vdot, jax.tree.leaves(slope), jax.tree.leaves(way)))
    assert abs(wanted) > 1e-4
    assert found == pytest.approx(float(wanted), rel=1e-5)


def table_env(file):
    from optimize.environments.table import environment_of

    return environment_of(scenario(str(file)))


@pytest.mark.slow
def test_it_learns_and_goes_on_to_the_same_numbers(cart, tmp_path):  # noqa: F811
    """The cart is brought to the middle of its rail, better than without force."""
    whole = learn(str(cart), tmp_path / "a", "shac", updates=50, options=OPTIONS, progress=False)
    learn(str(cart), tmp_path / "b", "shac", updates=25, options=OPTIONS, progress=False)
    again = learn(out=tmp_path / "b", updates=50, resume=True, progress=False)

    def numbers(history):
        return [{k: v for k, v in line.items() if "seconds" not in k} for line in history]

    assert numbers(whole.history) == numbers(again.history)
    first = whole.history[0]
    assert whole.worth > 1.5 * 50 * first["reward"]
    assert all(np.isfinite(line["slope"]) for line in whole.history)


def test_a_member_whose_numbers_go_wrong_does_not_decide_for_the_others(cart):  # noqa: F811
    """A reward that is none in half of the places: the update stays finite, and tells of it."""
    problem = Problem(scenario(str(cart)), {}, OBJECTIVES["survive"], trials=8, spread=(0.4, 0.2))

    def odd(moment):
        place = moment.view.state.q[0]
        return jnp.where(place > 0.0, jnp.nan, -place * place)

    env = as_env(problem, ("joint_angles", "joint_rates"), "torques", {odd: 1.0}, done=(), rate=25)
    learner = SHAC(env, members=8, length=2, hidden=(8,), parts=1)
    state, told = learner.update(learner.init(0))
    assert 0 < int(told.failed) < 16 and float(told.slope) > 0
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(state.params))


def test_members_and_windows_part(cart):  # noqa: F811
    with pytest.raises(ValueError, match="do not part into 4"):
        learner_of("shac", table_env(cart), {"members": 3, "length": 3})
