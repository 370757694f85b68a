"""Who stands in the shipped experiments, over many starts: docs/results/experiments.md.

    python benchmarks/experiments.py                  all of benchmarks/experiments.toml
    python benchmarks/experiments.py NAME ...         these alone
    python benchmarks/experiments.py --starts 4 --seed 7

Each ``[[experiment]]`` is a scenario and what of it varies:

    scenario = "stand_pushed"            # a shipped one
    title = "Pushed at the chest"
    starts = 16                          # slightly different ones; the first is the scenario's own
    spread = [0.02, 0.1]                 # their standard deviations [rad], [rad/s]
    seconds = 5.0                        # the scenario's by default
    backend = "xla"                      # for worlds of so many shapes that a kernel is too large
    set = { "character.friction" = 0.3 } # as --set
    rows = [{ "controller.help_from" = 200.0 }, { ... }]   # a row of the table for each; a key
                                         # name tells it, in the place of its numbers
    each = { "forces.force[0,:]" = [[100, 0, 0], [0, 100, 0]] }  # in a row, ``starts`` times each

A member has fallen as ``optimize.problems.survival`` says. Intervals hold 95 % (Wilson). Help is
the size of the torque from outside on the feet, its mean while it stood and the share of time.
"""

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from jaxsim import total
from jaxsim.math.safe import safe_norm
from optimize import Problem, scenario
from optimize.problems.starts import ANGLE, RATE
from optimize.results.intervals import wilson
from optimize.running.objectives import Objective, Term

FILE = Path(__file__).with_suffix(".toml")
KEYS = {"scenario", "title", "starts", "spread", "seconds", "set", "rows", "each", "backend"}
HEAD = ["experiment", "with", "stood", "interval [%]", "helped [%]", "help [N m]"]


def _help(sample) -> Any:
    return jnp.sum(safe_norm(sample.memory.help))


HELP = Term("help", "N m s", lambda model: total(_help))
HELPED = Term("helped", "s", lambda model: total(lambda s: jnp.where(_help(s) > 0, 1.0, 0.0)))


def rows_of(entry: Mapping[str, Any], starts: int | None, seed: int) -> list[list[str]]:
    """The rows of one experiment."""
    unknown = set(entry) - KEYS
    if unknown:
        raise SystemExit(f"{FILE.name}: {entry.get('scenario')} has {', '.join(sorted(unknown))};"
                         f" keys are {', '.join(sorted(KEYS))}")  # fmt: skip
    made = scenario(entry["scenario"], entry.get("set", {}))
    each = entry.get("each", {})
    kinds = max((len(v) for v in each.values()), default=1)
    count = (starts or entry.get("starts", 16)) * kinds
    helped = hasattr(made.controller, "help")
    terms = (HELP, HELPED) if helped else ()
    weights = {"toppled": 1.0, "fallen": 0.0, **{term.name: 0.0 for term in terms}}
    seconds = entry.get("seconds", made.seconds)
    rows = [dict(row) for row in entry.get("rows", [{}])]
    told_by = [row.pop("name", None) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    problem = Problem(
        made,
        {name: (-1e9, 1e9) for name in names},
        Objective("stands", seconds, weights, terms=terms),
        trials=count,
        spread=tuple(entry.get("spread", (ANGLE, RATE))),
        vary=each,
        seed=seed,
        backend=entry.get("backend"),
    )
    values = [[row.get(name, made.get(name)) for name in names] for row in rows]
    found = problem.evaluate_values(np.array(values, float).reshape(len(rows), len(names)))
    told = []
    for k, row in enumerate(rows):
        good = round((1 - found.parts["toppled"][k]) * count)
        low, high = wilson(good, count)
        live = seconds * (1 - found.parts["fallen"][k])
        help = [found.parts[name][k] / live for name in ("helped", "help")] if helped else []
        told.append([
            entry.get("title", made.title),
            told_by[k]
            or ", ".join(f"{name.split('.')[-1]} {value:g}" for name, value in row.items()) or "-",
            f"{good} of {count}",
            f"{100 * low:.0f} to {100 * high:.0f}",
            *([f"{100 * help[0]:.0f}", f"{help[1]:.1f}"] if help else ["-", "-"]),
        ])  # fmt: skip
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", help="of these alone")
    parser.add_argument("--starts", type=int, help="in the place of the file's")
    parser.add_argument("--seed", type=int, default=1, help="of the starts")
    args = parser.parse_args()
    entries = tomllib.loads(FILE.read_text("utf-8"))["experiment"]
    known = {entry["scenario"] for entry in entries}
    for name in args.scenarios:
        if name not in known:
            raise SystemExit(f"{name} is no experiment of {FILE.name}: {', '.join(sorted(known))}")
    chosen = [e for e in entries if not args.scenarios or e["scenario"] in args.scenarios]
    rows = []
    for entry in chosen:
        found = rows_of(entry, args.starts, args.seed)
        print("\n".join(f"{entry['scenario']}: {', '.join(row)}" for row in found), flush=True)
        rows += found
    print(f"\n{today()}, {machine()}, commit {commit()}; {versions(jax)}\n\n{table(HEAD, rows)}")


if __name__ == "__main__":
    main()
