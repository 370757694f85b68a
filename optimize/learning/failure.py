"""What led a member to numbers that are none, in a file from which it is played again.

q, qd, time, action     (T, ...) states since the rollout began, and what was done there; the last
                        action led to it
begun.PATH              the whole state (EnvState) when the rollout began
model.NAME              the numbers of the model
seed, update, member, step, trial; faults: what was not finite (Environment.faults)
"""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.network import Network
from jaxsim.fused import fuse
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.tree_paths import leaves_by_path
from optimize.environments.draws import mixed, normal
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState, Step
from optimize.learning.rollout import NOISE


def write_failure(
    folder: str | os.PathLike,
    env: Environment,
    network: Network,
    log_deviation: Array,
    before: EnvState,
    failed: np.ndarray,
    seed: int,
    update: int,
    backend: str = "fused",
) -> tuple[Path, dict[str, Any]]:
    """Keep what led the first member to numbers that are not finite as failure_UPDATE.npz; the
    file, and its numbers and faults.

    before: states of all members at the beginning of the rollout; failed: (members, T) bool.
    """
    member = int(np.argmax(failed.any(axis=1)))
    step = int(np.argmax(failed[member]))
    begun = jax.tree.map(lambda x: x[member], before)
    decide = jax.jit(lambda at: _decided(env, network, log_deviation, at))
    states, actions = _played(env, begun, step + 1, lambda k, at: decide(at), backend)[:2]
    last = jax.jit(env.faults)(states[-1], actions[-1])
    about = {"seed": seed, "update": update, "member": member, "step": step,
             "trial": int(states[-1].trial),
             "faults": [name for name, wrong in last.items() if wrong]}  # fmt: skip
    held = {
        **{name: [getattr(at.state, name) for at in states] for name in ("q", "qd", "time")},
        "action": actions,
        **{f"begun.{name}": leaf for name, leaf in leaves_by_path(begun).items()},
        **{f"model.{name}": leaf for name, leaf in leaves_by_path(env.model).items()},
    }
    data, path = io.BytesIO(), Path(folder) / f"failure_{update}.npz"
    arrays = {name: np.asarray(value) for name, value in {**held, **about}.items()}
    np.savez(data, **arrays)  # type: ignore[arg-type]
    write_bytes(path, data.getvalue())
    return path, about


def replayed(
    env: Environment, path: str | os.PathLike, backend: str = "fused"
) -> tuple[list[EnvState], list[Step]]:
    """The states of a failure's file before each of its actions, and what these led to, simulated
    anew; env: the environment of the run, ``environment_of(scenario(NAME), seed)``.

    Raises FileNotFoundError, ArchiveError for a damaged file, ValueError for one of another
    environment.
    """
    held = read_arrays(path)
    like = jax.eval_shape(env.reset, jax.ShapeDtypeStruct((), jnp.uint32))
    names = [f"begun.{name}" for name in leaves_by_path(like)]
    own, tree = jax.tree.flatten(like)
    found = [held.get(name) for name in names]
    if [x.shape for x in own] != [None if x is None else x.shape for x in found]:
        raise ValueError(f"{path} is of another environment: its states are others")
    begun = jax.tree.unflatten(tree, [jnp.asarray(x) for x in found])
    actions = jnp.asarray(held["action"])
    states, _, told = _played(env, begun, len(actions), lambda k, at: actions[k], backend)
    return states, told


def _played(
    env: Environment,
    at: EnvState,
    count: int,
    decide: Callable[[int, EnvState], Array],
    backend: str,
) -> tuple[list[EnvState], list[Array], list[Step]]:
    """States before actions, the actions, what they led to; a kernel for one does as for many."""

    def one(at: EnvState, action: Array):
        return env.step_on(replace(at, count=at.count + np.uint32(1)), action)

    run = fuse(one, backend=backend)
    states, actions, told = [], [], []
    for k in range(count):
        action = decide(k, at)
        states.append(at)
        actions.append(action)
        batch = jax.tree.map(lambda x: x[None], (at, action))
        at, found = jax.tree.map(lambda x: x[0], run(*batch))
        told.append(found)
    return states, actions, told


def _decided(env: Environment, network: Network, log_deviation: Array, at: EnvState) -> Array:
    """The action of a rollout."""
    noise = normal(mixed(at.key ^ np.uint32(NOISE)), at.count, env.action_size, log_deviation.dtype)
    return network(at.observation) + jnp.exp(log_deviation) * noise
