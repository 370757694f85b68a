"""jaxsim pushmap: the pushes that a standing character survives."""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from optimize.cli.command import Command
from optimize.cli.shared import (
    as_text,
    cluster_option,
    defaults,
    numbers_option,
    run_options,
    run_study,
    say,
    set_options,
    settings,
    study_setting,
)
from optimize.cli.values import at_least, positive, several, variants
from optimize.interrupts import defer_interrupts

DESCRIPTION = """\
Find the largest push after which the character of a scenario still stands, whatever its controller:
by direction, duration, and for a number of slightly different starts, by bisection; with --vary for
each value of some numbers. It is a sweep whose edge is the force (jaxsim sweep --edge): the folder
gets that, a table (push_map.txt), the cells (push_map.csv), arrays (push_map.npz), a plot
(push_map.png). Each chunk of cells is kept: an interrupted run goes on with --resume."""
EXAMPLES = """\
examples:
  jaxsim pushmap --out runs/adult
  jaxsim pushmap --set character.build=child --strongest 375 --resolution 12.5 --out runs/child
  jaxsim pushmap --set character.friction=0.2 --durations 0.2 --starts 4 --out runs/ice
  jaxsim pushmap --scenario stand_pushed --vary controller.help_from=0,20,80 --out runs/thresholds
  jaxsim pushmap --numbers runs/tuned/best.json --out runs/tuned_map
  jaxsim pushmap --out runs/adult --resume                  go on after an interrupt"""


def fill() -> Mapping[str, str]:
    """Defaults for the help text."""
    from optimize.studies.push_options import MapOptions

    return as_text(defaults(MapOptions))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the fields of ``MapOptions`` and the options of the folder."""
    run_options(parser)
    set_options(parser)
    numbers_option(parser)
    add = parser.add_argument
    add("--scenario", metavar="NAME", help="scenario: push, near_wall, ..., or a file ({scenario})")
    add("--link", metavar="NAME", help="link that is pushed, by name or role ({link})")
    add(
        "--vary",
        type=variants,
        action="append",
        metavar="PATH=V,V",
        help="number of the scenario with its values, a map each; may be repeated",
    )
    add(
        "--starts",
        type=at_least(1),
        metavar="N",
        help="starts of each cell, with slightly different poses and speeds ({starts})",
    )
    add(
        "--directions",
        type=at_least(1),
        metavar="N",
        help="directions of the push around the body ({directions})",
    )
    add("--durations", type=several, metavar="S,S", help="durations of the push [s] ({durations})")
    add(
        "--resolution",
        type=positive,
        metavar="N",
        help="steps of the force in the bisection [N] ({resolution})",
    )
    add(
        "--strongest",
        type=positive,
        metavar="N",
        help="largest force that is tried [N] ({strongest})",
    )
    add(
        "--checks",
        type=at_least(0),
        metavar="K",
        help="weaker forces below the edge that are tried too ({checks})",
    )
    add(
        "--seconds",
        type=positive,
        metavar="S",
        help="time to stand after the longest push [s] ({seconds})",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of the starts ({seed})")
    add(
        "--chunk",
        type=at_least(1),
        metavar="N",
        help="cells computed at a time, and saved together ({chunk})",
    )
    cluster_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compute the map, write the folder, print the table. Returns 1 where no cell was finite."""
    with defer_interrupts():
        from controllers.numbers import read_numbers
        from optimize.studies.push_map import push_map
        from optimize.studies.push_options import MapOptions
        from optimize.studies.push_report import TABLE, unsolved_note

    numbers = None if args.numbers is None else read_numbers(args.numbers)
    args.set, args.numbers = settings(args.set) or None, numbers
    args.vary = None if args.vary is None else dict(args.vary)
    found = run_study(partial(push_map, cluster=args.cluster), MapOptions, args)
    say(*found.missing, *([unsolved_note(found)] if found.unsolved.any() else []))
    print((Path(args.out) / TABLE).read_text(), end="")
    return 1 if (found.failed > 0).all() else 0


COMMAND = Command(
    name="pushmap",
    about="which pushes are survived",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=study_setting,
    overview=("jaxsim pushmap --out runs/pushes", "which pushes it survives"),
)
