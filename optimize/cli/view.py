"""jaxsim view: open the page of a result folder."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.cli.command import Command, Setting
from optimize.cli.shared import INTERRUPTED, outcome, say, write_and_print
from optimize.cli.values import coordinates
from optimize.interrupts import defer_interrupts

MEMBERS = "members"  # a folder in that of a sweep

DESCRIPTION = """\
Open the motion of a result folder in the browser, and print where it is. --at: of a sweep, simulate
the member nearest to some coordinates, as its own folder in DIR/members, and open that."""
EXAMPLES = """\
examples:
  jaxsim view runs/walk
  jaxsim view runs/sweep --at friction=0.4,waist=-20"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the folder, and --at."""
    parser.add_argument("folder", metavar="DIR", help="result folder, or page")
    parser.add_argument(
        "--at",
        type=coordinates,
        metavar="NAME=X,NAME=X",
        help="member of a sweep to play, by its numbers (part of a name suffices), sample or start",
    )


def run(args: argparse.Namespace) -> int:
    """Open the page of a result folder."""
    with defer_interrupts():
        from optimize.results.folder import RunFolder

    if args.at is not None:
        return _run_member(args)
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


def _run_member(args: argparse.Namespace) -> int:
    """Simulate a member of a sweep, write its folder, open it."""
    with defer_interrupts():
        from optimize.results.folder import RunFolder
        from optimize.running.simulate import run_scenario
        from optimize.sweeps.member import member

    selection = member(args.folder, args.at)
    for name, value in selection.told.items():
        say(f"{name:<24} {value:.6g}")
    simulation = run_scenario(selection.scenario, progress=not args.quiet, backend=args.backend)
    place = "_".join(map(str, selection.at.values()))
    out = Path(args.folder) / MEMBERS / place
    write_and_print(simulation, out, False)
    show_page(out / RunFolder.MOTION)
    return INTERRUPTED if simulation.interrupted else outcome(simulation)


def setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting | None:
    """Settings for a member, which is simulated in the precision of the sweep."""
    if args.at is None:
        return None
    from optimize.results.folder import RunFolder

    precision = RunFolder.open(args.folder).read_config().get("precision")
    return Setting(device=None, precision=precision)


def show_page(page: Path) -> None:
    """Print the page's address, and open it where there is a display."""
    address = page.resolve().as_uri()
    print(address)
    if not has_display():
        say("there is no display here; open the file with any browser")
    elif not _open(address):
        say("no browser could be started; open the file with any browser")


def has_display() -> bool:
    """True if windows can be shown."""
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
    setting=setting,
    overview=("jaxsim view runs/walk", ""),
)
