"""jaxsim simulate: the motion of a scenario."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.cli.command import Command
from optimize.cli.shared import (
    INTERRUPTED,
    as_text,
    defaults,
    given_options,
    numbers_option,
    outcome,
    say,
    set_options,
    settings,
    write_and_print,
)
from optimize.cli.values import within
from optimize.interrupts import defer_interrupts

DESCRIPTION = """\
Simulate a scenario, and write the motion: a page that plays offline (motion.html), a film strip,
plots of heights, phases and torques against their limits, the trajectory, and a summary.

NAME is a scenario that comes with the package (jaxsim list), a scenario file (.toml), a script for
the planar human (.scl, or by name), a character by itself: a built-in one, or an MJCF or URDF file.
--set changes any key of the scenario's file and any number of what is built from it."""
EXAMPLES = """\
examples:
  jaxsim simulate walk --seconds 10 --out runs/walk
  jaxsim simulate sit_to_stand --set character.chair_height=0.5 --out runs/chair
  jaxsim simulate my_kip_up.scl --start supine --dt 0.00025 --out runs/kip
  jaxsim simulate push --set push.force=350 --set push.direction_deg=90 --out runs/left
  jaxsim simulate push --set controller.gait.time=0.6 --set character.build=child --out runs/child
  jaxsim simulate staircase --set character.model=ball_joint_human --out runs/stairs
  jaxsim simulate robot.xml --seconds 3 --out runs/robot
  jaxsim simulate walk --json | python -m json.tool"""


def fill() -> Mapping[str, str]:
    """Defaults for the help text."""
    from optimize.running.simulate import simulate

    return as_text(defaults(simulate))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --set, --numbers, --out and the arguments of ``simulate``."""
    add = parser.add_argument
    add("what", metavar="NAME", help="scenario, script or character: a name, or a file")
    set_options(parser)
    numbers_option(parser)
    add("--start", metavar="POSE", help="start pose: standing, supine, prone, ... (the scenario's)")
    add("--seconds", type=within("seconds"), metavar="S", help="duration [s] (the scenario's)")
    add("--dt", type=within("dt"), metavar="S", help="time step [s] (the scenario's)")
    add("--fps", type=within("fps"), metavar="N", help="recorded frames a second [1/s] ({fps})")
    add("--objective", metavar="NAME", help="objective to evaluate too (see jaxsim tune --help)")
    add("--out", metavar="DIR", help="folder for the results; other files in it stay")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Simulate, write the folder, print the summary. Returns 1 where the motion diverged."""
    with defer_interrupts():
        from controllers.numbers import read_numbers
        from optimize.results.folder import RunFolder
        from optimize.running.simulate import simulate

    if args.out is not None and (Path(args.out) / RunFolder.CONFIG).is_file():
        raise FileExistsError(
            f"{args.out} holds a tuning run, whose script would be overwritten;"
            " choose another --out"
        )
    options: dict[str, Any] = given_options(
        args, ("start", "seconds", "dt", "fps", "objective", "backend")
    )
    changes = {} if args.numbers is None else read_numbers(args.numbers)
    changes |= settings(args.set)
    simulation = simulate(args.what, set=changes, progress=not args.quiet, **options)
    write_and_print(simulation, args.out, args.json)
    if args.out is None and not args.json:
        say("nothing was written; --out DIR keeps the motion as a page, plots and data")
    return INTERRUPTED if simulation.interrupted else outcome(simulation)


COMMAND = Command(
    name="simulate",
    about="a scenario, a script or a character, as a page",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim simulate walk --seconds 10 --out runs/walk", ""),
)
