"""jaxsim gallery: the worlds that come with the package."""

import argparse
from collections.abc import Mapping

from optimize.cli.command import Command
from optimize.cli.shared import INTERRUPTED, defaults, given, say
from optimize.interrupts import holding

DESCRIPTION = """\
Simulate the worlds that come with the package, and write a page for each and one that shows them
all: {worlds}."""
EXAMPLES = """\
examples:
  jaxsim gallery --out gallery
  jaxsim gallery --only box_stack --out gallery"""


def fill() -> Mapping[str, str]:
    """The worlds."""
    from optimize.running.gallery import shipped_worlds

    return {"worlds": ", ".join(shipped_worlds())}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where to, and which."""
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="result folder; a folder in it for each world")
    add("--only", metavar="NAME", help="this world alone")


def run(args: argparse.Namespace) -> int:
    """Simulate the shipped worlds, and write their pages and the one that shows them."""
    with holding():
        from optimize.running.gallery import gallery

    options = given(args, defaults(gallery))
    done = gallery(args.out, progress=not args.quiet, say=say, **options)
    print(done.page.resolve().as_uri())
    return INTERRUPTED if done.interrupted else 0 if done.finite else 1


COMMAND = Command(
    name="gallery",
    about="worlds to look at",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim gallery --out gallery", "worlds in space"),
)
