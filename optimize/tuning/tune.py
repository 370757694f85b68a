"""Tune numbers of any scenario: to a folder with the best of them, and of a script its motion.

    from optimize.tuning.tune import tune

    result = tune("sit_to_stand_quick", "quick-rise", out="runs/rise", generations=8)
    print(result.before["total"], result.after["total"])

Interrupted, the run goes on with ``tune(out="runs/rise", resume=True)``, to the same numbers.
"""

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import jax.numpy as jnp
import numpy as np

from jaxsim.io.files import try_folder
from jaxsim.simulation.checks import check_kind
from optimize.interrupts import defer_interrupts, note_interrupts
from optimize.problems.distributed import distribute
from optimize.problems.problem import Problem
from optimize.problems.starts import spread_text
from optimize.results.digest import accept, accepted_changes, changes_since, digest
from optimize.results.folder import RunFolder
from optimize.results.lock import lock_folder
from optimize.running.cluster import check_cluster, workers
from optimize.running.simulate import Simulation, run_scenario, write_simulation
from optimize.running.summary import json_safe
from optimize.scenarios.scenario import Scenario
from optimize.tuning.best import BY_SEARCH, Best, table_of_runs, values_of
from optimize.tuning.build import (
    build_problem,
    evaluation_context,
    scenario_of,
    selection_problem,
    with_numbers,
)
from optimize.tuning.checkpoint import has_begun, next_generation
from optimize.tuning.config import TuneConfig, TuneOptions, new_config, resumed_config
from optimize.tuning.evaluators import run_evaluators
from optimize.tuning.evolution import (
    Bar,
    EvolutionResult,
    GenerationRecord,
    evolve_runs,
    settings_of,
)
from optimize.tuning.front import FrontRecorder
from optimize.tuning.gradient import REPORT, GradientChecks, health_at_start
from optimize.tuning.history_plot import plot_history
from optimize.tuning.judgement import (
    Candidate,
    FinalEvaluation,
    evaluate_candidates,
    nothing_gained,
)
from optimize.tuning.names import EVOLUTION, RESULT, RUNS
from optimize.tuning.robust import choose, robust_search


@dataclass(frozen=True)
class TuneResult:
    """Outcome of a tuning run, as ``tune`` returns it.

    before, after: objective of the start and of the returned member, evaluated alike: {"name",
    "total", "parts"}; None where the run was interrupted or every member failed. best_x: the
    returned member, in the optimiser's coordinates. evolution: the search, of several runs the one
    that found the best; runs: all of them. notes: what could not be done, with the remedy.
    """

    folder: Path
    evolution: EvolutionResult
    runs: tuple[EvolutionResult, ...]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    motion: Simulation | None  # of the best
    notes: tuple[str, ...]
    best_x: np.ndarray | None = None  # (n,)


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
    """Tune numbers of a scenario by evolution or along a gradient, and evaluate the best members.

    scenario: path or name of a script or scenario, or a Scenario; objective: see
    ``user_objective``; options: see ``TuneOptions``. Numbers are those of ``default_numbers``, or
    of ``numbers``; a script's '@' numbers vary in any case.

    out: the result folder, new or empty; with ``resume`` the folder of a run that
    goes on with its own options (only ``generations`` may change, script and objective may be left
    out). accept_changes: go on although the script, the options, the model, the code or a library
    is not what the run started with; the history then says which, before which generation. command:
    the command line that config.json records.

    Several ``runs`` advance as one program, with the seeds from ``seed`` on and the values of
    ``by_run`` in turn, and runs.json has the result of each. Runs with weights or numbers of their
    own are compared under the weights of the objective, in the scenario as it is. ``front`` saves
    the Pareto front of the members of all runs (``optimize.tuning.front``).

    cluster: where members are simulated, see ``optimize.running.cluster.workers``: a number of
    processes, a scheduler's address or Client of Dask, "slurm:8". The members of a generation, of
    all runs, are divided among the workers; the share of a worker that is lost is simulated again.
    A run is the same to the last bit on the same kind of processor, and may go on with or without
    workers. Derivatives and the final evaluation stay in this process.

    The search is in JAX's default precision and on all its devices. After every generation history
    and checkpoint are complete, best.scl and best.json after every gain. At the end the start, the
    means and the latest bests are evaluated, of a script with ``final_dt`` in float64, and the best
    of them is returned, the start where none is better (``optimize.tuning.judgement``): best.scl,
    best.json, its page, plots and trajectory. Ctrl-C and SIGTERM end the search after a generation,
    with all of that saved but the final evaluation; KeyboardInterrupt before the search has started
    (see optimize.interrupts).

    Raises ValueError, KeyError, TypeError or ScriptError for bad input, before anything is written,
    ValueError too where the first stage follows a derivative that is not worth it
    (``gradient_health``); a later one is left out, and the stage before goes on.
    ``trust_derivative`` follows it all the same.

    FileExistsError where the folder holds anything, FileNotFoundError where there is nothing to
    resume, RunChanged where that began with something else, CheckpointError where it is damaged,
    FolderInUse where another process works in the folder.
    """
    _check(scenario, out)
    try_folder(out)
    with note_interrupts(), contextlib.ExitStack() as stack:
        if resume:
            opened = _resumed(stack, out, scenario, objective, options, accept_changes, cluster)
        else:
            opened = _begun(stack, out, scenario, objective, options, command, cluster)
        folder, config, problem, pool = opened
        best = Best(folder, problem, config.own_weights)
        run = _TuningRun(folder, config, problem, distribute(problem, pool), best, resume, progress)
        return _robust_search(run) if config.resample else _fixed_search(run)


