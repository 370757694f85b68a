"""Record of a member's divergence, in a file from which it is replayed.

q, qd, time, action     (T, ...) states since the rollout began, and what was done there; the last
                        action led to it
begun.PATH              the whole state (EnvState) when the rollout began
network.PATH, log_deviation   what decided on the actions
model.NAME              the numbers of the model
seed, update, member, step, trial; faults: what was not finite (Environment.step_with_faults)

A motion with contacts amplifies rounding: the same action from another program, different in its
last bit, leads to another motion within a few actions. So the network decides again, in one kernel
with the simulation, as it did in the rollout; that repeats the rollout to the last bit.
"""

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.network import Network
from jaxsim.fused import choose_backend, fuse
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.tree_paths import leaves_by_path
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState, EnvStep
from optimize.learning.rollout import count_noise, noise_of


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
    """Save the actions of the first member that diverged as failure_UPDATE.npz.

    Returns the file, and its numbers and faults. before: states of all members at the start of the
    rollout; failed: (members, T) bool.
    """
    member = int(np.argmax(failed.any(axis=1)))
    step = int(np.argmax(failed[member]))
    first = jax.tree.map(lambda x: x[member], before)
    played = _played(env, network, log_deviation, first, step + 1, backend)
    states, actions, faults = played.states, played.actions, played.faults[-1]
    about = {"seed": seed, "update": update, "member": member, "step": step,
             "trial": int(states[-1].trial),
             "faults": [name for name, wrong in faults.items() if wrong]}  # fmt: skip
    record = {
        **{name: [getattr(at.state, name) for at in states] for name in ("q", "qd", "time")},
        "action": actions,
        "log_deviation": log_deviation,
        **{f"begun.{name}": leaf for name, leaf in leaves_by_path(first).items()},
        **{f"network.{name}": leaf for name, leaf in leaves_by_path(network).items()},
        **{f"model.{name}": leaf for name, leaf in leaves_by_path(env.model).items()},
    }
    data, path = io.BytesIO(), Path(folder) / f"failure_{update}.npz"
    arrays = {name: np.asarray(value) for name, value in {**record, **about}.items()}
    np.savez(data, **arrays)  # type: ignore[arg-type]
    write_bytes(path, data.getvalue())
    return path, about


def replay_failure(
    env: Environment, path: str | os.PathLike, backend: str = "fused"
) -> tuple[list[EnvState], list[EnvStep]]:
    """Simulate the actions of a failure's file again: states before each, and steps after.

    On the run's own back end and machine the numbers are the same. env: the environment of the run,
    ``environment_of(scenario(NAME), seed)``.

    Raises FileNotFoundError, ArchiveError for a damaged file, ValueError for one of another
    environment.
    """
    record = read_arrays(path, HELD)
    like = jax.eval_shape(env.reset, jax.ShapeDtypeStruct((), jnp.uint32))
    first = _tree(like, "begun", record)
    count = sum(name.startswith("network.layers") for name in record) // 2
    network = Network(((0.0, 0.0),) * count, 0.0, 0.0)
    network = _tree(network, "network", record)
    shapes = {"network.mean": (env.observation_size,), "log_deviation": (env.action_size,)}
    fits = all(name in record and record[name].shape == shape for name, shape in shapes.items())
    if first is None or network is None or not fits or "action" not in record:
        raise ValueError(f"{path} is of another environment: its states are others")
    deviation = jnp.asarray(record["log_deviation"])
    played = _played(env, network, deviation, first, len(record["action"]), backend)
    return played.states, played.told


HELD: dict[str, int] = dict.fromkeys(
    ("begun.*", "network.*", "log_deviation", "action"), 64 * 2**20
)  # bytes


def _tree(like: Any, part: str, record: dict[str, np.ndarray]) -> Any:
    """Arrays of a part of a file, in the structure of a tree; None where they do not fit.

    A leaf of ``like`` that is a number stands for any array.
    """
    leaves, tree = jax.tree.flatten(like)
    arrays = [record.get(f"{part}.{name}") for name in leaves_by_path(like)]
    fits = all(
        x is not None and (isinstance(y, float) or x.shape == y.shape)
        for x, y in zip(arrays, leaves)
    )
    return jax.tree.unflatten(tree, [jnp.asarray(x) for x in arrays]) if fits else None


class _Played(NamedTuple):
    """Replayed actions, with the state before each and the step after it."""

    states: list[EnvState]
    actions: list[Array]
    told: list[EnvStep]
    faults: list[dict[str, Array]]


def _played(
    env: Environment,
    network: Network,
    log_deviation: Array,
    at: EnvState,
    count: int,
    backend: str,
) -> _Played:
    """Simulate ``count`` actions from a state, each by a kernel for one member."""

    def one(network: Network, log_deviation: Array, at: EnvState):
        deviation = jnp.exp(log_deviation)
        action = network(at.observation) + deviation * noise_of(env, at, deviation.dtype)
        after, step, faults = env.step_with_faults(count_noise(at), action)
        return env.renewed(after, step), action, step, faults

    if choose_backend(backend) == "fused":
        run = fuse(one, in_axes=(None, None, 0))
    else:
        run = jax.jit(jax.vmap(one, (None, None, 0)))
    played = _Played([], [], [], [])
    for _ in range(count):
        batch = jax.tree.map(lambda x: x[None], at)
        outcome = jax.tree.map(lambda x: x[0], run(network, log_deviation, batch))
        after, action, step, faults = outcome
        played.states.append(at)
        played.actions.append(action)
        played.told.append(step)
        played.faults.append(faults)
        at = after
    return played
