"""Record of a command of the command line."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """Settings of JAX for a command, where the user gives none."""

    device: str | None = "cpu"  # "gpu"; None: JAX's own choice
    precision: str | None = None  # "float32", "float64"; None: by the device
    cpu_devices: int = 1  # that the CPU is split into, for batches


def plain(args: argparse.Namespace, kept: Mapping[str, Any]) -> Setting:
    """Settings of a command that simulates one motion."""
    return Setting()


@dataclass(frozen=True)
class Command:
    """Command: its texts, its options, and its function.

    Its file is imported whenever ``jaxsim`` starts, so it imports at its top nothing that needs
    JAX; ``run`` and ``fill`` import what they need, ``run`` within
    ``interrupts.defer_interrupts()``, as an import that is interrupted leaves libraries in pieces.
    """

    name: str
    about: str  # a line in jaxsim --help
    description: str
    examples: str  # below the options
    add_options: Callable[[argparse.ArgumentParser], None]  # all but the general ones
    run: Callable[[argparse.Namespace], int]  # does it; returns the exit code
    # What stands for the {names} in description, examples and help of options, if there are any;
    # called when the help is shown.
    fill: Callable[[], Mapping[str, str]] | None = None
    # From the options, and those of the run that is resumed ({} if none is); None, itself or what
    # it gives: needs no JAX.
    setting: Callable[[argparse.Namespace, Mapping[str, Any]], Setting | None] | None = plain
    overview: tuple[str, str] | None = None  # an example for jaxsim --help, and a remark
    runs_code: bool = True  # whether Python files that scenarios name may run, see ``--trust``
