"""Matrix products that are never rounded to TF32."""

import jax.numpy as jnp
from jax import Array
from jax.lax import Precision


def matmul(a, b) -> Array:
    """Matrix product at highest precision (never TF32)."""
    return jnp.matmul(a, b, precision=Precision.HIGHEST)
