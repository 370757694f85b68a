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
    renamed_option,
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
Tune numbers of a scenario by evolution or along a gradient: numbers of a script that are marked
with '@', as in [waist @30]; weights and gait of a controller by goals; or any number by its path
or label. The result folder has options, versions, history, checkpoint, the best numbers (for jaxsim
pushmap --numbers), and for a script the best text, its motion and plots."""
EXAMPLES = """\
objectives, or FILE.py:NAME (an Objective, a Term, or a function of a sample):
{objectives}

examples:
  jaxsim tune sit_to_stand_quick --objective quick-rise --generations 10 --out runs/rise
  jaxsim tune kip.scl --set character.start=supine --objective stand --free all --out runs/kip
  jaxsim tune walk --objective stand --free all --tune model.friction=0.4:1.2 --out runs/w
  jaxsim tune push --objective survive --pushes 450,650 --trials 16 --sigma 0.15 --out runs/b
  jaxsim tune push --objective survive --pushes 450 --tune gait.time=0.3:1.5:log --out runs/g
  jaxsim tune push --objective survive --pushes 350 --trials 16 --out runs/all \\
      --variant character.build=child pushes=120 --variant character.friction=0.2 pushes=200
  jaxsim tune push --objective capture --method adam --pushes 450 --out runs/d
  jaxsim tune sit_to_stand_quick --objective quick-rise --runs 16 --restarts ipop --out runs/r
  jaxsim tune sit_to_stand_quick --objective quick-rise --method cma:40,adam:20 --out runs/p
  jaxsim tune sit_to_stand_quick --objective quick-rise --runs 8 --front time,energy \\
      --by-run weights.energy=2e-6,2e-5,2e-4,2e-3 --out runs/front
  jaxsim tune kip_up --objective athletic-kip-up --trials 8 --resample --spread 0,0.05 \\
      --sample model.friction=0.5:0.8 --out runs/sure
  jaxsim tune --out runs/kip --resume                       resume after an interrupt
  jaxsim tune --out runs/kip --resume --generations 200     resume with more generations"""


def fill() -> Mapping[str, str]:
    """Objectives and defaults for the help text."""
    from optimize.running.objectives import OBJECTIVES
    from optimize.tuning.config import DEFAULTS

    width = max(map(len, OBJECTIVES))
    lines = (f"  {o.name:<{width}}  {o.seconds:g} s: {o.about}" for o in OBJECTIVES.values())
    return {"objectives": "\n".join(lines), **as_text(DEFAULTS)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --objective, the options of the folder, and those of ``TuneOptions``."""
    parser.add_argument(
        "scenario",
        metavar="NAME",
        nargs="?",
        help="scenario or script (jaxsim list); not with --resume",
    )
    parser.add_argument("--objective", metavar="NAME", help="objective to minimise, see below")
    run_options(parser)
    _scenario_options(parser.add_argument_group("scenario"))
    _search_options(parser.add_argument_group("search"))
    _trial_options(parser.add_argument_group("trials of a candidate"))
    cluster_option(parser)


def _scenario_options(group: Any) -> None:
    """Add what is tuned, and the settings that stay as they are."""
    add = group.add_argument
    set_options(group)
    add(
        "--free",
        choices=("marked", "all"),
        help="numbers of a script to tune: those marked with '@', or all of them ({free})",
    )
    add(
        "--tune",
        dest="numbers",
        type=bounds,
        action="append",
        metavar="PATH=LOWER:UPPER[:SCALE]",
        help="number to tune, by path or label, with its bounds, as model.friction=0.4:1.2; SCALE"
        " may be log; may be repeated",
    )
    add(
        "--pushes",
        type=pushes,
        metavar="N,N@DEG",
        help="forces [N] that push the pelvis, one a trial: from 8 sides, or towards a direction"
        " [deg], 0 forward, 90 left",
    )
    add("--pushed-at", type=positive, metavar="S", help="start of the pushes [s] ({pushed_at})")
    add(
        "--seconds",
        type=within("seconds"),
        metavar="S",
        help="duration of a simulation [s] (the objective's)",
    )
    add("--dt", type=within("dt"), metavar="S", help="time step of the search [s] ({dt})")
    judge = add(
        "--final-dt",
        type=within("dt"),
        metavar="S",
        help="time step of the final evaluation of a script [s] ({final_dt})",
    )
    renamed_option(group, "--judge-dt", judge)


