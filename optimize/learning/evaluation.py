"""Evaluation of a policy without noise."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from controllers.policy.network import Network
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.learning.rollout import begin_all

STILL = -1e9  # logarithm of a deviation that is none


@dataclass(frozen=True)
class PolicyEvaluation:
    """First episodes of the members, (members,) each."""

    returns: np.ndarray  # sum of the rewards
    length: np.ndarray  # actions
    whole: np.ndarray  # bool: it lasted as long as it could


def evaluate_policy(
    env: Environment, run: Any, network: Network, members: int, length: int, seed: int
):
    """Play an episode of each of ``members``; run: of ``rollouts``, ``length`` actions a call."""
    at = begin_all(env, member_keys(seed, members))
    limit = env.limit or 1000
    still = jnp.full(env.action_size, STILL, at.observation.dtype)
    returns, lasted = np.zeros(members), np.zeros(members, int)
    goes_on, whole = np.ones(members, bool), np.zeros(members, bool)
    for _ in range(-(-limit // length)):
        at, found = run(network, still, at)
        reward, done, late = map(np.asarray, (found.reward, found.done, found.truncated))
        for t in range(length):
            returns += np.where(goes_on, reward[:, t], 0.0)
            lasted += goes_on
            whole |= goes_on & (late[:, t] | (lasted >= limit)) & ~done[:, t]
            goes_on &= ~(done[:, t] | late[:, t]) & (lasted < limit)
        if not goes_on.any():
            break
    return PolicyEvaluation(returns, lasted, whole)
