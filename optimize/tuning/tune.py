"""Tune a script: from its text and an objective to a folder with the best script and its motion.

    from optimize.tuning.tune import tune

    result = tune("sit_to_stand_quick", "quick-rise", out="runs/rise", generations=8)
    print(result.before["total"], result.after["total"])

Interrupted, the run goes on with ``tune(out="runs/rise", resume=True)``, to the same numbers.
"""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from controllers.scl.load import vocabulary
from controllers.scl.parser import parse
from controllers.scl.roles import UNITS, number_roles
from controllers.scl.writer import rewrite
from jaxsim.characters.planar_human import planar_human
from jaxsim.io.files import try_folder
from jaxsim.simulation.checks import check_kind
from jaxsim.simulation.step import TimeStepping
from optimize.interrupts import holding, noting
from optimize.problems.script_problem import ScriptProblem
from optimize.results.digest import accept, accepted, changes_since, digest
from optimize.results.folder import RunFolder
from optimize.results.lock import locked
from optimize.running.objectives import TERMS, Objective
from optimize.running.simulate import Simulation, check_objective, simulate_scene, write_simulation
from optimize.running.summary import json_safe
from optimize.scenarios.script_scene import Scene, set_scene
from optimize.tuning.checkpoint import has_begun, next_generation
from optimize.tuning.config import RunConfig, TuneOptions, new_config, resumed_config
from optimize.tuning.evolution import EvolutionResult, GenerationRecord, evolve, settings_of
from optimize.tuning.history_plot import plot_history

RESULT = "result.json"


@dataclass(frozen=True)
class TuneResult:
    """What a run found.

    before, after: the objective of the script as given and as tuned, judged with the finer time
    step: {"name", "total", "parts"}; None where the run was interrupted or every member failed.
    notes: what could not be done, with the remedy.
    """

    folder: Path
    evolution: EvolutionResult
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    motion: Simulation | None  # of the best
    notes: tuple[str, ...]


def tune(
    script: str | os.PathLike | None = None,
    objective: Objective | str | None = None,
    *,
    out: str | os.PathLike,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = True,
    command: list[str] | None = None,
    **options: Unpack[TuneOptions],
) -> TuneResult:
    """Tune the free numbers of a script by CMA-ES, and judge what is found.

    script: a path, or the name of a shipped one; objective: a name or an Objective; options: see
    ``TuneOptions``. out: the result folder, new or empty; with ``resume`` the folder of a run that
    goes on with its own options (only ``generations`` may change, script and objective may be left
    out). accept_changes: go on although the script, the options, the model, the code or a library
    is not what the run began with; the history then says what, before which generation. command:
    what config.json says the run was started with.

    The search is in JAX's default precision and on all its devices. After every generation
    history and checkpoint are complete, best.scl and best.json after every gain. At the end the
    best script is simulated with ``judge_dt`` in float64, and its page, plots and trajectory
    written. Ctrl-C and SIGTERM end the search after a generation, with all of that kept but the
    judgement; KeyboardInterrupt where nothing has begun yet (see optimize.interrupts).

    Raises ValueError, KeyError, TypeError or ScriptError for bad input, before anything is written,
    FileExistsError where the folder holds anything, FileNotFoundError where there is nothing to
    resume, RunChanged where that began with something else, CheckpointError where it is damaged,
    FolderInUse where another process works in the folder.
    """
    _check(script, objective, out, options)
    try_folder(out)
    with noting(), contextlib.ExitStack() as stack:
        if resume:
            folder = RunFolder.open(out)
            stack.enter_context(locked(folder))
            config = resumed_config(folder, script, objective, options)
            # What differs is told before a problem is made of it, which may go wrong.
            changes_since(folder, digest(config.options, config.text), accept_changes)
            problem = make_problem(config)
            now = digest(config.options, config.text, problem.model)
            changed = changes_since(folder, now, accept_changes)
            accept(
                folder,
                now,
                changed,
                next_generation(folder, settings_of(**_search(config, problem))),
            )
            folder.write_json(RunFolder.CONFIG, config.options)
        else:
            config = new_config(script, objective, options, command)
            problem = make_problem(config)
            now = digest(config.options, config.text, problem.model)
            stack.enter_context(locked(out))
            folder = RunFolder.create(out, config.options, config.text, now)
        best = _Best(folder, problem)
        with _Bar(config, progress) as bar:

            def on_generation(record: GenerationRecord, best_x: np.ndarray) -> None:
                best.offer(record, best_x)
                bar.show(record)

            evolution = evolve(
                problem.evaluate,
                **_search(config, problem),
                folder=folder,
                resume=resume and has_begun(folder),
                on_generation=on_generation,
                progress=False,
                changes=accepted(folder),
            )
        return _finish(folder, config, problem, best, evolution, progress)


