"""Cholesky factors and solutions with them, of one matrix and of batches, on each platform.

On a CPU LAPACK has them all, but JAX hands the factorisations of a batch to XLA's threads: 0.1 to
0.2 ms in every call, and a thread that waits (``jaxsim.threads``). So few matrices, such as those
of two bodies that hold each other, are factorised one after the other.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from jaxsim.math.products import matmul

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


def forward(lower: Array, inverse: Array, b: Array) -> Array:
    """lower^-1 b of b (n,); inverse (n,): one over the diagonal."""
    return _either(_forward_by_rows, False, lower, inverse, b)


def backward(lower: Array, inverse: Array, b: Array) -> Array:
    """lower^-T b of b (n,)."""
    return _either(_backward_by_rows, True, lower, inverse, b)


def _either(by_rows, transposed: bool, lower: Array, inverse: Array, b: Array) -> Array:
    if not b.size:
        return b
    solved = partial(_solved, transposed)
    return lax.platform_dependent(lower, inverse, b, cpu=solved, fused=solved, default=by_rows)


def _solved(transposed: bool, lower: Array, _: Array, b: Array) -> Array:
    return lax.linalg.triangular_solve(
        lower, b[:, None], left_side=True, lower=True, transpose_a=transposed
    )[:, 0]


def _forward_by_rows(lower: Array, inverse: Array, b: Array) -> Array:
    def visit(x, row):
        i, L_i, inverse_i, b_i = row
        return x.at[i].set((b_i - matmul(L_i, x)) * inverse_i), None

    rows = jnp.arange(b.shape[0]), lower, inverse, b
    return lax.scan(visit, jnp.zeros_like(b), rows)[0]


def _backward_by_rows(lower: Array, inverse: Array, b: Array) -> Array:
    def visit(b, row):
        i, L_i, inverse_i = row
        x_i = b[i] * inverse_i
        return b - L_i * x_i, x_i

    rows = jnp.arange(b.shape[0]), lower, inverse
    return lax.scan(visit, b, rows, reverse=True)[1]
