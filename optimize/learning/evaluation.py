"""What a policy is worth without noise; and what led a member to numbers that are none."""

import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.network import Network
from jaxsim.io.files import write_bytes
from optimize.environments.draws import member_keys, mixed, normal
from optimize.environments.environment import Environment, EnvState
from optimize.learning.rollout import NOISE, begin_all

STILL = -1e9  # logarithm of a deviation that is none


@dataclass(frozen=True)
class Judged:
    """The first episodes of members, (members,) each."""

    returns: np.ndarray  # sum of the rewards
    length: np.ndarray  # actions
    whole: np.ndarray  # bool: it lasted as long as it could


def judged(env: Environment, run: Any, network: Network, members: int, length: int, seed: int):
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
    return Judged(returns, lasted, whole)


def write_failure(
    folder: str | os.PathLike,
    env: Environment,
    network: Network,
    log_deviation: Array,
    before: EnvState,
    failed: np.ndarray,
    seed: int,
    update: int,
) -> tuple[Path, int, int]:
    """Keep what led the first member to numbers that are not finite: its states since the rollout
    began, its actions, and the model, as failure_UPDATE.npz; the file, the member, and the step.

    before: states of all members at the beginning of the rollout; failed: (members, T) bool.
    """
    member = int(np.argmax(failed.any(axis=1)))
    step = int(np.argmax(failed[member]))
    at = jax.tree.map(lambda x: x[member], before)
    act = jax.jit(lambda at: _acted(env, network, log_deviation, at))
    states, actions = [], []
    for _ in range(step + 1):
        states.append(jax.tree.map(np.asarray, (at.state.q, at.state.qd, at.state.time)))
        at, action = act(at)
        actions.append(np.asarray(action))
    q, qd, time = (np.stack(x) for x in zip(*states))
    model = {
        f"model.{name}": np.asarray(value)
        for name, value in vars(env.model).items()
        if isinstance(value, (jax.Array, np.ndarray))
    }
    path = Path(folder) / f"failure_{update}.npz"
    held = {"q": q, "qd": qd, "time": time, "action": np.stack(actions), **model}
    numbers = {"seed": seed, "member": member, "step": step, "trial": int(before.trial[member])}
    data = io.BytesIO()
    np.savez(data, **held, **numbers)  # type: ignore[arg-type]
    write_bytes(path, data.getvalue())
    return path, member, step


def _acted(env: Environment, network: Network, log_deviation: Array, at: EnvState):
    """As in a rollout, and the action."""
    noise = normal(mixed(at.key ^ np.uint32(NOISE)), at.count, env.action_size, log_deviation.dtype)
    action = network(at.observation) + jnp.exp(log_deviation) * noise
    return env.step_on(replace(at, count=at.count + np.uint32(1)), action)[0], action
