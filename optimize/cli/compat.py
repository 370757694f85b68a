"""jaxsim compat: compatibility of actions and situations."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from optimize.cli.command import Command, Setting
from optimize.cli.shared import (
    as_text,
    defaults,
    run_options,
    run_study,
    say,
    set_options,
    settings,
)
from optimize.cli.values import at_least, bounds, positive, variants
from optimize.interrupts import defer_interrupts

ACTIONS = ("fit", "query", "show")
DESCRIPTION = """\
Learn a volume of situations and actions that go together, from simulations that end in yes or no,
and ask it.

  fit    sample a scenario over ranges of its numbers, and learn a support vector machine
  query  actions for a situation (or situations for an action) that differ, each simulated
  show   a page of the volume, the samples and the motions of the last query

The folder keeps every batch: an interrupted fit goes on with --resume."""
EXAMPLES = """\
examples:
  jaxsim compat fit sit_to_stand_arms --state character.chair_height=0.15:0.75 \\
      --action "lean: waist angle=0:90" --action "lean: shoulders angle=0:180" --out runs/chair
  jaxsim compat query --at character.chair_height=0.45,0.16,0.65 --out runs/chair
  jaxsim compat show --out runs/chair
  jaxsim compat fit --out runs/chair --resume               go on after an interrupt"""


def fill() -> Mapping[str, str]:
    """Defaults for the help text."""
    from optimize.compatibility.query import Diverse
    from optimize.compatibility.question import OUTCOMES
    from optimize.compatibility.run import METHODS, FitOptions

    told = as_text({**defaults(FitOptions), **defaults(Diverse)})
    return {**told, "methods": " or ".join(METHODS), "outcomes": " or ".join(OUTCOMES)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of fit (fields of ``FitOptions``) and of query (of ``Diverse``)."""
    add = parser.add_argument
    add(
        "action_name",
        metavar="fit|query|show",
        choices=ACTIONS,
        help="fit a model, query it, or show it",
    )
    add("scenario", metavar="SCENARIO", nargs="?", help="with fit: scenario, by name or file")
    run_options(parser)
    set_options(parser)
    own = parser.add_argument_group("fit")
    for name, about in (("state", "the situation"), ("action", "the action")):
        own.add_argument(
            f"--{name}",
            type=bounds,
            action="append",
            metavar="PATH=LOWER:UPPER[:SCALE]",
            help=f"number of {about} with its bounds, by label or path; may be repeated",
        )
    add = own.add_argument
    add("--method", metavar="NAME", help="sampling method: {methods} ({method})")
    add("--outcome", metavar="NAME", help="outcome that counts as success: {outcomes} ({outcome})")
    add("--samples", type=at_least(1), metavar="N", help="number of samples, at least ({samples})")
    add("--seconds", type=positive, metavar="S", help="duration of a simulation [s] ({seconds})")
    add(
        "--trials",
        type=at_least(1),
        metavar="N",
        help="starts of a sample, all of which have to succeed ({trials})",
    )
    add("--seed", type=at_least(0), metavar="S", help="seed of samples, folds and answers ({seed})")
    add = parser.add_argument_group("query").add_argument
    add(
        "--at",
        type=variants,
        action="append",
        metavar="PATH=V,V",
        help="number of the situation with its values; may be repeated",
    )
    add("--count", type=at_least(1), metavar="N", help="answers to each situation ({count})")
    add("--margin", type=float, metavar="D", help="least decision value of an answer ({margin})")
    add(
        "--iterations",
        type=at_least(1),
        metavar="N",
        help="iterations that move the answers apart ({iterations})",
    )


def run(args: argparse.Namespace) -> int:
    """Run one of ``ACTIONS``."""
    args.name = f"compat {args.action_name}"  # how it goes on after an interrupt
    return {"fit": _fit, "query": _query, "show": _show}[args.action_name](args)


def _fit(args: argparse.Namespace) -> int:
    with defer_interrupts():
        from optimize.compatibility.run import FitOptions, fit, fit_statistics

    if not args.resume and not (args.scenario and args.state and args.action):
        raise ValueError(
            "to fit, name a scenario and what varies, as in jaxsim compat fit sit_to_stand_arms"
            ' --state character.chair_height=0.15:0.75 --action "lean: waist angle=0:90"'
        )
    args.set = settings(args.set) or None
    more = {} if args.resume else {"scenario": args.scenario}
    for name in () if args.resume else ("state", "action"):
        more[name] = dict(getattr(args, name))
    fitted = run_study(fit, FitOptions, args, **more)
    model = fit_statistics(fitted)
    print(
        f"{model['samples']} samples, {model['compatible']} compatible, in"
        f" {model['seconds']['sampling']:.1f} s; {model['accuracy']:.2%} right in 5-fold"
        f" cross-validation; {model['support_vectors']} support vectors"
    )
    return 0


def _query(args: argparse.Namespace) -> int:
    with defer_interrupts():
        from optimize.compatibility.ask import ask, table
        from optimize.compatibility.query import Diverse

    if not args.at:
        raise ValueError("to query, say what is given, as in --at character.chair_height=0.45")
    from optimize.cli.shared import given_options

    print(table(ask(args.out, dict(args.at), Diverse(**given_options(args, defaults(Diverse))))))
    return 0


def _show(args: argparse.Namespace) -> int:
    with defer_interrupts():
        from optimize.compatibility.page import write_model_page

    say(*(f"wrote {file}" for file in [write_model_page(args.out, progress=not args.quiet)]))
    print((Path(args.out) / "compat.html").resolve().as_uri())
    return 0


def setting(args: argparse.Namespace, kept: Mapping[str, object]) -> Setting:
    """Settings for many simulations at once, in the precision of the folder's run."""
    return Setting(device=None, precision="float32")


COMMAND = Command(
    name="compat",
    about="which actions go with which situations",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    setting=setting,
    overview=("jaxsim compat query --at ... --out runs/chair", "actions for a situation"),
)
