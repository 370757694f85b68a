"""What every shipped scenario computes, beside what is recorded in tests/recorded.

    python benchmarks/recorded.py                      compare all; a quarter of an hour
    python benchmarks/recorded.py --short              the first part of each motion; some minutes
    python benchmarks/recorded.py --kind scene         one of script, world, scene, map, tuning
    python benchmarks/recorded.py --only sit           those with this in their name
    python benchmarks/recorded.py --write              record what is not recorded yet
    python benchmarks/recorded.py --write --again      record all anew

All in float64 by XLA on the CPU. Exit code 1 where a quantity differs, which the table names.
Compared are q and qd of the first part of each motion to 1e-9, names, counts and booleans as they
are, lengths to 1 mm, times to 10 ms, forces of maps to one step of their grid, what a search found
to 1e-9 of its size. Of chaotic motions (``CHAOTIC``) the first part alone is compared, to 1e-4. The
column "to the end" has the largest difference of q in frames spread over the whole motion, which
decides nothing: it shows how far a motion is the same to the last digit.
"""

import argparse
import io
import json
import sys
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks._machine import ROOT, commit, machine, table, today, versions
from benchmarks._scenarios import KINDS, Record
from jaxsim.io.files import write_bytes
from optimize.session import session

FOLDER = ROOT / "tests" / "recorded"
PATH = 1e-9  # of q [m, rad] and qd [m/s, rad/s]
METRES, SECONDS = 1e-3, 1e-2
TUNED = 1e-9  # relative to the largest number of an array
CHAOTIC = {("world", "box_stack")}  # ten boxes, then a ball: how they end up is the last digit's
CHAOTIC_PATH = 1e-4  # of q and qd in its first part
HEAD = ["scenario", "first part", "to the end", "took [s]", "differs"]


def file_of(kind: str, name: str, folder: Path = FOLDER) -> Path:
    """Where a scenario is recorded."""
    return folder / f"{kind}-{name}.npz"


def recorded(folder: Path = FOLDER) -> list[tuple[str, str]]:
    """(kind, name) of all that is recorded, in their order."""
    parts = [path.stem.partition("-") for path in folder.glob("*.npz")]
    return sorted(
        ((p[0], p[2]) for p in parts), key=lambda pair: (list(KINDS).index(pair[0]), pair)
    )


def save(path: Path, record: Record) -> None:
    """Write a record, with where it was made: numbers as arrays, the group "same" as JSON."""
    arrays: dict[str, Any] = {
        f"{group}/{name}": np.asarray(value, float)
        for group, values in record.items()
        if group != "same"
        for name, value in values.items()
    }
    about = {
        "commit": commit(),
        "machine": machine(),
        "versions": versions(jax, np),
        "date": today(),
    }
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, same=np.array(as_json(record["same"])), about=np.array(json.dumps(about)), **arrays
    )
    write_bytes(path, buffer.getvalue())


def load(path: Path) -> tuple[Record, dict[str, str]]:
    """A record, and where it was made: commit, machine, versions, date."""
    with np.load(path, allow_pickle=False) as held:
        record: Record = {"same": json.loads(str(held["same"]))}
        for key in held.files:
            group, _, name = key.partition("/")
            if name:
                record.setdefault(group, {})[name] = held[key]
        return record, json.loads(str(held["about"]))


def as_json(values: dict[str, Any]) -> str:
    """Numbers of numpy are written as Python's."""
    return json.dumps(values, default=lambda value: value.tolist())


def apart(was: Any, now: Any) -> float:
    """The largest difference of two arrays; infinite where their shapes differ or one alone is
    not finite."""
    was, now = np.asarray(was, float), np.asarray(now, float)
    if was.shape != now.shape:
        return np.inf
    with np.errstate(invalid="ignore"):
        unlike = np.abs(was - now)
    unlike = np.where((was == now) | (np.isnan(was) & np.isnan(now)), 0.0, unlike)
    return float(np.max(np.where(np.isnan(unlike), np.inf, unlike), initial=0.0))


