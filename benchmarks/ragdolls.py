"""Random falls of a human: what stays within its bounds, and what does not.

    python benchmarks/ragdolls.py                    256 falls of 10 s each; hours on two cores
    python benchmarks/ragdolls.py --grounds boxes --steps 4 --members 64
    python benchmarks/ragdolls.py --character planar --grounds flat --steps 2 1 --seconds 2
        --self-collision no --members 3000 --chunk 3000 --backend fused --seed 0
                                                     3000 falls of the planar human
    python benchmarks/ragdolls.py --record           and append the table to benchmarks/RESULTS.md
    python benchmarks/ragdolls.py --keep runs/falls  go on where a stopped run of this commit was
    python benchmarks/ragdolls.py --quick            two minutes, to see that it runs

See docs/explanation/robustness.md and benchmarks/README.md.
"""

import argparse
import shlex
import sys
import time as clock
from pathlib import Path

import jax
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from benchmarks._ragdolls import CHARACTERS, GROUNDS, Limp, falls, measures, ragdoll
from jaxsim.model import Model, State
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.session import cores, session

HEADER = ["ground", "self", "step [ms]", "sweeps", "falls", "not finite"]
HEADER += ["beyond a limit [deg]", "over 1 deg", "depth settled [mm]", "over 5 mm"]
HEADER += ["energy risen [J]", "energy without cause [J]", "of the start [%]", "over 1%", "over 2%"]
HEADER += ["named", "by the sweeps [J]", "of recovery [J]"]
HEADER += ["residual, worst", "mean", "steps over 0.1 [%]"]
HEADER += ["left out", "fastest joint, settled [rad/s]", "seconds"]


