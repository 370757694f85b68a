"""How far walls of random holds are climbed, and why the climbs end.

    python benchmarks/climbing.py                          the adult on 256 walls, 5 m up
    python benchmarks/climbing.py --scenario NAME          any scenario of one wall
    python benchmarks/climbing.py --keep runs/climbing     go on where a stopped run was
    python benchmarks/climbing.py --stances                what the starts take of the torque limits
    python benchmarks/climbing.py --stances --depths 0.28 0.2    the same, so far out from the holds
    python benchmarks/climbing.py --moves                  moves by tables alone, nothing simulated
    python benchmarks/climbing.py --gap 2.1 3.3            no holds so high on the right half
    python benchmarks/climbing.py --quick                  to see that it runs

Each wall is the scenario's with a seed of its own, from ``--first`` on; the seeds that the
controller was made with are not among these. One program runs ``--batch`` walls at a time; with
``--keep`` what these came to is written to a folder after each second of climbing, and a run of the
same commit goes on from there, for longer than before if ``--seconds`` says so.
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

from benchmarks import _moves, _stances
from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.goals.registered_climb import DEPTH_AT_START, set_out
from jaxsim.fused import fuse
from jaxsim.fused.fuse import BACKENDS
from jaxsim.io.climbing_wall import climbing_wall
from jaxsim.io.toml_table import Table
from optimize.results.intervals import wilson
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.session import session

EVERY = 100  # frames of a call
GAVE_UP = 2.0  # who has no move for so long has stopped [s]
STUCK = 15.0  # and so has who gains no hold for so long [s]
ENDS = ("got there", "no hold in reach", "limbs did not get to their holds", "time was up")
HEAD = ["scenario", "walls", *ENDS, "got there, 95% of the share"]
HEAD += ["way, median and range [m]", "time of those, median [s]", "holds gained"]
HEAD += ["moves taken back", "walls", "way before and after, median [m]"]
HEAD += ["frames not solved", "kept still", "effort, median"]
HEAD += ["trunk in the wall: frames", "walls", "frames/s"]
TRUNK = ("pelvis", "chest", "head")
AWAY = 100.0  # holds that are left out are so far below [m]
INSIDE = 0.1  # a joint of the trunk so far behind the holds is in the wall [m]


def walls(
    made: Scenario,
    seeds: range,
    depth: float = DEPTH_AT_START,
    gap: tuple[float, float] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Of the scenario with other seeds: places of its shapes, starts, where climbs begin, and which
    have a start; depth: of the centre of mass from the holds, in heights of it; gap: from where to
    where the right half has no holds [m]."""
    (keys,) = tomllib.loads(made.files["scenario.toml"])["wall"]
    now = made.controller.variables
    holds = np.array(made.scheme.holds.shapes)
    drawn = []
    for seed in seeds:
        _, points = climbing_wall(Table("wall", "[[wall]]", {**keys, "seed": seed}), 0.8)
        drawn.append([hold.shape.pos for hold in points])
    pos = np.array(drawn)
    if gap is not None:
        left, up = np.moveaxis((pos - np.asarray(now.origin)) @ np.asarray(now.frame)[:2].T, -1, 0)
        within = (left < 0) & (up > gap[0]) & (up < gap[1])
        pos = pos - np.where(within, AWAY, 0.0)[..., None] * np.asarray(now.frame)[1]
    pos = jnp.asarray(pos, made.model.mass.dtype)

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


def program(made: Scenario, backend: str) -> tuple[Any, Any]:
    """(first, some): the state and memory that climbs begin with, and ``EVERY`` frames of them."""

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
            way = (obs.com @ went.frame[:2].T) @ went.way
            ended = info.status != 0, info.lost, info.effort
            kept = way, went.found, went.moves, went.returns, *ended, off
            return (state, memory), kept

        return jax.lax.scan(step, carry, None, length=EVERY)

    return jax.jit(jax.vmap(first)), fuse(some) if backend == "fused" else jax.jit(jax.vmap(some))


def told(kept: Any) -> dict[str, np.ndarray]:
    """Of each wall (n,), what the frames of a call came to."""
    way, found, moves, returns, failed, lost, effort, off = map(np.asarray, kept)
    return {
        "begun": way[:, 0],
        "way": way.max(axis=1),
        "found": found.any(axis=1),
        "moves": moves[:, -1],
        "returns": returns[:, -1],
        "failed": failed.sum(axis=1),
        "lost": lost.sum(axis=1),
        "effort": np.median(effort, axis=1),
        "within": (off < -INSIDE).mean(axis=1),
    }


