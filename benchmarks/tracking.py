"""Motion capture on feet that are kept from toppling: the tables of docs/results/tracking.md.

    python benchmarks/tracking.py                          eight clips, unpushed and pushed: 40 runs
    python benchmarks/tracking.py --help-by capacity       another kind of help; or none
    python benchmarks/tracking.py --dt 0.002 --mass 1.1 --set com_p=400
    python benchmarks/tracking.py --all --starts 5         a row for each variant, in one table
    python benchmarks/tracking.py --all "no help"          a row for each of these
    python benchmarks/tracking.py --standing --starts 8    pushes of a human that stands, no clip
    python benchmarks/tracking.py --kicks                  changes of a standing human's velocity
    python benchmarks/tracking.py --speed                  steps a second, and seconds to compile

Clips lie in the folder that JAXSIM_MOCAP names. A run has failed when the chest is 60 degrees from
the reference's, the pelvis 0.3 m from its height, or when pelvis, trunk, head or thighs touch. With
``--starts N`` each run is repeated from N - 1 slightly different starts, as of push maps. The
controller is made for the body, whatever its mass; with ``--mass-unknown`` for that of 72 kg. It
never knows friction. Intervals hold 95 % (Wilson).
"""

import argparse
import dataclasses
from functools import cache

import jax
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._tracking import NEVER, Shelf, of_runs, runner, runs, shelf
from benchmarks._tracking_speed import speeds
from benchmarks._tracking_standing import kicks, stand
from controllers.tracking.balance import ADULT, Balance
from controllers.tracking.support import HELP
from jaxsim import articulated_human, ball_joint_human
from optimize.results.intervals import wilson

MODELS = {"ball_joint_human": ball_joint_human, "articulated_human": articulated_human}
VARIANTS = {
    "as it is": {},
    "steps of 0.5 ms": {"dt": 0.0005},
    "steps of 2 ms": {"dt": 0.002},
    "mass 90 %": {"mass": 0.9},
    "mass 110 %": {"mass": 1.1},
    "mass 110 %, not known": {"mass": 1.1, "mass_unknown": True},
    "friction 90 %": {"friction": 0.9},
    "friction 110 %": {"friction": 1.1},
    "XLA": {"backend": "xla"},
    "float64": {"precision": "float64"},
    "hinge-jointed human": {"model": "articulated_human", "pin": True, "contacts": 37},
    "help by capacity": {"help_by": "capacity"},
    "no help": {"help_by": "none"},
}
ALL = [
    "variant", "followed", "from other starts", "interval [%]", "error [mm]", "largest of a clip",
    "helped [%]", "help [N m]",
]  # fmt: skip
ONE = [
    "clip", "s", "followed", "error [mm]", "helped [%]", "help [N m]", "most [N m]", "failed at [s]"
]  # fmt: skip


@cache
def clips_on(name: str, mass: float, pin: bool, precision: str) -> Shelf:
    """The clips, once for a model and a precision."""
    return shelf(MODELS[name](mass=mass), pin)


@cache
def runner_on(body: tuple, *how):
    """What runs them, compiled once."""
    return runner(clips_on(*body), *how)


def found_by(args) -> tuple[Shelf, dict[str, np.ndarray]]:
    """The runs of the options."""
    with jax.enable_x64(args.precision == "float64"):
        return _found_by(args)


def _found_by(args):
    usual, height = ADULT
    mass = usual * (1.0 if args.mass_unknown else args.mass)
    body = args.model, mass, args.pin, args.precision
    clips = clips_on(*body)
    run = runner_on(body, args.help_by, args.dt, args.contacts, args.backend)
    planned = runs(
        clips, args.balance.scaled(mass, height), args.force, args.starts, args.seed,
        mass=args.mass if args.mass_unknown else 1.0, friction=args.friction,
    )  # fmt: skip
    return clips, of_runs(run(planned), len(clips.names))


def follow(args) -> str:
    """The table of the clips."""
    clips, found = found_by(args)
    rows = []
    for k, name in enumerate(clips.names):
        good = found["failed"][k] == NEVER
        alone = {key: found[key][k, 0].mean() for key in ("error", "helped", "help", "torque")}
        rows.append([
            name, f"{clips.seconds[k]:.1f}", f"{good.sum()} of {good.size}",
            f"{1e3 * alone['error']:.1f}", f"{100 * alone['helped']:.0f}",
            f"{alone['help']:.1f}", f"{alone['torque']:.0f}",
            ", ".join(f"{t:.1f}" for t in found["failed"][k][~good]) or "-",
        ])  # fmt: skip
    good = found["failed"] == NEVER
    return f"{table(ONE, rows)}\n\n{good.sum()} of {good.size} runs followed to their end."


