"""brax's own PPO in an environment, beside the one of ``optimize.learning``: both with the options
of the latter, both judged without noise in the same starts, which neither has learned from."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.fused import fuse
from optimize.environments.brax import BraxEnv, training
from optimize.environments.environment import Environment
from optimize.environments.table import environment_of
from optimize.learning.evaluation import PolicyEvaluation, evaluate_policy
from optimize.learning.ppo import FASTEST, PPO, SLOWEST
from optimize.scenarios.find import scenario

UNSEEN = 7_000_001  # seed of the starts, and of who begins in which, that judge
STARTS, LENGTH = 256, 25  # members that judge, and actions between looks whether one goes on


@dataclass
class Race:
    """One learner in a scenario, from a seed; ``found`` has an entry for each check.

    updates: in all; checks: at how many of them, equally far apart, the policy is judged.
    """

    name: str
    seed: int
    updates: int
    checks: int = 4
    found: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        self.env = environment_of(scenario(self.name), self.seed)
        self.learner = PPO(self.env)
        self.every = self.updates // self.checks
        self.spent = self.now = (0.0, 0.0)

    @cached_property
    def unseen(self) -> Environment:
        """The same with other starts."""
        return environment_of(scenario(self.name), UNSEEN)

    def ours(self) -> list[dict[str, Any]]:
        """Learn with PPO as it is here."""
        run = self._played(lambda network, seen: jax.vmap(network)(seen))
        state, self.now = self.learner.init(self.seed), _clocks()
        for k in range(self.updates):
            state, told = self.learner.update(state)
            if (k + 1) % self.every == 0:
                jax.block_until_ready(told)
                self._check((k + 1) * self.learner.actions, run, self.learner.network(state))
        return self.found

    def theirs(self) -> list[dict[str, Any]]:
        """Learn with brax's."""
        training()
        from brax.training.agents.ppo import train

        self.now = _clocks()
        runs: list[Callable] = []

        def told(actions: int, make_policy: Callable, params: Any) -> None:
            def decide(params: Any, seen: jax.Array) -> jax.Array:
                return make_policy(params, deterministic=True)(seen, jax.random.key(0))[0]

            if actions:
                runs[:] = runs or [self._played(decide)]
                self._check(actions, runs[0], params)

        train.train(
            environment=BraxEnv(self.env),
            num_timesteps=self.updates * self.learner.actions,
            num_evals=self.checks + 1,
            run_evals=False,
            policy_params_fn=told,
            seed=self.seed,
            **options(self.learner),
        )
        return self.found

    def _played(self, decide: Callable[[Any, jax.Array], jax.Array]) -> Callable:
        """Of parameters and what a batch sees, its actions: what ``judged`` takes for a run. It has
        no new beginnings, so that its kernel is that of brax's training."""
        step = fuse(self.unseen.step)

        @jax.jit
        def run(params: Any, noise: Any, at: Any):
            at, found = jax.lax.scan(
                lambda at, _: step(at, decide(params, at.observation)), at, length=LENGTH
            )
            return at, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), found)

        return run

    def _check(self, actions: int, run: Callable, network: Any) -> None:
        """Judge, with the clocks stopped."""
        self.spent = tuple(s + b - a for s, a, b in zip(self.spent, self.now, _clocks()))
        what: PolicyEvaluation = evaluate_policy(self.unseen, run, network, STARTS, LENGTH, UNSEEN)
        line = {
            "seed": self.seed, "actions": actions, "seconds": self.spent[0],
            "cpu_seconds": self.spent[1], "return": float(what.returns.mean()),
            "error": float(np.std(what.returns) / STARTS**0.5), "whole": int(what.whole.sum()),
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        self.found.append(line)
        self.now = _clocks()


def options(learner: PPO) -> dict[str, Any]:
    """What brax's trainer is to be told so that it learns as a learner does; it has no bound of the
    normalised observations, and changes the rate of learning by 1.5 where ours does by 1.2."""
    from brax.training.agents.ppo import networks

    orthogonal = jax.nn.initializers.orthogonal
    return {
        "num_envs": learner.members,
        "episode_length": learner.env.limit,
        "unroll_length": learner.length,
        "batch_size": learner.members // learner.parts,
        "num_minibatches": learner.parts,
        "num_updates_per_batch": learner.epochs,
        "discounting": learner.discount,
        "reward_scaling": 1 - learner.discount,
        "gae_lambda": learner.smoothing,
        "clipping_epsilon": learner.clip,
        "entropy_cost": learner.spread,
        "learning_rate": learner.rate,
        "learning_rate_schedule": "ADAPTIVE_KL",
        "desired_kl": learner.change,
        "learning_rate_schedule_min_lr": SLOWEST,
        "learning_rate_schedule_max_lr": FASTEST,
        "max_grad_norm": 1.0,
        "normalize_observations": True,
        "network_factory": partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=learner.hidden,
            value_hidden_layer_sizes=learner.hidden,
            activation=jnp.tanh,
            distribution_type="normal",
            noise_std_type="log",
            init_noise_std=learner.noise,
            policy_network_kernel_init_fn=orthogonal,
            policy_network_kernel_init_kwargs={"scale": 2.0**0.5},
            mean_kernel_init_fn=orthogonal,
            mean_kernel_init_kwargs={"scale": 0.01},
        ),
    }


def _clocks() -> tuple[float, float]:
    """By the clock, and of the processor, all threads [s]."""
    return time.perf_counter(), time.process_time()
