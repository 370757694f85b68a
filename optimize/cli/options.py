"""The options of the command line, and their help texts."""

import argparse
import math
from collections.abc import Callable

import jaxsim
from jaxsim.ranges import RANGES

SIMULATE = """\
Simulate a script, a world or a character, and write the motion: a page that plays offline
(motion.html), a film strip, plots of heights, phases and torques against their limits, the
trajectory, and a summary.

SCRIPT drives the planar human; it is a file, or the name of a script that comes with the package:
{scripts}.

--world reads a world file: fixed, loose and driven things, grips, pushes, and a character with what
drives it (docs/worlds.md); shipped ones go by name: {worlds}.
--character puts another character in its place, or stands alone on its ground: an MJCF or URDF
file, or one of {characters}."""
SIMULATE_EXAMPLES = """\
examples:
  jaxsim simulate walk --seconds 10 --out runs/walk
  jaxsim simulate sit_to_stand --chair-height 0.5 --out runs/chair
  jaxsim simulate my_kip_up.scl --start supine --dt 0.00025 --out runs/kip
  jaxsim simulate walk --json | python -m json.tool
  jaxsim simulate --world stairs.toml --out runs/stairs
  jaxsim simulate --character ball_joint_human --start prone --out runs/prone
  jaxsim simulate --character robot.xml --world stairs.toml --seconds 3 --out runs/robot"""
TUNE = """\
Tune the numbers of a script that are marked with '@', as in [waist @30], by CMA-ES. The result
folder keeps all that is needed to run it again: script, options, versions, history, checkpoint,
best script, and at the end its motion and plots."""
TUNE_EXAMPLES = """\
objectives:
{objectives}

examples:
  jaxsim tune sit_to_stand_quick --objective quick-rise --generations 10 --out runs/rise
  jaxsim tune kip.scl --start supine --objective athletic-kip-up --free all --out runs/kip
  jaxsim tune walk --objective stand --free all --tune model.friction=0.4:1.2 --out runs/w
  jaxsim tune --out runs/kip --resume                       go on after an interrupt
  jaxsim tune --out runs/kip --resume --generations 200     go on for longer"""
CHECK_EXAMPLES = "example:\n  jaxsim check my_kip_up.scl && echo good"
VIEW_EXAMPLES = "example:\n  jaxsim view runs/walk"
DEMO_EXAMPLES = "example:\n  jaxsim demo --out demo"
EXAMPLES = """\
examples:
  jaxsim demo                                               see it work, in a minute or two
  jaxsim simulate walk --seconds 10 --out runs/walk
  jaxsim tune kip.scl --objective athletic-kip-up --out runs/kip
  jaxsim check kip.scl
  jaxsim view runs/walk
  jaxsim gallery --out gallery                              worlds in space
  jaxsim synthesize push --out runs/push                    a human that keeps its balance
  jaxsim pushmap --out runs/pushes                          which pushes it survives

jaxsim COMMAND --help tells all about a command."""


class _Parser(argparse.ArgumentParser):
    """Texts are shown as they are written; ``fill`` looks up what only a help text needs."""

    fill: Callable[[], dict[str, str]] | None = None

    def __init__(self, **options):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def format_help(self) -> str:
        if self.fill is not None:
            values = self.fill()
            self.description = (self.description or "").format(**values)
            self.epilog = (self.epilog or "").format(**values)
            self.fill = None
        return super().format_help()


GALLERY = """\
Simulate the worlds that come with the package, and write a page for each and one that shows them
all: {worlds}."""
GALLERY_EXAMPLES = """\
examples:
  jaxsim gallery --out gallery
  jaxsim gallery --only box_stack --out gallery"""


SYNTHESIZE = """\
Synthesise a behaviour of the 37-freedom human by per-step optimisation, and write its page, film
strip, plots and summary. The controller is a state machine of goals (docs/behaviours.md). Scenes:

{scenes}

SCENE may be "all": each in a folder of its name, and a page that shows them."""
SYNTHESIZE_EXAMPLES = """\
examples:
  jaxsim synthesize push --out runs/push
  jaxsim synthesize push --push 300 --direction 90 --out runs/left
  jaxsim synthesize push --build child --push 60 --friction 0.2 --out runs/child
  jaxsim synthesize stand --seconds 8 --reach rightHand 0.4 -0.3 1.4 1 4 --out runs/reach
  jaxsim synthesize push --hold leftHand 0.5 4 --out runs/hold
  jaxsim synthesize all --out runs/behaviours"""


def _scenes() -> dict[str, str]:
    from optimize.scenarios.synthesis_scenes import SCENES

    width = max(map(len, SCENES))
    lines = (f"  {name:<{width}}  {scene.title}" for name, scene in SCENES.items())
    return {"scenes": "\n".join(lines)}


