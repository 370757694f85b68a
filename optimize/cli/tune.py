"""jaxsim tune: better numbers for a script, or for any other scenario."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli.command import Command, Setting
from optimize.cli.shared import (
    as_text,
    cluster_option,
    generations_setting,
    given_options,
    run_arguments,
    run_options,
    say,
    set_options,
    settings,
)
from optimize.cli.values import at_least, bounds, deviations, positive, pushes, variants, within
from optimize.interrupts import EXIT_CODE as INTERRUPTED
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from optimize.tuning.tune import TuneResult

DESCRIPTION = """\
Tune numbers of a scenario, by evolution or along a gradient: those of a script that are marked with
'@', as in [waist @30]; the weights and the gait of a scene of goals; or any number by its path or
label. The result folder keeps all that is needed to run it again: options, versions, history,
checkpoint, the best numbers (for jaxsim pushmap --numbers), and of a script the best text, its
motion and plots."""
EXAMPLES = """\
objectives, or FILE.py:NAME of your own (an Objective, a Term, or a function of a sample):
{objectives}

examples:
  jaxsim tune sit_to_stand_quick --objective quick-rise --generations 10 --out runs/rise
  jaxsim tune kip.scl --set character.start=supine --objective stand --free all --out runs/kip
  jaxsim tune walk --objective stand --free all --tune model.friction=0.4:1.2 --out runs/w
  jaxsim tune push --objective survive --pushes 450,650 --trials 16 --sigma 0.15 --out runs/b
  jaxsim tune push --objective survive --pushes 450 --tune gait.time=0.3:1.5:log --out runs/g
  jaxsim tune push --objective survive --pushes 350 --trials 16 --out runs/all \\
      --also character.build=child pushes=120 --also character.friction=0.2 pushes=200
  jaxsim tune push --objective capture --method adam --pushes 450 --out runs/d
  jaxsim tune sit_to_stand_quick --objective quick-rise --runs 16 --restarts ipop --out runs/r
  jaxsim tune sit_to_stand_quick --objective quick-rise --method cma:40,adam:20 --out runs/p
  jaxsim tune sit_to_stand_quick --objective quick-rise --runs 8 --front time,energy \\
      --each weights.energy=2e-6,2e-5,2e-4,2e-3 --out runs/front
  jaxsim tune kip_up --objective athletic-kip-up --trials 8 --fresh --spread 0,0.05 \\
      --draw model.friction=0.5:0.8 --out runs/sure
  jaxsim tune --out runs/kip --resume                       go on after an interrupt
  jaxsim tune --out runs/kip --resume --generations 200     go on for longer"""


def fill() -> Mapping[str, str]:
    """Objectives and defaults for the help text."""
    from optimize.running.objectives import OBJECTIVES
    from optimize.tuning.options import DEFAULTS

    width = max(map(len, OBJECTIVES))
    lines = (f"  {o.name:<{width}}  {o.seconds:g} s: {o.about}" for o in OBJECTIVES.values())
    return {"objectives": "\n".join(lines), **as_text(DEFAULTS)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --objective, the options of the folder, and those of ``TuneOptions``."""
    add = parser.add_argument
    add(
        "scenario",
        metavar="NAME",
        nargs="?",
        help="a scenario or script (jaxsim list); not with --resume",
    )
    add("--objective", metavar="NAME", help="what is wanted, see below")
    add("--generations", type=at_least(1), metavar="N", help="how many in all ({generations})")
    add(
        "--population", type=at_least(4), metavar="P", help="members of a generation ({population})"
    )
    add("--seed", type=at_least(0), metavar="S", help="of the random numbers ({seed})")
    add("--sigma", type=positive, metavar="X", help="first step size ({sigma})")
    _trial_options(parser)
    _search_options(parser)
    add(
        "--pushes",
        type=pushes,
        metavar="N,N@DEG",
        help="at the pelvis, in turn: from 8 sides [N], or in a direction, 0 forward, 90 left",
    )
    add("--pushed-at", type=positive, metavar="S", help="when they begin [s] ({pushed_at})")
    add(
        "--also",
        nargs="+",
        action="append",
        metavar="PATH=VALUE",
        help="judge by as many motions with these settings too, of which pushes=N,N@DEG are pushes"
        " of their own; may be repeated",
    )
    run_options(parser)
    cluster_option(parser)
    set_options(parser)
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
        dest="numbers",
        type=bounds,
        action="append",
        metavar="PATH=LOWER:UPPER[:SCALE]",
        help="what varies, by path or label, as in model.friction=0.4:1.2; the scale may be log;"
        " may be repeated",
    )
    add(
        "--vary",
        dest="variants",
        type=variants,
        action="append",
        metavar="PATH=V,V",
        help="values that the trials take in turn; may be repeated",
    )


