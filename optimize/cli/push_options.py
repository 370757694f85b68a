"""The options of the commands about pushes, and their help texts."""

import argparse
from collections.abc import Callable
from typing import Any

from optimize.cli.options import _at_least, _positive, accept_changes

PUSHMAP = """\
Find the largest push at the pelvis after which the balance controller keeps the human standing: by
direction, duration, and for a number of slightly different starts, by bisection. The folder gets
a table (push_map.txt), the cells (push_map.csv), arrays (push_map.npz), a polar plot
(push_map.png). Each round is kept: an interrupted run goes on with --resume."""
PUSHMAP_EXAMPLES = """\
examples:
  jaxsim pushmap --out runs/adult
  jaxsim pushmap --build child --strongest 375 --resolution 12.5 --out runs/child
  jaxsim pushmap --friction 0.2 --durations 0.2 --starts 4 --out runs/ice
  jaxsim pushmap --weights runs/tuned/best.json --out runs/tuned_map
  jaxsim pushmap --out runs/adult --resume                  go on after an interrupt"""
TUNE_BALANCE = """\
Tune the weights of the balance controller and the numbers of its steps, from those it has.

cma: CMA-ES on the part of the time that the character stands, over a fixed batch of pushes.
gradient: along the derivative of how far the centre of mass strays from its support in the first
half second, through the steps of the synthesis; compared with finite differences first.

best.json in the folder goes into jaxsim pushmap --weights."""
TUNE_BALANCE_EXAMPLES = """\
examples:
  jaxsim tune-balance --method cma --generations 10 --population 8 --out runs/tuned
  jaxsim tune-balance --torque-limits --forces 300,400 --out runs/within_limits
  jaxsim tune-balance --method gradient --generations 5 --out runs/descended
  jaxsim tune-balance --method cma --out runs/tuned --resume"""


def add_push_commands(command: Callable[..., argparse.ArgumentParser]) -> list:
    """command(name, about, description, examples) -> a parser; those of the two commands."""
    pushmap = command("pushmap", "which pushes are survived", PUSHMAP, PUSHMAP_EXAMPLES)
    _pushmap_options(pushmap)
    about = "better weights for the balance controller"
    balance = command("tune-balance", about, TUNE_BALANCE, TUNE_BALANCE_EXAMPLES)
    _tune_balance_options(balance)
    return [pushmap, balance]


def _several(text: str) -> tuple[float, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _common_options(parser: argparse.ArgumentParser) -> Callable[..., Any]:
    """Of both commands; returns what adds others."""
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="result folder: new, or with --resume its own")
    add("--resume", action="store_true", help="go on with the run in DIR, with its options")
    accept_changes(parser)
    add("--build", metavar="NAME", help="adult, child, ... (the scene's)")
    add("--friction", type=_positive, metavar="MU", help="coefficient of friction (the scene's)")
    add("--torque-limits", action="store_true", default=None, help="joints keep to them")
    return add


def _pushmap_options(parser: argparse.ArgumentParser) -> None:
    add = _common_options(parser)
    add("--scene", metavar="NAME", help="what stands around it: push, near_wall, ... (push)")
    add("--starts", type=_at_least(1), metavar="N", help="slightly different ones (16)")
    add("--directions", type=_at_least(1), metavar="N", help="around the body (8)")
    add("--durations", type=_several, metavar="S,S", help="of a push [s] (0.1,0.2,0.4)")
    add("--resolution", type=_positive, metavar="N", help="steps of the force [N] (25)")
    add("--strongest", type=_positive, metavar="N", help="force that is tried [N] (750)")
    add("--checks", type=_at_least(0), metavar="K", help="weaker forces that are tried too (2)")
    add("--seconds", type=_positive, metavar="S", help="to stand after the longest push [s] (4)")
    add("--seed", type=_at_least(0), metavar="S", help="of the starts (0)")
    add("--weights", metavar="FILE", help="numbers of the controller: JSON, see tune-balance")


def _tune_balance_options(parser: argparse.ArgumentParser) -> None:
    add = _common_options(parser)
    add("--method", choices=("cma", "gradient"), help="(cma)")
    add("--generations", type=_at_least(1), metavar="N", help="or steps of the gradient (10)")
    add("--population", type=_at_least(4), metavar="P", help="members of a generation (8)")
    add("--pushes", type=_at_least(1), metavar="N", help="that each member is judged by (16)")
    add("--forces", type=_several, metavar="N,N", help="of the pushes, in turn [N] (450,650)")
    add("--seed", type=_at_least(0), metavar="S", help="of the random numbers (0)")
    add("--sigma", type=_positive, metavar="X", help="first step size, relative (0.15)")
    add("--only", choices=("weights", "gait"), help="weights of goals, or numbers of steps (both)")
