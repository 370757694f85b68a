"""Evaluate agents in an environment: mean reward of the zero, a random or a trained agent."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.policy.file import PolicyError, read_policy
from controllers.policy.network import Network
from controllers.pose.pd import PoseController
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.table import environment_of
from optimize.learning.evaluation import STILL
from optimize.learning.learn import with_policy
from optimize.learning.rollout import begin_all, rollouts
from optimize.running.simulate import simulate, write_simulation
from optimize.scenarios.scenario import Scenario

LENGTH = 25  # actions of a rollout
RANDOM = 0.5  # deviation of a random agent's actions


def agent_of(agent: str, scenario: Scenario) -> str:
    """Check an agent's name or file.

    Raises ValueError for what is neither, or is of another scenario.
    """
    if agent in ("zero", "random"):
        return agent
    if not Path(agent).is_file():
        raise ValueError(f"--agent {agent}: choose zero, random, or a policy's file; there is none")
    learned = read_policy(agent).about["scenario"]
    if Path(learned).stem != Path(scenario.name).stem:
        raise PolicyError(
            f"{agent} was learned in {learned!r}, this is {scenario.name!r}; to see what it does"
            " here all the same, make it the controller: jaxsim simulate"
            f" {scenario.name} --set controller.name=policy --set controller.file={agent}"
        )
    return agent


def try_agent(
    scenario: Scenario, agent: str, seconds: float, members: int, seed: int, backend: str
) -> dict[str, Any]:
    """Sizes, mean rewards and episodes of an agent in the environment, by name."""
    env = environment_of(scenario, seed)
    network, deviation = _network(env, agent)
    run = rollouts(env, LENGTH, backend)
    at = begin_all(env, member_keys(seed, members))
    at, _ = run(network, deviation, at)  # compiles
    at = begin_all(env, member_keys(seed, members))
    count, records = -(-round(seconds / env.dt) // LENGTH), []
    began = time.perf_counter()
    for _ in range(count):
        at, record = run(network, deviation, at)
        records.append(jax.tree.map(np.asarray, record))
    took = time.perf_counter() - began
    all_of = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *records)
    ended = all_of.done | all_of.truncated
    lengths = all_of.steps[ended] * env.dt
    return {
        "observed": env.observation_size,
        "actions": env.action_size,
        "actions a second": 1 / env.dt,
        "steps of an action": env.every,
        "reward of an action": float(all_of.reward.mean()),
        **{f"  {name}": float(part.mean()) for name, part in all_of.parts.items()},
        "episodes that ended": int(ended.sum()),
        "by a fall or the like": int(all_of.done.sum()),
        "episodes that were not finite": int(all_of.failed.sum()),
        "mean length of them [s]": float(lengths.mean()) if len(lengths) else "none ended",
        "steps a second": members * count * LENGTH * env.every / took,
    }


def _network(env: Environment, agent: str) -> tuple[Network, Any]:
    """Policy network, and the logarithms of its actions' deviations."""
    size, dtype = (env.observation_size, env.action_size), env.model.mass.dtype
    if agent in ("zero", "random"):
        layers = ((jnp.zeros(size, dtype), jnp.zeros(size[1], dtype)),)
        network = Network(layers, jnp.zeros(size[0], dtype), jnp.ones(size[0], dtype))
        log = np.log(RANDOM) if agent == "random" else STILL
        return network, jnp.full(size[1], log, dtype)
    controller = read_policy(agent).controller(env.model, env.problem.scenario.state)
    if controller.network.mean.shape != size[:1] or controller.observation != env.observation:
        raise PolicyError(
            f"{agent} observes {', '.join(map(str, controller.observation))}; here it is"
            f" {', '.join(map(str, env.observation))}"
        )
    controller.check(env.model)
    return controller.network, jnp.full(size[1], STILL, dtype)


def write_page(scenario: Scenario, agent: str, seconds: float, out: str) -> None:
    """Simulate one character without noise, and write its page; a random agent holds the pose."""
    if agent in ("zero", "random"):
        own = dataclasses.replace(scenario, controller=PoseController(scenario.state.q), phases=())
    else:
        own = with_policy(scenario, agent)
    write_simulation(out, simulate(own, seconds=seconds), with_files=False)
