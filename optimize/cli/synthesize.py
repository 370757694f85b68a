"""jaxsim synthesize: behaviours by an optimisation at every step."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli.command import Command
from optimize.cli.shared import defaults, given, outcome, say, write_and_print
from optimize.cli.values import coefficient, positive, within
from optimize.interrupts import holding

if TYPE_CHECKING:
    from controllers.goals.holds import Hold
    from optimize.scenarios.synthesis_scenes import Reach, SynthesisScene

DESCRIPTION = """\
Synthesise a behaviour of the 37-freedom human by per-step optimisation, and write its page, film
strip, plots and summary. The controller is a state machine of goals (docs/behaviours.md). Scenes:

{scenes}

SCENE may be "all": each in a folder of its name, and a page that shows them."""
EXAMPLES = """\
examples:
  jaxsim synthesize push --out runs/push
  jaxsim synthesize push --push 300 --direction 90 --out runs/left
  jaxsim synthesize push --build child --push 60 --friction 0.2 --out runs/child
  jaxsim synthesize stand --seconds 8 --reach rightHand 0.4 -0.3 1.4 1 4 --out runs/reach
  jaxsim synthesize push --hold leftHand 0.5 4 --out runs/hold
  jaxsim synthesize all --out runs/behaviours"""


def fill() -> Mapping[str, str]:
    """The scenes."""
    from optimize.scenarios.synthesis_scenes import SCENES

    width = max(map(len, SCENES))
    lines = (f"  {name:<{width}}  {scene.title}" for name, scene in SCENES.items())
    return {"scenes": "\n".join(lines)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that change a scene have the name that ``changed`` gives them."""
    add = parser.add_argument
    add("scene", metavar="SCENE", help="a scene by name, or all")
    add("--out", metavar="DIR", help="folder for the results; its other files stay")
    add("--push", type=coefficient, metavar="N", help="force on the pelvis instead of its own [N]")
    add(
        "--direction",
        dest="direction_deg",
        type=float,
        metavar="DEG",
        help="in which it pushes: 0 forward, 90 left",
    )
    add("--duration", type=positive, metavar="S", help="how long [s]")
    add("--build", choices=("adult", "child"), help="the body")
    add("--friction", type=positive, metavar="MU", help="coefficient of friction")
    add("--seconds", type=within("seconds"), metavar="S", help="how long [s]")
    add("--torque-limits", action="store_true", default=None, help="joints keep to them")
    add(
        "--reach",
        dest="reaches",
        action="append",
        nargs=6,
        metavar=("EFFECTOR", "X", "Y", "Z", "FROM", "TO"),
        help="a goal for a while: an effector (rightHand) to a point [m]; may be given again",
    )
    add(
        "--hold",
        dest="holds",
        action="append",
        nargs=3,
        metavar=("EFFECTOR", "FROM", "TO"),
        help="a constraint for a while: an effector stays where it is, by any force; also again",
    )
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Synthesise a scene, or all of them. 1: the motion is not finite."""
    with holding():
        from optimize.running.gallery import write_index
        from optimize.running.synthesis_run import synthesize_scene
        from optimize.scenarios.synthesis_scenes import SCENES

    if args.backend == "fused":
        raise ValueError("scenes run with --backend xla; the fused back end is for batches")
    every = args.scene == "all"
    if every and args.out is None:
        raise ValueError("all scenes need a folder: give --out DIR")
    worst, done = 0, {}
    for name in list(SCENES) if every else [args.scene]:
        scene = _scene(name, args)
        say(f"{name}: {scene.title}")
        simulation = synthesize_scene(scene, progress=not args.quiet)
        write_and_print(simulation, Path(args.out) / name if every else args.out, args.json)
        worst, done[name] = max(worst, outcome(simulation)), scene.title
        if simulation.interrupted:
            break
    if every:
        print(write_index(Path(args.out), done).resolve().as_uri())
    return worst


def _scene(name: str, args: argparse.Namespace) -> SynthesisScene:
    """The scene of this name as the options change it."""
    from optimize.scenarios.synthesis_scenes import changed, find_scene

    scene = find_scene(name)
    changes: dict[str, Any] = given(args, defaults(changed))
    for kind, made in (("reaches", _reach), ("holds", _hold)):
        changes[kind] = tuple(map(made, changes.get(kind, ())))
    return changed(scene, **changes)


def _reach(words: list[str]) -> Reach:
    from optimize.scenarios.synthesis_scenes import Reach

    what = "five numbers, where it is to be (x, y, z) [m], from when, until when [s]"
    effector, x, y, z, start, end = _with_numbers("--reach", words, what)
    return Reach(effector, (x, y, z), start, end)


def _hold(words: list[str]) -> Hold:
    from controllers.goals.holds import Hold

    return Hold(*_with_numbers("--hold", words, "two numbers, from when, until when [s]"))


def _with_numbers(option: str, words: list[str], what: str) -> tuple:
    """An effector and what follows it as numbers."""
    effector, *numbers = words
    try:
        return effector, *map(float, numbers)
    except ValueError:
        typed = " ".join(words)
        raise ValueError(f"{option} {typed}: after the effector stand {what}") from None


COMMAND = Command(
    name="synthesize",
    about="behaviours by per-step optimisation",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim synthesize push --out runs/push", "a human that keeps its balance"),
)
