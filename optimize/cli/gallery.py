"""jaxsim gallery: pages of the scenarios that come with the package."""

import argparse
from collections.abc import Mapping

from optimize.cli.command import Command
from optimize.cli.shared import INTERRUPTED, defaults, given_options, say
from optimize.interrupts import defer_interrupts

DESCRIPTION = """\
Simulate the scenarios that come with the package, and write a page for each and one that shows
them all: {scenarios}."""
EXAMPLES = """\
examples:
  jaxsim gallery --out gallery
  jaxsim gallery --only box_stack --out gallery"""


def fill() -> Mapping[str, str]:
    """Names of the scenarios for the help text."""
    from optimize.scenarios.find import shipped_scenarios

    return {"scenarios": ", ".join(shipped_scenarios())}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --out and --only."""
    add = parser.add_argument
    add(
        "--out", required=True, metavar="DIR", help="result folder, with a folder for each scenario"
    )
    add("--only", metavar="NAME", help="scenario to simulate (all)")


def run(args: argparse.Namespace) -> int:
    """Simulate the shipped scenarios, and write their pages and the one that shows them."""
    with defer_interrupts():
        from optimize.running.gallery import gallery

    options = given_options(args, defaults(gallery))
    done = gallery(args.out, progress=not args.quiet, say=say, **options)
    print(done.page.resolve().as_uri())
    return INTERRUPTED if done.interrupted else 0 if done.finite else 1


COMMAND = Command(
    name="gallery",
    about="scenarios to look at",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim gallery --out gallery", "all scenarios"),
)
