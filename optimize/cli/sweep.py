"""jaxsim sweep: measures over grids and samples of the numbers of a scenario."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli.command import Command
from optimize.cli.shared import (
    as_text,
    cluster_option,
    defaults,
    given_options,
    run_arguments,
    run_options,
    say,
    set_options,
    settings,
    study_setting,
)
from optimize.cli.values import at_least, edge, spread, within
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from xarray import Dataset

DESCRIPTION = """\
Simulate a scenario for all combinations of some numbers, or for a sample of them, and measure each
member: by default how far it went, how high it ends, and whether it stands. Any number of the
scenario varies, by label or path (jaxsim list NAME); one value goes for all numbers of a path. The
folder gets the measures as Zarr (sweep.zarr, for xarray), chunk by chunk: an interrupted sweep goes
on with --resume. jaxsim view DIR --at NUMBER=VALUE plays one member."""
EXAMPLES = """\
what --vary takes:
  PATH=0.4,0.8,1.0   values            PATH=0.4:1.2      drawn between them
  PATH=0.4:1.2:9     9 of them         PATH=0.1:10:log   drawn, the logarithm uniform
  PATH=0.1:10:9:log  by factors        PATH=0.8~0.1      drawn, normal: mean and deviation

measures, beside the objectives of jaxsim tune:
  {measures}

