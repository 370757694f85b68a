"""jaxsim simulate: the motion of a script, a world or a character."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from optimize.cli.command import Command
from optimize.cli.shared import (
    as_text,
    defaults,
    given,
    outcome,
    say,
    scene_defaults,
    scene_options,
    write_and_print,
)
from optimize.cli.values import within
from optimize.interrupts import holding

if TYPE_CHECKING:
    from optimize.running.simulate import Simulation

DESCRIPTION = """\
Simulate a script, a world or a character, and write the motion: a page that plays offline
(motion.html), a film strip, plots of heights, phases and torques against their limits, the
trajectory, and a summary.

SCRIPT drives the planar human; it is a file, or the name of a script that comes with the package:
{scripts}.

--world reads a world file: fixed, loose and driven things, grips, pushes, and a character with what
drives it (docs/worlds.md); shipped ones go by name: {worlds}.
--character puts another character in its place, or stands alone on its ground: an MJCF or URDF
file, or one of {characters}."""
EXAMPLES = """\
examples:
  jaxsim simulate walk --seconds 10 --out runs/walk
  jaxsim simulate sit_to_stand --chair-height 0.5 --out runs/chair
  jaxsim simulate my_kip_up.scl --start supine --dt 0.00025 --out runs/kip
  jaxsim simulate walk --json | python -m json.tool
  jaxsim simulate --world stairs.toml --out runs/stairs
  jaxsim simulate --character ball_joint_human --start prone --out runs/prone
  jaxsim simulate --character robot.xml --world stairs.toml --seconds 3 --out runs/robot"""


def fill() -> Mapping[str, str]:
    """What there is to simulate, and the defaults."""
    from controllers.scl.load import shipped_scripts
    from jaxsim.io.world_character import BUILT_IN
    from optimize.running.gallery import shipped_worlds
    from optimize.running.simulate import simulate
    from optimize.running.world_run import DT

    names = {"scripts": shipped_scripts(), "worlds": shipped_worlds(), "characters": BUILT_IN}
    return {
        **{kind: ", ".join(each) for kind, each in names.items()},
        **as_text(defaults(simulate) | scene_defaults() | {"world_dt": DT["time_stepping"]}),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of a script and those of a world."""
    add = parser.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="a script file, or a shipped one by name")
    add("--world", metavar="FILE", help="a world file, or a shipped one by name")
    add("--character", metavar="NAME", help="a built-in character or a model file")
    scene_options(parser)
    add(
        "--seconds",
        type=within("seconds"),
        metavar="S",
        help="how long [s] (the world's, or {seconds})",
    )
    add(
        "--dt",
        type=within("dt"),
        metavar="S",
        help="time step [s] ({dt}; the world's, or {world_dt})",
    )
    add("--fps", type=within("fps"), metavar="N", help="frames kept a second ({fps})")
    add("--objective", metavar="NAME", help="judge the motion too (see jaxsim tune --help)")
    add("--out", metavar="DIR", help="folder for the results; its other files stay")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Simulate, write the folder, print the summary. 1: the motion means nothing."""
    with holding():
        from optimize.results.folder import RunFolder

    if args.out is not None and (Path(args.out) / RunFolder.CONFIG).is_file():
        raise FileExistsError(
            f"{args.out} holds a tuning run, whose script would be overwritten;"
            " choose another --out"
        )
    simulation = _of_script(args) if args.script is not None else _of_world(args)
    write_and_print(simulation, args.out, args.json)
    if args.out is None and not args.json:
        say("nothing was written; --out DIR keeps the motion as a page, plots and data")
    return outcome(simulation)


def _of_script(args: argparse.Namespace) -> Simulation:
    with holding():
        from optimize.running.simulate import simulate

    if args.world is not None or args.character is not None:
        raise ValueError(
            "give either a SCRIPT, which drives the planar human, or --world and --character"
        )
    return simulate(args.script, progress=not args.quiet, **given(args, defaults(simulate)))


def _of_world(args: argparse.Namespace) -> Simulation:
    with holding():
        from jaxsim.io.world import World
        from jaxsim.io.world_character import begun, with_character
        from optimize.running.gallery import find_world
        from optimize.running.simulate import simulate
        from optimize.running.world_run import simulate_world

    if args.world is None and args.character is None:
        raise ValueError("give a SCRIPT, --world FILE or --character NAME; see jaxsim simulate -h")
    options = given(args, defaults(simulate_world))
    for option in given(args, defaults(simulate)):
        if option not in (*options, "start"):
            raise ValueError(
                f"--{option.replace('_', '-')} belongs to a SCRIPT; a world file says such things"
                " itself (docs/worlds.md)"
            )
    world = World() if args.world is None else find_world(args.world)
    if args.character is not None:
        world = with_character(world, args.character)
    if args.start is not None:
        world = begun(world, args.start)
    return simulate_world(world, progress=not args.quiet, **options)


COMMAND = Command(
    name="simulate",
    about="a script, a world or a character, as a page",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    fill=fill,
    overview=("jaxsim simulate walk --seconds 10 --out runs/walk", ""),
)
