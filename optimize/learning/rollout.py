"""Rollouts of a policy with automatic reset: a batch is one fused kernel."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.network import Network
from jaxsim.fused import choose_backend, fuse
from optimize.environments.draws import hash_bits, normal
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState

NOISE = 0x6A09E667  # makes the keys of noise from those of members


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rollout:
    """Record of a rollout of T actions, (members, T, ...) each."""

    observation: Array  # (no,) that an action was chosen by
    noise: Array  # (na,) of it, in standard deviations
    seen: Array  # (no,) that it led to
    reward: Array
    parts: dict[str, Array]
    done: Array  # bool
    truncated: Array  # bool
    failed: Array  # bool
    steps: Array  # int32 of the episode


def rollouts(env: Environment, length: int, backend: str = "fused") -> Callable[..., Any]:
    """Compile ``run(network, log_deviation (na,), states)`` -> states, Rollout.

    It plays ``length`` actions of each member of a batch, with noise from the members' keys.
    backend: "fused", one kernel, or "xla"; they agree to rounding.
    """

    def one(network: Network, log_deviation: Array, at: EnvState) -> tuple[EnvState, Rollout]:
        deviation = jnp.exp(log_deviation)

        def act(at, _):
            noise = noise_of(env, at, deviation.dtype)
            action = network(at.observation) + deviation * noise
            after, outcome = env.step_on(count_noise(at), action)
            record = Rollout(
                at.observation,
                noise,
                outcome.observation,
                outcome.reward,
                dict(outcome.parts),
                outcome.done,
                outcome.truncated,
                outcome.failed,
                at.steps + 1,
            )
            return after, record

        return jax.lax.scan(act, at, length=length)

    if choose_backend(backend) == "fused":
        return fuse(one, in_axes=(None, None, 0))
    return jax.jit(jax.vmap(one, (None, None, 0)))


def noise_of(env: Environment, at: EnvState, dtype: Any) -> Array:
    """Noise (na,) of the next action, in standard deviations."""
    return normal(hash_bits(at.key ^ np.uint32(NOISE)), at.count, env.action_size, dtype)


def count_noise(at: EnvState) -> EnvState:
    """State after the sampling of a noise."""
    return replace(at, count=at.count + np.uint32(1))


def begin_all(env: Environment, keys: Array) -> EnvState:
    """Initial states of a batch of members, by their keys (members,) uint32."""
    return jax.jit(jax.vmap(env.reset))(keys)
