"""jaxsim verdict: success rate of a motion by any time step, back end, precision and scheme."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optimize.cli.command import Command
from optimize.cli.shared import as_text, defaults, given_options, say, set_options, settings
from optimize.cli.values import at_least, coefficient, positive, several, within
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from optimize.studies.verdict import Verdict

DESCRIPTION = """\
Simulate a scenario from slightly different starts with several time steps, by both back ends, in
both precisions and under the event-driven scheme, and count in how many it ends standing: with its
head above standing height throughout the last seconds. Prints a table with 95 % intervals (Wilson)
and which columns fail; the exit code is 1 where one does. --scheme, --backend and --precision
choose among the columns; the event-driven scheme runs fused in float64, at 1 ms."""
SCHEMES = ("time_stepping", "event_driven", "per_step_optimisation")
EXAMPLES = """\
examples:
  jaxsim verdict kip_up
  jaxsim verdict kip_up prone_to_stand --starts 200
  jaxsim verdict runs/kip/best.scl --set character.start=supine --dts 0.0005
  jaxsim verdict stand --friction 0.3,0.9 --rate 0.3"""


def fill() -> Mapping[str, str]:
    """Defaults for the help text."""
    from optimize.studies.verdict import VerdictOptions

    return as_text(defaults(VerdictOptions))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --set and the fields of ``VerdictOptions``."""
    add = parser.add_argument
    add("names", metavar="NAME", nargs="+", help="scenario or script, by name or file")
    set_options(parser)
    add(
        "--starts",
        type=at_least(1),
        metavar="N",
        help="starts, with slightly different poses and speeds ({starts})",
    )
    add(
        "--angle",
        type=coefficient,
        metavar="X",
        help="standard deviation of the joint angles of the starts [rad] ({angle})",
    )
    add(
        "--rate",
        type=coefficient,
        metavar="X",
        help="standard deviation of the joint rates of the starts [rad/s] ({rate})",
    )
    add(
        "--friction",
        type=several,
        metavar="A,B",
        help="range of the friction coefficient, sampled for each start ({friction})",
    )
    add("--dts", type=several, metavar="S,S", help="time steps, a column each [s] ({dts})")
    add(
        "--seconds",
        type=within("seconds"),
        metavar="S",
        help="duration of a motion [s] ({seconds})",
    )
    add(
        "--still",
        type=positive,
        metavar="S",
        help="time at the end in which it has to stand [s] ({still})",
    )
    add(
        "--wanted",
        type=coefficient,
        metavar="X",
        help="success rate below which a column fails ({wanted})",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of the starts ({seed})")
    add("--scheme", choices=SCHEMES, help="scheme whose columns are computed (all)")


def run(args: argparse.Namespace) -> int:
    """Evaluate, print the table. Returns 1 where a column fails."""
    with defer_interrupts():
        from optimize.studies.verdict import VerdictOptions, verdict

    options = VerdictOptions(**given_options(args, defaults(VerdictOptions)))
    keys = settings(args.set)
    progress = (lambda text: None) if args.quiet else say
    only = args.backend, args.precision, args.scheme
    verdicts = [verdict(name, options, keys, progress, *only) for name in args.names]
    print(table(verdicts))
    print(f"\n{verdicts[0].starts}")
    failing = {each.scenario: each.failing for each in verdicts if each.failing}
    for name, columns in failing.items():
        print(f"{name} fails: {'; '.join(column.name for column in columns)}")
    sys.stdout.flush()
    return 1 if failing else 0


def table(verdicts: list[Verdict]) -> str:
    """Table with a row for each way to compute, a column for each scenario; "!" marks failures."""
    head = ["scheme, back end, precision, step", *(each.scenario for each in verdicts)]
    rows = [head, ["---"] * len(head)]
    names = list(dict.fromkeys(c.name for each in verdicts for c in each.columns))
    for name in names:
        cells = []
        for each in verdicts:
            own = [column for column in each.columns if column.name == name]
            cells.append(_cell(each, own[0]) if own else "")
        rows.append([name, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(verdict: Verdict, column) -> str:
    low, high = column.interval
    mark = " !" if column in verdict.failing else ""
    return f"{column.ok}/{len(column.stood)} ({100 * low:.0f} to {100 * high:.0f} %){mark}"


COMMAND = Command(
    name="verdict",
    about="whether a motion stands whatever computes it",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim verdict kip_up", "at every time step, by every back end"),
)
