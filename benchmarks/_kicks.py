"""How many stand through kicks: a policy in ``stand_policy``, from starts that no learning saw."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import table
from controllers.policy.file import read_policy
from jaxsim.fused import fuse
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment, EnvState
from optimize.environments.table import environment_of
from optimize.learning.rollout import begin_all
from optimize.scenarios.find import scenario
from optimize.studies.intervals import wilson

SCENARIO, SEED, STARTS = "stand_policy", 7_000_003, 256
SPEEDS = (0.25, 0.5)  # m/s of the whole body, in 0.1 s
SIDES = ("front", "front left", "left", "back left", "back", "back right", "right", "front right")


def until_fallen(env: Environment, actions: int, number: Callable[[EnvState], jax.Array]):
    """``run(network, at)`` of a batch: (members,) bool who does not fall in so many actions of an
    episode, and (members,) a number of the last state in which each stood."""

    def one(network, at):
        def act(carry, _):
            at, stands, last = carry
            at, told = env.step(at, network(at.observation))
            stands = stands & ~told.done
            return (at, stands, jnp.where(stands, number(at), last)), None

        begun = at, jnp.asarray(True), number(at)
        return jax.lax.scan(act, begun, length=actions)[0][1:]

    return fuse(one, in_axes=(None, 0))


def kicked(speed: float) -> Environment:
    """The environment with all of its kicks of one strength, from any side."""
    world = scenario(SCENARIO)
    mass, pushes = float(np.sum(np.asarray(world.model.mass))), world.forces
    assert pushes is not None
    force = speed * mass / np.asarray(pushes.duration)
    drawn = {}
    for k, f in enumerate(force):
        drawn[f"forces.force[{k},0]"] = [float(f), float(f)]
        drawn[f"forces.direction[{k}]"] = [0.0, 2 * np.pi]
    changed = {"environment.drawn": drawn, "environment.trials": STARTS}
    return environment_of(scenario(SCENARIO, changed), SEED)


def stood(env: Environment, policy: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(STARTS,) bool who stands to the end, (STARTS,) when the others fell [s], and (STARTS, n)
    the sides that kicks push to [rad]."""
    world = env.problem.scenario
    at = begin_all(env, member_keys(SEED, STARTS))
    assert env.limit is not None
    run = until_fallen(env, env.limit, lambda at: at.state.time)
    network = read_policy(policy).controller(world.model, world.state).network
    stands, last = map(np.asarray, run(network, at))
    varied, trial = env.problem.members(np.zeros((1, 0)))[2], np.asarray(at.trial)
    names = sorted(name for name in varied if name.startswith("forces.direction"))
    sides = np.stack([np.asarray(varied[name])[trial] for name in names], axis=1)
    return stands, last, sides


def kicks_table(policy: Path) -> str:
    """Who stands, by speed; and at 0.5 m/s after kicks to which side they fall."""
    rows, by_side = [], []
    for speed in SPEEDS:
        env = kicked(speed)
        stands, last, sides = stood(env, policy)
        good = int(stands.sum())
        low, high = wilson(good, STARTS)
        rows.append([f"{speed:g}", f"{good} of {STARTS} ({low:.0%} to {high:.0%})"])
        print(*rows[-1], flush=True)
        if speed == 0.5:
            by_side = _by_side(env, stands, last, sides)
    header = ["side", *SIDES]
    return table(["kicks [m/s]", "stand for 10 s"], rows) + "\n\n" + table(header, by_side)


def _by_side(env: Environment, stands, last, sides) -> list[list[str]]:
    """Of the kicks that hit one who stood, how many were stood through."""
    pushes = env.problem.scenario.forces
    assert pushes is not None
    starts = np.asarray(pushes.start)
    side = np.round(sides / (np.pi / 4)).astype(int) % len(SIDES)
    hit = stands[:, None] | (last[:, None] >= starts)
    fatal = ~stands & (np.searchsorted(starts, last, "right") > 0)
    number = np.searchsorted(starts, last, "right") - 1
    cells = []
    for k in range(len(SIDES)):
        met = int((hit & (side == k)).sum())
        fell = int((fatal & (side[np.arange(len(last)), number] == k)).sum())
        cells.append(f"{met - fell} of {met}")
    return [["kicks stood through, at 0.5 m/s", *cells]]