def all_variants(args) -> str:
    """A row for each variant."""
    rows = []
    for name in args.all or VARIANTS:
        changed = argparse.Namespace(**vars(args) | VARIANTS[name])
        rows.append([name, *summary(*found_by(changed))])
        print(f"{name}: {', '.join(rows[-1][1:])}", flush=True)
    return table(ALL, rows)


def summary(clips: Shelf, found: dict[str, np.ndarray]) -> list[str]:
    """Of the runs from the reference's own start, then of those from others; errors and help of
    the unpushed ones."""
    good = found["failed"] == NEVER
    own, others = good[..., 0], good[..., 1:]
    interval = "-"
    if others.size:
        low, high = wilson(others.sum(), others.size)
        interval = f"{100 * low:.0f} to {100 * high:.0f}"
    error = 1e3 * found["error"][:, 0].mean(axis=-1)
    worst = int(error.argmax())
    return [
        f"{own.sum()} of {own.size}", f"{others.sum()} of {others.size}" if others.size else "-",
        interval, f"{error.mean():.1f}", f"{error[worst]:.1f} ({clips.names[worst]})",
        f"{100 * found['helped'][:, 0].mean():.0f}", f"{found['help'][:, 0].mean():.1f}",
    ]  # fmt: skip


def options() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--all", nargs="*", choices=VARIANTS, metavar="VARIANT", help="all, or these: one table"
    )
    what.add_argument("--standing", action="store_true", help="no clip, pushes of 50 to 300 N")
    what.add_argument("--kicks", action="store_true", help="no clip, the median kick survived")
    what.add_argument("--speed", action="store_true", help="steps a second")
    parser.add_argument("--model", choices=tuple(MODELS), default="ball_joint_human")
    parser.add_argument("--help-by", choices=HELP, default=HELP[0])
    parser.add_argument("--dt", type=float, default=0.001, help="[s]")
    parser.add_argument("--force", type=float, default=100.0, help="of the pushes [N]")
    parser.add_argument("--mass", type=float, default=1.0, help="of the model's")
    parser.add_argument("--mass-unknown", action="store_true", help="to the controller")
    parser.add_argument("--friction", type=float, default=1.0, help="of the model's")
    parser.add_argument("--contacts", type=int, default=16, help="solved for, at most")
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--backend", choices=("fused", "xla"), default="fused")
    parser.add_argument("--pin", action="store_true", help="pin standing feet when retargeting")
    parser.add_argument("--starts", type=int, default=1, help="slightly different ones of each run")
    parser.add_argument("--seed", type=int, default=1, help="of the starts")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=X", help="numbers of Balance")
    return parser


def balance_of(pairs: list[str]) -> Balance:
    """The defaults with changes, NAME=X each. Raises SystemExit for a name that is none."""
    names = [field.name for field in dataclasses.fields(Balance)]
    changes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in names:
            raise SystemExit(f"--set: {name!r} is no number of Balance: {', '.join(names)}")
        try:
            changes[name] = float(value)
        except ValueError:
            raise SystemExit(f"--set: {pair!r} is not of the form NAME=X, as com_p=400") from None
    return dataclasses.replace(Balance(), **changes)


def main() -> None:
    args = options().parse_args()
    args.balance = balance_of(args.set)
    if args.starts < 1:
        raise SystemExit(f"--starts is {args.starts}; it is one or more")
    if args.all is not None:
        shown = all_variants(args)
    elif args.standing or args.kicks:
        with jax.enable_x64(args.precision == "float64"):
            shown = (stand if args.standing else kicks)(MODELS[args.model](), args)
    elif args.speed:
        with jax.enable_x64(args.precision == "float64"):
            shown = speeds(clips_on(args.model, ADULT[0], args.pin, args.precision), args)
    else:
        shown = follow(args)
    print(f"{today()}, {machine()}, commit {commit()}; {versions(jax)}\n\n{shown}")


if __name__ == "__main__":
    main()
