"""jaxsim runs: list the runs in a folder, and compare two of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli.command import Command, Setting
from optimize.cli.shared import say
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from optimize.studies.run_list import ListedRun

DESCRIPTION = """\
List the runs of tune, sweep, pushmap, compat and learn below a folder: whether each is running,
interrupted or done, the best that a search has found (judged: the objective of the result; of
policies the highest return without noise, and its mean over the seeds), and what it cost: members
that were evaluated, or actions of a policy, and the wall time of that. Runs that cannot be read are
listed as broken, with the reason below."""
EXAMPLES = """\
examples:
  jaxsim runs runs
  jaxsim runs runs --compare rise many
  jaxsim runs runs --plot histories.png     the best so far, quartiles over the seeds
  jaxsim runs runs/rise --page              history, numbers, terms, front and motion of a search"""
HEAD = ("run", "state", "done", "best", "judged", "evaluations", "time", "scenario", "method")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the folder, and the outputs for its runs."""
    parser.add_argument("folder", metavar="DIR", help="folder of runs, or of one run")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="show what differs between two runs of DIR"
    )
    group.add_argument("--plot", metavar="FILE.png", help="draw the histories of the searches")
    group.add_argument(
        "--page", action="store_true", help="write the page of a search (tuning.html), and open it"
    )


def run(args: argparse.Namespace) -> int:
    """Print the list, or the requested comparison, plot or page."""
    with defer_interrupts():
        from optimize.studies.run_list import list_runs

    if args.compare is not None:
        return _compare(args)
    listing = list_runs(args.folder)
    if args.page:
        return _page(args, listing)
    if args.plot is not None:
        return _plot(args, listing)
    if not listing:
        say(f"no runs in {args.folder}")
        return 0
    print(table(listing, Path(args.folder)))
    return 0


def _compare(args: argparse.Namespace) -> int:
    with defer_interrupts():
        from optimize.studies.run_list import compare_runs

    one, other = (_place(Path(args.folder), name) for name in args.compare)
    print(f"{one}, {other}")
    for line in compare_runs(one, other):
        print(f"  {line}")
    return 0


def _place(folder: Path, name: str) -> Path:
    """Folder of a run by its name in the list, or by its path."""
    return folder / name if (folder / name).is_dir() else Path(name)


def _plot(args: argparse.Namespace, listing: Sequence[ListedRun]) -> int:
    with defer_interrupts():
        from optimize.studies.run_plot import plot_runs

    _tell_broken(listing, Path(args.folder))
    plot_runs(args.plot, [run.path for run in listing if run.kind == "tune"])
    print(args.plot)
    return 0


def _page(args: argparse.Namespace, listing: Sequence[ListedRun]) -> int:
    from optimize.cli.view import show_page

    with defer_interrupts():
        from optimize.tuning.page import write_run_page

    searches = [run for run in listing if run.kind == "tune"]
    if len(searches) != 1:
        _tell_broken(listing, Path(args.folder))
        names = ", ".join(str(run.path) for run in searches) or "none"
        raise ValueError(f"--page is of one tuning run; {args.folder} holds {names}")
    show_page(write_run_page(searches[0].path, progress=not args.quiet))
    return 0


def table(listing: Sequence[ListedRun], top: Path) -> str:
    """Format a line for each run; below, notes on some."""
    rows = [HEAD, *(_row(run, top) for run in listing)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]
    right = range(HEAD.index("done"), HEAD.index("time") + 1)
    lines = [
        "  ".join(f"{c:>{w}}" if k in right else f"{c:<{w}}" for k, (c, w) in enumerate(cells))
        for cells in (list(zip(row, widths)) for row in rows)
    ]
    notes = [f"{_name(run, top)}: {run.note}" for run in listing if run.note]
    return "\n".join(line.rstrip() for line in [*lines, *notes])


def _name(run: ListedRun, top: Path) -> str:
    return str(run.path) if run.path == top else str(run.path.relative_to(top))


def _row(run: ListedRun, top: Path) -> tuple[str, ...]:
    from jaxsim.viewer.values import plain_text

    of = "" if run.of is None else f"/{run.of}"
    method = [run.kind if run.kind != "tune" else "", run.method or ""]
    method += [f"{run.runs} runs" if run.runs > 1 else ""]
    method += [f"seed {run.seed}" if run.seed is not None else ""]
    return (
        _name(run, top),
        run.state,
        "-" if run.done is None else f"{run.done}{of}",
        plain_text(run.best),
        plain_text(run.judged),
        plain_text(run.evaluations),
        "-" if run.seconds is None else f"{run.seconds:.1f} s",
        run.scenario or "-",
        ", ".join(filter(None, method)) or "-",
    )


def _tell_broken(listing: Sequence[ListedRun], top: Path) -> None:
    say(*(f"{_name(run, top)}: {run.note}" for run in listing if run.state == "broken"))


def setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting | None:
    """Settings for a page, whose motions are simulated in the precision of the search."""
    if not args.page:
        return None
    from optimize.results.folder import RunFolder

    precision = "float32"
    if (RunFolder(Path(args.folder)) / RunFolder.CONFIG).is_file():
        precision = RunFolder(Path(args.folder)).read_config().get("precision")
    return Setting(device=None, precision=precision)


COMMAND = Command(
    name="runs",
    about="the runs in a folder: state, best, cost",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    setting=setting,
    overview=("jaxsim runs runs", "what has been run"),
    runs_code=False,
)
