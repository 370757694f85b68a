"""Short-horizon actor-critic with gradients through the simulation.

J. Xu et al. 2022, Accelerated Policy Learning with Parallel Differentiable Simulation: the actor
follows the derivative of the rewards in a short window of actions, through the simulation, and of
the critic's value at its end.

    learner = SHAC(env)
    state = learner.init(seed=0)
    state, info = learner.update(state)

Rewards are scaled by 1 - gamma, as in ``optimize.learning.ppo``. Going back from action to
action the derivatives by a member's state and by its action are clipped to ``steepest``, and left
out where they are not finite: a member whose contacts amplify them does not decide for the others.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from controllers.policy.network import Network
from jaxsim.fused import choose_backend
from jaxsim.fused.fuse import fuse_one
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState, EnvStep
from optimize.learning.agent import ActorCritic, Statistics, network_of
from optimize.learning.ppo import advantages
from optimize.learning.rollout import begin_all, rollouts


class SHACUpdateInfo(NamedTuple):
    """Statistics of one update, () each; parts by name."""

    reward: Array  # mean of an action
    parts: dict[str, Array]
    length: Array  # mean of the episodes that ended, in actions; NaN where none did
    ended: Array  # episodes
    failed: Array  # of them, by numbers that were not finite
    deviation: Array  # mean of the actions' standard deviations
    slope: Array  # norm of the actor's derivative
    error: Array  # root of the critic's mean square error, in rewards of an action


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SHACState:
    """State from which an update is computed."""

    params: Any
    followed: Any  # params whose critic judges, which follow
    optimisers: tuple[Any, Any]
    seen: Statistics
    members: EnvState
    key: Array  # (2,) uint32 of noise and minibatches
    updates: Array  # () int32


class Window(NamedTuple):
    """Record of a window of actions, (T, members, ...) each."""

    observation: Array
    steps: Array  # () of the episode
    told: EnvStep


@dataclass(frozen=True)
class SHAC(ActorCritic):
    """Short-horizon actor-critic, with its options.

    members: of a batch; length: actions of a window; discount, smoothing: gamma, and lambda of what
    the critic learns; rate: of the actor's learning, critic_rate: of the critic's; epochs, parts:
    passes of the critic over a window, and minibatches of each; follow: rate at which the target
    critic follows the one that learns; steepest: see above; noise: first deviation of actions.
    """

    env: Environment
    members: int = 64
    length: int = 32
    discount: float = 0.99
    smoothing: float = 0.95
    rate: float = 2e-3
    critic_rate: float = 2e-3
    epochs: int = 4
    parts: int = 4
    follow: float = 0.5
    steepest: float = 10.0
    noise: float = 0.2
    hidden: tuple[int, ...] = (64, 64)
    backend: str = "fused"
    name: str = field(default="shac", init=False)

    @cached_property
    def _optimisers(self) -> tuple[optax.GradientTransformation, ...]:
        """Optimisers of actor and critic: each moves the parameters that its loss depends on."""
        return tuple(
            optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b1=0.7, b2=0.95))
            for rate in (self.rate, self.critic_rate)
        )

    @cached_property
    def run(self):
        """Compiled ``rollouts`` of ``length`` actions."""
        return rollouts(self.env, self.length, self.backend)

    @cached_property
    def _step(self):
        fused = choose_backend(self.backend) == "fused"
        return jax.vmap(fuse_one(self.env.step) if fused else self.env.step)

    def init(self, seed: int) -> SHACState:
        """Initial state, before the first update."""
        params = jax.tree.map(jnp.asarray, self._new(seed)[1])
        return SHACState(
            params=params,
            followed=params,
            optimisers=(self._optimisers[0].init(params), self._optimisers[1].init(params)),
            seen=Statistics.none(self._sizes[0]),
            members=begin_all(self.env, member_keys(seed, self.members)),
            key=jax.random.key_data(jax.random.key(seed)),
            updates=jnp.zeros((), jnp.int32),
        )

    def update(self, state: SHACState) -> tuple[SHACState, SHACUpdateInfo]:
        """Simulate a window, follow its derivative, and train the critic."""
        return self._updated(state)

    def network(self, state: SHACState) -> Network:
        """Policy network: the means of actions."""
        return network_of(nnx.merge(self._graph, state.params), state.seen)

    @cached_property
    def _updated(self):
        return jax.jit(self._update)

    def _update(self, state: SHACState) -> tuple[SHACState, SHACUpdateInfo]:
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.updates)
        noise, order = jax.random.split(key)
        slope, (members, window) = jax.grad(self._loss, has_aux=True)(state.params, state, noise)
        steps, own = self._optimisers[0].update(slope, state.optimisers[0])
        params: Any = optax.apply_updates(state.params, steps)
        params, other, error = self._taught(params, state, window, order)
        followed = jax.tree.map(
            lambda old, new: old + self.follow * (new - old), state.followed, params
        )
        seen = state.seen.with_more(window.observation.reshape(-1, self._sizes[0]))
        after = SHACState(
            params, followed, (own, other), seen, members, state.key, state.updates + 1
        )
        deviation = jnp.mean(jnp.exp(nnx.merge(self._graph, params).log_deviation[...]))
        return after, _told(window, deviation, _norm(slope), error)

    def _loss(self, params: Any, state: SHACState, key: Array):
        """Negative mean return of a window, with the value at its end, over all members."""
        agent, judge = (nnx.merge(self._graph, p) for p in (params, state.followed))
        deviation = jnp.exp(agent.log_deviation[...])
        noise = jax.random.normal(key, (self.length, self.members, self._sizes[1]), deviation.dtype)

        def act(carry, inputs):
            at, weight, total = carry
            noise, last = inputs
            at = _cut(at, self.steepest)
            action = agent.actor(state.seen.normalise(at.observation)) + deviation * noise
            action = _cut(action, self.steepest)
            after, outcome = self._step(at, action)
            ended = outcome.done | outcome.truncated
            worth = judge.critic(state.seen.normalise(outcome.observation))[..., 0]
            worth = jnp.where((ended & ~outcome.done) | (last & ~ended), worth, 0.0)
            earned = (1 - self.discount) * outcome.reward + self.discount * worth
            total = total + jnp.sum(weight * earned)
            weight = jnp.where(ended, 1.0, weight * self.discount)
            record = Window(at.observation, at.steps + 1, outcome)
            return (jax.vmap(self.env.renewed)(after, outcome), weight, total), record

        ones = jnp.ones(self.members, deviation.dtype)
        first = state.members, ones, jnp.zeros((), deviation.dtype)
        lasts = jnp.arange(self.length) == self.length - 1
        (members, _, total), window = jax.lax.scan(act, first, (noise, lasts))
        return -total / self.members, jax.lax.stop_gradient((members, window))

    def _taught(self, params: Any, state: SHACState, window: Window, key: Array):
        """Parameters whose critic is fitted to the lambda returns that the target critic gives."""
        judge, outcome = nnx.merge(self._graph, state.followed), window.told
        observed = state.seen.normalise(window.observation).swapaxes(0, 1)
        now, then = (
            judge.critic(x)[..., 0]
            for x in (observed, state.seen.normalise(outcome.observation).swapaxes(0, 1))
        )
        reward = (1 - self.discount) * outcome.reward.T
        ends = outcome.done.T, outcome.truncated.T
        targets = now + advantages(reward, now, then, *ends, self.discount, self.smoothing)
        flat = observed.reshape(self.actions, -1), targets.reshape(self.actions)
        orders = self._orders(key)

        def error(params, x, targets):
            critic = nnx.merge(self._graph, params).critic
            return jnp.mean(jnp.square(critic(x)[..., 0] - targets))

        def one(carry, order):
            params, optimiser = carry
            found, slope = jax.value_and_grad(error)(params, *(x[order] for x in flat))
            steps, after = self._optimisers[1].update(slope, optimiser)
            return (optax.apply_updates(params, steps), after), found

        begun = params, state.optimisers[1]
        (params, optimiser), errors = jax.lax.scan(one, begun, orders)
        return params, optimiser, jnp.sqrt(errors[-1])


def _norm(tree: Any) -> Array:
    return jnp.sqrt(sum((jnp.sum(x * x) for x in jax.tree.leaves(tree)), start=jnp.zeros(())))


def _told(window: Window, deviation: Array, slope: Array, error: Array) -> SHACUpdateInfo:
    outcome = window.told
    ended = outcome.done | outcome.truncated
    count = jnp.sum(ended)
    return SHACUpdateInfo(
        reward=jnp.mean(outcome.reward),
        parts=jax.tree.map(jnp.mean, dict(outcome.parts)),
        length=jnp.sum(jnp.where(ended, window.steps, 0)) / jnp.where(count, count, jnp.nan),
        ended=count,
        failed=jnp.sum(outcome.failed),
        deviation=deviation,
        slope=slope,
        error=error,
    )


def _cut(at: Any, steepest: float) -> Any:
    """Identity on arrays (members, ...) whose derivative by member is clipped to ``steepest``.

    It is 0 where it is not finite.
    """
    leaves, tree = jax.tree.flatten(at)
    real = [k for k, x in enumerate(leaves) if jnp.issubdtype(x.dtype, jnp.floating)]
    cut: Any = _bounded(steepest, [leaves[k] for k in real])
    for k, x in zip(real, cut):
        leaves[k] = x
    return jax.tree.unflatten(tree, leaves)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _bounded(steepest: float, leaves: list[Array]) -> list[Array]:
    return leaves


def _forward(steepest: float, leaves: list[Array]):
    return leaves, None


def _backward(steepest: float, _: None, slopes: list[Array]):
    flat = [x.reshape(x.shape[0], -1) for x in slopes]
    norm = jnp.sqrt(sum((jnp.sum(jnp.square(x), axis=1) for x in flat), start=jnp.zeros(())))
    scale = jnp.where(norm <= steepest, 1.0, steepest / norm)
    good = jnp.isfinite(norm)

    def scaled(x: Array) -> Array:
        own = (-1, *(1 for _ in x.shape[1:]))
        return jnp.where(good.reshape(own), x * scale.reshape(own), 0.0).astype(x.dtype)

    return ([scaled(x) for x in slopes],)


_bounded.defvjp(_forward, _backward)
