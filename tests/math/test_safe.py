"""Guarded functions: values, and finite first and second derivatives at the singular points."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.math.safe import safe_arccos, safe_divide, safe_norm, safe_normalize, safe_sqrt
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize(
    "function, singular, value",
    [
        (safe_sqrt, 0.0, 0.0),
        (safe_sqrt, -1.0, 0.0),
        (safe_arccos, 1.0, 0.0),
        (safe_arccos, -1.0, np.pi),
        (safe_arccos, 1.5, 0.0),
        (safe_arccos, -1.5, np.pi),
        (lambda x: safe_divide(x, x), 0.0, 0.0),
        (lambda x: safe_divide(1.0, x, otherwise=7.0), 0.0, 7.0),
        (lambda x: safe_norm(x * jnp.ones(3)), 0.0, 0.0),
        (lambda x: safe_normalize(x * jnp.ones(3)).sum(), 0.0, 0.0),
    ],
)
def test_singular_points_have_a_value_and_zero_derivatives(function, singular, value):
    def all_of(x):
        slope = jax.grad(function)
        return function(x), slope(x), jax.jvp(function, (x,), (1.0,))[1], jax.grad(slope)(x)

    assert quick_jit(all_of)(singular) == (value, 0, 0, 0)


@pytest.mark.parametrize(
    "function, plain",
    [
        (safe_sqrt, jnp.sqrt),
        (safe_arccos, jnp.arccos),
        (lambda x: safe_divide(2.0, x), lambda x: 2.0 / x),
    ],
)
@pytest.mark.parametrize("x", [1e-12, 0.3, 0.999])
def test_elsewhere_they_are_the_plain_functions(function, plain, x):
    got = quick_jit(jax.value_and_grad(function))(x)
    assert got == quick_jit(jax.value_and_grad(plain))(x)


def test_norm_and_normalize_follow_the_axis():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    for axis in (0, 1, -1):
        kept = quick_jit(partial(safe_norm, axis=axis, keepdims=True))(x)
        wanted = np.linalg.norm(x, axis=axis, keepdims=True)
        np.testing.assert_allclose(kept, wanted, rtol=1e-14)
        flat = quick_jit(partial(safe_norm, axis=axis))(x)
        np.testing.assert_allclose(flat, wanted.squeeze(axis), rtol=1e-14)
        direction = quick_jit(partial(safe_normalize, axis=axis))(x)
        np.testing.assert_allclose(direction, x / wanted, rtol=1e-14)
