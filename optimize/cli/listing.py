"""jaxsim list: names of scenarios, scripts, characters and controllers."""

import argparse
import json
import textwrap
from pathlib import Path

from optimize.cli.command import Command
from optimize.interrupts import defer_interrupts

DESCRIPTION = "The scenarios, scripts and characters that simulate, tune and pushmap take by name."
EXAMPLES = """\
examples:
  jaxsim list
  jaxsim list --keys balance      keys of a controller, with units and defaults
  jaxsim list push      its controller, the labels of the numbers that it has, sizes of its body"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add NAME, a scenario to describe."""
    parser.add_argument(
        "what", metavar="NAME", nargs="?", help="scenario, script or character to describe"
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print a JSON Schema of scenario files, for completion in editors",
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="keys of scenario files for the controller or scheme NAME, or for all of them",
    )


def run(args: argparse.Namespace) -> int:
    """Print the names, or the numbers of one scenario."""
    with defer_interrupts():
        from controllers.registry import CONTROLLERS
        from controllers.scl.load import shipped_scripts
        from jaxsim.characters.registry import CHARACTERS
        from jaxsim.io.toml_table import read_toml
        from jaxsim.io.user_code import UntrustedCode
        from optimize.scenarios.find import scenario, shipped_scenarios

    if args.schema:
        from optimize.cli.scenario_schema import scenario_schema

        print(json.dumps(scenario_schema(), indent=2))
        return 0
    if args.keys:
        return list_keys(args.what)
    if args.what is None:
        titles = shipped_scenarios()
        width = max(map(len, (*titles, *shipped_scripts())))
        print("scenarios")
        for name, title in titles.items():
            print(f"  {name:<{width}}  {title}")
        print("scripts, for the planar human")
        for name in shipped_scripts():
            print(f"  {name}")
        print(f"characters\n  {', '.join(CHARACTERS)}, and MJCF and URDF files")
        print(f"controllers of scenario files\n  {', '.join(CONTROLLERS)}, and your own")
        return 0
    try:
        entry = scenario(args.what)
    except UntrustedCode as error:
        world = read_toml(Path(args.what)).values().get("world", {})
        print(f"{args.what}: {world.get('title', '')}")
        print(f"  {error}")
        return 0
    print(f"{entry.name}: {entry.title}")
    print(f"  scheme: {type(entry.scheme).__name__}, {float(entry.scheme.dt):g} s a step")
    print(f"  controller: {type(entry.controller).__name__}")
    labels = entry.labels
    if labels:
        print("  its numbers, by label")
        width = max(map(len, labels))
        for label in labels:
            print(f"    {label:<{width}}  {float(entry.get(label)):.6g}")
    print("  arrays, by path")
    named = {path: path.removeprefix("sizes.") for path in entry.paths()}
    for path, rest in named.items():
        if rest == path:
            print(f"    {path}")
    sizes = [rest for path, rest in named.items() if rest != path]
    if sizes:
        print(
            "  sizes of the body, factors: sizes.NAME, or along one axis of the link sizes.NAME[0]"
        )
        print(textwrap.fill(", ".join(sizes), 96, initial_indent="    ", subsequent_indent="    "))
    return 0


def list_keys(name: str | None) -> int:
    """Print the keys of a table, controller or scheme, or of all; ValueError for an unknown one."""
    from optimize.cli.scenario_keys import controller_tables, file_tables, scheme_tables, text

    tables = [*file_tables(), *scheme_tables(), *controller_tables()]
    chosen = [table for table in tables if name in (None, table.name, table.name.strip("[]"))]
    if not chosen:
        known = ", ".join(table.name for table in tables)
        raise ValueError(
            f"--keys: there is no table, controller or scheme {name!r}; there are {known}"
        )
    print("\n\n".join(map(text, chosen)))
    return 0


COMMAND = Command(
    name="list",
    about="what there is, by name",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    overview=("jaxsim list", "what there is"),
    runs_code=False,
)