def _trial_options(group: Any) -> None:
    """Add the options of a candidate's trials: their number, variation and aggregation."""
    add = group.add_argument
    add(
        "--trials",
        type=at_least(1),
        metavar="N",
        help="simulations by which a candidate is evaluated ({trials})",
    )
    score = add(
        "--aggregate",
        metavar="HOW",
        help="aggregation of the trials to a fitness: mean, worst, cvar:SHARE (mean of the worst"
        " share) or success (success rate) ({aggregate})",
    )
    renamed_option(group, "--score", score)
    add(
        "--spread",
        type=deviations,
        metavar="A,V",
        help="standard deviation of the starts of the trials: joint angles [rad], joint rates"
        " [rad/s] ({spread})",
    )
    draw = add(
        "--sample",
        type=bounds,
        action="append",
        metavar="PATH=LOWER:UPPER",
        help="number that is sampled for each trial, as model.friction=0.5:0.8; may be repeated",
    )
    renamed_option(group, "--draw", draw)
    add(
        "--vary",
        type=variants,
        action="append",
        metavar="PATH=V,V",
        help="values of a number that the trials take in turn; may be repeated",
    )
    fresh = add(
        "--resample",
        action="store_const",
        const=True,
        help="sample the trials again in each generation; the result is the mean of a generation"
        " that passes --checks",
    )
    renamed_option(group, "--fresh", fresh)
    add(
        "--checks",
        type=at_least(1),
        metavar="N",
        help="with --resample: starts that evaluate a mean ({checks})",
    )
    sure = add(
        "--success-rate",
        type=float,
        metavar="SHARE",
        help="with --resample: success rate over --checks that a mean needs ({success_rate})",
    )
    renamed_option(group, "--sure", sure)
    racing = add(
        "--halve-after",
        type=at_least(0),
        metavar="N",
        help="early stopping: after N trials the worse half of the candidates gets no more (never)",
    )
    renamed_option(group, "--racing", racing)
    also = add(
        "--variant",
        nargs="+",
        action="append",
        metavar="PATH=VALUE",
        help="further scenario by which candidates are evaluated: the first one with these"
        " settings; pushes=N,N@DEG are pushes of its own; may be repeated",
    )
    renamed_option(group, "--also", also)


def _search_options(group: Any) -> None:
    """Add the options of the search method, and the number of searches that run together."""
    add = group.add_argument
    add(
        "--method",
        metavar="M",
        help="search method: cma, sep-cma, openai-es, random, an optimiser of optax (adam, or"
        " adam@0.1 with its learning rate in step sizes), or a chain, as cma:40,adam:20 ({method})",
    )
    add(
        "--generations",
        type=at_least(1),
        metavar="N",
        help="generations in all, those before a resume among them ({generations})",
    )
    add(
        "--population",
        type=at_least(4),
        metavar="P",
        help="candidates of a generation ({population})",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of the random numbers ({seed})")
    add(
        "--sigma",
        type=positive,
        metavar="X",
        help="initial step size, in the scales of the numbers ({sigma})",
    )
    add(
        "--restarts",
        choices=("ipop", "bipop"),
        help="restarts of cma with growing populations (none)",
    )
    add(
        "--runs",
        type=at_least(1),
        metavar="R",
        help="searches that run as one program, with seeds from --seed on ({runs})",
    )
    each = add(
        "--by-run",
        type=variants,
        action="append",
        metavar="NAME=V,V",
        help="values that the runs take in turn: sigma, population, weights.NAME, or any number of"
        " the scenario by path or label; may be repeated",
    )
    renamed_option(group, "--each", each)
    add(
        "--front",
        type=lambda text: text.split(","),
        metavar="TERM,TERM",
        help="terms of the objective whose Pareto front is saved",
    )
    add(
        "--trust-derivative",
        action="store_const",
        const=True,
        help="follow a gradient although the loss decreases by less than half of what it predicts",
    )


def run(args: argparse.Namespace) -> int:
    """Tune a script in a folder, or resume the run there."""
    with defer_interrupts():
        from optimize.results.folder import RunFolder
        from optimize.tuning.config import DEFAULTS
        from optimize.tuning.tune import tune

    args.set = settings(args.set) or None
    options = given_options(args, DEFAULTS)
    for name in {"numbers", "vary", "by_run", "sample"} & options.keys():
        options[name] = dict(options[name])
    if args.variant:
        options["variant"] = [parse_variant(texts) for texts in args.variant]
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
    """Parse a scenario of --variant. Raises ValueError for what cannot be read."""
    own: dict[str, Any] = {}
    for text in texts:
        if text.startswith("pushes="):
            try:
                own["pushes"] = pushes(text.removeprefix("pushes="))
            except argparse.ArgumentTypeError as error:
                raise ValueError(f"--variant {' '.join(texts)}: {error}") from None
    return {"set": settings((t for t in texts if not t.startswith("pushes=")), "--variant"), **own}


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
