"""jaxsim demo: tune a script for some generations, and show its motion."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from optimize.cli.command import Command
from optimize.cli.shared import as_typed, generations_setting, given_options, say
from optimize.cli.tune import report
from optimize.cli.values import at_least
from optimize.cli.view import show_page
from optimize.interrupts import defer_interrupts
from optimize.results.lock import lock_folder

if TYPE_CHECKING:
    from optimize.tuning.tune import TuneResult

DESCRIPTION = "Tune a rise from a chair for some generations and show it; a minute or two."
EXAMPLES = "example:\n  jaxsim demo --out demo"

SCRIPT, OBJECTIVE = "sit_to_stand_quick", "quick-rise"
SECONDS = 2.5  # of a simulation: enough to rise and to stand [s]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a few of the options of tuning."""
    add = parser.add_argument
    add(
        "--out",
        default="demo",
        metavar="DIR",
        help="result folder, which is emptied first (%(default)s)",
    )
    add(
        "--generations",
        type=at_least(1),
        default=5,
        metavar="N",
        help="generations of the search (%(default)s)",
    )
    add(
        "--population",
        type=at_least(4),
        default=20,
        metavar="P",
        help="candidates of a generation (%(default)s)",
    )
    add("--seed", type=at_least(0), default=0, metavar="S", help="seed of the search (%(default)s)")
    add("--no-open", action="store_true", help="print where the page is, and do not open it")


def run(args: argparse.Namespace) -> int:
    """Tune the rise from a chair, print what was gained, and open the page."""
    with defer_interrupts():
        from optimize.results.folder import RunFolder
        from optimize.tuning.config import DEFAULTS
        from optimize.tuning.tune import tune

    with lock_folder(args.out):
        make_room(Path(args.out))
        say(
            f"Rising from a chair: the script {SCRIPT} is tuned for {args.generations} generations",
            f"of {args.population} simulations, for a lower sum of the time until it stands, its",
            "effort, and feet that skid; evaluated with finer steps before and after:",
        )
        result = tune(
            SCRIPT,
            OBJECTIVE,
            out=args.out,
            seconds=SECONDS,
            progress=not args.quiet,
            command=as_typed(args),
            **given_options(args, DEFAULTS),
        )
    code = report(result)
    if code:
        return code
    print(gain_text(result))
    print(f"the tuned script, its plots and data are in {result.folder}; the motion:")
    page = result.folder / RunFolder.MOTION
    if args.no_open or os.environ.get("CI"):
        print(page.resolve().as_uri())
    else:
        show_page(page)
    return 0


def gain_text(result: TuneResult) -> str:
    """Describe which terms of the objective fell and which rose, by the final evaluation."""
    from jaxsim.viewer.values import plain_text

    before, after = result.before, result.after
    assert before is not None and after is not None
    changes = {n: after["parts"][n] - before["parts"][n] for n in after["parts"]}
    moved = {
        "lower": [name for name, change in changes.items() if change < 0],
        "higher": [name for name, change in changes.items() if change > 0],
    }
    told = [f"{', '.join(names)} {way}" for way, names in moved.items() if names]
    totals = (plain_text(each["total"]) for each in (before, after))
    return f"the sum went from {' to '.join(totals)}: {'; '.join(told) or 'nothing changed'}"


def run_files() -> set[str]:
    """Names of the files that a run leaves in its folder."""
    from optimize.results.folder import RunFolder
    from optimize.tuning.names import RESULT

    return {
        *(RunFolder.SCRIPT, RunFolder.CONFIG, RunFolder.DIGEST, RunFolder.VERSIONS),
        RunFolder.HISTORY,
        *(RunFolder.CHECKPOINT, RunFolder.BEST_SCRIPT, RunFolder.BEST, RunFolder.MOTION),
        *(RunFolder.HISTORY_PLOT, RESULT),
        *("summary.json", "trajectory.npz", "plots.png", "filmstrip.png"),
    }


def make_room(folder: Path) -> None:
    """Remove the files of an earlier demonstration, and nothing else.

    Raises FileExistsError where the folder holds something that is not of a demonstration.
    """
    from optimize.results.folder import RunFolder

    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another --out for the demonstration")
    contents = set(RunFolder(folder).contents())
    if not contents:
        return
    own = RunFolder.CONFIG in contents and _command(folder)[1:2] == [COMMAND.name]
    halves = {
        name for name in contents if name.startswith(".") and name.endswith((".tmp", ".part"))
    }
    if foreign := sorted(contents - run_files() - halves if own else contents):
        raise FileExistsError(
            f"{folder} holds what is not of a demonstration ({', '.join(foreign[:5])});"
            " choose another --out, or move these away"
        )
    # The mark of a demonstration goes last, so that a broken-off removal can be repeated.
    for name in sorted(contents, key=lambda name: name == RunFolder.CONFIG):
        (folder / name).unlink()


def _command(folder: Path) -> list[str]:
    """Command that made the run in a folder."""
    from optimize.results.folder import RunFolder

    try:
        return list(RunFolder(folder).read_config().get("command") or [])
    except (ValueError, TypeError):
        return []


COMMAND = Command(
    name="demo",
    about="see it work",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    setting=generations_setting,
    overview=("jaxsim demo", "see it work, in a minute or two"),
)
