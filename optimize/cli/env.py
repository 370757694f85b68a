"""jaxsim env: a scenario as an environment, with a zero, random or trained agent."""

from __future__ import annotations

import argparse
import json

from optimize.cli.command import Command
from optimize.cli.shared import set_options, settings
from optimize.cli.values import at_least, within
from optimize.interrupts import defer_interrupts

DESCRIPTION = """\
Look at a scenario as an environment before anything learns there: what is observed and done, what
an agent is paid for, how long its episodes last, and how fast they run. zero: no action, random:
normal ones, FILE: a policy that has learned (jaxsim learn)."""
EXAMPLES = """\
examples:
  jaxsim env walk_policy
  jaxsim env walk_policy --agent random --seconds 5
  jaxsim env walk_policy --agent runs/walk/policy.npz --out runs/seen"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --agent, --set and the size of the batch."""
    add = parser.add_argument
    add("scenario", metavar="NAME", help="scenario with an [environment]")
    add("--agent", default="zero", metavar="A", help="agent: zero, random, or a policy file (zero)")
    add(
        "--seconds",
        type=within("seconds"),
        default=5.0,
        metavar="S",
        help="duration of each episode [s] (5)",
    )
    add("--members", type=at_least(1), default=64, metavar="N", help="episodes of the batch (64)")
    add("--seed", type=at_least(0), default=0, metavar="S", help="seed of the random numbers (0)")
    add(
        "--out",
        metavar="DIR",
        help="folder for the page of one motion, of the agent zero or a policy",
    )
    add("--json", action="store_true", help="print the result as JSON")
    set_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run a batch, print its rewards; write the page."""
    with defer_interrupts():
        from optimize.learning.trying import agent_of, try_agent, write_page
        from optimize.scenarios.find import scenario

    base = scenario(args.scenario, settings(args.set))
    agent = agent_of(args.agent, base)
    results = try_agent(base, agent, args.seconds, args.members, args.seed, args.backend or "fused")
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        width = max(map(len, results))
        for name, value in results.items():
            shown = f"{value:.5g}" if isinstance(value, float) else value
            print(f"{name:<{width}}  {shown}")
    if args.out is not None:
        write_page(base, agent, args.seconds, args.out)
    return 0 if not results["episodes that were not finite"] else 1


COMMAND = Command(
    name="env",
    about="a scenario as an environment for learning",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
)
