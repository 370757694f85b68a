"""How far walls of random holds are climbed, and why the climbs end.

    python benchmarks/climbing.py                          the adult on 256 walls, 5 m up
    python benchmarks/climbing.py --scenario NAME          any scenario of one wall
    python benchmarks/climbing.py --keep runs/climbing     go on where a stopped run was
    python benchmarks/climbing.py --stances                what the starts take of the torque limits
    python benchmarks/climbing.py --stances --depths 0.28 0.2    the same, so far out from the holds
    python benchmarks/climbing.py --quick                  to see that it runs

Each wall is the scenario's with a seed of its own, from ``--first`` on; the seeds that the
controller was made with are not among these. One program runs ``--batch`` walls at a time, by XLA;
with ``--keep`` what these came to is written to a folder, and not computed again by this commit.
See benchmarks/README.md.
"""

import argparse
import shlex
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import _stances
from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.goals.registered_climb import DEPTH_AT_START, set_out
from jaxsim.io.climbing_wall import climbing_wall
from jaxsim.io.toml_table import Table
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.session import session
from optimize.studies.intervals import wilson

EVERY = 100  # frames of a call
GAVE_UP = 2.0  # who has no move for so long has stopped [s]
STUCK = 15.0  # and so has who gains no hold for so long [s]
ENDS = ("got there", "no hold in reach", "limbs did not get to their holds", "time was up")
HEAD = ["scenario", "walls", *ENDS, "got there, 95% of the share"]
HEAD += ["way, median and range [m]", "holds gained"]
HEAD += ["frames not solved", "kept still", "effort, median"]
HEAD += ["trunk in the wall: frames", "walls", "frames/s"]
TRUNK = ("pelvis", "chest", "head")
INSIDE = 0.1  # a joint of the trunk so far behind the holds is in the wall [m]


def walls(made: Scenario, seeds: range, depth: float = DEPTH_AT_START) -> tuple[Any, Any, Any, Any]:
    """Of the scenario with other seeds: places of its shapes, starts, where climbs begin, and which
    have a start; depth: of the centre of mass from the holds, in heights of it."""
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
            depth=depth,
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
            trunk = obs.kin.link_pos[np.array([model.topology.part(name) for name in TRUNK])]
            off = jnp.min((trunk - went.origin) @ went.frame[2])
            kept = obs.com, went.found, went.moves, info.status != 0, info.lost, info.effort, off
            return (state, memory), kept

        return jax.lax.scan(step, carry, None, length=EVERY)

    return jax.jit(jax.vmap(first)), jax.jit(jax.vmap(some))


