"""jaxsim learn: train a policy in a scenario."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.cli.command import Command, Setting
from optimize.cli.shared import run_arguments, run_options, say, set_options, settings
from optimize.cli.values import at_least
from optimize.interrupts import EXIT_CODE as INTERRUPTED
from optimize.interrupts import defer_interrupts

DESCRIPTION = """\
Learn a policy in a scenario whose file has an [environment]: what is observed, done and rewarded
there. The folder keeps a line for each update (history.jsonl), what a resume needs, the best policy
(policy.npz) with its page, and the curve. A run that was interrupted or killed goes on to the same
numbers."""
EXAMPLES = """\
examples:
  jaxsim learn walk_policy --out runs/walk
  jaxsim learn walk_policy --method es --updates 100 --out runs/es
  jaxsim learn walk_policy --option members=512 --set environment.rate=50 --out runs/w
  jaxsim learn --out runs/walk --resume --updates 800
  jaxsim learn walk_policy --runs 5 --out runs/seeds
  jaxsim simulate walk_policy --set controller.name=policy \\
      --set controller.file=runs/walk/policy.npz --out runs/walk_seen"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of learning; those of the method are PATH=VALUE, as --set has them."""
    add = parser.add_argument
    add("scenario", metavar="NAME", nargs="?", help="scenario (jaxsim list); not with --resume")
    add("--method", metavar="M", help="learning method: ppo, shac, es or cma ({method})")
    add(
        "--updates",
        type=at_least(1),
        metavar="N",
        help="updates in all, those before a resume among them ({updates})",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of all random numbers ({seed})")
    add("--runs", type=at_least(1), metavar="R",
        help="runs one after the other, seeds from --seed on, a folder each ({runs})")  # fmt: skip
    add("--option", action="append", default=[], metavar="NAME=VALUE",
        help="option of the method, as members=512; may be repeated")  # fmt: skip
    run_options(parser)
    set_options(parser)


def fill() -> Mapping[str, str]:
    """Defaults for the help text."""
    from optimize.cli.shared import as_text, defaults
    from optimize.learning.learn import learn
    from optimize.results.updates import UPDATES

    return as_text({"runs": 1, **defaults(learn), "updates": UPDATES})


def setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """Settings for batches of many members."""
    return Setting(device=None, precision="float32")


def run(args: argparse.Namespace) -> int:
    """Learn in a folder, or resume the run there."""
    with defer_interrupts():
        from optimize.cli.shared import given_options
        from optimize.learning.learn import learn
        from optimize.learning.runs import Runs, learn_runs, of_several

    options = settings(args.option)
    own = given_options(args, ("method", "seed", "updates", "backend", "runs"))
    if args.resume and (args.scenario or options or args.set or own.keys() - {"updates"}):
        raise ValueError(
            "--resume goes on with the options of the run; leave out all but --updates"
        )
    if not args.resume and args.scenario is None:
        raise ValueError("give a scenario to learn in, as jaxsim learn walk_policy --out runs/walk")
    several = of_several(args.out) if args.resume else args.runs is not None
    result = (learn_runs if several else learn)(
        args.scenario, set=settings(args.set), options=options, **run_arguments(args), **own
    )  # fmt: skip
    if result.interrupted:
        say(f"to go on: jaxsim learn --out {result.folder} --resume")
        return INTERRUPTED
    if isinstance(result, Runs):
        _tell(result.told(), result.folder)
        return 0
    print(f"{result.updates} updates; the best policy's return without noise: {result.worth:.4g}")
    print(f"policy: {result.folder / 'policy.npz'}")
    return 0


def _tell(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the results of the seeds."""
    for seed, worth in zip(summary["seeds"], summary["returns"]):
        print(f"seed {seed}: the best policy's return without noise: {worth:.4g}")
    low, high = summary["interval"]
    print(f"mean over seeds: {summary['mean']:.4g} (95 %: {low:.4g} to {high:.4g})")
    print(f"policy: {folder / 'policy.npz'}, of seed {summary['best']}")


COMMAND = Command(
    name="learn",
    about="a policy that learns in a scenario",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=setting,
    overview=("jaxsim learn walk_policy --out runs/walk", "a network that walks"),
)
