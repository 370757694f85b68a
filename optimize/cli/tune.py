"""jaxsim tune: better numbers for a script."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from optimize.cli.command import Command
from optimize.cli.shared import (
    as_text,
    generations_setting,
    given,
    run_arguments,
    run_options,
    say,
    scene_defaults,
    scene_options,
)
from optimize.cli.values import at_least, bounds, positive, within
from optimize.interrupts import EXIT_CODE as INTERRUPTED
from optimize.interrupts import holding

if TYPE_CHECKING:
    from optimize.tuning.tune import TuneResult

DESCRIPTION = """\
Tune the numbers of a script that are marked with '@', as in [waist @30], by CMA-ES. The result
folder keeps all that is needed to run it again: script, options, versions, history, checkpoint,
best script, and at the end its motion and plots."""
EXAMPLES = """\
objectives:
{objectives}

examples:
  jaxsim tune sit_to_stand_quick --objective quick-rise --generations 10 --out runs/rise
  jaxsim tune kip.scl --start supine --objective athletic-kip-up --free all --out runs/kip
  jaxsim tune walk --objective stand --free all --tune model.friction=0.4:1.2 --out runs/w
  jaxsim tune --out runs/kip --resume                       go on after an interrupt
  jaxsim tune --out runs/kip --resume --generations 200     go on for longer"""


def fill() -> Mapping[str, str]:
    """The objectives, and the defaults."""
    from optimize.running.objectives import OBJECTIVES
    from optimize.tuning.config import DEFAULTS

    width = max(map(len, OBJECTIVES))
    lines = (f"  {o.name:<{width}}  {o.seconds:g} s: {o.about}" for o in OBJECTIVES.values())
    return {"objectives": "\n".join(lines), **as_text(DEFAULTS | scene_defaults())}


def add_options(parser: argparse.ArgumentParser) -> None:
    """All but SCRIPT, --objective and those of the folder have the names of ``TuneOptions``."""
    add = parser.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="a script; with --resume it may be left out")
    add("--objective", metavar="NAME", help="what is wanted, see below")
    add("--generations", type=at_least(1), metavar="N", help="how many in all ({generations})")
    add(
        "--population", type=at_least(4), metavar="P", help="members of a generation ({population})"
    )
    add("--seed", type=at_least(0), metavar="S", help="of the random numbers ({seed})")
    add("--sigma", type=positive, metavar="X", help="first step size ({sigma})")
    add(
        "--trials",
        type=at_least(1),
        metavar="N",
        help="judge each member by the mean of N motions ({trials})",
    )
    add(
        "--noise",
        type=positive,
        metavar="W",
        help="whose joints begin with random speeds of this size, but for the first [rad/s]"
        " ({noise})",
    )
    run_options(parser)
    scene_options(parser)
    add(
        "--seconds",
        type=within("seconds"),
        metavar="S",
        help="of a simulation [s] (the objective's)",
    )
    add("--dt", type=within("dt"), metavar="S", help="time step of the search [s] ({dt})")
    add("--judge-dt", type=within("dt"), metavar="S", help="and of the judgement [s] ({judge_dt})")
    add(
        "--free",
        choices=("marked", "all"),
        help="numbers marked with '@', or every one ({free})",
    )
    add(
        "--tune",
        dest="also",
        type=bounds,
        action="append",
        metavar="PATH=LOWER:UPPER",
        help="also tune arrays below model., as in model.friction=0.4:1.2; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Tune a script in a folder, or go on with that."""
    with holding():
        from optimize.results.folder import RunFolder
        from optimize.tuning.config import DEFAULTS
        from optimize.tuning.tune import tune

    options = given(args, DEFAULTS)
    if "also" in options:
        options["also"] = dict(options["also"])
    result = tune(args.script, args.objective, **run_arguments(args), **options)
    code = report(result)
    if code == 0:
        print(f"best script: {result.folder / RunFolder.BEST_SCRIPT}")
        print(f"page:        {result.folder / RunFolder.MOTION}")
    return code


def report(result: TuneResult) -> int:
    """Print what a run gained, or how to go on with it; returns the exit code."""
    say(*result.notes)
    if result.evolution.interrupted:
        say(f"to go on: {_resume_command(result.folder)}")
        return INTERRUPTED
    if result.after is None:
        return 1
    print(judgement(result))
    return 0


def _resume_command(out: str | Path) -> str:
    return f"jaxsim tune --out {out} --resume"


def judgement(result: TuneResult) -> str:
    """A table of the objective before and after, raw terms with their weights and units."""
    from jaxsim.viewer.values import plain_text
    from optimize.results.folder import RunFolder
    from optimize.running.objectives import TERMS

    assert result.before is not None and result.after is not None and result.motion is not None
    config = RunFolder.open(result.folder).read_config()
    rows = [(f"objective {config['objective']}", "", "", "before", "after")]
    for name, weight in config["weights"].items():
        before, after = result.before["parts"][name], result.after["parts"][name]
        figures = plain_text(before), plain_text(after)
        rows.append((f"  {name}", TERMS[name].unit, f"x {weight:.3g}", *figures))
    totals = plain_text(result.before["total"]), plain_text(result.after["total"])
    rows.append(("  total", "", "", *totals))
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    lines = []
    for row in rows:
        left = "  ".join(f"{cell:<{w}}" for cell, w in zip(row[:3], widths, strict=False))
        right = "  ".join(f"{cell:>{w}}" for cell, w in zip(row[3:], widths[3:], strict=True))
        lines.append(f"{left}  {right}")
    return "\n".join(lines)


COMMAND = Command(
    name="tune",
    about="find better numbers for a script",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=generations_setting,
    overview=("jaxsim tune kip.scl --objective athletic-kip-up --out runs/kip", ""),
)
