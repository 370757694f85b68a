"""Network of a policy as arrays: normalised observations, hidden layers with tanh, a mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

FARTHEST = 5.0  # of an observation from its mean, in standard deviations


def layers_of(layers: Sequence[tuple[Array, Array]], x: Array) -> Array:
    """Apply kernels (n, m) and biases (m,) to x (n,) in turn, with tanh between.

    In a fused kernel a loop reads a row of a layer each round: unrolled, thousands of weights would
    be as many live values, and the compiler takes minutes over them.
    """
    for k, (kernel, bias) in enumerate(layers):
        x = jnp.tanh(x) if k else x
        x = jax.lax.platform_dependent(
            kernel, bias, x, default=lambda kernel, bias, x: x @ kernel + bias, fused=_by_rows
        )
    return x


def _by_rows(kernel: Array, bias: Array, x: Array) -> Array:
    """One layer as a loop over the rows of its kernel, which is not unrolled."""

    def add(carry):
        k, y = carry
        row, factor = (jax.lax.dynamic_index_in_dim(a, k, keepdims=False) for a in (kernel, x))
        return k + 1, y + factor * row

    begun = jnp.zeros((), jnp.int32), bias
    return jax.lax.while_loop(lambda carry: carry[0] < kernel.shape[0], add, begun)[1]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Network:
    """Layers of a policy, with mean and standard deviation (no,) of its observations."""

    layers: tuple[tuple[Any, Any], ...]  # kernel and bias each; arrays of JAX or NumPy
    mean: Any
    deviation: Any

    def __call__(self, observation: Array) -> Array:
        """Mean action (na,) for an observation (no,)."""
        return layers_of(self.layers, normalise(observation, self.mean, self.deviation))


def normalise(observation: Array, mean: Array, deviation: Array) -> Array:
    """Observation (..., no) in standard deviations from the mean, at most ``FARTHEST``."""
    return jnp.clip((observation - mean) / deviation, -FARTHEST, FARTHEST)
