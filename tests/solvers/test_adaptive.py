"""As many sweeps as a problem needs: the same solution, no more work, derivatives in both modes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.solvers import adaptive, implicit, pgs
from jaxsim.solvers.pgs import RowGroup
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

SWEEPS, MOST = 4, 400


def chain(links: int, seed: int = 0) -> tuple[tuple[RowGroup, ...], jnp.ndarray]:
    """RowGroup that nearly repeat one another, so that a few sweeps solve little; with friction."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, links)) + 0.35 * rng.normal(size=(3 * links, links))
    contacts = RowGroup(
        x=jnp.asarray(x[: 2 * links].reshape(links, 2, links)),
        target=jnp.zeros((links, 2)),
        impulse=jnp.zeros((links, 2)),
        friction=jnp.full((links, 1), 0.5),
    )
    limits = RowGroup(
        x=jnp.asarray(x[2 * links :].reshape(links, 1, links)),
        target=jnp.asarray(0.1 * rng.normal(size=(links, 1))),
        impulse=jnp.zeros((links, 1)),
        friction=jnp.zeros((links, 1)),
    )
    return (contacts, limits), jnp.asarray(-np.abs(rng.normal(size=links)))


def by(way, *numbers):
    """Velocity and residual of a solver."""

    def run(groups, y):
        groups, y = way(groups, y, *numbers)
        return y, pgs.natural_residual(groups, y)

    return quick_jit(run)


def test_it_goes_on_until_a_sweep_changes_little():
    groups, y = chain(6)
    few, many = by(pgs.solve, SWEEPS)(groups, y), by(pgs.solve, MOST)(groups, y)
    assert few[1] > 0.03 > 1e-6 > many[1]  # the problem is one that a few sweeps leave unsolved
    fine = by(adaptive.solve, SWEEPS, MOST, 1e-9)(groups, y)
    np.testing.assert_allclose(fine[0], many[0], atol=1e-6)
    coarse = by(adaptive.solve, SWEEPS, MOST, 3e-3)(groups, y)
    assert fine[1] < coarse[1] < few[1]


def test_what_is_solved_has_the_bits_of_so_many_sweeps():
    groups, y = chain(6)
    few = by(pgs.solve, SWEEPS)(groups, y)
    np.testing.assert_array_equal(by(adaptive.solve, SWEEPS, MOST, 1e3)(groups, y)[0], few[0])
    np.testing.assert_array_equal(by(adaptive.solve, SWEEPS, SWEEPS, 0.0)(groups, y)[0], few[0])


def test_no_more_than_most_and_not_at_all_on_nan(monkeypatch):
    monkeypatch.setattr(adaptive, "ACCELERATED", 2 * SWEEPS)  # all: then both are the same passes
    groups, y = chain(6)
    bounded = by(adaptive.solve, SWEEPS, 2 * SWEEPS, 0.0)(groups, y)
    as_many = by(adaptive.solve, 2 * SWEEPS - 1, 2 * SWEEPS, 0.0)(groups, y)
    np.testing.assert_allclose(bounded[0], as_many[0], rtol=1e-12)
    assert np.isnan(by(adaptive.solve, SWEEPS, MOST, 0.0)(groups, y * np.nan)[0]).all()


def test_accelerated_passes_are_ahead_of_as_many_plain_ones():
    for seed in range(3):
        groups, y = chain(6, seed)
        plain, ahead = by(pgs.solve, 20)(groups, y), by(adaptive.solve, 4, 20, 0.0)(groups, y)
        assert ahead[1] < 0.2 * plain[1] or ahead[1] < 1e-9, (ahead[1], plain[1])


@pytest.mark.parametrize("derivative", ["iteration", "implicit"])
@pytest.mark.parametrize("tolerance", [1e3, 1e-10], ids=["few", "many"])
def test_derivatives(derivative, tolerance):
    """Along a direction of targets, rows and velocity: forward, reverse and differences agree where
    the sweeps of the derivative solve the problem; the forward and the reverse mode always."""
    groups, y = chain(4, 3)
    sweeps = 150 if tolerance < 1 or derivative == "implicit" else SWEEPS
    rng = np.random.default_rng(1)
    way = [rng.normal(size=np.shape(a)) for a in (groups[1].target, groups[0].x, y)]
    weight = rng.normal(size=y.shape)

    def value(t):
        moved = (
            replace(groups[0], x=groups[0].x + t * way[1]),
            replace(groups[1], target=groups[1].target + t * way[0]),
        )
        numbers = (sweeps, 0.0) if derivative == "implicit" else (sweeps,)
        solve = implicit.solve if derivative == "implicit" else adaptive.solve
        _, end = solve(moved, y + t * way[2], *numbers, MOST, tolerance)
        return jnp.sum(weight * end)

    def all_of(t):
        found, forward = jax.jvp(value, (t,), (1.0,))
        ends = value(t + 1e-6), value(t - 1e-6)
        return found - value(t), forward, jax.grad(value)(t), *ends

    apart, forward, reverse, more, less = quick_jit(all_of)(0.0)
    assert abs(apart) < 1e-9  # what is differentiated does the same passes
    differences = (more - less) / 2e-6
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)
    np.testing.assert_allclose(forward, differences, rtol=1e-5, atol=1e-7)


def test_members_of_a_batch_are_solved_as_alone():
    """Two of them go on when all others are done; one is not finite."""
    one, _ = chain(6)
    size = np.full(16, 0.01)
    size[[3, 11]] = 1.0
    rng = np.random.default_rng(2)
    ys = jnp.asarray(size[:, None] * -np.abs(rng.normal(size=(16, 6))))
    ys = ys.at[7].set(jnp.nan)

    def solve(y):
        groups, end = adaptive.solve(one, y, SWEEPS, MOST, 1e-6)
        return end, groups[0].impulse

    together = quick_jit(jax.vmap(solve))(ys)
    alone = jax.lax.map(solve, ys)
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