@dataclass(frozen=True)
class _TuningRun:
    """Open tuning run: folder, configuration, problem and best member so far.

    searched: the problem with its members simulated by the workers.
    """

    folder: RunFolder
    config: TuneConfig
    problem: Problem
    searched: Problem
    best: Best
    resume: bool
    progress: bool


_Opened = tuple[RunFolder, TuneConfig, Problem, Any]  # and the pool of workers


def _resumed(
    stack: contextlib.ExitStack,
    out: str | os.PathLike,
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: TuneOptions,
    accept_changes: bool,
    cluster: Any,
) -> _Opened:
    """Open the folder of a run to resume. stack: contexts that end with the run."""
    folder = RunFolder.open(out)
    stack.enter_context(lock_folder(folder))
    config = resumed_config(folder, scenario, objective, options)
    _check_cluster(config, cluster)
    # Differences are reported before a problem is built of them, which may fail.
    content = config.as_json()
    changes_since(folder, digest(content, config.script), accept_changes)
    problem = build_problem(config)
    now = digest(content, config.script, problem.scenario.model)
    changed = changes_since(folder, now, accept_changes)
    pool = stack.enter_context(workers(cluster))
    generation = next_generation(folder, settings_of(**config.search(problem.tunables.size)))
    accept(folder, now, changed, generation)
    folder.write_json(RunFolder.CONFIG, content)
    return folder, config, problem, pool


def _begun(
    stack: contextlib.ExitStack,
    out: str | os.PathLike,
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: TuneOptions,
    command: list[str] | None,
    cluster: Any,
) -> _Opened:
    """Create the folder of a new run. stack: contexts that end with the run."""
    config = new_config(scenario, objective, options, command)
    _check_cluster(config, cluster)
    problem = build_problem(config)
    content = config.as_json()
    now = digest(content, config.script, problem.scenario.model)
    health = health_at_start(problem, config.method, config.sigma, config.trust_derivative)
    pool = stack.enter_context(workers(cluster))
    stack.enter_context(lock_folder(out))
    folder = RunFolder.create(out, content, config.script, now, config.objective_file)
    if health is not None:
        folder.write_text(REPORT, str(health))
    return folder, config, problem, pool


def _fixed_search(run: _TuningRun) -> TuneResult:
    """Search with fixed trials: the result is the best member of all runs."""
    folder, config, problem = run.folder, run.config, run.problem
    of = run_evaluators(run.searched, config.values_by_run)
    evaluate, checks = of.evaluate, GradientChecks(problem, folder, config.trust_derivative)
    if config.front:
        evaluate = FrontRecorder(of.evaluate, problem, folder, config.front)
    with Bar(config.generations, run.progress) as bar:

        def on_generation(records: list[GenerationRecord], best_x: np.ndarray) -> None:
            run.best.offer(records, best_x)
            bar.show(records)

        results = evolve_runs(
            evaluate,
            **config.search(problem.tunables.size),
            slopes=of.slopes,
            doubt=checks,
            folder=folder,
            resume=run.resume and has_begun(folder),
            on_generation=on_generation,
            progress=False,
            changes=accepted_changes(folder),
            by_generation=bool(config.front),
        )
    result = _finish(run, results)
    return dataclasses.replace(result, notes=(*result.notes, *checks.told))


