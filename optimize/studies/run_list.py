"""Runs below a folder: their state, results and cost.

    for run in list_runs("runs"):
        print(run.path, run.state, run.best)

A run is a folder that ``RunFolder.create`` has created, or one of a search of ``evolve_runs``. A
run that cannot be read is listed with its error, and does not hide the others.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimize.results.digest import began, differences
from optimize.results.folder import RunFolder, reading
from optimize.results.lock import holder
from optimize.results.updates import SUMMARY, UPDATES, kept_history, seed_folder, seeds_of
from optimize.sweeps.design import design_of_json
from optimize.sweeps.store import STORE, read_progress
from optimize.tuning.histories import RunHistory, best_of, histories, own_weights
from optimize.tuning.names import CHECKS, RESULT

MARKS = (RunFolder.CONFIG, RunFolder.VERSIONS, RunFolder.HISTORY, RunFolder.CHECKPOINT)
POLICY = "policy"
KINDS = {  # by key of the config
    "push_map": "push map",
    "sweep": "sweep",
    "compatibility": "model",
    "options": POLICY,
}
SEARCH = "search"  # of Python, without options
BROKEN, RUNNING, INTERRUPTED, DONE = "broken", "running", "interrupted", "done"
TOLD = 12  # rows of a comparison that are shown of each kind


@dataclass(frozen=True)
class ListedRun:
    """Run as its folder describes it; None for what that does not say.

    kind: tune, search, sweep, push map, model, policy, "" of a broken one. state: running,
    interrupted, done, broken. done, of: how far it is: generations, boxes of a sweep, updates of
    learning. best: of a search the lowest objective of its members, and ``judged`` that of the
    result; of learning the highest return without noise, and of several seeds their mean.
    evaluations: members that were simulated, of learning actions. seconds: of their simulation [s].
    note: what is wrong, or does not compare.
    """

    path: Path
    kind: str = ""
    state: str = BROKEN
    scenario: str | None = None
    method: str | None = None
    seed: int | None = None
    runs: int = 1
    done: int | None = None
    of: int | None = None
    best: float | None = None
    judged: float | None = None
    evaluations: int | None = None
    seconds: float | None = None
    note: str = ""


def list_runs(folder: str | os.PathLike) -> list[ListedRun]:
    """Runs in a folder and below, by name. Raises FileNotFoundError where there is no folder.

    Only small files are read, and the histories.
    """
    top = Path(folder)
    if not top.is_dir():
        raise FileNotFoundError(f"there is no folder {top}")
    return [run_entry(path) for path in _folders(top)]


def _folders(top: Path) -> Iterator[Path]:
    """Folders with the marks of a run; none is searched for within another."""
    for path, inner, files in os.walk(top):
        inner.sort()
        if set(MARKS) & set(files) and not _foreign(Path(path), files):
            inner.clear()
            yield Path(path)


def _foreign(path: Path, files: list[str]) -> bool:
    """True if config.json is the only mark, and is that of another program."""
    if set(MARKS) & set(files) != {RunFolder.CONFIG}:
        return False
    try:
        held = json.loads((path / RunFolder.CONFIG).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return True
    return not (isinstance(held, dict) and "command" in held and "seed" in held)


def run_entry(path: str | os.PathLike) -> ListedRun:
    """Entry of the run in a folder; an unreadable one has its error as the note."""
    folder = RunFolder(Path(path))
    try:
        with reading(folder):
            return _read(folder)
    except Exception as error:  # whatever is wrong with one, the others are listed
        kind = "" if isinstance(error, (OSError, ValueError)) else f"{type(error).__name__} "
        return ListedRun(folder.path, note=f"{kind}{error}")


def _read(folder: RunFolder) -> ListedRun:
    if not (folder / RunFolder.CONFIG).is_file():
        if (folder / RunFolder.VERSIONS).is_file() or not (folder / RunFolder.CHECKPOINT).is_file():
            RunFolder.open(folder)  # its error says what is missing
        return _search(folder)
    config = folder.read_config()
    for key, kind in KINDS.items():
        if key in config:
            read = {"model": _model, POLICY: _learned}.get(kind, _sweep)
            return read(folder, config, kind)
    if "generations" in config and "objective" in config:
        return _tuned(folder, config)
    raise ValueError(f"{folder / RunFolder.CONFIG} holds options of no kind of run")


def _state(folder: RunFolder, done: bool) -> str:
    if holder(folder) is not None:
        return RUNNING
    return DONE if done else INTERRUPTED


# ---- searches


def _tuned(folder: RunFolder, config: Mapping[str, Any]) -> ListedRun:
    """Entry of a run of ``tune``, or of several that advance together."""
    runs = histories(folder) if (folder / RunFolder.HISTORY).is_file() else []
    generations = 1 + max((int(run.lines[-1]["generation"]) for run in runs), default=-1)
    result = folder.read_json(RESULT) if (folder / RESULT).is_file() else None
    over = generations >= config["generations"]
    best, note = _best(folder, config, runs)
    whole = over and (result is not None or (best is None and not note))
    shared = dict(_found(runs), kind="tune", state=_state(folder, whole), note=note)
    return ListedRun(
        folder.path,
        scenario=str(config["scenario"]),
        method=_method(config),
        seed=config["seed"],
        runs=int(config.get("runs", 1)),
        done=generations,
        of=config["generations"],
        best=best,
        judged=result["after"]["total"] if over and result is not None else None,
        **shared,
    )


def _method(config: Mapping[str, Any]) -> str:
    told = [
        config.get("method", "cma"),
        config.get("restarts"),
        config.get("resample") and "resample",
    ]
    return " ".join(str(part) for part in told if part)


def _best(folder: RunFolder, config: Mapping[str, Any], runs: list[RunHistory]):
    """Best objective of a search, and the reason where there is none to compare."""
    if config.get("resample"):  # the best of a generation was lucky in its trials
        checked = (folder / CHECKS).is_file() and (folder / RunFolder.BEST).is_file()
        return (folder.read_json(RunFolder.BEST)["fitness"]["after"] if checked else None), ""
    best = best_of(runs)
    lost = own_weights(config.get("by_run", {})) and any(
        run.lines[-1]["best_ever"] is not None and not np.isfinite(run.last) for run in runs
    )
    if lost:
        return None, "runs with weights of their own, and without their terms: not comparable"
    return (None if best is None else best.last), ""


def _found(runs: list[RunHistory]) -> dict[str, Any]:
    """Cost of the runs of a search; the wall time is of all together."""
    if not runs:
        return {}
    return {
        "evaluations": int(sum(run.evaluations[-1] for run in runs)),
        "seconds": float(sum(line["seconds"] for line in runs[0].lines)),
    }


def _search(folder: RunFolder) -> ListedRun:
    """Entry of a search of ``evolve_runs`` with its own folder, whose planned length is unknown."""
    from optimize.tuning.checkpoint import Checkpoint, CheckpointError

    try:
        checkpoint = Checkpoint.load(folder / RunFolder.CHECKPOINT)
    except CheckpointError as error:
        raise ValueError(error) from error
    runs = histories(folder) if (folder / RunFolder.HISTORY).is_file() else []
    best = best_of(runs)
    return ListedRun(
        folder.path,
        SEARCH,
        _state(folder, True),
        method=" ".join(filter(None, (checkpoint.settings.method, checkpoint.settings.restarts))),
        seed=int(checkpoint.settings.seed[0]),
        runs=checkpoint.settings.runs,
        done=max(checkpoint.generation, 0),
        best=None if best is None else best.last,
        **_found(runs),
    )


# ---- other kinds


def _sweep(folder: RunFolder, config: Mapping[str, Any], kind: str) -> ListedRun:
    design = design_of_json(config["sweep"])
    boxes = math.prod(design.boxes)
    done = read_progress(folder, boxes) if (folder / STORE).is_dir() else None
    return ListedRun(
        folder.path,
        kind,
        _state(folder, done == boxes),
        scenario=config.get("push_map", config)["scenario"],
        method=design.sample or "grid",
        seed=config["seed"],
        done=done or 0,
        of=boxes,
        evaluations=design.members * (done or 0) // boxes,
    )


def _model(folder: RunFolder, config: Mapping[str, Any], kind: str) -> ListedRun:
    """Entry of a compatibility model."""
    from optimize.compatibility.run import MODEL

    over, options = (folder / MODEL).is_file(), config["compatibility"]
    found = folder.read_json(MODEL) if over else {}
    return ListedRun(
        folder.path,
        kind,
        _state(folder, over),
        scenario=options.get("scenario"),
        method=options.get("method"),
        seed=config["seed"],
        evaluations=found.get("samples"),
        seconds=found.get("seconds", {}).get("sampling"),
    )


def _learned(folder: RunFolder, config: Mapping[str, Any], kind: str) -> ListedRun:
    """Entry of a learned policy, or of several seeds; unreadable seeds become notes."""
    several = "runs" in config
    folders = [seed_folder(folder, s) for s in seeds_of(config)] if several else [folder]
    saved_histories, notes = [], []
    for own in folders:
        try:
            saved_histories.append(kept_history(own))
        except (OSError, ValueError) as error:
            if not several:
                raise
            notes.append(str(error))
    lines = [history[-1] for history in saved_histories if history]
    worths = [line["worth"] for history in saved_histories for line in history if "worth" in line]
    updates = config.get("updates", UPDATES)
    done, of = sum(len(history) for history in saved_histories), updates * len(folders)
    summary = folder.read_json(SUMMARY) if (folder / SUMMARY).is_file() else {}
    return ListedRun(
        folder.path,
        kind,
        _state(folder, all(len(history) >= updates for history in saved_histories) and not notes),
        scenario=config["scenario"],
        method=config.get("method", config["options"].get("method") if several else None),
        seed=config["seed"],
        runs=len(folders),
        done=done,
        of=of,
        best=max(worths, default=None),
        judged=summary["mean"] if summary else None,
        evaluations=sum(line["actions"] for line in lines) or None,
        seconds=sum(line["seconds"] for line in lines) or None,
        note="; ".join(notes),
    )


# ---- two of them


def compare_runs(first_path: str | os.PathLike, second_path: str | os.PathLike) -> list[str]:
    """Differences between two runs, a line each.

    Of options, script, model, code, libraries and machine; then of results and cost. Raises
    ValueError where one cannot be read.
    """
    lines: list[str] = []
    runs = [run_entry(path) for path in (first_path, second_path)]
    for run in runs:
        if run.state == BROKEN:
            raise ValueError(f"{run.path}: {run.note}")
    starts = [_began(RunFolder(run.path)) for run in runs]
    changes = differences(*starts)
    lines += changes[:TOLD] + ([f"and {len(changes) - TOLD} more"] if len(changes) > TOLD else [])
    lines += [] if changes else ["they began with the same"]
    first, second = runs
    rows = ["state", "done", "evaluations", "seconds"]
    if all(_judged_by(part) == _judged_by(starts[0]) for part in starts):
        rows += ["best", "judged"]
    else:
        lines.append("best: not comparable, as what they are judged by differs")
    for name in rows:
        a, b = getattr(first, name), getattr(second, name)
        if (a, b) != (None, None):
            lines.append(f"{name}: {_told(a)}, {_told(b)}")
    return lines + _terms(runs)


def _began(folder: RunFolder) -> dict[str, Any]:
    """Digest, options and machine that a run started with."""
    start = began(folder)
    if (folder / RunFolder.CONFIG).is_file():
        options = folder.read_config()
        own = {name: v for name, v in options.items() if name != "command"}
        saved = start.get("config")
        start["config"] = {**(saved if isinstance(saved, Mapping) else {}), **own}
    if (folder / RunFolder.VERSIONS).is_file():
        versions = folder.read_json(RunFolder.VERSIONS)
        names = ("python", "platform", "cpu_count", "device", "commit")
        with reading(folder / RunFolder.VERSIONS):
            start["machine"] = {name: versions.get(name) for name in names}
    return start


def _judged_by(began: Mapping[str, Any]) -> list[Any]:
    """Settings that must be equal where objectives are compared."""
    config = began.get("config", {})
    names = (
        "scenario",
        "set",
        "objective",
        "weights",
        "seconds",
        "trials",
        "aggregate",
        "resample",
    )
    return [config.get(name) for name in names]


def _terms(runs: list[ListedRun]) -> list[str]:
    """Terms of the best member of each run, where both save them."""
    terms_of_runs = []
    for run in runs:
        folder = RunFolder(run.path)
        if not (folder / RunFolder.BEST).is_file():
            return []
        with reading(folder / RunFolder.BEST):
            terms = folder.read_json(RunFolder.BEST)["terms"]
            terms_of_runs.append(
                {term["name"]: (term["unit"], _told(term["after"])) for term in terms}
            )
    first, second = terms_of_runs
    return [
        f"  {name} [{first[name][0]}]: {first[name][1]}, {second[name][1]}"
        for name in first
        if name in second
    ]


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else str(value)
