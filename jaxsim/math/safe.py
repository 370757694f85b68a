"""Elementwise functions whose value and gradient stay finite at their singular points.

Each guards its argument *before* the singular function sees it (the "double where"), because
``where(x > 0, sqrt(x), 0)`` alone still yields NaN gradients at zero.
"""

import jax.numpy as jnp
from jax import Array


def safe_sqrt(x: Array) -> Array:
    """sqrt(x) for x > 0, else 0; gradient 0 where x <= 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def safe_norm(x: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Euclidean norm along ``axis``; gradient 0 at the zero vector."""
    return safe_sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


def safe_divide(a: Array, b: Array, otherwise: float = 0.0) -> Array:
    """a / b where b != 0, else ``otherwise``."""
    nonzero = b != 0
    return jnp.where(nonzero, a / jnp.where(nonzero, b, 1), otherwise)


def safe_normalize(x: Array, axis: int = -1) -> Array:
    """x / |x|; the zero vector stays zero, with zero gradient."""
    return safe_divide(x, safe_norm(x, axis=axis, keepdims=True))


def safe_arccos(x: Array) -> Array:
    """arccos of x clipped to [-1, 1]; gradient 0 where the clip acts."""
    inside = jnp.abs(x) < 1
    return jnp.where(inside, jnp.arccos(jnp.where(inside, x, 0)), jnp.where(x > 0, 0.0, jnp.pi))


def safe_max(x: Array) -> Array:
    """() largest entry of x (...); the gradient is that of the first one.

    The gradient of jnp.max divides by the number of entries that equal the maximum. XLA may compute
    those entries twice and round differently, and then the number is zero.
    """
    flat = x.reshape(-1)
    first = jnp.arange(flat.shape[0]) == jnp.argmax(flat)
    return jnp.sum(jnp.where(first, flat, 0))
