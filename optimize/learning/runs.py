"""Learning runs of several seeds: a folder each, the result of each, and one plot of all.

seed_0, seed_1, ...          a run each (``optimize.learning.learn``)
runs.json                    return of the best policy of each without noise, mean and interval
curves.png                   that return by actions, of each
policy.npz                   the best policy of all
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.files import write_bytes
from optimize.environments.table import environment_of
from optimize.learning.curve import write_curves
from optimize.learning.learn import (
    POLICY,
    STATE,
    Learned,
    began_with,
    config_of,
    kept_options,
    learn,
)
from optimize.results.digest import accept, changes_since
from optimize.results.folder import RunFolder
from optimize.results.intervals import bootstrap_interval
from optimize.results.lock import lock_folder
from optimize.results.updates import SUMMARY, UPDATES, kept_history, seed_folder, seeds_of
from optimize.scenarios.find import scenario as scenario_of

CURVES = "curves.png"


@dataclass(frozen=True)
class Runs:
    """Learning results by seed, as far as they have come."""

    folder: Path
    seeds: tuple[int, ...]
    learned: tuple[Learned, ...]

    @property
    def interrupted(self) -> bool:
        """True if the runs ended before the last one was done."""
        return len(self.learned) < len(self.seeds) or self.learned[-1].interrupted

    def told(self) -> dict[str, Any]:
        """Returns over seeds, their mean with a 95 % interval, the best seed; {} without any."""
        judged = {s: r.worth for s, r in zip(self.seeds, self.learned) if np.isfinite(r.worth)}
        worths = np.array(list(judged.values()))
        if not judged:
            return {}
        return {
            "seeds": list(judged),
            "returns": list(judged.values()),
            "mean": float(worths.mean()),
            "interval": list(bootstrap_interval(worths)),
            "best": max(judged, key=lambda seed: judged[seed]),
        }


def learn_runs(
    scenario: str | None = None,
    out: str | os.PathLike = "runs/learn",
    runs: int = 5,
    updates: int | None = None,
    seed: int = 0,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = True,
    command: Sequence[str] = (),
    **options: Any,
) -> Runs:
    """Learn with ``runs`` seeds from ``seed`` on, one after the other.

    options: those of ``learn``. With ``resume`` runs that are done stay, an unfinished one goes on
    to the same numbers, and the others follow. Raises what ``learn`` does; where the folder of a
    seed is damaged, before any of them goes on.
    """
    with lock_folder(out):
        if resume:
            folder = RunFolder.open(out)
            run_options = kept_options(folder, SEVERAL)
            run_options["updates"] = run_options["updates"] if updates is None else updates
        else:
            if scenario is None:
                raise ValueError("give a scenario to learn in, by name or file")
            run_options = {"scenario": scenario, "runs": runs, "seed": seed, "options": options,
                     "updates": UPDATES if updates is None else updates}  # fmt: skip
        base = scenario_of(run_options["scenario"], run_options["options"].get("set"))
        now = began_with(run_options, base, environment_of(base, run_options["seed"]))
        if resume:
            changed = changes_since(folder, now, accept_changes)
            accept(folder, now, changed, at=0)
            folder.write_json(RunFolder.CONFIG, {**folder.read_config(), **run_options})
        else:
            folder = RunFolder.create(out, config_of(run_options, base, command), digest=now)
        seeds, learned = seeds_of(run_options), []
        for own in seeds:
            kept_history(seed_folder(folder, own))
        for own in seeds:
            learned.append(
                _one(seed_folder(folder, own), own, run_options, accept_changes, progress)
            )
            if learned[-1].interrupted:
                break
        results = Runs(folder.path, seeds, tuple(learned))
        _write(folder, results)
    return results


SEVERAL = ("scenario", "runs", "seed", "options")


def of_several(out: str | os.PathLike) -> bool:
    """True if the folder of a run holds runs of several seeds."""
    return "runs" in RunFolder.open(out).read_config()


def _one(
    folder: RunFolder,
    seed: int,
    run_options: Mapping[str, Any],
    accept_changes: bool,
    progress: bool,
) -> Learned:
    """Learn with one seed: start a run, resume it, or read its result."""
    updates, history = run_options["updates"], kept_history(folder)
    if len(history) >= updates and (folder / STATE).is_file() and (folder / POLICY).is_file():
        worths = [line["worth"] for line in history if "worth" in line]
        return Learned(folder.path, len(history), max(worths, default=-np.inf), False, history)
    if (folder / RunFolder.CONFIG).is_file():
        return learn(
            out=folder.path,
            updates=updates,
            resume=True,
            accept_changes=accept_changes,
            progress=progress,
        )
    options = run_options["options"]
    return learn(
        run_options["scenario"],
        folder.path,
        updates=updates,
        seed=seed,
        progress=progress,
        **options,
    )


def _write(folder: RunFolder, results: Runs) -> None:
    summary = results.told()
    if not summary:
        return
    folder.write_json(SUMMARY, summary)
    write_bytes(folder / POLICY, (folder / f"seed_{summary['best']}" / POLICY).read_bytes())
    try:
        write_curves(
            folder / CURVES, {s: r.history for s, r in zip(results.seeds, results.learned)}
        )
    except ImportError:
        pass  # without matplotlib there is none