def outcome(calls: dict[str, np.ndarray], every: float, goal: float) -> dict[str, np.ndarray]:
    """Of each wall of a batch: how far it was climbed, and how that ended, index into ``ENDS``;
    calls: (calls, n) of ``told``, one for each ``every`` seconds."""
    gone = np.maximum.accumulate(calls["way"] - calls["begun"][0])
    moves, found = calls["moves"], calls["found"]
    stuck = moves[-1] == moves[-1 - min(round(STUCK / every), len(moves) - 1)]
    end = np.where(stuck, 2, 3)
    end = np.where(found[-max(round(GAVE_UP / every), 1) :].any(axis=0), end, 1)
    there = gone[-1] >= goal
    return {
        "gone": gone[-1],
        "end": np.where(there, 0, end),
        "after": np.where(there, every * (1 + np.argmax(gone >= goal, axis=0)), np.nan),
        "moves": moves[-1],
        "returns": calls["returns"][-1],
        "before": gone[np.argmax(calls["returns"] > 0, axis=0), np.arange(len(end))],
        "failed": calls["failed"].sum(axis=0),
        "lost": calls["lost"].sum(axis=0),
        "effort": np.median(calls["effort"], axis=0),
        "within": calls["within"].mean(axis=0),
    }


def climbs(made: Scenario, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """By wall, what ``outcome`` tells; whether it had a start, and seconds and frames of calls."""
    first, some = program(made, options.backend)
    parts: list[dict[str, np.ndarray]] = []
    for at in range(0, options.walls, options.batch):
        parts.append(batch_of(made, first, some, options, at))
        joined = {key: np.concatenate([p[key] for p in parts]) for key in parts[0]}
        print(f"{len(joined['gone'])} walls: {row(options, joined)}", file=sys.stderr, flush=True)
    return {key: np.concatenate([p[key] for p in parts])[: options.walls] for key in parts[0]}


def batch_of(made: Scenario, first: Any, some: Any, options: argparse.Namespace, at: int):
    """The same of one batch, gone on with from where it was left; its file is written anew after
    each call."""
    every = EVERY * float(made.scheme.dt)
    path, count = kept_in(options, at), -(-round(options.seconds / float(made.scheme.dt)) // EVERY)
    seeds = range(options.first + at, options.first + at + options.batch)
    shapes, state, climb, good = walls(made, seeds, gap=options.gap)
    leaves, tree = jax.tree.flatten(first(shapes, climb, state))
    calls: dict[str, np.ndarray] = {}
    if path is not None and path.exists():
        with np.load(path) as file:
            calls = {key: file[key][:count] for key in file.files if not key.startswith("carry")}
            leaves = [file[f"carry{k}"] for k in range(len(leaves))]
    # by NumPy, so that no dtype is weak and the second call is the same program
    carry = jax.tree.unflatten(tree, [jnp.asarray(np.asarray(x)) for x in leaves])
    for k in range(len(calls.get("way", ())), count):
        begun = time.perf_counter()
        carry, kept = some(shapes, climb, carry)
        now = told(kept) | {"seconds": np.full(len(seeds), time.perf_counter() - begun)}
        calls = {key: np.stack([*calls.get(key, ()), x]) for key, x in now.items()}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            leaves = {f"carry{k}": np.asarray(x) for k, x in enumerate(jax.tree.leaves(carry))}
            written = path.with_name(f"new-{path.name}")
            np.savez(written, **calls, **leaves)
            written.replace(path)
        so_far = outcome(calls, every, options.goal)
        print(
            f"walls {at} on: {k + 1} of {count} calls, {now['seconds'][0]:.1f} s; "
            f"{np.median(so_far['gone']):.2f} m, {(so_far['end'] == 0).sum()} there",
            file=sys.stderr,
            flush=True,
        )
    after = calls["seconds"][min(1, count - 1) :]  # the first call may compile
    return outcome(calls, every, options.goal) | {
        "good": np.asarray(good),
        "seconds": after.sum(axis=0) / len(seeds),
        "frames": np.full(len(seeds), EVERY * len(after)),
        "steps": np.full(len(seeds), EVERY * count),
    }


def kept_in(options: argparse.Namespace, at: int) -> Path | None:
    """The file of a batch; by all that it depends on but the length, the commit among it."""
    if options.keep is None:
        return None
    what = (options.scenario, options.first + at, options.batch, options.backend)
    what += () if options.gap is None else ("gap", *options.gap)
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
        f"{np.nanmedian(found['after']):.0f}" if counts[0] else "",
        f"{np.median(moves):.0f}, {moves.min()} to {moves.max()}",
        str(found["returns"].sum()),
        str(int((back := found["returns"] > 0).sum())),
        f"{np.median(found['before'][back]):.1f}, {np.median(gone[back]):.1f}"
        if back.any()
        else "",
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
    parser.add_argument("--moves", action="store_true", help="by tables alone, nothing moves")
    parser.add_argument("--fails", type=float, default=0.0, help="chance that one of these does")
    parser.add_argument(
        "--gap", type=float, nargs=2, help="from where to where the right half has no holds [m]"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where batches are kept")
    parser.add_argument("--backend", choices=BACKENDS, default="fused")
    parser.add_argument("--goal", type=float, default=5.0, help="how far [m]")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="two walls, two seconds")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.walls, options.batch, options.seconds, options.backend = 2, 2, 2.0, "xla"
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
        elif options.moves:
            seeds = range(options.first, options.first + options.walls)
            shapes, _, climb, good = walls(made, seeds, gap=options.gap)
            holds = shapes[:, np.array(made.scheme.holds.shapes)]
            rows = _moves.rows(holds, climb, good, options.goal, options.fails)
            what, body = f"{options.goal:g} m, moves alone", [table(_moves.HEAD, rows)]
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