def _scripts() -> dict[str, str]:
    from controllers.scl.load import shipped_scripts
    from jaxsim.io.world_character import BUILT_IN

    scripts, characters = ", ".join(shipped_scripts()), ", ".join(BUILT_IN)
    return {"scripts": scripts, "characters": characters, **_worlds()}


def _worlds() -> dict[str, str]:
    from optimize.running.gallery import shipped_worlds

    return {"worlds": ", ".join(shipped_worlds())}


def _objectives() -> dict[str, str]:
    from optimize.running.objectives import OBJECTIVES

    width = max(map(len, OBJECTIVES))
    return {
        "objectives": "\n".join(
            f"  {o.name:<{width}}  {o.seconds:g} s: {o.about}" for o in OBJECTIVES.values()
        )
    }


# ---- kinds of values


def _positive(text: str) -> float:
    return _number(text, lambda x: x > 0, "a positive number")


def _coefficient(text: str) -> float:
    return _number(text, lambda x: x >= 0, "a number of at least 0")


def _number(text: str, good: Callable[[float], bool], wanted: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and good(value)):
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
    return value


def _within(name: str) -> Callable[[str], float]:
    """A number in the range of this name in ``jaxsim.ranges``."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not RANGES[name].holds(value):
            raise argparse.ArgumentTypeError(f"got {text!r}; {RANGES[name].wanted}")
        return value

    return number


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            message = f"expected a whole number of at least {least}, got {text!r}"
            raise argparse.ArgumentTypeError(message)
        return value

    return whole


def _bounds(text: str) -> tuple[str, tuple[float, ...]]:
    """PATH=LOWER:UPPER[:SCALE]."""
    path, equals, numbers = text.partition("=")
    try:
        values = tuple(float(number) for number in numbers.split(":"))
    except ValueError:
        values = ()
    if not (path and equals and len(values) in (2, 3) and all(map(math.isfinite, values))):
        raise argparse.ArgumentTypeError(
            f"expected PATH=LOWER:UPPER, as in model.friction=0.4:1.2, got {text!r}"
        )
    return path, values


# ---- options


def _general(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("general")
    group.add_argument("--device", choices=("cpu", "gpu"), help="where to compute")
    group.add_argument(
        "--backend",
        choices=("fused", "xla"),
        help="one kernel a rollout (default, but for worlds), or XLA",
    )
    group.add_argument("--precision", choices=("float32", "float64"), help="of the numbers")
    group.add_argument(
        "--no-cache", action="store_true", help="do not keep compiled programs for the next time"
    )
    group.add_argument(
        "--quiet", action="store_true", help="no progress bar, no word of what compiles for long"
    )
    group.add_argument("--debug", action="store_true", help="show where an error comes from")


def _scene(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--start",
        metavar="POSE",
        help="where to begin: standing, sitting, supine, prone, ... (default: as the script's name"
        " or the world says)",
    )
    parser.add_argument(
        "--chair-height",
        type=_within("chair_height"),
        metavar="M",
        help="for the start sitting [m] (0.45)",
    )
    parser.add_argument(
        "--friction", type=_within("friction"), metavar="MU", help="coefficient of friction (0.6)"
    )


def _simulate_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="a script file, or a shipped one by name")
    add("--world", metavar="FILE", help="a world file, or a shipped one by name")
    add("--character", metavar="NAME", help="a built-in character or a model file")
    _scene(parser)
    add("--seconds", type=_within("seconds"), metavar="S", help="how long [s] (the world's, or 5)")
    add(
        "--dt",
        type=_within("dt"),
        metavar="S",
        help="time step [s] (0.00025; the world's, or 0.001)",
    )
    add("--fps", type=_within("fps"), default=120.0, metavar="N", help="frames kept a second (120)")
    add("--objective", metavar="NAME", help="judge the motion too (see jaxsim tune --help)")
    add("--out", metavar="DIR", help="folder for the results; its other files stay")
    add("--json", action="store_true", help="print the summary as JSON")


def _tune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "script", metavar="SCRIPT", nargs="?", help="a script; with --resume it may be left out"
    )
    add = parser.add_argument
    add("--objective", metavar="NAME", help="what is wanted, see below")
    add("--generations", type=_at_least(1), metavar="N", help="how many in all (60)")
    add("--population", type=_at_least(4), metavar="P", help="members of a generation (20)")
    add("--seed", type=_at_least(0), metavar="S", help="of the random numbers (0)")
    add("--sigma", type=_positive, metavar="X", help="first step size (0.1)")
    add(
        "--trials",
        type=_at_least(1),
        metavar="N",
        help="judge each member by the mean of N motions (1)",
    )
    add(
        "--noise",
        type=_positive,
        metavar="W",
        help="whose joints begin with random speeds of this size, but for the first [rad/s] (0.05)",
    )
    add("--out", required=True, metavar="DIR", help="result folder: new, or with --resume its own")
    add("--resume", action="store_true", help="go on with the run in DIR, with its options")
    accept_changes(parser)
    _scene(parser)
    add(
        "--seconds",
        type=_within("seconds"),
        metavar="S",
        help="of a simulation [s] (the objective's)",
    )
    add("--dt", type=_within("dt"), metavar="S", help="time step of the search [s] (0.001)")
    add("--judge-dt", type=_within("dt"), metavar="S", help="and of the judgement [s] (0.00025)")
    add("--free", choices=("marked", "all"), help="numbers marked with '@' (default), or every one")
    add(
        "--tune",
        type=_bounds,
        action="append",
        default=[],
        metavar="PATH=LOWER:UPPER",
        help="also tune arrays below model., as in model.friction=0.4:1.2; may be repeated",
    )


def accept_changes(parser: argparse.ArgumentParser) -> None:
    """The option of the commands that can go on with a run."""
    parser.add_argument(
        "--accept-changes",
        action="store_true",
        help="with --resume: go on although script, options, model or code have changed, and note"
        " it in the history",
    )


def _demo_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", default="demo", metavar="DIR", help="result folder (demo); begun anew each time")
    add("--generations", type=_at_least(1), default=5, metavar="N", help="(5)")
    add("--population", type=_at_least(4), default=20, metavar="P", help="(20)")
    add("--seed", type=_at_least(0), default=0, metavar="S", help="(0)")
    add("--no-open", action="store_true", help="only print where the page is")


def _gallery_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="result folder; a folder in it for each world")
    add("--only", metavar="NAME", help="this world alone")


def _synthesize_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("scene", metavar="SCENE", help="a scene by name, or all")
    add("--out", metavar="DIR", help="folder for the results; its other files stay")
    add("--push", type=_coefficient, metavar="N", help="force on the pelvis instead of its own [N]")
    add("--direction", type=float, metavar="DEG", help="in which it pushes: 0 forward, 90 left")
    add("--duration", type=_positive, metavar="S", help="how long [s]")
    add("--build", choices=("adult", "child"), help="the body")
    add("--friction", type=_positive, metavar="MU", help="coefficient of friction")
    add("--seconds", type=_within("seconds"), metavar="S", help="how long [s]")
    add("--torque-limits", action="store_true", default=None, help="joints keep to them")
    add(
        "--reach",
        action="append",
        default=[],
        nargs=6,
        metavar=("EFFECTOR", "X", "Y", "Z", "FROM", "TO"),
        help="a goal for a while: an effector (rightHand) to a point [m]; may be given again",
    )
    add(
        "--hold",
        action="append",
        default=[],
        nargs=3,
        metavar=("EFFECTOR", "FROM", "TO"),
        help="a constraint for a while: an effector stays where it is, by any force; also again",
    )
    add("--json", action="store_true", help="print the summary as JSON")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    main = _Parser(
        prog="jaxsim",
        description="Simulate physics-based characters, and tune the scripts that drive them.",
        epilog=EXAMPLES,
    )
    main.add_argument("--version", action="version", version=f"jaxsim {jaxsim.__version__}")
    commands = main.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def command(name: str, about: str, description: str, examples: str) -> _Parser:
        return commands.add_parser(name, help=about, description=description, epilog=examples)

    simulate = command(
        "simulate", "a script, a world or a character, as a page", SIMULATE, SIMULATE_EXAMPLES
    )
    simulate.fill = _scripts
    _simulate_options(simulate)
    tune = command("tune", "find better numbers for a script", TUNE, TUNE_EXAMPLES)
    tune.fill = _objectives
    _tune_options(tune)
    about = "Read scripts and compile them: exit code 0, or 2 with the place of the first mistake."
    check = command("check", "is a script sound?", about, CHECK_EXAMPLES)
    check.add_argument("script", metavar="SCRIPT", nargs="+", help="files, or shipped scripts")
    about = "Open the motion of a result folder in the browser, and print where it is."
    view = command("view", "open a result folder's page", about, VIEW_EXAMPLES)
    view.add_argument("folder", metavar="DIR", help="a result folder, or a page")
    about = "Tune a rise from a chair for some generations and show it; a minute or two."
    demo = command("demo", "see it work", about, DEMO_EXAMPLES)
    _demo_options(demo)
    gallery = command("gallery", "worlds to look at", GALLERY, GALLERY_EXAMPLES)
    gallery.fill = _worlds
    _gallery_options(gallery)
    synthesize = command(
        "synthesize", "behaviours by per-step optimisation", SYNTHESIZE, SYNTHESIZE_EXAMPLES
    )
    synthesize.fill = _scenes
    _synthesize_options(synthesize)
    from optimize.cli.push_options import add_push_commands

    for each in (
        simulate,
        tune,
        check,
        view,
        demo,
        gallery,
        synthesize,
        *add_push_commands(command),
    ):
        _general(each)
    return main