def _check(script, objective, out, options: TuneOptions) -> None:
    """Raise TypeError for arguments of another kind; their values are looked at with the rest."""
    if script is not None:
        check_kind("script", script, str, os.PathLike, how=": a path, or a shipped one's name")
    check_objective(objective)
    check_kind("out", out, str, os.PathLike, how=": the folder of the run")
    if options.get("start") is not None:
        check_kind("start", options.get("start"), str, how=": the name of a pose")
    if options.get("also") is not None:
        how = " from a path to (lower, upper) or (lower, upper, scale)"
        check_kind("also", options.get("also"), Mapping, how=how)


def _search(config: RunConfig, problem: ScriptProblem) -> dict[str, Any]:
    """The arguments of ``evolve``."""
    names = ("sigma", "population", "generations", "seed")
    return {"mean": np.zeros(problem.tunables.size), **{name: config[name] for name in names}}


def make_problem(config: RunConfig) -> ScriptProblem:
    """The optimisation problem of a run. Raises ValueError where nothing is free."""
    scene = set_config_scene(config, config.text)
    if not scene.script.free_indices() and not config["also"]:
        raise ValueError(
            f"{config['script']}: no number is free; mark those to tune with '@', as in"
            " [waist @30], or free every one with free='all' (--free all)"
        )
    problem = ScriptProblem(
        scene.model,
        scene.script,
        scene.state,
        config.objective,
        TimeStepping(dt=float(config["dt"])),
        {path: tuple(spec) for path, spec in config["also"].items()},
        config["chunk"],
        config["trials"],
        config["noise"],
        config["backend"],
    )
    problem.tunables  # noqa: B018 (errors in bounds and paths show now)
    problem.controller  # noqa: B018 (and those of the script on this body)
    return problem


class _Best:
    """best.scl and best.json, kept up to date with the search."""

    def __init__(self, folder: RunFolder, problem: ScriptProblem):
        self.folder, self.problem = folder, problem
        self.start: dict[str, Any] | None = None
        if (folder / RunFolder.HISTORY).is_file():
            history = folder.read_history()
            self.start = history[0] if history else None

    def offer(self, record: GenerationRecord, best_x: np.ndarray) -> None:
        """Write the best member if this generation brought it."""
        if self.start is None:
            self.start = dataclasses.asdict(record)
        if record.best is not None and record.best == record.best_ever:
            self.write(record.best, record.best_parts, best_x)

    def write(self, fitness: float, parts: Mapping[str, float | None], x: np.ndarray) -> None:
        """best.scl, and best.json with terms and numbers before and after."""
        problem, start = self.problem, self.start or {"best": None, "best_parts": {}}
        text = rewrite(problem.script, problem.script_values(x).tolist())
        self.folder.write_text(RunFolder.BEST_SCRIPT, text)
        weights = problem.objective.weights
        terms = [
            {
                "name": name,
                "unit": TERMS[name].unit,
                "weight": weight,
                "before": start["best_parts"].get(name),
                "after": parts.get(name),
            }
            for name, weight in weights.items()
        ]
        content = {
            "objective": problem.objective.name,
            "fitness": {"before": start["best"], "after": fitness},
            "terms": terms,
            "numbers": self._numbers(x),
        }
        self.folder.write_json(RunFolder.BEST, json_safe(content))

    def _numbers(self, x: np.ndarray) -> list[dict[str, Any]]:
        """Every free number: what it is, its unit, bounds, before and after."""
        tunables, script = self.problem.tunables, self.problem.script
        roles, free = number_roles(script), script.free_indices()
        after = np.asarray(tunables.decode(np.asarray(x, float)))
        before = [script.values()[i] for i in free]  # as written, not in the search's precision
        rows = []
        for k, path in enumerate(tunables.names):
            scripted = k < len(free)
            rows.append(
                {
                    "name": script.label(free[k]) if scripted else path,
                    "unit": UNITS[roles[free[k]]] if scripted else None,
                    "lower": tunables.lower[k],
                    "upper": tunables.upper[k],
                    "before": before[k] if scripted else tunables.initial[k],
                    "after": after[k],
                }
            )
        return rows


