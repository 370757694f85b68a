"""Environments beside the bare engine, and the policy that learns to walk.

    python benchmarks/environments.py [--scenario NAME]     speed at 256 characters
    python benchmarks/environments.py --walk 0,1,2,3,4 --out runs/walk    learn, for each seed
    python benchmarks/environments.py --judge runs/walk     20 m, in unseen starts
    python benchmarks/environments.py --brax 0,1            PPO here beside brax's, for each seed
    python benchmarks/environments.py --kicks POLICY        kicks that stand_policy stands through
    python benchmarks/environments.py --speeds 0.5,1,1.3 --scenario walk_space_policy --policy FILE
    python benchmarks/environments.py --reach --scenario reach_policy --policy FILE
    python benchmarks/environments.py --clip --scenario follow_policy --policy FILE

Speed: steps of the simulation a second of all characters. The bare engine holds the same actions
from the same states, and observes, decides and rewards nothing; an environment with a network of
64-64 does all of it, and begins episodes anew, in one kernel. Both are timed in turn; processor
time is that of all threads.

--brax: both learners have the same options and members; returns are of whole episodes without
noise, of the policy as it then is, in 256 starts that neither has learned from.
"""

import argparse
import json
import time
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._kicks import kicks_table
from benchmarks._machine import commit, machine, si, table, today, versions
from benchmarks._played import (
    JUDGED,
    clip_table,
    network_of,
    played,
    reach_table,
    share,
    speeds_table,
)
from jaxsim import enable_cache
from jaxsim.fused import fuse
from jaxsim.simulation.rollout import advance
from optimize.environments.environment import Environment
from optimize.environments.records import HeldAction
from optimize.environments.table import environment_of
from optimize.learning.learn import learn
from optimize.learning.ppo import PPO
from optimize.scenarios.find import scenario

SCENARIO, MEMBERS, LENGTH, ROUNDS = "walk_policy", 256, 32, 15
FAR, SECONDS, STARTS = 20.0, 40.0, 64  # m; of a walk; walks that judge a policy


class Speed:
    """One environment, and the engine alone."""

    def __init__(self, env: Environment):
        self.env, self.learner = env, PPO(env, members=MEMBERS, length=LENGTH)
        self.state = self.learner.init(0)
        self.network = self.learner.network(self.state)
        self.noise = self.learner.log_deviation(self.state)

    @cached_property
    def bare(self):
        """States after the same actions (T, na) of each."""
        own = self.env.problem.scenario

        def one(state, actions):
            def act(state, action):
                held = HeldAction(
                    action, jnp.asarray(self.env.rest), self.env.track, self.env.action
                )

                def step(state, _):
                    return advance(own.model, held, own.scheme, state, None)[0], None

                return jax.lax.scan(step, state, length=self.env.every)[0], None

            return jax.lax.scan(act, state, actions)[0]

        return fuse(one)

    def timed(self, function) -> tuple[float, float]:
        """Seconds by the clock and of the processor."""
        clock, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        return time.perf_counter() - clock, time.process_time() - used

    def rates(self) -> dict[str, tuple[float, float]]:
        """Name -> steps a second, and a second of the processor; medians of both in turn."""
        at = self.state.members
        steps = MEMBERS * LENGTH * self.env.every
        found: dict[str, list] = {"bare": [], "environment": []}
        for _ in range(ROUNDS + 1):
            after, told = self.learner.run(self.network, self.noise, at)
            actions = jnp.exp(self.noise) * told.noise
            found["environment"].append(
                self.timed(lambda: self.learner.run(self.network, self.noise, at))  # noqa: B023
            )
            found["bare"].append(self.timed(lambda: self.bare(at.state, actions)))  # noqa: B023
            at = after
        return {name: tuple(steps / np.median(times[1:], axis=0)) for name, times in found.items()}


def speed(name: str) -> str:
    """The table."""
    rates = Speed(environment_of(scenario(name))).rates()
    rows = [
        [
            name,
            si(clock),
            si(used),
            f"{clock / rates['bare'][0]:.0%}",
            f"{used / rates['bare'][1]:.0%}",
        ]
        for name, (clock, used) in rates.items()
    ]
    costs = "steps/s", "steps a processor second", "of bare", "of bare, by the processor"
    header = [f"{MEMBERS} in {name}", *costs]
    return table(header, rows)


