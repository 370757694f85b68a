"""How far walls of random holds are climbed, and why the climbs end.

    python benchmarks/climbing.py                          the adult on 256 walls, 5 m up
    python benchmarks/climbing.py --scenario NAME          any scenario of one wall
    python benchmarks/climbing.py --quick                  to see that it runs

Each wall is the scenario's with a seed of its own, from ``--first`` on; the seeds that the
controller was made with are not among these. One program runs ``--batch`` walls at a time, by XLA.
See benchmarks/README.md.
"""

import argparse
import shlex
import sys
import time
import tomllib
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.goals.registered_climb import set_out
from jaxsim.io.climbing_wall import climbing_wall
from jaxsim.io.toml_table import Table
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.session import session

EVERY = 100  # frames of a call
GAVE_UP = 2.0  # who has no move for so long has stopped [s]
ENDS = ("got there", "no hold in reach", "on its way when time was up")
HEAD = ["scenario", "walls", *ENDS, "height, median and range [m]", "holds gained"]
HEAD += ["frames not solved", "kept still", "largest effort", "frames/s"]


def walls(made: Scenario, seeds: range) -> tuple[Any, Any, Any]:
    """Of the scenario with other seeds: places of its shapes, starts, and where climbs begin."""
    (keys,) = tomllib.loads(made.files["scenario.toml"])["wall"]
    now = made.controller.variables
    holds = np.array(made.scheme.holds.shapes)
    drawn = []
    for seed in seeds:
        _, points = climbing_wall(Table("wall", "[[wall]]", {**keys, "seed": seed}), 0.8)
        drawn.append([hold.shape.pos for hold in points])
    pos = jnp.asarray(drawn, made.model.mass.dtype)

    @jax.jit
    @jax.vmap
    def begun(pos):
        """The pose of the scenario's own start is where inverse kinematics begins."""
        q, climb, slack, away = set_out(
            made.model,
            made.scheme.effectors,
            now.limbs,
            made.state.q,
            pos,
            now.frame,
            now.origin,
            now.way,
        )
        good = (slack > 0) & (away < made.scheme.holds.reach[0]).all()
        return made.model.shape_pos.at[holds].set(pos), made.state.replace(q=q), climb, good

    return begun(pos)


def program(made: Scenario):
    """(first, some): the state and memory that a climb begins with, and ``EVERY`` frames of it."""

    def on(shapes, climb):
        model = replace(made.model, shape_pos=shapes)
        return model, replace(made.controller, variables=climb)

    def first(shapes, climb, state):
        model, controller = on(shapes, climb)
        state = made.scheme.init(model, state)
        return state, controller.init(model, state, made.scheme.observe(model, state))

    def some(shapes, climb, carry):
        model, controller = on(shapes, climb)

        def step(carry, _):
            state, memory = carry
            obs = made.scheme.observe(model, state)
            memory, tasks = controller.update(memory, model, state, obs, made.scheme.dt)
            state, info = made.scheme.step(model, state, obs, tasks)
            went = memory.variables
            kept = obs.com, went.found, went.moves, info.status != 0, info.lost, info.effort
            return (state, memory), kept

        return jax.lax.scan(step, carry, None, length=EVERY)

    return jax.jit(jax.vmap(first)), jax.jit(jax.vmap(some))


def climbs(made: Scenario, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """A row of the table, and of each wall who did not get there: seed, height, why."""
    shapes, state, climb, good = walls(made, range(options.first, options.first + options.walls))
    first, some = program(made)
    calls = -(-round(options.seconds / float(made.scheme.dt)) // EVERY)
    found, took, frames = [], 0.0, 0
    for at in range(0, options.walls, options.batch):
        own = jax.tree.map(lambda x, at=at: x[at : at + options.batch], (shapes, climb, state))
        carry, kept = first(*own), []
        for k in range(calls):
            begun = time.perf_counter()
            carry, more = some(*own[:2], carry)
            kept.append(jax.tree.map(np.asarray, more))
            if k:  # the first call of all compiles
                took += time.perf_counter() - begun
                frames += len(more[0]) * EVERY
            print(f"walls {at} on: {k + 1} of {calls}", file=sys.stderr, flush=True)
        found.append(jax.tree.map(lambda *x: np.concatenate(x, axis=1), *kept))
    com, move, moves, failed, lost, effort = jax.tree.map(lambda *x: np.concatenate(x), *found)
    frame = np.asarray(climb.frame)
    way = np.einsum("nk,nkd->nd", np.asarray(climb.way), frame[:, :2])
    gone = np.einsum("ntd,nd->nt", com - com[:, :1], way)
    last = round(GAVE_UP / float(made.scheme.dt))
    why = np.where(move[:, -last:].any(axis=1), ENDS[2], ENDS[1])
    why = np.where(gone.max(axis=1) >= options.goal, ENDS[0], why)
    bad = [
        f"seed {options.first + k}: {gone[k].max():.2f} m, {why[k]}"
        for k in np.flatnonzero(why != ENDS[0])
    ]
    best = gone.max(axis=1)
    row = [
        options.scenario,
        f"{len(best)}, of which {int((~np.asarray(good)).sum())} without a start in reach",
        *(str(int((why == end).sum())) for end in ENDS),
        f"{np.median(best):.1f}, {best.min():.1f} to {best.max():.1f}",
        f"{np.median(moves[:, -1]):.0f}, {moves[:, -1].min()} to {moves[:, -1].max()}",
        f"{failed.sum()} of {failed.size}",
        f"{lost.sum()}",
        f"{np.median(effort.max(axis=1)):.2f}",
        f"{frames / took:.0f}" if took else "",
    ]
    return row, bad


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="climb")
    parser.add_argument("--walls", type=int, default=256)
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--batch", type=int, default=32, help="walls at a time")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--goal", type=float, default=5.0, help="how far [m]")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="two walls, two seconds")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.walls, options.batch, options.seconds = 2, 2, 2.0
    return options


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    options = parse(words)
    with session(options.device, "float32"):
        row, bad = climbs(scenario(options.scenario), options)
        text = "\n\n".join(
            [
                f"## Climbing, {today()}, {machine()}",
                f"commit {commit()}; {versions(jax)}; float32; {options.goal:g} m within"
                f" {options.seconds:g} s",
                f"`{shlex.join(['python', 'benchmarks/climbing.py', *options.words])}`",
                table(HEAD, [row]),
                "\n".join(bad) + "\n",
            ]
        )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
