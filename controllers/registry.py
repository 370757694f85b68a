"""Controllers by name, as scenario files select them: ``[controller] name = "pd"``.

A controller registers with one entry of ``CONTROLLERS``: the place of a function that reads its
table and builds it. A custom controller needs no entry: ``name = "my_file.py:build"``, beside the
scenario.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controllers.numbers import read_numbers, shipped_numbers
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table, suggestion
from jaxsim.io.user_code import UntrustedCode, run_file
from jaxsim.io.world import World
from jaxsim.model import Model, ModelError, State
from jaxsim.model.roles import Point
from jaxsim.options import REQUIRED, option
from jaxsim.plugins import Registry
from jaxsim.simulation.checks import check_controller

CONTROLLERS = Registry(
    "jaxsim.controllers",
    {
        "pd": "controllers.pose.registered:tracking",
        "motion": "controllers.pose.registered:motion",
        "ragdoll": "controllers.pose.registered:limp",
        "script": "controllers.scl.registered:script",
        "balance": "controllers.goals.registered:balance",
        "one_foot": "controllers.goals.registered:one_foot",
        "swing": "controllers.goals.registered:swing",
        "dismount": "controllers.goals.registered:dismount",
        "climb": "controllers.goals.registered_climb:climb",
        "hold_on": "controllers.goals.registered:hold_on",
        "topple_free": "controllers.tracking.registered:topple_free",
        "policy": "controllers.policy.registered:policy",
    },
)


@dataclass(frozen=True, kw_only=True)
class ControllerKeys(Keys):
    """Controller of the character; each has further keys of its own."""

    name: str = option(
        REQUIRED, "see the table of controllers; without `[controller]` it is `pd`", kind=str
    )
    numbers: Any = option(
        None,
        '`{ "gait.time" = 0.6 }`: numbers of the controller by label or path; or a file of them'
        " (`best.json` of `jaxsim tune`) beside the scenario, or shipped numbers by name:"
        f" {', '.join(f'`{name}`' for name in shipped_numbers())}",
        shown="none",
        kind=object,
        values="table, or text",
    )


@dataclass(frozen=True)
class Setup:
    """The world, model and initial state for which a controller is built."""

    world: World
    model: Model
    state: State
    link_kinds: tuple[str, ...]  # (nl,) "character", "prop" or "driven"


@dataclass(frozen=True)
class Registered:
    """A controller together with its phases, files, notes and start, as built from its table.

    phases: the name of each, and the condition that ends it; files: name -> text, saved with the
    results; points: effectors that it needs besides those of the character.
    """

    controller: Any
    phases: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    state: State | None = None  # where the motion begins, in the place of the scenario's start
    points: tuple[Point, ...] = ()


def controller_of(table: Table, setup: Setup) -> Registered:
    """Build the controller of a ``[controller]`` table, with the numbers of its ``numbers`` set.

    Raises WorldError for an unknown name, unknown keys, and numbers with an unknown label or path
    or an invalid value; UntrustedCode for a file that may not be run.
    """
    keys = ControllerKeys.read(table)
    result = _function(keys.name, table, setup.world.folder)(table, setup)
    if not isinstance(result, Registered):
        result = Registered(result)
    numbers = {} if keys.numbers is None else keys.numbers
    table.done()
    if isinstance(numbers, str):
        path = setup.world.folder / numbers
        try:
            numbers = read_numbers(numbers, setup.world.folder)
        except ValueError as error:
            raise table.error(str(error), "numbers") from error
        if path.is_file():  # saved with results, so that a scenario plays from there
            result = replace(result, files={**result.files, path.name: path.read_text("utf-8")})
    if not isinstance(numbers, Mapping):
        raise table.error("is no table of numbers by label or path, and no file", "numbers")
    controller = result.controller
    for label, value in numbers.items():
        try:
            controller = controller.set(label, value)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise table.error(str(error.args[0]), f"numbers.{label}") from error
    if numbers:
        try:
            check_controller(setup.model, controller)
        except ModelError as error:
            raise table.error(str(error), "numbers") from error
    return replace(result, controller=controller)


def _function(name: str, table: Table, folder: Path) -> Callable[[Table, Setup], Any]:
    file, _, attribute = name.rpartition(":")
    if file.endswith(".py"):
        return _from_file(folder / file, attribute, table)
    if name not in CONTROLLERS:
        known = ", ".join(CONTROLLERS)
        raise table.error(
            f"is {name!r}{suggestion(name, list(CONTROLLERS))}; choose from {known}, or give a"
            ' function of your own as "file.py:function"',
            "name",
        )
    return builder(name)


def builder(name: str) -> Callable[[Table, Setup], Any]:
    """Function of a registered controller that builds it from its table."""
    entry = CONTROLLERS[name]
    if callable(entry):  # of another package
        return entry
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _from_file(path: Path, attribute: str, table: Table) -> Callable[[Table, Setup], Any]:
    if not path.is_file():
        raise table.error(f"there is no file {path}", "name")
    try:
        module = run_file(path)
    except UntrustedCode:
        raise
    except ValueError as error:
        raise table.error(str(error), "name") from error
    if not callable(getattr(module, attribute, None)):
        raise table.error(f"{path} has no function {attribute!r}", "name")
    return getattr(module, attribute)