def simulate(model: Model, config: TimeStepping, options, name: str) -> dict[str, np.ndarray]:
    """The measures of every fall, ``options.chunk`` at a time."""
    steps = round(options.seconds / config.dt)
    states = falls(model, options.members, options.seed)

    @jax.jit
    @jax.vmap
    def run(state):
        found = rollout(
            model,
            Limp(),
            state,
            config,
            steps,
            measures=measures(config, options.seconds),
            backend=options.backend,
        )
        return {**found.measures, "finite": found.finite, "status": found.health.status}

    # the last chunk is filled up, so that all have one shape
    indices = np.arange(-(-options.members // options.chunk) * options.chunk)
    chunks = np.minimum(indices, options.members - 1).reshape(-1, options.chunk)
    parts = []
    for number, index in enumerate(chunks):
        kept = _kept(options, name, number)
        part = _load(kept)
        if part is None:
            began = clock.perf_counter()
            part = jax.device_get(run(_members(states, index)))
            part["seconds"] = np.full(len(index), (clock.perf_counter() - began) / len(index))
            _save(kept, part)
        parts.append(part)
        so_far = summary(_joined(parts, options.members), options.seconds)
        print(f"{name}: {np.sum(part['seconds']):.0f} s, {so_far}", flush=True)
    return _joined(parts, options.members)


def _kept(options, name: str, number: int) -> Path | None:
    """The file of a chunk's measures; by all that they depend on, the commit among it."""
    if options.keep is None:
        return None
    what = [
        options.character,
        options.order,
        options.bounded_move,
        name,
        options.members,
        options.chunk,
        options.seconds,
        options.seed,
    ]
    words = [str(x) for x in (*what, options.precision, options.backend, commit(), number)]
    return options.keep / ("-".join(words).replace(", ", "-").replace(" ", "_") + ".npz")


def _load(path: Path | None) -> dict | None:
    if path is None or not path.exists():
        return None
    with np.load(path) as file:
        part = {name: file[name] for name in file.files}
    return {**part, **{name: tuple(part[name]) for name in ("energy", "of_sweeps", "raw")}}


def _save(path: Path | None, part: dict) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **part)


def _members(states: State, index: np.ndarray) -> State:
    return jax.tree.map(lambda x: x[index], states)


def _joined(parts, most: int):
    return jax.tree.map(lambda *x: np.concatenate(x)[:most], *parts)


def summary(found, seconds: float) -> dict[str, str]:
    """The cells of a row, by name."""
    beyond, depth = np.rad2deg(found["beyond"]), 1e3 * found["depth"]
    work, _, rise = found["energy"]
    gained = 100 * rise / found["first_energy"]
    return {
        "falls": str(len(beyond)),
        "not finite": str(int(np.sum(~found["finite"]))),
        "beyond a limit [deg]": _spread(beyond),
        "over 1 deg": str(int(np.sum(beyond > 1))),
        "depth settled [mm]": _spread(depth),
        "over 5 mm": str(int(np.sum(depth > 5))),
        "energy risen [J]": _spread(found["raw"][1]),
        "energy without cause [J]": _spread(rise),
        "of the start [%]": _spread(gained),
        "over 1%": str(int(np.sum(gained > 1))),
        "over 2%": str(int(np.sum(gained > 2))),
        "named": str(int(np.sum(found["status"] != 0))),
        "by the sweeps [J]": _spread(found["of_sweeps"][2]),
        "of recovery [J]": _spread(work),
        "residual, worst": f"{found['residual'].max():.2g}",
        "mean": f"{found['residual_sum'].mean() / seconds:.2g}",
        "steps over 0.1 [%]": f"{100 * found['unsolved'].mean() / seconds:.2g}",
        "left out": f"{found['dropped_contacts'].max():.0f}",
        "fastest joint, settled [rad/s]": _spread(found["speed"]),
        "seconds": f"{found['seconds'].sum():.0f}",
    }


def _spread(values: np.ndarray) -> str:
    """Median, 95th of a hundred, and the worst."""
    return " / ".join(f"{x:.2g}" for x in np.quantile(values, (0.5, 0.95, 1.0)))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--grounds", nargs="+", choices=GROUNDS, default=["boxes", "rough"])
    parser.add_argument("--character", choices=CHARACTERS, default="space")
    parser.add_argument("--steps", nargs="+", type=float, default=[1.0, 4.0], help="[ms]")
    standard = TimeStepping()
    parser.add_argument("--sweeps", nargs="+", type=int, default=[standard.sweeps], help="at least")
    parser.add_argument("--most-sweeps", type=int, default=standard.most_sweeps)
    parser.add_argument("--order", type=int, choices=(1, 2), help="see TimeStepping")
    parser.add_argument(
        "--bounded-move", action=argparse.BooleanOptionalAction, default=standard.bounded_move
    )
    parser.add_argument("--bounded-start", action="store_true", help="see TimeStepping")
    parser.add_argument("--members", type=int, default=256, help="falls in each run")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each fall")
    parser.add_argument("--self-collision", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--backend", choices=("xla", "fused"), default="xla")
    parser.add_argument("--chunk", type=int, default=32, help="falls in one batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is done of a run")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="a few falls of half a second")
    options = parser.parse_args(words)
    if options.quick:
        options.grounds, options.steps, options.sweeps = ["boxes"], [4.0], [8]
        options.members, options.chunk, options.seconds = 8, 8, 0.5
        options.self_collision = "no"
    options.words = words
    return options


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    options = parse(words)
    own = {"no": (False,), "yes": (True,), "both": (False, True)}[options.self_collision]
    rows = []
    with session("cpu", options.precision, cpu_devices=cores()):
        for ground, collide in [(g, c) for g in options.grounds for c in own]:
            model = ragdoll(ground, collide, options.character)
            for dt, sweeps in [(d, s) for d in options.steps for s in options.sweeps]:
                config = TimeStepping(
                    dt=dt / 1e3,
                    sweeps=sweeps,
                    most_sweeps=options.most_sweeps,
                    bounded_start=options.bounded_start,
                    order=options.order,
                    bounded_move=options.bounded_move,
                )
                most = max(sweeps, options.most_sweeps)
                passes = f"{sweeps} to {most}" if most > sweeps else str(sweeps)
                known = [ground, "yes" if collide else "no", f"{dt:g}", passes]
                found = simulate(model, config, options, ", ".join(known))
                cells = summary(found, options.seconds)
                rows.append(known + [cells[name] for name in HEADER[len(known) :]])
    text = "\n\n".join(
        [
            f"## Random falls, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; {options.precision}, {options.backend}, "
            f"{options.seconds:g} s each; median / 95% / worst",
            f"`{shlex.join(['python', 'benchmarks/ragdolls.py', *options.words])}`",
            table(HEADER, rows) + "\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