def _robust_search(run: _TuningRun) -> TuneResult:
    """Robust search with new trials in every generation.

    The result is the best of those means of the search distribution that end standing in nearly all
    starts.
    """
    folder, config, problem = run.folder, run.config, run.problem
    with Bar(config.generations, run.progress) as bar:

        def on_generation(records: list[GenerationRecord], best_x: np.ndarray) -> None:
            run.best.begin(records)
            bar.show(records)

        evolution, start, chosen = robust_search(
            run.searched,
            selection_problem(config, problem),
            folder,
            resume=run.resume,
            success_rate=config.success_rate,
            on_check=lambda check: bar.note(f"{check.ok}/{check.starts} at {check.total or 0:.4g}"),
            on_generation=on_generation,
            changes=accepted_changes(folder),
            **config.search(problem.tunables.size),
        )
    if start is None or chosen is None:
        return _finish(run, (evolution,))
    first = Candidate("start", np.zeros_like(evolution.best_x), start.total, start.parts)
    last = Candidate("mean", np.array(chosen.x), chosen.total, chosen.parts)
    winner = first if choose([start, chosen], config.success_rate) is start else last
    evaluation = FinalEvaluation(first, winner, last, 2)
    note = (
        f"generation {chosen.generation} stands in {chosen.ok} of {chosen.starts} starts that"
        f" neither searched nor chose ({spread_text(*config.spread)}),"
        f" with a median objective of {chosen.total}; the start in {start.ok}, with {start.total}"
    )
    evolution = dataclasses.replace(
        evolution,
        best_x=last.x,
        best_fitness=np.inf if chosen.total is None else chosen.total,
        best_parts=chosen.parts,
    )
    outcome = _finish(run, (evolution,), evaluation)
    return dataclasses.replace(outcome, notes=(*outcome.notes, note))


def _check(scenario: Any, out: Any) -> None:
    """Raise TypeError for a scenario or folder of a wrong type."""
    if scenario is not None:
        how = ": a script's path or name, a scene's name, or a Scenario"
        check_kind("scenario", scenario, str, os.PathLike, Scenario, how=how)
    check_kind("out", out, str, os.PathLike, how=": the folder of the run")


def _check_cluster(config: TuneConfig, cluster: Any) -> None:
    """Raise ValueError for workers that do not exist, or that the method could not use."""
    check_cluster(cluster)
    if cluster is not None and not {stage.name for stage in config.stages} & {*EVOLUTION}:
        raise ValueError(
            f"cluster: derivatives are not found by workers, and the method {config.method!r}"
            " has no stage that evolves; leave the cluster out"
        )


def _finish(
    run: _TuningRun, runs: tuple[EvolutionResult, ...], evaluation: FinalEvaluation | None = None
) -> TuneResult:
    """Evaluate the best members, unless ``evaluation`` is given, and write a run's results."""
    folder, config, problem = run.folder, run.config, run.problem
    best, progress = run.best, run.progress
    order = sorted(
        runs, key=lambda run_result: best.worth(run_result.best_fitness, run_result.best_parts)
    )
    evolution = order[0]
    notes: list[str] = []
    if len(runs) > 1:
        folder.write_json(RUNS, json_safe(table_of_runs(config, problem, runs)))
    if evolution.history:
        try:
            with defer_interrupts():
                plot_history(folder)
        except ImportError as error:
            notes.append(f"{RunFolder.HISTORY_PLOT} was not written: {error}")
    nothing = TuneResult(folder.path, evolution, runs, None, None, None, ())
    worth = best.worth(evolution.best_fitness, evolution.best_parts)
    if not np.isfinite(worth) and evaluation is None:
        if not evolution.interrupted:
            notes.append("every member failed; a smaller dt or sigma, or other bounds, may help")
        return dataclasses.replace(nothing, notes=tuple(notes))
    if evaluation is None:
        best.write(worth, evolution.best_parts, evolution.best_x)
    if evolution.interrupted:
        return dataclasses.replace(nothing, notes=tuple(notes))
    try:
        evaluation = evaluation or _final_evaluation(config, problem, order, progress)
        failed = evaluation.chosen.total is None and evaluation.start.total is None
        if failed and not config.resample:
            how = _how(config, problem)
            notes.append(f"judged {how}, every member failed: {evaluation.count} of the search")
            return dataclasses.replace(nothing, notes=tuple(notes))
        motion = _motion(config, problem, evaluation.chosen, progress)
        interrupted = config.coarse and motion.interrupted
    except KeyboardInterrupt:
        interrupted = True
    if interrupted or evaluation is None:
        evolution = dataclasses.replace(evolution, interrupted=True)
        return dataclasses.replace(nothing, evolution=evolution, notes=tuple(notes))
    before, after, remarks = _write_result(run, evaluation, worth)
    missing = write_simulation(folder, motion, with_files=False).missing
    notes += [*remarks, *missing]
    best_x = evaluation.chosen.x
    return TuneResult(folder.path, evolution, runs, before, after, motion, tuple(notes), best_x)


