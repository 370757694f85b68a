"""Tunables: paths, bounds, and the selection under jit, vmap and grad."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimize.problems.tunables import Tunables


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Ground:
    friction: jax.Array
    name: str = dataclasses.field(metadata={"static": True}, default="floor")


class Gains(NamedTuple):
    kp: jax.Array
    kd: jax.Array


def make_tree():
    return {
        "model": Ground(jnp.asarray(0.8)),
        "controller": {"values": jnp.asarray([0.0, 10.0, -20.0, 30.0])},
        "gains": (Gains(jnp.ones((2, 3)), jnp.asarray([0.5])), Gains(jnp.zeros(1), jnp.zeros(1))),
        "left.knee": jnp.asarray(1.0),
        "count": jnp.asarray(3),
    }


SELECTION = {
    "model.friction": (0.2, 1.5),
    "controller.values[3]": (-180.0, 180.0, 10.0),
    "gains[0].kp": (0.0, [[2.0, 3.0, 4.0], [2.0, 2.0, 2.0]]),
    "['left.knee']": (0.0, 2.0),
}


@pytest.fixture
def tunables():
    return Tunables.select(make_tree(), SELECTION)


def test_names_and_bounds(tunables):
    assert tunables.names[:3] == ("model.friction", "controller.values[3]", "gains[0].kp[0,0]")
    assert tunables.names[-1] == "['left.knee']"
    assert tunables.size == 9
    np.testing.assert_allclose(tunables.lower[:3], [0.2, -180.0, 0.0])
    np.testing.assert_allclose(tunables.upper[:5], [1.5, 180.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(tunables.scale[:3], [1.3, 10.0, 2.0])
    np.testing.assert_allclose(tunables.initial, [0.8, 30, 1, 1, 1, 1, 1, 1, 1], rtol=1e-6)


def test_element_indices():
    tree = make_tree()
    tunables = Tunables.select(tree, {"gains[0].kp[1, -1]": (0.0, 2.0)})
    assert tunables.names == ("gains[0].kp[1,2]",)
    written = tunables.write(tree, jnp.asarray([1.5]))
    np.testing.assert_array_equal(written["gains"][0].kp, [[1, 1, 1], [1, 1, 1.5]])


def test_read_write_round_trip_touches_nothing_else(tunables):
    tree = make_tree()
    x = jnp.linspace(0.3, 1.1, tunables.size)
    written = tunables.write(tree, x)
    np.testing.assert_array_equal(tunables.read(written), x)
    assert jax.tree.structure(written) == jax.tree.structure(tree)
    np.testing.assert_array_equal(written["controller"]["values"][:3], [0.0, 10.0, -20.0])
    assert written["count"] is tree["count"]
    assert written["model"].friction.dtype == tree["model"].friction.dtype


def test_under_jit_vmap_and_grad(tunables):
    tree = make_tree()
    x = tunables.read(tree)

    def energy(x):
        written = tunables.write(tree, x)
        return written["model"].friction ** 2 + jnp.sum(written["controller"]["values"])

    gradient = jax.jit(jax.grad(energy))(x)
    np.testing.assert_allclose(gradient[:2], [2 * 0.8, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(gradient[2:], 0.0)

    batch = jnp.stack([x, 2 * x, 3 * x])
    energies = jax.jit(jax.vmap(energy))(batch)
    np.testing.assert_allclose(energies, [energy(row) for row in batch], rtol=1e-6)

    axes = tunables.axes(tree)
    written = jax.vmap(tunables.write, (None, 0), axes)(tree, batch)
    assert written["model"].friction.shape == (3,)
    assert written["gains"][1].kd.shape == (1,)
    frictions = jax.vmap(lambda t: t["model"].friction, in_axes=(axes,))(written)
    np.testing.assert_allclose(frictions, batch[:, 0])

    tree_gradient = jax.grad(lambda t: tunables.read(t).sum(), allow_int=True)(tree)
    np.testing.assert_array_equal(tree_gradient["controller"]["values"], [0, 0, 0, 1])


def test_decode_starts_at_the_initial_values_with_slope_scale(tunables):
    np.testing.assert_array_equal(tunables.decode(np.zeros(tunables.size)), tunables.initial)
    np.testing.assert_array_equal(tunables.encode(tunables.initial), 0.0)
    slope = jax.jacfwd(tunables.decode)(jnp.zeros(tunables.size))
    np.testing.assert_allclose(np.diagonal(slope), tunables.scale, rtol=1e-6)
    np.testing.assert_allclose(
        tunables.decode(np.full(tunables.size, 0.01)), tunables.initial + 0.01 * tunables.scale
    )


@settings(deadline=None, max_examples=60)
@given(
    z=st.floats(-1e4, 1e4),
    start=st.floats(0.0, 1.0),
    lower=st.floats(-50, 50),
    width=st.floats(0.1, 100),
)
def test_decode_stays_in_bounds_and_encode_inverts(z, start, lower, width):
    upper = lower + width
    value = np.asarray(np.clip(lower + start * width, lower, upper))
    tunables = Tunables.select({"a": value}, {"a": (lower, upper)})
    x = tunables.decode(np.asarray([z]))
    assert lower <= x[0] <= upper
    np.testing.assert_allclose(tunables.decode(tunables.encode(x)), x, atol=1e-9 * width)


def test_decode_is_smooth_across_and_beyond_the_bounds():
    tunables = Tunables.select({"a": jnp.asarray(0.5)}, {"a": (0.0, 1.0)})
    z = jnp.linspace(-3.0, 3.0, 6001)[:, None]
    slope = jax.vmap(jax.grad(lambda z: tunables.decode(z)[0]))(z)[:, 0]
    assert jnp.isfinite(slope).all()
    assert jnp.abs(jnp.diff(slope)).max() < 0.011  # 10 % of the range wide: slope 1 -> 0 -> -1
    at_bound = np.asarray([[0.55], [-0.55], [1.65]])  # the bound, the other, and a period on
    np.testing.assert_allclose(tunables.decode(at_bound), [[1.0], [0.0], [0.0]], atol=1e-12)
    jitted = jax.jit(tunables.decode)(z)
    np.testing.assert_allclose(jitted, tunables.decode(np.asarray(z)), atol=2e-6)


def test_a_float32_value_on_its_bound_is_inside():
    tunables = Tunables.select({"a": np.float32(0.2)}, {"a": (0.0, 0.2)})
    assert tunables.initial[0] == 0.2
    assert np.isfinite(tunables.decode(np.zeros(1))).all()


@pytest.mark.parametrize(
    ("path", "spec", "error", "match"),
    [
        ("model.fricton", (0, 1), KeyError, "nearest are: model.friction"),
        ("model", (0, 1), KeyError, "holds some: model.friction"),
        ("controller.values[9]", (0, 1), IndexError, r"shape \(4,\)"),
        ("controller.values[1,1]", (0, 1), IndexError, "2 indices"),
        ("controller..values", (0, 1), ValueError, "cannot read"),
        ("model.friction", (1.5, 0.2), ValueError, "lower must be below upper"),
        ("model.friction", (0.2, 0.2), ValueError, "lower must be below upper"),
        ("model.friction", (0.9, 1.5), ValueError, "outside its bounds"),
        ("model.friction", (0.2, float("inf")), ValueError, "finite"),
        ("model.friction", (float("nan"), 1.0), ValueError, "finite"),
        ("model.friction", (0.2, 1.5, 0.0), ValueError, "scale must be positive"),
        ("model.friction", (0.2,), ValueError, "expected"),
        ("controller.values", ([-90, -90], 90), ValueError, "must fit the shape"),
        ("count", (0, 5), ValueError, "floating-point"),
        ("model.name", (0, 5), KeyError, "nearest"),
    ],
)
def test_errors_of_select(path, spec, error, match):
    with pytest.raises(error, match=match):
        Tunables.select(make_tree(), {path: spec})


def test_errors_about_values_and_duplicates():
    with pytest.raises(ValueError, match="not finite"):
        Tunables.select({"a": jnp.asarray(jnp.nan)}, {"a": (0, 1)})
    with pytest.raises(ValueError, match=r"more than once: a\[1\]"):
        Tunables.select({"a": jnp.zeros(3)}, {"a": (0, 1), "a[1]": (0, 1)})
    with pytest.raises(ValueError, match="nothing is selected"):
        Tunables.select(make_tree(), {})
    with pytest.raises(ValueError, match="nothing to tune"):
        Tunables.select({"a": jnp.zeros(0)}, {"a": (0, 1)})


def test_errors_of_use(tunables):
    with pytest.raises(ValueError, match="expected \\(9,\\)"):
        tunables.write(make_tree(), jnp.zeros(3))
    with pytest.raises(ValueError, match="expected"):
        tunables.decode(np.zeros(3))
    with pytest.raises(ValueError, match="not finite"):
        tunables.decode(np.full(9, np.nan))
    outside = tunables.initial.copy()
    outside[0] = 1.6
    with pytest.raises(ValueError, match=r"outside the bounds: model\.friction"):
        tunables.encode(outside)
    other = make_tree() | {"model": Ground(jnp.zeros(2))}
    with pytest.raises(ValueError, match="had \\(\\) when selected"):
        tunables.read(other)
