"""Policies played in their environments from starts that no learning saw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import table
from controllers.policy.file import read_policy
from controllers.policy.network import Network
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState
from optimize.environments.table import environment_of
from optimize.learning.rollout import begin_all
from optimize.results.intervals import wilson
from optimize.scenarios.find import scenario

JUDGED = 7_000_001  # seed of starts


@dataclass(frozen=True)
class Played:
    """Of members and actions: (m, T) bool whether it stands yet, (m, T, k) numbers of the states
    after the actions, (m, k) of the first ones."""

    stands: np.ndarray
    numbers: np.ndarray
    first: np.ndarray

    @property
    def to_the_end(self) -> np.ndarray:
        """(m,) bool."""
        return self.stands[:, -1]


def network_of(path: Path, env: Environment) -> Network:
    """That of a file, for the environment's character."""
    own = env.problem.scenario
    return read_policy(path).controller(own.model, own.state).network


def played(
    env: Environment,
    actions: int,
    members: int,
    numbers: Callable[[EnvState], jax.Array],
    seed: int = JUDGED,
) -> Callable[[Network], Played]:
    """What plays an episode of each member by a network, without noise: so many actions, and
    nothing begins anew. numbers: (k,) of a state."""

    def one(network, at):
        def act(carry, _):
            at, stands = carry
            at, told = env.step(at, network(at.observation))
            stands = stands & ~told.done
            return (at, stands), (stands, numbers(at))

        return jax.lax.scan(act, (at, jnp.asarray(True)), length=actions)[1]

    run = fuse(one, in_axes=(None, 0))
    at = begin_all(env, member_keys(seed, members))
    first = np.asarray(jax.vmap(numbers)(at))

    def of(network: Network) -> Played:
        stands, found = map(np.asarray, run(network, at))
        return Played(stands, found, first)

    return of


def share(good: np.ndarray) -> str:
    """How many of all, with the interval."""
    low, high = wilson(int(good.sum()), len(good))
    return f"{int(good.sum())} of {len(good)} ({low:.0%} to {high:.0%})"


def commanded(name: str, command: Mapping[str, float], changes: Mapping[str, Any]) -> Environment:
    """A scenario's environment where all are asked for the same."""
    whole = {key: [value, value] for key, value in command.items()}
    return environment_of(scenario(name, {"environment.command": whole, **changes}), JUDGED)


def speeds_table(name: str, policy: Path, speeds: list[float], seconds: float, starts: int) -> str:
    """Ways of who is told to go at a speed, in the direction that it faces at the start."""
    rows = []
    for speed in speeds:
        given = scenario(name).environment
        assert given is not None
        asked = {k: float(np.mean(v)) for k, v in given.values()["command"].items()}
        changes = {"environment.seconds": seconds, "environment.trials": starts}
        env = commanded(name, {**asked, "speed": speed}, changes)
        run = played(env, round(seconds / env.dt), starts, lambda at: at.com)
        found = run(network_of(policy, env))
        way = found.numbers[:, -1] - found.first
        half = found.numbers.shape[1] // 2
        late = (found.numbers[:, -1] - found.numbers[:, half]) / (seconds / 2)
        on = found.to_the_end
        rows.append([
            f"{speed:g}", share(on), f"{np.mean(late[on, 0]):.2f} ± {np.std(late[on, 0]):.2f}",
            f"{np.median(way[on, 0]):.1f}", f"{np.median(np.abs(way[on, 1])):.2f}",
        ])  # fmt: skip
        print(*rows[-1], flush=True)
    return table(
        ["told [m/s]", f"on its feet after {seconds:g} s", "goes [m/s]", "ahead [m]", "aside [m]"],
        rows,
    )


def reach_table(name: str, policy: Path, starts: int) -> str:
    """How far the hand is from places drawn anew, in the last second."""
    env = environment_of(scenario(name, {"environment.trials": starts}), JUDGED)
    assert env.limit is not None
    place = list(env.observation).index("to_reach")
    assert place == len(env.observation) - 1  # the last three numbers
    run = played(env, env.limit, starts, lambda at: at.observation[-3:])
    found = run(network_of(policy, env))
    last = round(1.0 / env.dt)
    apart = np.linalg.norm(found.numbers[:, -last:], axis=-1).mean(axis=1)
    begun = np.linalg.norm(found.first, axis=-1)
    on = found.to_the_end
    quarters = np.quantile(apart[on], (0.25, 0.5, 0.75, 0.95)) * 1000
    row = [
        share(on), f"{np.median(begun) * 1000:.0f}",
        *(f"{x:.0f}" for x in quarters), share(on & (apart < 0.1)),
    ]  # fmt: skip
    header = ["stand", "at first: median [mm]", "25%", "median [mm]", "75%", "95%", "within 0.1 m"]
    return table(header, [row])


def clip_table(
    name: str, policy: Path, starts: int, seconds: float, changes: Mapping[str, Any]
) -> str:
    """How far links are from where the clip has them: from the root, and in the world."""
    changes = {"environment.trials": starts, "environment.seconds": seconds, **changes}
    env = environment_of(scenario(name, changes), JUDGED)
    model, track = env.model, env.track
    assert track is not None
    root = model.topology.part("pelvis")
    own = np.array(model.topology.main_links)

    def apart(at: EnvState) -> jax.Array:
        zero = jnp.zeros_like(at.state.qd)
        here = forward_kinematics(model, at.state.q, zero).link_pos
        there = forward_kinematics(model, track.at(model, at.state.time), zero).link_pos
        off = (here - there)[own]
        from_root = off - (here - there)[root]
        mean = lambda x: jnp.mean(jnp.sqrt(jnp.sum(x * x, axis=-1) + 1e-12))  # noqa: E731
        return jnp.stack([mean(from_root), mean(off)])

    found = played(env, round(seconds / env.dt), starts, apart)(network_of(policy, env))
    on = found.to_the_end
    error = found.numbers.mean(axis=1)[on] * 1000
    last = found.numbers[on, -1, 1] * 1000
    row = [
        share(on), f"{error[:, 0].mean():.1f} ± {error[:, 0].std():.1f}",
        f"{error[:, 1].mean():.0f}", f"{np.median(last):.0f}",
    ]  # fmt: skip
    return table(
        [f"followed for {seconds:g} s", "error [mm]", "in the world [mm]", "there at the end [mm]"],
        [row],
    )
