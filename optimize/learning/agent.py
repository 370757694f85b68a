"""Agent of learning: an actor and a critic of flax nnx, and statistics of observations."""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from controllers.policy.network import Network, normalise
from optimize.environments.environment import Environment


class MLP(nnx.Module):
    """Linear layers with tanh between, and a last layer of small initial weights.

    So a policy starts with small actions, and a critic with values near zero.
    """

    def __init__(self, sizes: tuple[int, ...], last: float, dtype: Any, rngs: nnx.Rngs):
        hidden = nnx.initializers.orthogonal(2.0**0.5)
        final = nnx.initializers.orthogonal(last)
        pairs = list(itertools.pairwise(sizes))
        begun = [hidden] * (len(pairs) - 1) + [final]
        self.layers = nnx.List(
            nnx.Linear(n, m, kernel_init=kernel, dtype=dtype, param_dtype=dtype, rngs=rngs)
            for (n, m), kernel in zip(pairs, begun)
        )

    def __call__(self, x: Array) -> Array:
        for k, layer in enumerate(self.layers):
            x = layer(jnp.tanh(x) if k else x)
        return x

    def arrays(self) -> tuple[tuple[Array, Array], ...]:
        """Kernels and biases, as ``controllers.policy.network`` takes them."""
        layers: Any = self.layers
        return tuple((layer.kernel[...], layer.bias[...]) for layer in layers)


class Agent(nnx.Module):
    """Actor and critic: mean and log deviation of actions, and the value of a state."""

    def __init__(
        self, sizes: tuple[int, int], hidden: tuple[int, ...], noise: float, dtype: Any, seed: int
    ):
        (observed, actions), rngs = sizes, nnx.Rngs(seed)
        self.actor = MLP((observed, *hidden, actions), 0.01, dtype, rngs)
        self.critic = MLP((observed, *hidden, 1), 0.01, dtype, rngs)
        self.log_deviation = nnx.Param(jnp.full(actions, jnp.log(noise), dtype))


class Statistics(NamedTuple):
    """Running mean and variance of all observations."""

    count: Array  # ()
    mean: Array  # (no,)
    square: Array  # (no,) sum of squares about the mean

    @classmethod
    def none(cls, size: int) -> "Statistics":
        """Statistics before the first observation: mean 0 and deviation 1, counted once."""
        return cls(jnp.ones(()), jnp.zeros(size), jnp.ones(size))

    @property
    def deviation(self) -> Array:
        """Standard deviation (no,) of the observations."""
        return jnp.sqrt(self.square / self.count) + 1e-3

    def with_more(self, x: Array) -> "Statistics":
        """Statistics with observations (n, no) added."""
        mean = jnp.mean(x, axis=0)
        return self.joined(x.shape[0], mean, jnp.sum(jnp.square(x - mean), axis=0))

    def joined(self, count: Any, mean: Array, square: Array) -> "Statistics":
        """Statistics merged with those of other observations (T. Chan et al. 1979)."""
        total, apart = self.count + count, mean - self.mean
        return Statistics(
            total,
            self.mean + apart * count / total,
            self.square + square + jnp.square(apart) * self.count * count / total,
        )

    def normalise(self, x: Array) -> Array:
        """Normalise an observation for the network."""
        return normalise(x, self.mean, self.deviation)


def network_of(agent: Agent, seen: Statistics) -> Network:
    """Policy as arrays, for kernels and files."""
    return Network(agent.actor.arrays(), seen.mean, seen.deviation)


def log_chance(noise: Array, log_deviation: Array) -> Array:
    """Log probability (...,) of actions, but for a constant.

    noise: (..., na), in standard deviations.
    """
    return -0.5 * jnp.sum(jnp.square(noise), axis=-1) - jnp.sum(log_deviation)


def entropy(log_deviation: Array) -> Array:
    """Entropy () of the actions, but for a constant."""
    return jnp.sum(log_deviation)


def initial(
    sizes: tuple[int, int], hidden: tuple[int, ...], noise: float, dtype: Any, seed: int
) -> Any:
    """Static part and parameters of a new agent; sizes: no and na."""
    with jax.ensure_compile_time_eval():
        return nnx.split(Agent(sizes, hidden, noise, dtype, seed))


@dataclass(frozen=True)
class ActorCritic:
    """Base of methods with an actor and a critic, whose options include these fields."""

    env: Environment

    if TYPE_CHECKING:
        members: int
        length: int
        epochs: int
        parts: int
        noise: float
        hidden: tuple[int, ...]

    def __post_init__(self):
        if self.actions % self.parts:
            raise ValueError(
                f"{self.members} members of {self.length} actions do not part into {self.parts}"
            )

    @property
    def actions(self) -> int:
        """Number of actions in an update."""
        return self.members * self.length

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.env.observation_size, self.env.action_size

    @cached_property
    def _graph(self) -> Any:
        return self._new(0)[0]

    def _new(self, seed: int) -> Any:
        dtype = self.env.model.mass.dtype
        return initial(self._sizes, self.hidden, self.noise, dtype, seed)

    def _orders(self, key: Array) -> Array:
        """Indices (epochs * parts, n) of the actions in each minibatch."""
        orders = jax.vmap(lambda key: jax.random.permutation(key, self.actions))
        return orders(jax.random.split(key, self.epochs)).reshape(self.epochs * self.parts, -1)
