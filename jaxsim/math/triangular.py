"""Cholesky factors and triangular solves, of one matrix and of batches, on each platform.

On a CPU LAPACK computes them, but JAX distributes the factorisations of a batch to XLA's threads:
0.1 to 0.2 ms in every call, and a thread that waits (``jaxsim.threads``). So a few matrices, such
as those of two bodies that hold each other, are factorised one after the other.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

FEW = 8  # largest batch whose matrices are factorised one after the other


@jax.custom_jvp
def cholesky(K: Array) -> Array:
    """Lower Cholesky factor of K (n, n), of which the lower triangle is read.

    NaN if there is none. The derivative is JAX's.
    """
    return lax.platform_dependent(K, cpu=_apart, default=_factor)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    return jax.jvp(_factor, primals, tangents)


def _factor(K: Array) -> Array:
    return lax.linalg.cholesky(K, symmetrize_input=False)


@custom_vmap
def _apart(K: Array) -> Array:
    """Factorise the matrices of a small batch one by one.

    ``custom_vmap`` has no reverse mode, so ``cholesky`` has a custom derivative.
    """
    return _factor(K)


@_apart.def_vmap
def _few_apart(count: int, _, K: Array) -> tuple[Array, bool]:
    if count > FEW:
        return _factor(K), True
    return jnp.stack([_apart(K[i]) for i in range(count)]), True


def forward(lower: Array, b: Array) -> Array:
    """Forward substitution: lower^-1 b (n,)."""
    return _solved(lower, b, transposed=False)


def backward(lower: Array, b: Array) -> Array:
    """Back substitution: lower^-T b (n,)."""
    return _solved(lower, b, transposed=True)


def _solved(lower: Array, b: Array, transposed: bool) -> Array:
    if not b.size:
        return b
    return lax.linalg.triangular_solve(
        lower, b[:, None], left_side=True, lower=True, transpose_a=transposed
    )[:, 0]
