"""The network of a policy as arrays: normalised observations, hidden layers with tanh, a mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

FARTHEST = 5.0  # of an observation from its mean, in standard deviations


def layers_of(layers: Sequence[tuple[Array, Array]], x: Array) -> Array:
    """Kernels (n, m) and biases (m,) applied to x (n,) in turn, with tanh between.

    In a fused kernel a loop reads a row of a layer each round: written out, thousands of weights
    would be as many values that are alive at once, and the compiler takes minutes over them.
    """
    for k, (kernel, bias) in enumerate(layers):
        x = jnp.tanh(x) if k else x
        x = jax.lax.platform_dependent(
            kernel, bias, x, default=lambda kernel, bias, x: x @ kernel + bias, fused=_by_rows
        )
    return x


def _by_rows(kernel: Array, bias: Array, x: Array) -> Array:
    """The same in a loop that stays one."""

    def add(carry):
        k, y = carry
        row, factor = (jax.lax.dynamic_index_in_dim(a, k, keepdims=False) for a in (kernel, x))
        return k + 1, y + factor * row

    begun = jnp.zeros((), jnp.int32), bias
    return jax.lax.while_loop(lambda carry: carry[0] < kernel.shape[0], add, begun)[1]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Network:
    """A policy's numbers; ``mean`` and ``deviation`` (no,) are those of what it has observed."""

    layers: tuple[tuple[Any, Any], ...]  # kernel and bias each; arrays of JAX or NumPy
    mean: Any
    deviation: Any

    def __call__(self, observation: Array) -> Array:
        """(na,) the action that is its mean, for an observation (no,)."""
        return layers_of(self.layers, normalised(observation, self.mean, self.deviation))


def normalised(observation: Array, mean: Array, deviation: Array) -> Array:
    """(..., no) in standard deviations from the mean, at most ``FARTHEST``."""
    return jnp.clip((observation - mean) / deviation, -FARTHEST, FARTHEST)