def walk(seeds: list[int], out: Path, updates: int) -> None:
    """Learn with each seed."""
    for seed in seeds:
        found = learn(SCENARIO, out / f"seed_{seed}", updates=updates, seed=seed)
        print(f"seed {seed}: {found.worth:.4g}", flush=True)


def walked(policies: list[Path]) -> np.ndarray:
    """(policies, STARTS) how far each walks before it falls, or in ``SECONDS`` [m]."""
    env = environment_of(scenario(SCENARIO), JUDGED)
    run = played(env, round(SECONDS / env.dt), STARTS, lambda at: at.com[:1])
    ways = []
    for path in policies:
        found = run(network_of(path, env))
        stood = found.stands.sum(axis=1)
        last = found.numbers[np.arange(STARTS), np.maximum(stood, 1) - 1, 0]
        ways.append(np.where(stood > 0, last - found.first[:, 0], 0.0))
    return np.stack(ways)


def judge(out: Path) -> str:
    """What became of each seed."""
    policies = sorted(out.glob("seed_*/policy.npz"))
    rows = []
    for path, far in zip(policies, walked(policies)):
        lines = [json.loads(x) for x in (path.parent / "history.jsonl").read_text().splitlines()]
        rows.append([
            path.parent.name, f"{lines[-1]['actions'] / 1e6:.2f} M", f"{lines[-1]['seconds']:.0f}",
            f"{lines[-1]['cpu_seconds']:.0f}", f"{np.median(far):.1f}",
            share(far >= FAR),
        ])  # fmt: skip
    header = ["run", "actions", "seconds", "processor seconds", "median way [m]", f"{FAR:g} m"]
    return table(header, rows)


def beside_brax(seeds: list[int], updates: int, checks: int) -> str:
    """Returns of both learners at the same numbers of actions."""
    from benchmarks._brax_ppo import STARTS, Race

    rows = []
    for seed in seeds:
        found = {
            "here": Race(SCENARIO, seed, updates, checks).ours(),
            "brax": Race(SCENARIO, seed, updates, checks).theirs(),
        }
        rows += [
            [
                str(seed), f"{here['actions'] / 1e6:.2f} M",
                *(
                    text
                    for line in (here, brax)
                    for text in (
                        f"{line['return']:.0f} ± {1.96 * line['error']:.0f}",
                        f"{line['whole']} of {STARTS}", f"{line['cpu_seconds']:.0f}",
                    )
                ),
            ]
            for here, brax in zip(found["here"], found["brax"], strict=True)
        ]  # fmt: skip
    header = ["seed", "actions"]
    for name in ("here", "brax"):
        header += [f"return, {name}", "whole episodes", "processor seconds"]
    return table(header, rows)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walk", help="seeds, as 0,1,2")
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--brax", help="seeds, as 0,1")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--checks", type=int, default=4, help="of --brax, equally far apart")
    parser.add_argument("--out", type=Path, default=Path("runs/walk"))
    parser.add_argument("--kicks", type=Path, help="a policy, for its kicks")
    parser.add_argument("--speeds", help="that are commanded, as 0.5,1")
    parser.add_argument("--reach", action="store_true", help="how far the hand is from its place")
    parser.add_argument("--clip", action="store_true", help="how well it is followed")
    parser.add_argument("--scenario", default=SCENARIO, help="of these three, and of speed")
    parser.add_argument("--policy", type=Path, help="of these three")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--seconds", type=float, default=20.0, help="of --speeds and --clip")
    parser.add_argument("--starts", type=int, default=64, help="of these three")
    args = parser.parse_args()
    enable_cache()
    if args.walk:
        walk([int(seed) for seed in args.walk.split(",")], args.out, args.updates)
    if args.kicks:
        print(kicks_table(args.kicks))
    elif args.speeds:
        speeds = [float(speed) for speed in args.speeds.split(",")]
        print(speeds_table(args.scenario, args.policy, speeds, args.seconds, args.starts))
    elif args.reach:
        print(reach_table(args.scenario, args.policy, args.starts))
    elif args.clip:
        changes = dict(pair.split("=", 1) for pair in args.set)
        print(clip_table(args.scenario, args.policy, args.starts, args.seconds, changes))
    elif args.brax:
        seeds = [int(seed) for seed in args.brax.split(",")]
        print(beside_brax(seeds, args.updates, args.checks))
    elif args.walk or args.judge:
        print(judge(args.judge or args.out))
    else:
        print(speed(args.scenario))
    print(f"\n{today()}, {machine()}, {versions(jax)}, commit {commit()}")


if __name__ == "__main__":
    main()
