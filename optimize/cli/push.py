"""The commands about pushes: jaxsim pushmap, jaxsim tune-balance."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optimize.cli.commands import INTERRUPTED, say
from optimize.results.folder import command_line
from optimize.studies.push_map import push_map
from optimize.studies.push_report import TABLE
from optimize.studies.push_search import MapOptions
from optimize.tuning.balance_tuning import TuningOptions, tune_balance

MAP_OPTIONS = ("scene", "build", "friction", "torque_limits", "directions", "durations", "starts")
MAP_OPTIONS += ("resolution", "strongest", "checks", "seconds", "seed", "backend")
TUNING_OPTIONS = ("method", "generations", "population", "pushes", "forces", "seed", "sigma")
TUNING_OPTIONS += ("only", "build", "friction", "torque_limits", "backend")


def run_pushmap(args: argparse.Namespace) -> int:
    """Search, write the folder, print the table. 1: no cell was finite."""
    given = _given(args, MAP_OPTIONS)
    if args.weights is not None:
        given["control"] = read_control(args.weights)
    found = _in_folder(push_map, MapOptions, given, args)
    say(*found.missing)
    print((Path(args.out) / TABLE).read_text(), end="")
    return 1 if (found.failed > 0).all() else 0


def run_tune_balance(args: argparse.Namespace) -> int:
    """Tune, write the folder, print what was gained."""
    result = _in_folder(tune_balance, TuningOptions, _given(args, TUNING_OPTIONS), args)
    print(result.report)
    return INTERRUPTED if result.interrupted else 0


def _in_folder(
    work: Callable[..., Any], kind: type, given: dict[str, Any], args: argparse.Namespace
) -> Any:
    """What ``work`` finds in its folder."""
    return work(
        _options(kind, given, args.resume),
        args.out,
        resume=args.resume,
        accept_changes=args.accept_changes,
        progress=not args.quiet,
        command=command_line(["jaxsim", *args.argv]),
    )


def read_control(path: str) -> dict[str, Any]:
    """Weights and gait from a file. Raises ValueError for what is no such file."""
    try:
        held = json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is not JSON, or is damaged: {reason}") from None
    control = {
        key: held[key] for key in ("weights", "gait") if isinstance(held, dict) and key in held
    }
    if not control:
        raise ValueError(f"{path} holds neither weights nor a gait; jaxsim tune-balance writes one")
    return control


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _options(kind: type, given: dict[str, Any], resume: bool) -> Any:
    """None to resume with those of the folder."""
    if resume and given:
        raise ValueError(
            f"--resume goes on with the options of the run; leave out {', '.join(sorted(given))}"
        )
    return None if resume else kind(**given)