class _Bar:
    """Progress of the search: best so far, median, failures, rollouts a second."""

    def __init__(self, config: RunConfig, progress: bool):
        self.population = config["population"]
        self.bar = tqdm(
            total=config["generations"], disable=not progress, unit="gen", desc="compiling"
        )

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def show(self, record: GenerationRecord) -> None:
        """After a generation; the start has the number -1, a resumed run begins later."""
        self.bar.set_description("tuning", refresh=False)
        rate = self.population / max(record.seconds, 1e-9)
        numbers = ["none" if v is None else f"{v:.4g}" for v in (record.best_ever, record.median)]
        self.bar.set_postfix_str(
            f"best {numbers[0]}, median {numbers[1]}, failed {record.failures},"
            f" {rate:.3g} rollouts/s",
            refresh=False,
        )
        if record.generation + 1 > self.bar.n:
            self.bar.update(record.generation + 1 - self.bar.n)
        else:
            self.bar.refresh()


def _finish(
    folder: RunFolder,
    config: RunConfig,
    problem: ScriptProblem,
    best: _Best,
    evolution: EvolutionResult,
    progress: bool,
) -> TuneResult:
    """Judge the best with the finer time step and write what there is to look at."""
    notes: list[str] = []
    if evolution.history:
        try:
            with holding():
                plot_history(folder)
        except ImportError as error:
            notes.append(f"{RunFolder.HISTORY_PLOT} was not written: {error}")
    if not np.isfinite(evolution.best_fitness):
        if not evolution.interrupted:
            notes.append("every member failed; a smaller dt or sigma, or other bounds, may help")
        return TuneResult(folder.path, evolution, None, None, None, tuple(notes))
    best.write(evolution.best_fitness, evolution.best_parts, evolution.best_x)
    if evolution.interrupted:
        return TuneResult(folder.path, evolution, None, None, None, tuple(notes))
    before = judge(config, problem, np.zeros_like(evolution.best_x), progress)
    after = before if before.interrupted else judge(config, problem, evolution.best_x, progress)
    if after.interrupted:
        evolution = dataclasses.replace(evolution, interrupted=True)
        return TuneResult(folder.path, evolution, None, None, None, tuple(notes))
    written = write_simulation(folder, after, with_script=False)
    scores = {"before": before.summary["objective"], "after": after.summary["objective"]}
    weights = config["weights"]
    units = {name: TERMS[name].unit for name in weights}
    folder.write_json(
        RESULT, {"judge_dt": config["judge_dt"], "weights": weights, "units": units, **scores}
    )
    return TuneResult(
        folder.path, evolution, scores["before"], scores["after"], after, (*notes, *written.missing)
    )


def judge(config: RunConfig, problem: ScriptProblem, x: np.ndarray, progress: bool) -> Simulation:
    """A member's motion with the finer time step, in float64 on the CPU.

    The script is the one that best.scl holds, numbers rounded as they are written; what is tuned
    besides the script is taken over too.
    """
    text = rewrite(problem.script, problem.script_values(x).tolist())
    values = problem.tunables.decode(np.asarray(x, float))
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        scene = set_config_scene(config, text)
        if problem.also:
            tree = {**problem.tree, "model": scene.model}
            written = problem.tunables.write(tree, jnp.asarray(values))
            scene = dataclasses.replace(scene, model=written["model"])
        return simulate_scene(
            scene,
            seconds=config["seconds"],
            dt=config["judge_dt"],
            objective=config.objective,
            progress=progress,
            backend=config["backend"],
        )


def set_config_scene(config: RunConfig, text: str) -> Scene:
    """The scene of a run with a text of its script."""
    script = parse(text, vocabulary(planar_human()), config["script"])
    return set_scene(script, config["start"], config["chair_height"], config["friction"])
