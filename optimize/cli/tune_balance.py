"""jaxsim tune-balance: better numbers for the balance controller."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optimize.cli.command import Command, Setting
from optimize.cli.shared import (
    INTERRUPTED,
    as_text,
    defaults,
    pushed_options,
    run_options,
    run_study,
    study_setting,
)
from optimize.cli.values import at_least, positive, several
from optimize.interrupts import holding

DESCRIPTION = """\
Tune the weights of the balance controller and the numbers of its steps, from those it has.

cma: CMA-ES on the part of the time that the character stands, over a fixed batch of pushes.
gradient: along the derivative of how far the centre of mass strays from its support in the first
half second, through the steps of the synthesis; compared with finite differences first.

best.json in the folder goes into jaxsim pushmap --weights."""
EXAMPLES = """\
examples:
  jaxsim tune-balance --method cma --generations 10 --population 8 --out runs/tuned
  jaxsim tune-balance --torque-limits --forces 300,400 --out runs/within_limits
  jaxsim tune-balance --method gradient --generations 5 --out runs/descended
  jaxsim tune-balance --method cma --out runs/tuned --resume"""


def fill() -> Mapping[str, str]:
    """The defaults."""
    from optimize.tuning.balance_tuning import TuningOptions

    return as_text(defaults(TuningOptions))


def add_options(parser: argparse.ArgumentParser) -> None:
    """All but those of the folder are fields of ``TuningOptions``."""
    run_options(parser)
    pushed_options(parser)
    add = parser.add_argument
    add("--method", choices=("cma", "gradient"), help="({method})")
    add(
        "--generations",
        type=at_least(1),
        metavar="N",
        help="or steps of the gradient ({generations})",
    )
    add(
        "--population", type=at_least(4), metavar="P", help="members of a generation ({population})"
    )
    add("--pushes", type=at_least(1), metavar="N", help="that each member is judged by ({pushes})")
    add("--forces", type=several, metavar="N,N", help="of the pushes, in turn [N] ({forces})")
    add("--seed", type=at_least(0), metavar="S", help="of the random numbers ({seed})")
    add("--sigma", type=positive, metavar="X", help="first step size, relative ({sigma})")
    add("--only", choices=("weights", "gait"), help="weights of goals, or numbers of steps (both)")


def setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """A gradient is as precise as the device allows."""
    found = study_setting(args, kept)
    return replace(found, precision=None) if args.method == "gradient" else found


def run(args: argparse.Namespace) -> int:
    """Tune, write the folder, print what was gained."""
    with holding():
        from optimize.tuning.balance_tuning import TuningOptions, tune_balance

    result = run_study(tune_balance, TuningOptions, args)
    print(result.report)
    return INTERRUPTED if result.interrupted else 0


COMMAND = Command(
    name="tune-balance",
    about="better weights for the balance controller",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=setting,
)
