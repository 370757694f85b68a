"""Push maps of starts of several seeds as one: medians and least pushes with intervals.

    python benchmarks/maps.py                            the adult; an hour and more
    python benchmarks/maps.py --set character.build=child --strongest 400 --out runs/maps_child
    python benchmarks/maps.py --quick                    two starts of two seeds, 2 directions
    python benchmarks/maps.py --forward --directions 4 --starts 8    forward simulation; an hour

Each seed is a map of its own (``jaxsim pushmap``) in a folder under ``--out``; who is interrupted
goes on with the same command. Intervals are 95 %: of the median by bootstrap over all starts, of
the share that survives the asked force (``--asked``) Wilson's. See benchmarks/README.md.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np

from benchmarks._forward import forward_table
from benchmarks._machine import commit, machine, publish, today, versions
from controllers.numbers import read_numbers
from optimize.cli.shared import numbers_option, set_options, settings
from optimize.results.intervals import bootstrap_interval, wilson
from optimize.session import cores, session
from optimize.studies.push_map import push_map
from optimize.studies.push_options import MapOptions
from optimize.studies.push_report import ARRAYS, SIDES

OWN = ("seed", "chunk", "backend")  # options that may differ


def tolerated(folders: Sequence[Path], asked: MapOptions) -> tuple[dict, np.ndarray]:
    """Their options, and the largest pushes (durations, directions, starts of all) [N].

    Raises ValueError where they are not maps of what is asked for, or of one seed twice.
    """
    options, cells = [], []
    for folder in folders:
        options.append(json.loads((folder / "config.json").read_text())["push_map"])
        with np.load(folder / ARRAYS) as found:
            cells.append(np.nan_to_num(found["tolerated"]))
    wanted = json.loads(json.dumps(asdict(asked)))
    for folder, own in zip(folders, options, strict=True):
        other = [k for k in wanted if k not in OWN and own.get(k) != wanted[k]]
        if other:
            raise ValueError(
                f"{folder} holds another map than is asked for: {', '.join(other)}; give another"
                " --out"
            )
    if len({own["seed"] for own in options}) < len(options):
        raise ValueError("two of the maps are of the same seed")
    return options[0], np.concatenate(cells, axis=-1)


def report(options: dict, force: np.ndarray, asked: float) -> str:
    """A line a duration and direction."""
    starts = force.shape[-1]
    lines = [
        f"Largest push survived [N], of {starts} starts, 95 % intervals",
        f"duration       direction   least  quarter           median   survive {asked:g} N",
    ]
    for d, duration in enumerate(options["durations"]):
        for k in range(options["directions"]):
            own, angle = force[d, k], 360 * k / options["directions"]
            name = f"{SIDES.get(round(angle), '')} {angle:.0f} deg".strip()
            good = int((own >= asked).sum())
            low, high = (100 * share for share in wilson(good, starts))
            middle = "{:.0f} to {:.0f}".format(*bootstrap_interval(own, np.median))
            lines.append(
                f"{duration:6.2f} s  {name:>16}  {own.min():6.0f}  {np.quantile(own, 0.25):7.0f}"
                f"  {np.median(own):4.0f} ({middle})"
                f"   {good} of {starts} ({low:.0f} to {high:.0f} %)"
            )
    return "\n".join(lines)


def made(out: Path, options: MapOptions, seeds: Sequence[int]) -> list[Path]:
    """The maps of all seeds; those that are there are kept, one half done goes on."""
    folders = []
    for seed in seeds:
        folder = out / f"seed_{seed}"
        if not (folder / ARRAYS).exists():
            begun = (folder / "config.json").exists()
            own = None if begun else replace(options, seed=seed)
            push_map(own, folder, resume=begun, progress=True)
        folders.append(folder)
    return folders


def main(argv: list[str] | None = None) -> int:
    """Make the maps, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=[4711, 4712, 4713])
    add("--starts", type=int, default=22, help="of each seed")
    set_options(parser)
    numbers_option(parser)
    add("--directions", type=int, default=8)
    add("--resolution", type=float, default=25.0, metavar="N")
    add("--strongest", type=float, default=750.0, metavar="N")
    add("--asked", type=float, default=350.0, metavar="N")
    add("--out", type=Path, default=Path("runs/maps"))
    add("--forward", action="store_true", help="stand in forward simulation, of the first seed")
    add("--forces", type=float, nargs="+", default=[100.0, 200.0, 300.0, 350.0], metavar="N")
    add("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    add("--quick", action="store_true")
    args = parser.parse_args(argv)
    if args.quick:
        args.seeds, args.starts, args.directions = args.seeds[:2], 2, 2
        args.forces = args.forces[:1]
        args.resolution, args.strongest, args.out = 200.0, 400.0, args.out / "quick"
    command = shlex.join(["python", "benchmarks/maps.py", *(argv or sys.argv[1:])])
    if args.forward:
        with session(None, "float32", cpu_devices=cores()):
            found = forward_table(
                args.forces, args.directions, args.starts, args.seeds[0], settings(args.set)
            )
        publish(_section("Forward simulation", command, found), args.record and not args.quick)
        return 0
    options = MapOptions(
        set=settings(args.set) or None,
        numbers=None if args.numbers is None else read_numbers(args.numbers),
        starts=args.starts,
        directions=args.directions,
        durations=(0.2,),
        resolution=args.resolution,
        strongest=args.strongest,
        checks=0,
    )
    with session(None, "float32", cpu_devices=cores()):
        found, force = tolerated(made(args.out, options, args.seeds), options)
    text = f"```text\n{report(found, force, args.asked)}\n```"
    text = _section(f"Push maps of {len(args.seeds)} seeds", command, text)
    publish(text, args.record and not args.quick)
    return 0


def _section(title: str, command: str, text: str) -> str:
    """Section with its command, machine and versions."""
    where = f"{machine()}, {versions(jax)}, commit {commit()}, {today()}."
    return f"## {title}\n\n    {command}\n\n{text}\n\n{where}\n"


if __name__ == "__main__":
    sys.exit(main())
