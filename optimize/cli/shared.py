"""Options that several commands share, their defaults in help texts, and output."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.threads import cores
from optimize.cli.command import Setting
from optimize.interrupts import EXIT_CODE as INTERRUPTED
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from optimize.running.simulate import Simulation

# ---- options


def general_options(parser: argparse.ArgumentParser, runs_code: bool = True) -> None:
    """Add the options of every command; runs_code: whether Python files of users run there."""
    group = parser.add_argument_group("general")
    group.add_argument("--device", choices=("cpu", "gpu"), help="device to compute on")
    group.add_argument(
        "--backend",
        choices=("fused", "xla"),
        help="back end: one fused kernel a rollout, or XLA (fused for planar characters)",
    )
    group.add_argument(
        "--precision", choices=("float32", "float64"), help="precision of the computation"
    )
    group.add_argument(
        "--no-cache", action="store_true", help="do not save compiled programs for the next start"
    )
    group.add_argument(
        "--quiet",
        action="store_true",
        help="show no progress bars and no notices of long compilations",
    )
    if runs_code:
        group.add_argument(
            "--trust",
            dest="trust_files",
            action="store_true",
            help="run Python files named by scenarios and run folders without asking, also those"
            " outside of the working folder",
        )
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


class _RenamedOption(argparse.Action):
    """Earlier name of an option: it works for one version, with a warning."""

    def __init__(self, *args: Any, target: argparse.Action, **options: Any):
        super().__init__(*args, **options)
        self.target = target

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        say(f"jaxsim: {option_string} is now {self.target.option_strings[0]}; use that")
        self.target(parser, namespace, values, option_string)


def renamed_option(group: Any, earlier: str, target: argparse.Action) -> None:
    """Add the earlier name of an option, which the help does not show."""
    group.add_argument(
        earlier,
        action=_RenamedOption,
        target=target,
        dest=target.dest,
        nargs=target.nargs,
        type=target.type,
        help=argparse.SUPPRESS,
        default=target.default,
    )


def set_options(parser: Any) -> None:
    """Add --set, which changes a scenario; ``settings`` reads it."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="setting: a key of the scenario's file, or a number by label or path; may be repeated",
    )


def numbers_option(parser: argparse.ArgumentParser) -> None:
    """Add --numbers, a file for ``controllers.numbers.read_numbers``."""
    parser.add_argument(
        "--numbers",
        metavar="FILE",
        help="numbers of the controller, by label or path: best.json of jaxsim tune, or a shipped"
        " set by name",
    )


def settings(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Parse settings to path -> value. Raises ValueError for what cannot be read."""
    changes: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not (path and equals):
            raise ValueError(f"{option} {text}: expected PATH=VALUE, as in push.force=350")
        changes[path.strip()] = _value(value.strip())
    return changes


def _value(text: str) -> Any:
    """Parse a TOML value; any other text stays a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run in a folder that can be resumed; see ``run_arguments``."""
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="result folder, a new one unless --resume")
    add("--resume", action="store_true", help="resume the run in DIR, with its options")
    add(
        "--accept-changes",
        action="store_true",
        help="with --resume: resume although script, options, model or code have changed; the"
        " history notes it",
    )


def cluster_option(parser: argparse.ArgumentParser) -> None:
    """Add --cluster, the workers; ``optimize.running.cluster.workers`` reads it."""
    parser.add_argument(
        "--cluster",
        metavar="WHERE",
        help="Dask workers that share the work: a number of local processes, a scheduler's address"
        " (tcp://host:8786), or slurm:JOBS (none)",
    )


def run_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments that every function with a run folder takes."""
    return {
        "out": args.out,
        "resume": args.resume,
        "accept_changes": args.accept_changes,
        "progress": not args.quiet,
        "command": as_typed(args),
    }


def as_typed(args: argparse.Namespace) -> list[str]:
    """Command as typed, for the result folder."""
    from optimize.results.folder import command_line

    return command_line(["jaxsim", *args.argv])


def run_study(work: Callable[..., Any], kind: type, args: argparse.Namespace, **more: Any) -> Any:
    """Run ``work`` with the options of this type, or resume a folder with those of its run."""
    options = given_options(args, defaults(kind)) | more
    if args.resume and options:
        raise ValueError(
            f"--resume goes on with the options of the run; leave out {', '.join(sorted(options))}"
        )
    return work(None if args.resume else kind(**options), **run_arguments(args))


# ---- values


def defaults(of: Callable[..., Any]) -> dict[str, Any]:
    """Arguments of a function, or fields of a dataclass, with their default, if they have one."""
    parameters = inspect.signature(of).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def given_options(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Options of these names that the user has given."""
    return {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}


def as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """Format numbers as a user would type them."""
    return {name: _one_as_text(value) for name, value in values.items()}


def _one_as_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_one_as_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


# ---- how JAX is set up


def generations_setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """Settings for generations of scripts: a part of the CPU for each chunk of members."""
    from optimize.running.batch import CHUNK
    from optimize.tuning.config import DEFAULTS

    population = args.population or kept.get("population") or DEFAULTS["population"]
    chunks = -(-population // (kept.get("chunk") or CHUNK))
    return Setting(device=None, precision="float32", cpu_devices=min(cores(), chunks))


def study_setting(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """Settings for many pushes at once."""
    return Setting(device=None, precision="float32", cpu_devices=cores())


# ---- output


def say(*lines: str) -> None:
    """Print lines to the user, apart from the result of the command."""
    for line in lines:
        print(line, file=sys.stderr)


def write_and_print(simulation: Simulation, out: str | Path | None, as_json: bool) -> None:
    """Write the motion to its folder, if there is one, and print the summary."""
    with defer_interrupts():
        from optimize.running.simulate import write_simulation
        from optimize.running.summary import table

    say(*(note if "\n" in note else f"note: {note}" for note in simulation.notes))
    if out is not None:
        written = write_simulation(out, simulation)
        say(*(f"wrote {file}" for file in written.files), *written.missing)
    print(json.dumps(simulation.summary, indent=2) if as_json else table(simulation.summary))


def outcome(simulation: Simulation) -> int:
    """Exit code of a simulation; 1 where the motion diverged, with a message."""
    if simulation.interrupted:
        return INTERRUPTED
    summary = simulation.summary
    if summary["finite"] and summary.get("failed_at") is None:
        return 0
    if "verdict" in summary:
        at = summary["failed_at"]
        say(f"jaxsim: error: the motion diverges at {at} s: {summary['verdict']}")
    return 1
