"""jaxsim check: compile scripts and report their mistakes."""

import argparse

from optimize.cli.command import Command
from optimize.cli.shared import say
from optimize.interrupts import defer_interrupts

DESCRIPTION = (
    "Read scripts and compile them: exit code 0, or 2 with the place of the first mistake."
)
EXAMPLES = "example:\n  jaxsim check my_kip_up.scl && echo good"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the scripts."""
    parser.add_argument(
        "script", metavar="SCRIPT", nargs="+", help="script files, or names of shipped scripts"
    )


def run(args: argparse.Namespace) -> int:
    """Read scripts, and compile them for the character."""
    with defer_interrupts():
        from controllers.scl.load import find_script, script_controller
        from jaxsim.characters.planar_human import planar_human

    model = planar_human()
    for name in args.script:
        script = find_script(name, model)
        script_controller(script, model)
        say(*map(str, script.warnings))
        count = [len(script.phases), len(script.numbers), len(script.free_indices())]
        print(f"{name}: {count[0]} phases, {count[1]} numbers, {count[2]} of them free")
    return 0


COMMAND = Command(
    name="check",
    about="is a script sound?",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    overview=("jaxsim check kip.scl", ""),
)
