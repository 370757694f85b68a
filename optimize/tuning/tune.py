"""Tune numbers of any scenario: to a folder with the best of them, and of a script its motion.

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

from jaxsim.io.files import try_folder
from jaxsim.simulation.checks import check_kind
from optimize.interrupts import deferred, noting
from optimize.problems.defaults import script_in
from optimize.problems.distributed import distributed
from optimize.problems.problem import Problem
from optimize.problems.starts import spread_text
from optimize.results.digest import accept, accepted, changes_since, digest
from optimize.results.folder import RunFolder
from optimize.results.lock import locked
from optimize.running.cluster import check_cluster, workers
from optimize.running.objectives import TERMS
from optimize.running.simulate import Simulation, run_scenario, write_simulation
from optimize.running.summary import json_safe
from optimize.scenarios.scenario import Scenario
from optimize.tuning.bar import Bar
from optimize.tuning.best import Best, tuned_text
from optimize.tuning.checkpoint import has_begun, next_generation
from optimize.tuning.chosen import evolve_checked
from optimize.tuning.config import RunConfig, new_config, resumed_config
from optimize.tuning.evolution import EvolutionResult, GenerationRecord, evolve_runs, settings_of
from optimize.tuning.front import Watched
from optimize.tuning.gradient import REPORT, Doubts, health_at_start
from optimize.tuning.histories import own_weights
from optimize.tuning.history_plot import plot_history
from optimize.tuning.names import EVOLUTION, RESULT, RUNS, of_runs, stages
from optimize.tuning.options import TuneOptions
from optimize.tuning.posed import (
    checking,
    make_problem,
    scenario_of,
    search_of,
    with_numbers,
)
from optimize.tuning.runs import judged, table_of_runs


@dataclass(frozen=True)
class TuneResult:
    """What a run found.

    before, after: the objective of the script as given and as tuned, judged with the finer time
    step: {"name", "total", "parts"}; None where the run was interrupted or every member failed.
    evolution: the search, of several runs the one that found the best; runs: all of them. notes:
    what could not be done, with the remedy.
    """

    folder: Path
    evolution: EvolutionResult
    runs: tuple[EvolutionResult, ...]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    motion: Simulation | None  # of the best
    notes: tuple[str, ...]


def tune(
    scenario: Scenario | str | os.PathLike | None = None,
    objective: Any = None,
    *,
    out: str | os.PathLike,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = True,
    command: list[str] | None = None,
    cluster: Any = None,
    **options: Unpack[TuneOptions],
) -> TuneResult:
    """Tune numbers of a scenario by evolution or along a gradient, and judge what is found.

    scenario: a script's path or name, a scene of goals' name, or a Scenario; objective: see
    ``user_objective``; options: see ``TuneOptions``. Numbers are those of ``default_numbers``, or
    of ``numbers``; a script's '@' numbers vary in any case.

    out: the result folder, new or empty; with ``resume`` the folder of a run that
    goes on with its own options (only ``generations`` may change, script and objective may be left
    out). accept_changes: go on although the script, the options, the model, the code or a library
    is not what the run began with; the history then says what, before which generation. command:
    what config.json says the run was started with.

    Several ``runs`` advance as one program, with the seeds from ``seed`` on and the values of
    ``each`` in turn; the best member of all is judged, and runs.json tells what each found. Of runs
    with weights of their own it is the best under those of the objective. ``front`` keeps the
    members of all runs that no other one excels (``optimize.tuning.front``).

    cluster: where members are simulated, see ``optimize.running.cluster.workers``: a number of
    processes, a scheduler's address or Client of Dask, "slurm:8". Those of a generation, of all
    runs, are cut into a part for each; what one does that is lost on the way is done again. A run
    is the same to the last bit where the kind of processor is, and may go on with or without.
    Derivatives and the judgement stay here.

    The search is in JAX's default precision and on all its devices. After every generation
    history and checkpoint are complete, best.scl and best.json after every gain. At the end the
    best script is simulated with ``judge_dt`` in float64, and its page, plots and trajectory
    written. Ctrl-C and SIGTERM end the search after a generation, with all of that kept but the
    judgement; KeyboardInterrupt where nothing has begun yet (see optimize.interrupts).

    Raises ValueError, KeyError, TypeError or ScriptError for bad input, before anything is written,
    ValueError too where the first stage follows a derivative that is not worth it
    (``gradient_health``); a later one is left out, and the stage before goes on. ``trust`` follows
    it all the same.

    FileExistsError where the folder holds anything, FileNotFoundError where there is nothing to
    resume, RunChanged where that began with something else, CheckpointError where it is damaged,
    FolderInUse where another process works in the folder.
    """
    _check(scenario, out, options)
    try_folder(out)
    with noting(), contextlib.ExitStack() as stack:
        if resume:
            folder = RunFolder.open(out)
            stack.enter_context(locked(folder))
            config = resumed_config(folder, scenario, objective, options)
            _check_cluster(config, cluster)
            # What differs is told before a problem is made of it, which may go wrong.
            changes_since(folder, digest(config.options, config.text), accept_changes)
            problem = make_problem(config)
            now = digest(config.options, config.text, problem.scenario.model)
            changed = changes_since(folder, now, accept_changes)
            pool = stack.enter_context(workers(cluster))
            accept(
                folder,
                now,
                changed,
                next_generation(folder, settings_of(**search_of(config, problem))),
            )
            folder.write_json(RunFolder.CONFIG, config.options)
        else:
            config = new_config(scenario, objective, options, command)
            _check_cluster(config, cluster)
            problem = make_problem(config)
            now = digest(config.options, config.text, problem.scenario.model)
            health = health_at_start(problem, config["method"], config["sigma"], config["trust"])
            pool = stack.enter_context(workers(cluster))
            stack.enter_context(locked(out))
            own = config.objective_text
            folder = RunFolder.create(out, config.options, config.text, now, own)
            if health is not None:
                folder.write_text(REPORT, str(health))
        best = Best(folder, problem, own_weights(config["each"]))
        searched = distributed(problem, pool)
        if config["fresh"]:
            return _chosen(folder, config, problem, searched, best, resume, progress)
        return _searched(folder, config, problem, searched, best, resume, progress)


def _searched(
    folder: RunFolder,
    config: RunConfig,
    problem: Problem,
    searched: Problem,
    best: Best,
    resume: bool,
    progress: bool,
) -> TuneResult:
    """Of trials that stay the same: the best member of all runs."""
    of = judged(searched, of_runs(config["each"], config["runs"]))
    evaluate, doubts = of.evaluate, Doubts(problem, folder, config["trust"])
    if config["front"]:
        evaluate = Watched(of.evaluate, problem, folder, config["front"])
    with Bar(config["generations"], progress) as bar:

        def on_generation(records: list[GenerationRecord], best_x: np.ndarray) -> None:
            best.offer(records, best_x)
            bar.show(records)

        found = evolve_runs(
            evaluate,
            **search_of(config, problem),
            slopes=of.slopes,
            doubt=doubts,
            folder=folder,
            resume=resume and has_begun(folder),
            on_generation=on_generation,
            progress=False,
            changes=accepted(folder),
            by_generation=bool(config["front"]),
        )
    result = _finish(folder, config, problem, best, found, progress)
    return dataclasses.replace(result, notes=(*result.notes, *doubts.told))


def _chosen(
    folder: RunFolder,
    config: RunConfig,
    problem: Problem,
    searched: Problem,
    best: Best,
    resume: bool,
    progress: bool,
) -> TuneResult:
    """Of trials that are drawn anew: a mean that stands in nearly all starts, and the best of
    these."""
    with Bar(config["generations"], progress) as bar:

        def on_generation(records: list[GenerationRecord], best_x: np.ndarray) -> None:
            best.begin(records)
            bar.show(records)

        evolution, start, chosen = evolve_checked(
            searched,
            checking(config, problem),
            folder,
            resume=resume,
            sure=config["sure"],
            on_check=lambda check: bar.note(f"{check.ok}/{check.starts} at {check.total or 0:.4g}"),
            on_generation=on_generation,
            changes=accepted(folder),
            **search_of(config, problem),
        )
    if start is not None and chosen is not None:
        best.start = {"best": start.total, "best_parts": start.parts}
        evolution = dataclasses.replace(
            evolution,
            best_x=np.array(chosen.x),
            best_fitness=np.inf if chosen.total is None else chosen.total,
            best_parts=chosen.parts,
        )
    found = _finish(folder, config, problem, best, (evolution,), progress)
    if chosen is None:
        return found
    told = (
        f"generation {chosen.generation} stands in {chosen.ok} of {chosen.starts} starts that"
        f" neither searched nor chose ({spread_text(*config['spread'])}),"
        f" with a median objective of {chosen.total}"
    )
    return dataclasses.replace(found, notes=(*found.notes, told))


def _check(scenario, out, options: TuneOptions) -> None:
    """Raise TypeError for arguments of another kind; their values are looked at with the rest."""
    if scenario is not None:
        how = ": a script's path or name, a scene's name, or a Scenario"
        check_kind("scenario", scenario, str, os.PathLike, Scenario, how=how)
    check_kind("out", out, str, os.PathLike, how=": the folder of the run")
    if options.get("set") is not None:
        check_kind("set", options.get("set"), Mapping, how=" from a path or key to a value")
    for name in ("numbers", "variants"):
        if options.get(name) is not None:
            how = " from a path or label to (lower, upper) or (lower, upper, scale)"
            check_kind(name, options.get(name), Mapping, how=how)


def _check_cluster(config: RunConfig, cluster: Any) -> None:
    """ValueError where there are no such workers, or where they would have nothing to do."""
    check_cluster(cluster)
    if cluster is not None and not {s.name for s in stages(config["method"])} & {*EVOLUTION}:
        raise ValueError(
            f"cluster: derivatives are not found by workers, and the method {config['method']!r}"
            " has no stage that evolves; leave the cluster out"
        )


def _finish(
    folder: RunFolder,
    config: RunConfig,
    problem: Problem,
    best: Best,
    runs: tuple[EvolutionResult, ...],
    progress: bool,
) -> TuneResult:
    """Judge the best with the finer time step and write what there is to look at."""
    evolution = min(runs, key=lambda run: best.worth(run.best_fitness, run.best_parts))
    notes: list[str] = []
    if len(runs) > 1:
        each = of_runs(config["each"], config["runs"])
        rows = table_of_runs(problem, search_of(config, problem), each, runs)
        folder.write_json(RUNS, json_safe(rows))
    if evolution.history:
        try:
            with deferred():
                plot_history(folder)
        except ImportError as error:
            notes.append(f"{RunFolder.HISTORY_PLOT} was not written: {error}")
    worth = best.worth(evolution.best_fitness, evolution.best_parts)
    if not np.isfinite(worth):
        if not evolution.interrupted:
            notes.append("every member failed; a smaller dt or sigma, or other bounds, may help")
        return TuneResult(folder.path, evolution, runs, None, None, None, tuple(notes))
    best.write(worth, evolution.best_parts, evolution.best_x)
    if evolution.interrupted:
        return TuneResult(folder.path, evolution, runs, None, None, None, tuple(notes))
    if config.text is None:
        start, found, name = best.start, evolution, config.objective.name
        assert start is not None
        first = {"name": name, "total": start["best"], "parts": start["best_parts"]}
        last = {"name": name, "total": worth, "parts": found.best_parts}
        by = "by the starts that checked it" if config["fresh"] else "by the motions of the search"
        _write_result(folder, config, first, last, judged=by)
        motion, missing = _shown(folder, config, problem, evolution.best_x, progress)
        return TuneResult(folder.path, evolution, runs, first, last, motion, (*notes, *missing))
    before = judge(config, problem, np.zeros_like(evolution.best_x), progress)
    after = before if before.interrupted else judge(config, problem, evolution.best_x, progress)
    if after.interrupted:
        evolution = dataclasses.replace(evolution, interrupted=True)
        return TuneResult(folder.path, evolution, runs, None, None, None, tuple(notes))
    written = write_simulation(folder, after, with_files=False)
    first, last = before.summary["objective"], after.summary["objective"]
    _write_result(folder, config, first, last, judged=f"with steps of {config['judge_dt']} s")
    return TuneResult(folder.path, evolution, runs, first, last, after, (*notes, *written.missing))


def _shown(folder: RunFolder, config: RunConfig, problem: Problem, x: np.ndarray, progress: bool):
    """The scenario with the numbers found, its motion written as ``jaxsim simulate`` does, and what
    of it could not be."""
    values = np.asarray(problem.tunables.decode(np.asarray(x, float)))
    found = with_numbers(problem, values, config["seconds"])
    motion = run_scenario(found, progress=progress, backend=config["backend"])
    return motion, write_simulation(folder, motion, with_files=False).missing


def _write_result(folder: RunFolder, config: RunConfig, before, after, judged: str) -> None:
    units = {name: config.objective.term(name).unit for name in config["weights"]}
    content = {"judged": judged, "weights": config["weights"], "units": units}
    folder.write_json(RESULT, {**content, "before": before, "after": after})


def judge(config: RunConfig, problem: Problem, x: np.ndarray, progress: bool) -> Simulation:
    """A member's motion with the finer time step, in float64 on the CPU.

    The script is the one that best.scl holds, numbers rounded as they are written; what is tuned
    besides the script is taken over too.
    """
    script = script_in(problem.scenario)
    assert script is not None
    text = tuned_text(problem, script, x)
    values = problem.tunables.decode(np.asarray(x, float))
    shipped = set(config["weights"]) <= set(TERMS) and not config.objective.of_survival
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        fine = scenario_of(config, text, config["judge_dt"])
        if any(path.startswith(("model.", "sizes")) for path in problem.tunables.names):
            tree = {**problem.scenario.tree, "model": fine.tree["model"]}
            written = problem.tunables.write(tree, jnp.asarray(values))
            fine = fine.with_tree({part: written[part] for part in ("model", "sizes")})
        motion = run_scenario(
            dataclasses.replace(fine, seconds=config["seconds"]),
            objective=config.objective if shipped else None,
            progress=progress,
            backend=config["backend"] or "fused",
        )
        if shipped or motion.interrupted:
            return motion
        numbers = {"controller.values[0]": (-1e9, 1e9)}
        alone = Problem(fine, numbers, config.objective, backend="xla", chunk=1)
        found = alone.evaluate(np.zeros((1, 1)))
        parts = {name: float(found.parts[name][0]) for name in config["weights"]}
        own = {"name": config.objective.name, "total": float(found.fitness[0]), "parts": parts}
        return dataclasses.replace(motion, summary={**motion.summary, "objective": own})
