"""The demonstration: a script is tuned for some generations, and its motion shown."""

import argparse
import os
from pathlib import Path

from optimize.cli.commands import report, say, show_page
from optimize.results.folder import RunFolder, command_line
from optimize.results.lock import locked
from optimize.tuning.tune import RESULT, tune

SCRIPT, OBJECTIVE = "sit_to_stand_quick", "quick-rise"
SECONDS = 2.5  # of a simulation: enough to rise and to stand [s]
WRITTEN = (  # what a run leaves in its folder
    *(RunFolder.SCRIPT, RunFolder.CONFIG, RunFolder.DIGEST, RunFolder.VERSIONS),
    RunFolder.HISTORY,
    *(RunFolder.CHECKPOINT, RunFolder.BEST_SCRIPT, RunFolder.BEST, RunFolder.MOTION),
    *(RunFolder.HISTORY_PLOT, RESULT),
    *("summary.json", "trajectory.npz", "plots.png", "filmstrip.png"),
)


def run_demo(args: argparse.Namespace) -> int:
    """Tune the rise from a chair, print what was gained, and open the page."""
    with locked(args.out):
        make_room(Path(args.out))
        say(
            f"Rising from a chair: the script {SCRIPT} is tuned for {args.generations} generations",
            f"of {args.population} simulations, to be sooner on the feet with less effort.",
        )
        result = tune(
            SCRIPT,
            OBJECTIVE,
            out=args.out,
            seconds=SECONDS,
            generations=args.generations,
            population=args.population,
            seed=args.seed,
            backend=args.backend,
            progress=not args.quiet,
            command=command_line(["jaxsim", *args.argv]),
        )
    code = report(result)
    if code:
        return code
    print(f"the tuned script, its plots and data are in {result.folder}; the motion:")
    page = result.folder / RunFolder.MOTION
    if args.no_open or os.environ.get("CI"):
        print(page.resolve().as_uri())
    else:
        show_page(page)
    return 0


def make_room(folder: Path) -> None:
    """Remove the files of an earlier demonstration, and nothing else.

    Raises FileExistsError where the folder holds something that is not of a demonstration.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another --out for the demonstration")
    held = set(RunFolder(folder).held())
    if not held:
        return
    own = RunFolder.CONFIG in held and _command(folder)[1:2] == ["demo"]
    halves = {name for name in held if name.startswith(".") and name.endswith((".tmp", ".part"))}
    if foreign := sorted(held - set(WRITTEN) - halves if own else held):
        raise FileExistsError(
            f"{folder} holds what is not of a demonstration ({', '.join(foreign[:5])});"
            " choose another --out, or move these away"
        )
    # The mark of a demonstration goes last, so that a broken-off removal can be repeated.
    for name in sorted(held, key=lambda name: name == RunFolder.CONFIG):
        (folder / name).unlink()


def _command(folder: Path) -> list[str]:
    """The command that made the run."""
    try:
        return list(RunFolder(folder).read_config().get("command") or [])
    except (ValueError, TypeError):
        return []
