"""jaxsim view: the page of a result folder."""

import argparse
import os
import sys
from pathlib import Path

from optimize.cli.command import Command
from optimize.cli.shared import say
from optimize.interrupts import deferred

DESCRIPTION = "Open the motion of a result folder in the browser, and print where it is."
EXAMPLES = "example:\n  jaxsim view runs/walk"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    parser.add_argument("folder", metavar="DIR", help="a result folder, or a page")


def run(args: argparse.Namespace) -> int:
    """Open the page of a result folder."""
    with deferred():
        from optimize.results.folder import RunFolder

    path = Path(args.folder)
    page = path / RunFolder.MOTION if path.is_dir() else path
    if page.suffix != ".html" or not page.is_file():
        held = ", ".join(sorted(p.name for p in path.iterdir())[:8]) if path.is_dir() else ""
        where = f"{path} holds no {RunFolder.MOTION}" if path.is_dir() else f"no folder {path}"
        raise FileNotFoundError(
            f"{where}{f' (it holds {held})' if held else ''}; jaxsim simulate and jaxsim tune"
            " write one to their --out"
        )
    show_page(page)
    return 0


def show_page(page: Path) -> None:
    """Print the page's address, and open it where there is a display."""
    address = page.resolve().as_uri()
    print(address)
    if not has_display():
        say("there is no display here; open the file with any browser")
    elif not _open(address):
        say("no browser could be started; open the file with any browser")


def has_display() -> bool:
    """Whether windows can be shown."""
    if sys.platform.startswith(("win", "darwin")):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(address: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


COMMAND = Command(
    name="view",
    about="open a result folder's page",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    setting=None,
    overview=("jaxsim view runs/walk", ""),
)