def outcome(made: Scenario, climb: Any, kept: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Of each wall of a batch: how far it was climbed, and how that ended, index into ``ENDS``."""
    com, move, moves, failed, lost, effort, off = kept
    frame, dt = np.asarray(climb.frame), float(made.scheme.dt)
    way = np.einsum("nk,nkd->nd", np.asarray(climb.way), frame[:, :2])
    gone = np.einsum("ntd,nd->nt", com - com[:, :1], way).max(axis=1)
    stuck = moves[:, -1] == moves[:, -1 - min(round(STUCK / dt), moves.shape[1] - 1)]
    end = np.where(stuck, 2, 3)
    end = np.where(move[:, -round(GAVE_UP / dt) :].any(axis=1), end, 1)
    return {
        "gone": gone,
        "end": np.where(gone >= options.goal, 0, end),
        "moves": moves[:, -1],
        "failed": failed.sum(axis=1),
        "lost": lost.sum(axis=1),
        "effort": np.median(effort, axis=1),
        "within": (off < -INSIDE).mean(axis=1),
    }


def climbs(made: Scenario, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """By wall, what ``outcome`` tells; whether it had a start, and seconds and frames of calls."""
    first, some = program(made)
    calls, found = -(-round(options.seconds / float(made.scheme.dt)) // EVERY), []
    joined: dict[str, np.ndarray] = {}
    for at in range(0, options.walls, options.batch):
        path = kept_in(options, at)
        if path is None or not path.exists():
            seeds = range(options.first + at, options.first + at + options.batch)
            shapes, state, climb, good = walls(made, seeds)
            carry, kept, took = first(shapes, climb, state), [], []
            for k in range(calls):
                begun = time.perf_counter()
                carry, more = some(shapes, climb, carry)
                kept.append(jax.tree.map(np.asarray, more))
                took.append(time.perf_counter() - begun)
                print(f"walls {at} on: {k + 1} of {calls}", file=sys.stderr, flush=True)
            kept = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *kept)
            part = outcome(made, climb, kept, options) | {"good": np.asarray(good)}
            # the first call may compile
            part["seconds"] = np.full(len(seeds), np.sum(took[1:]) / len(seeds))
            part["frames"] = np.full(len(seeds), EVERY * (calls - 1))
            part["steps"] = np.full(len(seeds), EVERY * calls)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez(path, **part)
        else:
            with np.load(path) as file:
                part = dict(file)
        found.append(part)
        joined = {key: np.concatenate([p[key] for p in found]) for key in part}
        print(f"{len(joined['gone'])} walls: {row(options, joined)}", file=sys.stderr, flush=True)
    return {key: value[: options.walls] for key, value in joined.items()}


def kept_in(options: argparse.Namespace, at: int) -> Path | None:
    """The file of a batch; by all that it depends on, the commit among it."""
    if options.keep is None:
        return None
    what = (options.scenario, options.first + at, options.batch, options.seconds, options.goal)
    words = [str(word) for word in (*what, commit())]
    return options.keep / ("-".join(words).replace(" ", "_").replace("/", "_") + ".npz")


def row(options: argparse.Namespace, found: dict[str, np.ndarray]) -> list[str]:
    """Of the table."""
    gone, end, moves, seconds = (found[key] for key in ("gone", "end", "moves", "seconds"))
    counts = [int((end == k).sum()) for k in range(len(ENDS))]
    low, high = wilson(counts[0], len(gone))
    total = found["frames"].sum()
    return [
        options.scenario,
        f"{len(gone)}, of which {int((~found['good']).sum())} without a start in reach",
        *map(str, counts),
        f"{100 * low:.0f}% to {100 * high:.0f}%",
        f"{np.median(gone):.1f}, {gone.min():.1f} to {gone.max():.1f}",
        f"{np.median(moves):.0f}, {moves.min()} to {moves.max()}",
        f"{found['failed'].sum()} of {found['steps'].sum()}",
        f"{found['lost'].sum()}",
        f"{np.median(found['effort']):.2f}",
        f"{100 * found['within'].mean():.1f}%",
        str(int((found["within"] > 0).sum())),
        f"{total / seconds.sum():.0f}" if total else "",
    ]


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="climb")
    parser.add_argument("--walls", type=int, default=256)
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--batch", type=int, default=32, help="walls at a time")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--stances", action="store_true", help="the starts alone, nothing moves")
    parser.add_argument(
        "--depths", type=float, nargs="+", default=[DEPTH_AT_START], help="of stances [heights]"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="what batches came to")
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
        made = scenario(options.scenario)
        if options.stances:
            seeds = range(options.first, options.first + options.walls)
            rows = [
                [f"{depth:g}", *cells]
                for depth in options.depths
                for cells in _stances.stances(made, walls(made, seeds, depth))
            ]
            what, body = "starts", [table(["out from the holds", *_stances.HEAD], rows)]
        else:
            what = f"{options.goal:g} m within {options.seconds:g} s"
            found = climbs(made, options)
            others = [
                f"seed {options.first + k}: {found['gone'][k]:.2f} m, {ENDS[end]}"
                for k, end in enumerate(found["end"])
                if end
            ]
            body = [table(HEAD, [row(options, found)]), "\n".join(others)]
        text = "\n\n".join(
            [
                f"## Climbing, {today()}, {machine()}",
                f"commit {commit()}; {versions(jax)}; float32; {what}",
                f"`{shlex.join(['python', 'benchmarks/climbing.py', *options.words])}`",
                *body,
            ]
        )
    return publish(text + "\n", options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
