"""Factors and solutions of one matrix and of batches, few and many, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import fuse
from jaxsim.math.triangular import FEW, backward, cholesky, forward

pytestmark = pytest.mark.usefixtures("x64")

N = 9


def matrices(*shape: int) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(*shape, N, 2 * N))
    return rows @ np.swapaxes(rows, -1, -2)


def solved(K, b):
    """K^-1 b by both triangular solutions."""
    lower = cholesky(K)
    return backward(lower, forward(lower, b))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (FEW + 3,), (3, 2), (2, FEW + 1)])
def test_factor_and_solution_are_those_of_numpy(shape):
    K, b = matrices(*shape), np.random.default_rng(1).normal(size=(*shape, N))
    factored, both = cholesky, solved
    for _ in shape:
        factored, both = jax.vmap(factored), jax.vmap(both)
    np.testing.assert_allclose(jax.jit(factored)(K), np.linalg.cholesky(K), rtol=1e-12, atol=1e-12)
    expected = np.linalg.solve(K, b[..., None])[..., 0]
    np.testing.assert_allclose(jax.jit(both)(K, b), expected, rtol=1e-9, atol=1e-12)


def test_few_matrices_are_factorised_one_after_the_other():
    """Those of a batch are handed to other threads, which costs more than so few of them."""

    def factors(count: int) -> list[tuple[int, ...]]:
        program = jax.jit(jax.vmap(cholesky)).lower(matrices(count)).compile().as_text() or ""
        lines = [line for line in program.splitlines() if "potrf" in line]
        return [tuple(map(int, line.split("f64[")[1].split("]")[0].split(","))) for line in lines]

    if jax.default_backend() != "cpu":
        pytest.skip("of a CPU")
    assert factors(FEW) == [(N, N)] * FEW
    assert factors(FEW + 1) == [(FEW + 1, N, N)]


def test_one_that_has_no_factor_leaves_the_others_alone():
    K = matrices(2)
    K[0] *= -1
    found = jax.vmap(cholesky)(K)
    assert np.isnan(found[0]).any()
    np.testing.assert_allclose(found[1], np.linalg.cholesky(K[1]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [2, FEW + 1])
def test_derivatives_in_both_modes_are_those_of_jax(count):
    K, b = matrices(count), np.random.default_rng(1).normal(size=(count, N))

    def number(own):
        def run(K):
            return jnp.sum(jnp.sin(jax.vmap(own)(K, b)))

        return run

    def reference(K, b):
        lower = lax.linalg.cholesky(K, symmetrize_input=False)
        return jax.scipy.linalg.cho_solve((lower, True), b)

    expected = jax.jit(jax.grad(number(reference)))(K)
    for mode in (jax.grad, jax.jacfwd):
        found = jax.jit(mode(number(solved)))(K)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_kernel_finds_the_same():
    K, b = matrices(3), np.random.default_rng(1).normal(size=(3, N))
    np.testing.assert_allclose(fuse(solved)(K, b), jax.vmap(solved)(K, b), rtol=1e-9, atol=1e-12)
