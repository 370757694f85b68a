"""Cholesky factors and solutions with them, of one matrix and of batches, on each platform.

On a CPU LAPACK has them all, but JAX hands the factorisations of a batch to XLA's threads: 0.1 to
0.2 ms in every call, and a thread that waits (``jaxsim.threads``). So few matrices, such as those
of two bodies that hold each other, are factorised one after the other.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

FEW = 8  # matrices of a batch that are factorised one after the other


@jax.custom_jvp
def cholesky(K: Array) -> Array:
    """The lower factor of K (n, n), of which the lower triangle counts; NaN if there is none. Its
    derivative is JAX's."""
    return lax.platform_dependent(K, cpu=_apart, default=_factor)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    return jax.jvp(_factor, primals, tangents)


def _factor(K: Array) -> Array:
    return lax.linalg.cholesky(K, symmetrize_input=False)


@custom_vmap
def _apart(K: Array) -> Array:
    """``custom_vmap`` has no reverse mode, so ``cholesky`` has a derivative of its own."""
    return _factor(K)


@_apart.def_vmap
def _few_apart(count: int, _, K: Array) -> tuple[Array, bool]:
    if count > FEW:
        return _factor(K), True
    return jnp.stack([_apart(K[i]) for i in range(count)]), True


def forward(lower: Array, b: Array) -> Array:
    """lower^-1 b of b (n,)."""
    return _solved(lower, b, transposed=False)


def backward(lower: Array, b: Array) -> Array:
    """lower^-T b of b (n,)."""
    return _solved(lower, b, transposed=True)


def _solved(lower: Array, b: Array, transposed: bool) -> Array:
    if not b.size:
        return b
    return lax.linalg.triangular_solve(
        lower, b[:, None], left_side=True, lower=True, transpose_a=transposed
    )[:, 0]