def _trial_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a member's trials: their number, variation and aggregation."""
    add = parser.add_argument
    add(
        "--trials",
        type=at_least(1),
        metavar="N",
        help="judge each member by N motions ({trials})",
    )
    add("--score", metavar="S", help="of these: mean, worst, cvar:SHARE or success ({score})")
    add("--spread", type=deviations, metavar="A,V", help="of joints in their starts [rad], [rad/s]")
    add(
        "--draw",
        type=bounds,
        action="append",
        metavar="PATH=LOWER:UPPER",
        help="a number that each of them draws, as model.friction=0.5:0.8; may be repeated",
    )
    add(
        "--fresh",
        action="store_const",
        const=True,
        help="draw them anew each generation; a mean that stands in nearly all starts is kept",
    )
    add("--checks", type=at_least(1), metavar="N", help="starts that choose it ({checks})")
    add("--sure", type=float, metavar="SHARE", help="of these it has to stand in ({sure})")
    add("--racing", type=at_least(0), metavar="N", help="after N the worse half gets no more")


def _search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search method, and the number of searches that run together."""
    add = parser.add_argument
    add(
        "--method",
        metavar="M",
        help="cma, sep-cma, openai-es, random, an optimiser of optax (adam, or adam@0.1 with its"
        " learning rate in step sizes), or a chain, as cma:40,adam:20 ({method})",
    )
    add(
        "--trust-derivative",
        dest="trust",
        action="store_const",
        const=True,
        help="follow a derivative though the loss falls by less than half of what it promises",
    )
    add("--restarts", choices=("ipop", "bipop"), help="of cma, with populations that grow")
    add(
        "--runs",
        type=at_least(1),
        metavar="R",
        help="with seeds from S on, as one program ({runs})",
    )
    add(
        "--each",
        type=variants,
        action="append",
        metavar="NAME=V,V",
        help="values that the runs take in turn: sigma, population, weights.NAME, or any number of"
        " the scenario by path or label; may be repeated",
    )
    add(
        "--front",
        type=lambda text: text.split(","),
        metavar="TERM,TERM",
        help="keep the members that no other excels in these terms of the objective",
    )


def run(args: argparse.Namespace) -> int:
    """Tune a script in a folder, or resume the run there."""
    with defer_interrupts():
        from optimize.results.folder import RunFolder
        from optimize.tuning.options import DEFAULTS
        from optimize.tuning.tune import tune

    args.set = settings(args.set) or None
    options = given_options(args, DEFAULTS)
    for name in {"numbers", "variants", "each", "draw"} & options.keys():
        options[name] = dict(options[name])
    if args.also:
        options["also"] = [parse_variant(own) for own in args.also]
    where = {"cluster": args.cluster}
    result = tune(args.scenario, args.objective, **run_arguments(args), **where, **options)
    code = report(result)
    if code == 0:
        files = {"numbers": RunFolder.BEST, "best script": RunFolder.BEST_SCRIPT}
        for what, name in {**files, "page": RunFolder.MOTION}.items():
            if (result.folder / name).exists():
                print(f"{what + ':':<12} {result.folder / name}")
    return code


def parse_variant(texts: list[str]) -> dict[str, Any]:
    """Parse a variant of --also. Raises ValueError for what cannot be read."""
    own: dict[str, Any] = {}
    for text in texts:
        if text.startswith("pushes="):
            try:
                own["pushes"] = pushes(text.removeprefix("pushes="))
            except argparse.ArgumentTypeError as error:
                raise ValueError(f"--also {' '.join(texts)}: {error}") from None
    return {"set": settings((t for t in texts if not t.startswith("pushes=")), "--also"), **own}


def setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """Settings of a search; a gradient is as precise as the device allows."""
    found = generations_setting(args, kept)
    from optimize.tuning.names import EVOLUTION, stages

    parts = stages(args.method or kept.get("method") or "cma")
    gradient_based = any(part.name not in EVOLUTION for part in parts)
    return replace(found, precision=None) if gradient_based else found


def report(result: TuneResult) -> int:
    """Print the gain of a run, or how to resume it; returns the exit code."""
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
    """Table of the objective before and after, raw terms with their weights and units."""
    from jaxsim.viewer.values import plain_text
    from optimize.results.folder import RunFolder

    assert result.before is not None and result.after is not None
    folder = RunFolder.open(result.folder)
    config, units = folder.read_config(), folder.read_json("result.json")["units"]
    rows = [(f"objective {config['objective']}", "", "", "before", "after")]
    for name, weight in config["weights"].items():
        before, after = result.before["parts"].get(name), result.after["parts"].get(name)
        figures = plain_text(before), plain_text(after)
        rows.append((f"  {name}", units[name], f"x {weight:.3g}", *figures))
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
    about="find better numbers for a script, or any scenario",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=setting,
    overview=("jaxsim tune kip.scl --objective athletic-kip-up --out runs/kip", ""),
)
