"""How many stand through kicks: a policy in ``stand_policy``, from starts that no learning saw."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from benchmarks._machine import table
from benchmarks._played import network_of, played, share
from optimize.environments.environment import Environment
from optimize.environments.table import environment_of
from optimize.scenarios.find import scenario

SCENARIO, SEED, STARTS = "stand_policy", 7_000_003, 256
SPEEDS = (0.25, 0.5)  # m/s of the whole body, in 0.1 s
SIDES = ("front", "front left", "left", "back left", "back", "back right", "right", "front right")


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
    changed = {"environment.sample": drawn, "environment.trials": STARTS}
    return environment_of(scenario(SCENARIO, changed), SEED)


def stood(env: Environment, policy: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(STARTS,) bool who stands to the end, (STARTS,) when the others fell [s], and (STARTS, n)
    the sides that kicks push to [rad]."""
    assert env.limit is not None
    found = played(
        env, env.limit, STARTS, lambda at: jnp.stack([at.state.time, 1.0 * at.trial]), SEED
    )(network_of(policy, env))
    stands, trial = found.to_the_end, found.first[:, 1].astype(int)
    stood = found.stands.sum(axis=1)  # actions
    last = np.where(stood > 0, found.numbers[np.arange(STARTS), stood - 1, 0], 0.0)
    varied = env.problem.members(np.zeros((1, 0)))[2]
    names = sorted(name for name in varied if name.startswith("forces.direction"))
    sides = np.stack([np.asarray(varied[name])[trial] for name in names], axis=1)
    return stands, last, sides


def kicks_table(policy: Path) -> str:
    """Who stands, by speed; and at 0.5 m/s after kicks to which side they fall."""
    rows, by_side = [], []
    for speed in SPEEDS:
        env = kicked(speed)
        stands, last, sides = stood(env, policy)
        rows.append([f"{speed:g}", share(stands)])
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