def _write_result(
    run: _TuningRun, evaluation: FinalEvaluation, worth: float
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Write best.json and result.json; returns the objective before and after, and remarks.

    worth: fitness of the best member as the search computed it.
    """
    config, best, objective = run.config, run.best, run.config.objective
    start, chosen, how = evaluation.start, evaluation.chosen, _how(config, run.problem)
    start_fitness = (best.start or {}).get("best")
    remarks = []
    if not evaluation.gained:
        search = start_fitness, worth if np.isfinite(worth) else None
        remarks.append(nothing_gained(evaluation, how, search))
    parts = chosen.parts or {}
    best.write(chosen.total, parts, chosen.x, (start.total, start.parts or {}), how)
    before, after = (json_safe(member.as_json(objective.name)) for member in (start, chosen))
    content = {
        "judged": how,
        "handed out": chosen.name,
        "search": [start_fitness, worth],
        "weights": objective.weights,
        "units": {name: objective.term(name).unit for name in objective.weights},
        "before": before,
        "after": after,
    }
    run.folder.write_json(RESULT, json_safe(content))
    return before, after, remarks


def _how(config: TuneConfig, problem: Problem) -> str:
    """Describe for reports by which steps, precision and scheme members were compared."""
    scheme = problem.scenario.scheme.settings_text
    return ", ".join(filter(None, [_steps_text(config), scheme]))


def _steps_text(config: TuneConfig) -> str:
    steps = f"with steps of {config.final_dt} s"
    if config.resample:
        return "by the starts that checked it" + (f", {steps}" if config.coarse else "")
    return BY_SEARCH if not config.coarse else f"{steps} in float64"


def _final_evaluation(
    config: TuneConfig, problem: Problem, runs: Sequence[EvolutionResult], progress: bool
) -> FinalEvaluation:
    """Final evaluation of a search with fixed trials; of a script with the finer step."""
    if not config.coarse:
        return evaluate_candidates(
            problem, dataclasses.replace(problem, halve_after=0), runs, progress
        )
    with evaluation_context():
        fine = dataclasses.replace(build_problem(config, config.final_dt), halve_after=0)
        return evaluate_candidates(problem, fine, runs, progress)


def _motion(config: TuneConfig, problem: Problem, chosen: Candidate, progress: bool) -> Simulation:
    """Simulate the returned member from the scenario's start, with the settings of the evaluation.

    A script is simulated as its text in best.scl has it.
    """
    if not config.coarse:
        values = np.asarray(problem.tunables.decode(np.asarray(chosen.x, float)))
        found = with_numbers(problem, values, config.objective.seconds)
        return run_scenario(found, progress=progress, backend=config.backend)
    source = problem.scenario.number_source
    (text,) = source.files(values_of(problem, source, chosen.x)).values()
    alone = config.trials == 1 and not config.variant and not config.resample
    with evaluation_context():
        fine = scenario_of(config, text, config.final_dt)
        if any(path.startswith(("model.", "sizes")) for path in problem.tunables.names):
            values = problem.tunables.decode(np.asarray(chosen.x, float))
            tree = {**problem.scenario.tree, "model": fine.tree["model"]}
            written = problem.tunables.write(tree, jnp.asarray(values))
            fine = fine.with_tree({part: written[part] for part in ("model", "sizes")})
        motion = run_scenario(
            dataclasses.replace(fine, seconds=config.objective.seconds),
            objective=None if alone or config.objective.of_survival else config.objective,
            progress=progress,
            backend=config.backend or "fused",
        )
    if not alone:
        return motion
    own = json_safe(chosen.as_json(config.objective.name))
    return dataclasses.replace(motion, summary={**motion.summary, "objective": own})
