"""The command line: jaxsim simulate, tune, check, view, demo, gallery, pushmap, ...

Exit codes: 0 done; 1 done, but the motion is not finite or every member failed, or another process
works in the folder; 2 bad input, or a file that cannot be read or written; 130 interrupted, with
what is complete kept.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from optimize.cli.options import parser
from optimize.interrupts import EXIT_CODE, command, holding
from optimize.results.lock import FolderInUse


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is returned. Errors of usage raise SystemExit, as argparse
    does."""
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(argv)
    args.argv = argv
    try:
        with command(lambda: _to_go_on(args)):
            return _run(args)
    except KeyboardInterrupt:
        print("\n".join(filter(None, ("\ninterrupted", _to_go_on(args)))), file=sys.stderr)
        return EXIT_CODE
    except Exception as error:
        from optimize.tuning.checkpoint import CheckpointError

        if isinstance(error, FolderInUse):
            print(_message(error), file=sys.stderr)
            return 1
        bad_input = (ValueError, KeyError, OSError, ImportError, CheckpointError)
        if args.debug or not isinstance(error, (*bad_input, FloatingPointError)):
            raise
        print(_message(error), file=sys.stderr)
        return 2 if isinstance(error, bad_input) else 1


def _to_go_on(args: argparse.Namespace) -> str:
    """How an interrupted command goes on; nothing where it cannot, or has kept nothing.

    Imports nothing: it may be an import that was interrupted.
    """
    if not hasattr(args, "resume") or not os.path.isfile(os.path.join(args.out, "config.json")):
        return ""
    return f"to go on: jaxsim {args.name} --out {args.out} --resume"


def _run(args: argparse.Namespace) -> int:
    if getattr(args, "out", None) is not None:
        from jaxsim.io.files import try_folder

        try_folder(args.out)  # before any work
    if getattr(args, "accept_changes", False) and not args.resume:
        raise ValueError("--accept-changes belongs to --resume: a new run has nothing to compare")
    with holding():  # an import that is interrupted leaves libraries in pieces
        from optimize import session as cli_setup

        run = _command(args.name)
    if args.name == "view":
        return run(args)
    pushes = args.name in ("pushmap", "tune-balance")
    searches = args.name in ("tune", "demo") or pushes
    kept = _config(args.out) if getattr(args, "resume", False) else {}
    device = args.device or (None if searches else "cpu")
    fine = args.name == "tune-balance" and args.method == "gradient"
    default = "float32" if searches and not fine else None
    precision = args.precision or kept.get("precision") or default
    devices = 1
    if pushes:
        devices = cli_setup.cores()
    elif searches:
        population = args.population or kept.get("population") or 20
        devices = min(cli_setup.cores(), -(-population // (kept.get("chunk") or 10)))
    cache, told = not args.no_cache, not args.quiet
    with cli_setup.session(device, precision, cache, devices, told) as notes:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        return run(args)


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    from optimize.cli import commands as cli_commands
    from optimize.cli import demo as cli_demo
    from optimize.cli import push as cli_push

    return {
        "simulate": cli_commands.run_simulate,
        "tune": cli_commands.run_tune,
        "check": cli_commands.run_check,
        "view": cli_commands.run_view,
        "demo": cli_demo.run_demo,
        "gallery": cli_commands.run_gallery,
        "synthesize": cli_commands.run_synthesize,
        "pushmap": cli_push.run_pushmap,
        "tune-balance": cli_push.run_tune_balance,
    }[name]


def _config(out: str) -> dict[str, Any]:
    """The options of the run in a folder; none where there is no run, which is told later."""
    from optimize.results.folder import RunFolder

    try:
        return RunFolder.open(out).read_config()
    except (OSError, ValueError):
        return {}


def _message(error: Exception) -> str:
    """What went wrong; a ScriptError shows its own place, and begins with it."""
    from controllers.scl.errors import ScriptError

    if isinstance(error, ScriptError):
        return str(error)
    if isinstance(error, KeyError) and error.args:
        return f"jaxsim: error: {error.args[0]}"
    return f"jaxsim: error: {error or type(error).__name__}"


if __name__ == "__main__":
    sys.exit(main())
