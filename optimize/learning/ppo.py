"""Proximal policy optimisation (J. Schulman et al. 2017) on fused rollouts.

    learner = PPO(env)
    state = learner.init(seed=0)
    for _ in range(100):
        state, info = learner.update(state)
    network = learner.network(state)

A state is a tree of arrays: saved and read again, a run goes on to the same numbers. Advantages are
those of J. Schulman et al. 2016 (lambda returns); where time cut an episode off, the value of its
last state is the critic's. Rewards are scaled by 1 - gamma, so that a value is a mean of rewards,
of their order however far it looks ahead. The learning rate follows the change of the policy
(N. Rudin et al. 2022, Learning to walk in minutes): an update that changes it more than ``change``
reduces the rate.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from controllers.policy.network import Network
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState
from optimize.learning.agent import ActorCritic, Statistics, entropy, log_chance, network_of
from optimize.learning.rollout import Rollout, begin_all, rollouts

SLOWEST, FASTEST = 1e-5, 1e-3  # learning rates


class PPOUpdateInfo(NamedTuple):
    """Statistics of one update, () each; parts by name."""

    reward: Array  # mean of an action
    parts: dict[str, Array]
    length: Array  # mean of the episodes that ended, in actions; NaN where none did
    ended: Array  # episodes
    failed: Array  # of them, by numbers that were not finite
    change: Array  # Kullback-Leibler divergence of the policies before and after
    deviation: Array  # mean of the actions' standard deviations
    rate: Array  # of learning
    which_failed: Array  # (members, T) bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PPOState:
    """State from which an update is computed."""

    params: Any
    optimiser: Any
    seen: Statistics
    members: EnvState
    key: Array  # (2,) uint32 of minibatches
    updates: Array  # () int32
    rate: Array  # () of learning


@dataclass(frozen=True)
class ActionBatch:
    """Training data of single actions, (n, ...) each."""

    observation: Array
    action: Array
    chance: Array
    advantage: Array
    worth: Array


jax.tree_util.register_dataclass(ActionBatch, [*ActionBatch.__annotations__], [])


@dataclass(frozen=True)
class PPO(ActorCritic):
    """Proximal policy optimisation, with its options.

    members: of a batch; length: actions of each in an update; epochs, parts: passes over these, and
    minibatches of each pass. discount, smoothing: gamma and lambda; clip: of the ratio of
    probabilities; spread: weight of the entropy; noise: first deviation of actions.
    """

    env: Environment
    members: int = 256
    length: int = 32
    epochs: int = 4
    parts: int = 4
    discount: float = 0.99
    smoothing: float = 0.95
    clip: float = 0.2
    change: float = 0.01
    spread: float = 0.0
    noise: float = 0.4
    rate: float = 3e-4
    hidden: tuple[int, ...] = (64, 64)
    backend: str = "fused"
    name: str = field(default="ppo", init=False)

    @cached_property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())

    @cached_property
    def run(self):
        """Compiled ``rollouts`` of ``length`` actions."""
        return rollouts(self.env, self.length, self.backend)

    def init(self, seed: int) -> PPOState:
        """Initial state, before the first update."""
        _, params = self._new(seed)
        params = jax.tree.map(jnp.asarray, params)
        return PPOState(
            params=params,
            optimiser=self._optimiser.init(params),
            seen=Statistics.none(self._sizes[0]),
            members=begin_all(self.env, member_keys(seed, self.members)),
            key=jax.random.key_data(jax.random.key(seed)),
            updates=jnp.zeros((), jnp.int32),
            rate=jnp.asarray(self.rate),
        )

    def update(self, state: PPOState) -> tuple[PPOState, PPOUpdateInfo]:
        """Collect a rollout, and learn from it."""
        agent = nnx.merge(self._graph, state.params)
        network = network_of(agent, state.seen)
        members, rollout = self.run(network, agent.log_deviation[...], state.members)
        return self._learn(state, members, rollout)

    def network(self, state: PPOState) -> Network:
        """Policy network: the means of actions."""
        return network_of(nnx.merge(self._graph, state.params), state.seen)

    def log_deviation(self, state: PPOState) -> Array:
        """Log standard deviations (na,) of actions."""
        return state.params["log_deviation"][...]

    @cached_property
    def _learn(self):
        return jax.jit(self._learnt)

    def _learnt(self, state: PPOState, members: EnvState, rollout: Rollout):
        batch = self._judged(state, rollout)
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.updates)
        orders = self._orders(key)

        def one(carry, order):
            params, optimiser, rate = carry
            part = jax.tree.map(lambda x: x[order], batch)
            slope, change = jax.grad(self._loss, has_aux=True)(params, part, state.seen)
            steps, optimiser = self._optimiser.update(slope, optimiser)
            rate = jnp.where(change > 2 * self.change, rate / 1.2, rate)
            rate = jnp.where(change < self.change / 2, rate * 1.2, rate)
            rate = jnp.clip(rate, SLOWEST, FASTEST)
            params = jax.tree.map(lambda p, s: p - rate * s, params, steps)
            return (params, optimiser, rate), change

        first = state.params, state.optimiser, state.rate
        (params, optimiser, rate), changes = jax.lax.scan(one, first, orders)
        seen = state.seen.with_more(rollout.observation.reshape(-1, self._sizes[0]))
        after = PPOState(params, optimiser, seen, members, state.key, state.updates + 1, rate)
        return after, _told(rollout, changes[-1], nnx.merge(self._graph, params), rate)

    def _judged(self, state: PPOState, rollout: Rollout) -> ActionBatch:
        """Advantages and returns of single actions."""
        agent = nnx.merge(self._graph, state.params)
        value = lambda x: agent.critic(state.seen.normalise(x))[..., 0]  # noqa: E731
        now, then = value(rollout.observation), value(rollout.seen)
        reward = (1 - self.discount) * rollout.reward
        advantage = advantages(
            reward, now, then, rollout.done, rollout.truncated, self.discount, self.smoothing
        )
        log_deviation = agent.log_deviation[...]
        mean = agent.actor(state.seen.normalise(rollout.observation))
        batch = ActionBatch(
            observation=rollout.observation,
            action=mean + jnp.exp(log_deviation) * rollout.noise,
            chance=log_chance(rollout.noise, log_deviation),
            advantage=advantage,
            worth=advantage + now,
        )
        return jax.tree.map(lambda x: x.reshape(self.actions, *x.shape[2:]), batch)

    def _loss(self, params: Any, part: ActionBatch, seen: Statistics) -> tuple[Array, Array]:
        """Clipped surrogate with the critic's error, and the policy's change."""
        agent = nnx.merge(self._graph, params)
        x, log_deviation = seen.normalise(part.observation), agent.log_deviation[...]
        noise = (part.action - agent.actor(x)) / jnp.exp(log_deviation)
        ratio = log_chance(noise, log_deviation) - part.chance
        grown = jnp.exp(ratio)
        advantage = part.advantage - jnp.mean(part.advantage)
        advantage = advantage / (jnp.std(advantage) + 1e-6)
        bounded = jnp.clip(grown, 1 - self.clip, 1 + self.clip)
        gain = jnp.mean(jnp.minimum(grown * advantage, bounded * advantage))
        error = jnp.mean(jnp.square(agent.critic(x)[..., 0] - part.worth))
        loss = 0.5 * error - gain - self.spread * entropy(log_deviation)
        return loss, jnp.mean(grown - 1 - ratio)


def advantages(
    reward: Array, now: Array, then: Array, done: Array, truncated: Array, discount, smoothing
) -> Array:
    """Lambda-weighted advantages (members, T).

    now, then: values of the states before and after each action. Nothing follows where an episode
    is done; where time cut it off its last state counts, and no action after it.
    """
    surprise = reward + discount * jnp.where(done, 0.0, then) - now
    goes_on = jnp.where(done | truncated, 0.0, discount * smoothing)

    def back(later, both):
        surprise, goes_on = both
        later = surprise + goes_on * later
        return later, later

    found = jax.lax.scan(back, jnp.zeros_like(now[:, 0]), (surprise.T, goes_on.T), reverse=True)
    return found[1].T


def _told(rollout: Rollout, change: Array, agent: Any, rate: Array) -> PPOUpdateInfo:
    ended = rollout.done | rollout.truncated
    count = jnp.sum(ended)
    return PPOUpdateInfo(
        reward=jnp.mean(rollout.reward),
        parts=jax.tree.map(jnp.mean, rollout.parts),
        length=jnp.sum(jnp.where(ended, rollout.steps, 0)) / jnp.where(count, count, jnp.nan),
        ended=count,
        failed=jnp.sum(rollout.failed),
        change=change,
        deviation=jnp.mean(jnp.exp(agent.log_deviation[...])),
        rate=rate,
        which_failed=rollout.failed,
    )
