"""Evolution of a policy's weights by OpenAI-ES, or CMA-ES with a diagonal covariance.

The searches are those of ``optimize.tuning.methods``. Every member is a network of its own; its
fitness is the sum of its rewards over an episode from each of some starts, all of them in one
kernel.

T. Salimans et al. 2017, Evolution strategies as a scalable alternative to reinforcement learning.
"""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from controllers.policy.network import Network
from jaxsim.fused import choose_backend, fuse
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState
from optimize.learning.agent import Statistics
from optimize.learning.rollout import rollouts
from optimize.tuning.methods import method


class EvolvingUpdateInfo(NamedTuple):
    """Statistics of one generation, () each."""

    reward: Array  # mean of an action
    parts: dict[str, Array]  # mean and best return
    length: Array  # mean of the episodes, in actions
    failed: Array  # members, by numbers that were not finite
    deviation: Array  # of the search


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvolvingState:
    """State from which a generation is computed."""

    search: Any
    seen: Statistics
    seed: Array  # () uint32
    updates: Array  # () int32


@dataclass(frozen=True)
class Evolving:
    """Evolution strategy over the weights of a network, with its options.

    Each generation has ``population`` networks, each simulated from ``starts`` that are new in
    every generation, ``horizon`` actions at most; sigma: first deviation of weights.
    """

    env: Environment
    search: str = "openai-es"
    population: int = 64
    starts: int = 4
    horizon: int = 200
    sigma: float = 0.05
    hidden: tuple[int, ...] = (32,)
    backend: str = "fused"
    length: int = 32  # of the rollouts that judge the policy
    name: str = field(default="es", init=False)

    @property
    def members(self) -> int:
        """Number of episodes that are simulated together."""
        return self.population * self.starts

    @property
    def actions(self) -> int:
        """Number of actions in a generation, at most."""
        return self.members * self.horizon

    @property
    def _dtype(self) -> Any:
        return self.env.model.mass.dtype

    @cached_property
    def _origin(self) -> tuple[np.ndarray, Any]:
        """Vector of zeros but for small first layers, and the function from a vector to layers."""
        sizes = (self.env.observation_size, *self.hidden, self.env.action_size)
        dtype = np.dtype(self._dtype)
        random, last = np.random.default_rng(0), len(sizes) - 2
        layers = tuple(
            (
                random.normal(size=(n, m)).astype(dtype) / dtype.type(n**0.5) * (k < last),
                np.zeros(m, dtype),
            )
            for k, (n, m) in enumerate(itertools.pairwise(sizes))
        )
        flat, back = ravel_pytree(layers)
        return np.asarray(flat), back

    @cached_property
    def _search(self) -> Any:
        return method(self.search, dimensions=self._origin[0].size, population=self.population)

    @cached_property
    def run(self):
        """Compiled ``rollouts`` of ``length`` actions."""
        return rollouts(self.env, self.length, self.backend)

    @cached_property
    def _episodes(self):
        def one(layers: Any, mean: Array, deviation: Array, at: EnvState):
            network = Network(layers, mean, deviation)

            def act(carry, _):
                at, alive, total, steps, sums, failed = carry
                seen = at.observation
                after, told = self.env.step_on(at, network(seen))
                counts = jnp.where(alive, 1.0, 0.0)
                total = total + counts * told.reward
                sums = sums[0] + counts * seen, sums[1] + counts * seen * seen
                failed = failed | (alive & told.failed)
                alive = alive & ~(told.done | told.truncated)
                return (after, alive, total, steps + counts, sums, failed), None

            zero, none = jnp.zeros(()), jnp.zeros_like(at.observation)
            begun = at, jnp.asarray(True), zero, zero, (none, none), jnp.asarray(False)
            (_, _, *found), _ = jax.lax.scan(act, begun, length=self.horizon)
            return found

        axes = (0, None, None, 0)
        if choose_backend(self.backend) == "fused":
            return fuse(one, in_axes=axes)
        return jax.jit(jax.vmap(one, axes))

    def init(self, seed: int) -> EvolvingState:
        """Initial state, before the first generation."""
        search = self._search.init(self._origin[0], self.sigma, self.population, seed)
        search = jax.tree.map(jnp.asarray, search)
        size = self.env.observation_size
        seed_of = jnp.asarray(seed, jnp.uint32)
        return EvolvingState(search, Statistics.none(size), seed_of, jnp.zeros((), jnp.int32))

    def update(self, state: EvolvingState) -> tuple[EvolvingState, EvolvingUpdateInfo]:
        """Compute a generation: ask, play, tell."""
        x, search, layers, at = self._asked(state)
        found = self._episodes(layers, state.seen.mean, state.seen.deviation, at)
        return self._told(state, search, x, *found)

    @cached_property
    def _asked(self):
        @jax.jit
        def asked(state: EvolvingState):
            x, search = self._search.ask(state.search)
            layers = jax.vmap(self._origin[1])(
                jnp.repeat(x.astype(self._dtype), self.starts, axis=0)
            )
            seed = state.seed + state.updates.astype(jnp.uint32) * np.uint32(7919)
            own = member_keys(0, self.starts) ^ seed  # the same starts for all networks
            at = jax.vmap(self.env.reset)(jnp.tile(own, self.population))
            return x, search, layers, at

        return asked

    @cached_property
    def _told(self):
        @jax.jit
        def told(state, search, x, total, steps, sums, failed):
            returns = jnp.mean(total.reshape(self.population, self.starts), axis=1)
            search = self._search.tell(search, x, -returns)
            count = jnp.sum(steps)
            mean = jnp.sum(sums[0], axis=0) / count
            spread = jnp.sum(sums[1], axis=0) / count - mean * mean
            seen = state.seen.joined(count, mean, count * jnp.maximum(spread, 0.0))
            after = EvolvingState(search, seen, state.seed, state.updates + 1)
            parts = {"mean return": jnp.mean(returns), "best return": jnp.max(returns)}
            deviation = self._search.sigma(search)
            info = EvolvingUpdateInfo(
                jnp.sum(total) / count, parts, jnp.mean(steps), jnp.sum(failed), deviation
            )
            return after, info

        return told

    def network(self, state: EvolvingState) -> Network:
        """Policy at the mean of the search."""
        flat = self._search.mean(state.search).astype(self._dtype)
        return Network(self._origin[1](flat), state.seen.mean, state.seen.deviation)