def tolerance(group: str, was: Record, name: str, path: float = PATH) -> float:
    """How far a quantity may be from what is recorded; path: q and qd of the first part."""
    if group == "tuned":
        return TUNED * float(np.max(np.abs(was[group][name]), initial=0.0))
    if group == "newtons":
        return float(was[group]["step"]) if name == "tolerated" else 0.0
    return {"path": path, "metres": METRES, "seconds": SECONDS, "later": np.inf}[group]


def differences(was: Record, now: Record, short: bool = False, path: float = PATH) -> list[str]:
    """The quantities that differ, each with its values or by how much. short: of the first part
    alone, where there is one; path: as for ``tolerance``."""
    groups = ("path",) if short and "path" in was else sorted(was)
    found = []
    for group in groups:
        old, new = was[group], now.get(group, {})
        if group == "same":
            new = json.loads(as_json(new))
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new:
                found.append(f"{name}: only {'recorded' if name in old else 'computed'}")
            elif group == "same":
                if old[name] != new[name]:
                    found.append(f"{name}: {old[name]} -> {new[name]}")
            elif (by := apart(old[name], new[name])) > tolerance(group, was, name, path):
                found.append(f"{group} {name}: by {by:.3g}")
    return found


def largest(was: Record, now: Record, group: str) -> str:
    """The largest difference of q and qd in the frames of a group."""
    if group not in was:
        return "-"
    names = [name for name in ("q", "qd") if name in was[group]]
    return f"{max(apart(was[group][name], now[group][name]) for name in names):.2g}"


def compare(kind: str, name: str, short: bool = False, folder: Path = FOLDER) -> list[str]:
    """A row of the table, computed now. Its last cell is empty where nothing differs."""
    file, began = file_of(kind, name, folder), clock.perf_counter()
    if name not in KINDS[kind].names():
        return [f"{kind} {name}", "-", "-", "0", "there is no such scenario any more"]
    if not file.is_file():
        return [f"{kind} {name}", "-", "-", "0", "it is not recorded"]
    was, now = load(file)[0], KINDS[kind].record(name, short)
    end = "-" if short else largest(was, now, "later")
    took = f"{clock.perf_counter() - began:.1f}"
    chaotic = (kind, name) in CHAOTIC
    path = CHAOTIC_PATH if chaotic else PATH
    why = "; ".join(differences(was, now, short or chaotic, path))
    return [f"{kind} {name}", largest(was, now, "path"), end, took, why]


def write(kind: str, name: str, again: bool, folder: Path = FOLDER) -> str:
    """Record a scenario, unless it is recorded; a line that says what was done."""
    path, began = file_of(kind, name, folder), clock.perf_counter()
    if path.is_file() and not again:
        return f"{kind} {name}: is recorded"
    save(path, KINDS[kind].record(name, False))
    took = clock.perf_counter() - began
    return f"{kind} {name}: {path.stat().st_size / 1e3:.1f} kB in {took:.1f} s"


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(kind, name) of what the options ask for; to compare also what is recorded alone."""
    known = [(kind, name) for kind, of in KINDS.items() for name in of.names()]
    known += [pair for pair in recorded() if pair not in known and not options.write]
    for kind, name in known:
        if options.kind in (None, kind) and options.only in name:
            yield kind, name


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record what is not recorded yet")
    parser.add_argument("--again", action="store_true", help="with --write: all anew")
    parser.add_argument("--only", default="", metavar="NAME", help="part of a name")
    parser.add_argument("--kind", choices=tuple(KINDS))
    parser.add_argument(
        "--short", action="store_true", help="the first part of motions; no maps, no tuning"
    )
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Record, or compare and print the table. 1 where something differs, 2 for no scenario."""
    options = parse(words)
    pairs = list(chosen(options))
    if options.short:
        pairs = [pair for pair in pairs if pair[0] not in ("map", "tuning")]
    if not pairs:
        print("no scenario has such a name", file=sys.stderr)
        return 2
    rows = []
    with session("cpu", "float64", notices=False):
        for kind, name in pairs:
            if options.write:
                print(write(kind, name, options.again), flush=True)
                continue
            rows.append(compare(kind, name, options.short))
            print("  ".join(f"{head}: {cell}" for head, cell in zip(HEAD, rows[-1])), flush=True)
    if rows:
        print(f"\n{machine()}; {versions(jax, np)}; commit {commit()}\n\n{table(HEAD, rows)}")
    return int(any(row[-1] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
