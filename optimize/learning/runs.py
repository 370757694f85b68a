"""Runs of several seeds: a folder each, what each came to, and one picture of all.

seed_0, seed_1, ...          a run each (``optimize.learning.learn``)
runs.json                    return of the best policy of each without noise, mean and interval
curves.png                   that return by actions, of each
policy.npz                   the best policy of all
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.files import write_bytes
from optimize.learning.curve import write_curves
from optimize.learning.learn import POLICY, STATE, Learned, learn
from optimize.results.folder import RunFolder
from optimize.results.lock import locked
from optimize.scenarios.find import scenario as scenario_of
from optimize.studies.intervals import bootstrapped

SUMMARY, CURVES = "runs.json", "curves.png"


@dataclass(frozen=True)
class Runs:
    """Of each seed what it learned, as far as it came."""

    folder: Path
    seeds: tuple[int, ...]
    learned: tuple[Learned, ...]

    @property
    def interrupted(self) -> bool:
        """Before the last one was done."""
        return len(self.learned) < len(self.seeds) or self.learned[-1].interrupted

    def told(self) -> dict[str, Any]:
        """Seeds that were judged, their returns, mean and its 95 % interval over seeds, the best
        one; {} before any was."""
        judged = {s: r.worth for s, r in zip(self.seeds, self.learned) if np.isfinite(r.worth)}
        worths = np.array(list(judged.values()))
        if not judged:
            return {}
        return {
            "seeds": list(judged),
            "returns": list(judged.values()),
            "mean": float(worths.mean()),
            "interval": list(bootstrapped(worths)),
            "best": max(judged, key=lambda seed: judged[seed]),
        }


def learn_runs(
    scenario: str | None = None,
    out: str | os.PathLike = "runs/learn",
    runs: int = 5,
    updates: int = 400,
    seed: int = 0,
    resume: bool = False,
    command: Sequence[str] = (),
    **options: Any,
) -> Runs:
    """Learn with ``runs`` seeds from ``seed`` on, one after the other. options: those of ``learn``.

    With ``resume`` runs that are done stay, one that was begun goes on to the same numbers, and the
    others follow. Raises what ``learn`` does.
    """
    if not resume:
        if scenario is None:
            raise ValueError("give a scenario to learn in, by name or file")
        own = scenario_of(scenario, options.get("set"))
        timing = {"dt": float(own.scheme.dt), "seconds": own.seconds}
        asked = {"scenario": scenario, "runs": runs, "seed": seed, "options": _kept(options)}
        folder = RunFolder.create(out, {**asked, **timing, "command": list(command)})
    else:
        folder = RunFolder.open(out)
        config = folder.read_config()
        scenario, runs, seed = config["scenario"], config["runs"], config["seed"]
        options = {**config["options"], "progress": options.get("progress", True)}
    seeds, learned = tuple(range(seed, seed + runs)), []
    with locked(folder):
        for own in seeds:
            learned.append(_one(folder / f"seed_{own}", scenario, own, updates, options))
            if learned[-1].interrupted:
                break
        found = Runs(folder.path, seeds, tuple(learned))
        _write(folder, found)
    return found


def of_several(out: str | os.PathLike) -> bool:
    """The folder of a run holds runs of several seeds."""
    return "runs" in RunFolder.open(out).read_config()


def _one(
    out: Path, scenario: str | None, seed: int, updates: int, options: Mapping[str, Any]
) -> Learned:
    """A run that is new, goes on, or is done."""
    if (out / STATE).is_file():
        history = RunFolder.open(out).read_history()
        worths = [line["worth"] for line in history if "worth" in line]
        if len(history) >= updates and (out / POLICY).is_file():
            return Learned(out, len(history), max(worths), False, history)
        return learn(out=out, updates=updates, resume=True, progress=options.get("progress", True))
    if out.exists():  # ended before anything was kept; it begins with the same numbers again
        shutil.rmtree(out)
    return learn(scenario, out, updates=updates, seed=seed, **options)


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a resume needs of them."""
    return {name: value for name, value in options.items() if name != "progress"}


def _write(folder: RunFolder, found: Runs) -> None:
    told = found.told()
    if not told:
        return
    folder.write_json(SUMMARY, told)
    write_bytes(folder / POLICY, (folder / f"seed_{told['best']}" / POLICY).read_bytes())
    try:
        write_curves(folder / CURVES, {s: r.history for s, r in zip(found.seeds, found.learned)})
    except ImportError:
        pass  # without matplotlib there is none
