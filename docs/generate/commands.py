"""The command line as text, from its parsers."""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands() -> str:
    """A section for each command, with the help that it prints itself."""
    os.environ["COLUMNS"] = "96"
    os.environ["NO_COLOR"] = "1"  # from Python 3.14 on argparse colours what it prints
    if str(ROOT) not in sys.path:  # mkdocs puts it back after it has imported a hook
        sys.path.insert(0, str(ROOT))
    from optimize.cli.main import COMMANDS, parser

    (choices,) = (
        action.choices
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    lines = []
    for command in COMMANDS:
        text = choices[command.name].format_help().rstrip()
        lines += [
            f"## jaxsim {command.name}",
            "",
            f"{command.about[:1].upper()}{command.about[1:]}.",
        ]
        lines += ["", "```text", text, "```", ""]
    return "\n".join(lines)