examples:
  jaxsim sweep sit_to_stand --vary model.friction=0.2:1:9 --starts 16 --out runs/friction
  jaxsim sweep sit_to_stand --vary "lean: waist angle=-60:0:7" --vary model.friction=0.4,0.8 \\
      --measure standing,energy --plot --out runs/lean
  jaxsim sweep sit_to_stand --vary model.friction=0.4:1.2 --vary "lean: hips angle=60:120" \\
      --sensitivity --count 64 --measure energy --plot --out runs/which
  jaxsim sweep sit_to_stand --vary "sizes.thigh[0]=0.9:1.1:9" --vary "sizes.shank[0]=0.9:1.1:9" \\
      --starts 16 --plot --out runs/legs                    how long the legs may be
  jaxsim sweep stand_pushed --vary forces.duration=0.1,0.2,0.4 --starts 8 \\
      --edge "forces.force[0,0]=0:600:24" --out runs/hard       the hardest push that is survived
  jaxsim view runs/lean --at waist=-20,friction=0.4
  jaxsim sweep --out runs/lean --resume                     go on after an interrupt"""


def fill() -> dict[str, str]:
    """Measures of a script's scenario, and defaults, for the help text."""
    import textwrap

    from optimize.scenarios.find import scenario
    from optimize.sweeps.design import COUNT
    from optimize.sweeps.measures import DEFAULT, available
    from optimize.sweeps.sweep import sweep

    names = textwrap.fill(", ".join(available(scenario("sit_to_stand"))), 96)
    text = {"measures": names.replace("\n", "\n  "), "default": ", ".join(DEFAULT)}
    return as_text(defaults(sweep)) | text | {"count": str(COUNT)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, the arguments of ``sweep``, and the outputs for its result."""
    add = parser.add_argument
    add(
        "what",
        metavar="NAME",
        nargs="?",
        help="scenario or script (jaxsim list); not with --resume",
    )
    add(
        "--vary",
        dest="values",
        type=spread,
        action="append",
        metavar="PATH=VALUES",
        help="number that varies, by label or path, with its values, see below; may be repeated",
    )
    add(
        "--measure",
        dest="measures",
        type=lambda text: text.split(","),
        action="extend",
        metavar="NAME,NAME",
        help="measures of each member, also FILE.py:NAME ({default})",
    )
    add(
        "--edge",
        type=edge,
        metavar="PATH=START:END:PARTS",
        help="in place of --measure: largest change of a number from START towards END with which"
        " --holds is still met, by bisection of PARTS intervals",
    )
    add(
        "--holds",
        metavar="NAME",
        help="with --edge: measure that is 1 where the motion counts as good (standing)",
    )
    add(
        "--starts",
        type=at_least(1),
        metavar="N",
        help="starts of each member, with slightly different poses and speeds (1)",
    )
    add(
        "--sample",
        choices=("random", "sobol"),
        help="sampling of numbers that are given a distribution (random)",
    )
    add("--count", type=at_least(1), metavar="N", help="samples of the distributions ({count})")
    add(
        "--sensitivity",
        action="store_true",
        help="Sobol indices of each measure, from --count times (sampled numbers + 2) samples",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of starts and samples ({seed})")
    add(
        "--seconds",
        type=within("seconds"),
        metavar="S",
        help="duration of a motion [s] (the scenario's)",
    )
    add(
        "--chunk",
        type=at_least(1),
        metavar="N",
        help="members simulated at a time, and saved together ({chunk})",
    )
    run_options(parser)
    cluster_option(parser)
    set_options(parser)
    add("--plot", action="store_true", help="draw a picture of each measure")
    add("--csv", action="store_true", help="write a table too (sweep.csv), a line a member")


def run(args: argparse.Namespace) -> int:
    """Sweep, write the folder, print the summary. Returns 1 where every member failed."""
    with defer_interrupts():
        from optimize.problems.starts import spread_text
        from optimize.sweeps.edge import Edge
        from optimize.sweeps.sweep import sweep
        from optimize.sweeps.table import summary, unsolved_note, write_csv

    args.set = settings(args.set) or None
    names = {"values", "measures", "starts", "count", "seed", "seconds", "chunk", "set", "backend"}
    options: dict[str, Any] = given_options(args, names | {"sample"})
    if args.holds and not args.edge:
        raise ValueError("--holds says what an edge is of; give --edge PATH=START:END:PARTS too")
    if args.edge:
        options["edge"] = Edge(*args.edge, **({"holds": args.holds} if args.holds else {}))
    if args.sensitivity and not args.resume:
        options["sample"] = "saltelli"
    if args.resume and (options or args.what):
        told = sorted(map(str, [*options, *(["NAME"] if args.what else [])]))
        raise ValueError(
            f"--resume goes on with the options of the run; leave out {', '.join(told)}"
        )
    if not args.resume and not (args.what and args.values):
        raise ValueError("name a scenario, and at least one number (--vary PATH=VALUES)")
    if args.resume:
        _as_begun(args)
    if "values" in options:
        options["values"] = _once(options["values"])
    table = sweep(args.what, **options, **run_arguments(args), cluster=args.cluster)
    say(*filter(None, [unsolved_note(table)]))
    print(summary(table))
    if table.sizes.get("start", 1) > 1:
        print(f"starts: {spread_text()}")
    if args.csv:
        write_csv(Path(args.out) / "sweep.csv", table)
    if args.sensitivity or table.attrs["sample"] == "saltelli":
        _tell_indices(table, Path(args.out), args.plot)
    if args.plot:
        _plot(table, Path(args.out))
    return 1 if bool(table["failed"].all()) else 0


def _as_begun(args: argparse.Namespace) -> None:
    """Add the outputs that the command of the resumed run had."""
    from optimize.results.folder import RunFolder

    typed = RunFolder.open(args.out).read_config()["command"]
    args.csv, args.plot = (
        flag or option in typed for flag, option in ((args.csv, "--csv"), (args.plot, "--plot"))
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert pairs to a dictionary. Raises ValueError for a number that varies twice."""
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"--vary {', '.join(twice)} is given more than once")
    return dict(pairs)


def _tell_indices(table: Dataset, out: Path, plot: bool) -> None:
    from optimize.sweeps.plots import plot_indices
    from optimize.sweeps.sensitivity import indices_text, sobol_indices
    from optimize.sweeps.table import measures_in

    for name in measures_in(table):
        try:
            found = sobol_indices(table, name)
        except ValueError as error:
            say(f"no indices of {name}: {error}")
            continue
        print(indices_text(found))
        if plot:
            plot_indices(out / f"{name}_indices.png", found)


def _plot(table: Dataset, out: Path) -> None:
    from optimize.sweeps.plots import plot_sweep
    from optimize.sweeps.table import measures_in

    for name in measures_in(table):
        plot_sweep(out / f"{name}.png", table, name)


COMMAND = Command(
    name="sweep",
    about="measures over grids and samples of any numbers",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=study_setting,
    overview=("jaxsim sweep walk --vary model.friction=0.2:1:9 --out runs/f", ""),
)
