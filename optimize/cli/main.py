"""Command line, ``jaxsim``: each command is a file of this folder, and an entry in COMMANDS.

Exit codes: 0 done; 1 done, but the motion is not finite or every member failed, or another process
works in the folder; 2 bad input, or a file that cannot be read or written; 130 interrupted, with
what is complete saved.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jaxsim
from jaxsim.io.user_code import Decision, below, deciding, never
from optimize import interrupts
from optimize.cli import (
    check,
    compat,
    demo,
    env,
    gallery,
    learn,
    listing,
    mocap,
    pushmap,
    runs,
    simulate,
    sweep,
    tune,
    verdict,
    view,
)
from optimize.cli.command import Command
from optimize.cli.shared import general_options
from optimize.interrupts import EXIT_CODE, defer_interrupts
from optimize.results.lock import FolderInUse

COMMANDS: list[Command] = [
    demo.COMMAND,
    simulate.COMMAND,
    sweep.COMMAND,
    tune.COMMAND,
    check.COMMAND,
    view.COMMAND,
    runs.COMMAND,
    listing.COMMAND,
    gallery.COMMAND,
    pushmap.COMMAND,
    verdict.COMMAND,
    compat.COMMAND,
    env.COMMAND,
    learn.COMMAND,
    mocap.COMMAND,
]

DESCRIPTION = "Simulate physics-based characters, and tune the scripts that drive them."


class _Parser(argparse.ArgumentParser):
    """Parser that shows texts as they are written; ``fill`` computes values for help texts only."""

    fill: Callable[[], Mapping[str, str]] | None = None

    def __init__(self, **options):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # argparse takes a "--" away, and then has no value to look at
        if arg_strings == ["--"] and action.nargs is None:
            raise argparse.ArgumentError(action, "expected a value, got '--'")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def format_help(self) -> str:
        if self.fill is not None:
            values = self.fill()
            self.description = (self.description or "").format(**values)
            self.epilog = (self.epilog or "").format(**values)
            for action in self._actions:
                action.help = action.help and action.help.format(**values)
            self.fill = None
        return super().format_help()


def parser() -> argparse.ArgumentParser:
    """Parser of all commands; ``command`` of its result is the chosen one."""
    main = _Parser(prog="jaxsim", description=DESCRIPTION, epilog=_overview())
    main.add_argument("--version", action="version", version=f"jaxsim {jaxsim.__version__}")
    commands = main.add_subparsers(dest="name", metavar="COMMAND", required=True)
    for each in COMMANDS:
        own = commands.add_parser(
            each.name, help=each.about, description=each.description, epilog=each.examples
        )
        own.fill = each.fill
        own.set_defaults(command=each)
        each.add_options(own)
        general_options(own, each.runs_code)
    return main


def _overview() -> str:
    examples = (each.overview for each in COMMANDS if each.overview is not None)
    lines = (f"  {call:<58}{remark}".rstrip() for call, remark in examples)
    return "\n".join(["examples:", *lines, "", "jaxsim COMMAND --help tells all about a command."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is returned.

    Errors of usage raise SystemExit, as argparse does.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(argv)
    args.argv = argv
    try:
        with interrupts.command(lambda: _to_go_on(args)), deciding(_decision(args)):
            return _run(args)
    except KeyboardInterrupt:
        print("\n".join(filter(None, ("\ninterrupted", _to_go_on(args)))), file=sys.stderr)
        return EXIT_CODE
    except Exception as error:
        from optimize.tuning.checkpoint import CheckpointError

        if isinstance(error, BrokenPipeError):  # who reads has seen enough, as of "| head"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if isinstance(error, FolderInUse):
            print(_message(error), file=sys.stderr)
            return 1
        bad_input = (ValueError, KeyError, OSError, ImportError, CheckpointError)
        if args.debug or not isinstance(error, (*bad_input, FloatingPointError)):
            raise
        print(_message(error), file=sys.stderr)
        return 2 if isinstance(error, bad_input) else 1


def _decision(args: argparse.Namespace) -> Decision:
    """Decision on which Python files of users run."""
    if not args.command.runs_code:
        return never(f"jaxsim {args.name}")
    named = {Path(text.rpartition(":")[0]).resolve() for text in _of_python(args.argv)}

    def ask(path: Path) -> bool:
        if args.trust_files or path.resolve() in named:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        print(f"{path} would run, with all your rights. Run it? [y/N] ", end="", file=sys.stderr)
        return input().strip().lower() in ("y", "yes")

    return below(Path(), ask, "give --trust to run it")


def _of_python(argv: Sequence[str]) -> list[str]:
    """Arguments FILE.py:NAME that the user has typed, which is consent."""
    return [part for text in argv for part in re.split("[,=]", text) if ".py:" in part]


def _to_go_on(args: argparse.Namespace) -> str:
    """Command that resumes an interrupted one; empty where it cannot be resumed, or saved nothing.

    Imports nothing: it may be an import that was interrupted.
    """
    if not hasattr(args, "resume") or not os.path.isfile(os.path.join(args.out, "config.json")):
        return ""
    return f"to go on: jaxsim {args.name} --out {args.out} --resume"


def _run(args: argparse.Namespace) -> int:
    command: Command = args.command
    if getattr(args, "out", None) is not None:
        from jaxsim.io.files import try_folder

        try_folder(args.out)  # before any work
    if getattr(args, "accept_changes", False) and not args.resume:
        raise ValueError("--accept-changes belongs to --resume: a new run has nothing to compare")
    if command.setting is None:
        return command.run(args)
    with defer_interrupts():  # an import that is interrupted leaves libraries in pieces
        kept = _config(args.out) if getattr(args, "resume", False) else {}
        setting = command.setting(args, kept)
    if setting is None:
        return command.run(args)
    with defer_interrupts():
        from optimize.session import session

    device = args.device or setting.device
    precision = args.precision or kept.get("precision") or setting.precision
    cache, told = not args.no_cache, not args.quiet
    # What the command imports may start JAX, as evosax does; then its devices cannot be chosen.
    with session(device, precision, cache, setting.cpu_devices, told) as notes:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        return command.run(args)


def _config(out: str) -> dict[str, Any]:
    """Options of the run in a folder; {} where there is no run, which is reported later."""
    from optimize.results.folder import RunFolder

    try:
        return RunFolder.open(out).read_config()
    except (OSError, ValueError):
        return {}


def _message(error: Exception) -> str:
    """Error message; a ScriptError begins with its own place in the script."""
    from controllers.scl.errors import ScriptError

    if isinstance(error, ScriptError):
        return str(error)
    if isinstance(error, KeyError) and error.args:
        return f"jaxsim: error: {error.args[0]}"
    return f"jaxsim: error: {error or type(error).__name__}"


if __name__ == "__main__":
    sys.exit(main())
