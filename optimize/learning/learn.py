"""Learning in a folder: history, checkpoints with exact resume, curves, the best policy, its page.

config.json, versions.json   what was asked for, and where it ran
digest.json                  what it began with, for a resume to compare (optimize.results.digest)
history.jsonl                a line for each update
state.msgpack                what the learner needs to go on
policy.npz                   the best policy so far (controllers.policy.file)
curve.png, motion.html       rewards by update, and the best policy's motion
"""

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from controllers.policy.actions import name_of
from controllers.policy.file import PolicyFile, read_policy
from controllers.policy.network import Network
from optimize.environments.environment import Environment
from optimize.environments.numbers import Numbers
from optimize.environments.table import default_command, environment_of
from optimize.interrupts import defer_interrupts
from optimize.learning.evaluation import evaluate_policy
from optimize.learning.failure import write_failure
from optimize.learning.kept import read_state, write_state
from optimize.learning.methods import METHODS, learner_of
from optimize.results.digest import Digest, accept, accepted_changes, changes_since, digest
from optimize.results.folder import RESTORE, RunFolder, library_versions, reading
from optimize.results.lock import lock_folder
from optimize.results.updates import UPDATES, kept_history
from optimize.scenarios.find import scenario as scenario_of
from optimize.scenarios.scenario import Scenario

STATE, POLICY, CURVE = "state.msgpack", "policy.npz", "curve.png"
EVERY = 25  # updates from check to check
NO_WORTH = -1e30  # in the state of a run whose policy was not evaluated yet
CHECK_SEED = 1_000_003  # added to the seed for the starts that choose the best


@dataclass(frozen=True)
class Learned:
    """State of a learning run.

    worth: mean return of the best policy without noise, from newly sampled starts of the
    environment.
    """

    folder: Path
    updates: int
    worth: float
    interrupted: bool
    history: list[dict[str, Any]]


def learn(
    scenario: str | Scenario | None = None,
    out: str | Path = "runs/learn",
    method: str = "ppo",
    updates: int | None = None,
    seed: int = 0,
    set: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = True,
    command: Sequence[str] = (),
    backend: str = "fused",
) -> Learned:
    """Learn a policy in a scenario with an ``[environment]``.

    updates: in all, those before a resume among them (``UPDATES``, or with ``resume`` those that
    the run was to make); the other options are then those of the run. accept_changes: go on
    although scenario, options, model, code or a library is not what the run began with; the history
    says what, in the first line after it. options: of the method (``optimize.learning.methods``). A
    run that was killed and is resumed gives the numbers of an unbroken one, on one machine.

    Raises ValueError, WorldError, FileExistsError for a folder that holds something,
    FileNotFoundError where there is nothing to go on from, RunChanged where that began with
    something else, StateError where it is damaged.
    """
    with lock_folder(out):
        if resume:
            folder = RunFolder.open(out)
            run_options = kept_options(folder, ONE)
            run_options["updates"] = run_options["updates"] if updates is None else updates
        else:
            name = scenario if isinstance(scenario, str) else getattr(scenario, "name", None)
            if name is None:
                raise ValueError("give a scenario to learn in, by name or file")
            run_options = {"scenario": name, "method": method, "seed": seed, "set": dict(set or {}),
                     "options": dict(options or {}), "backend": backend,
                     "updates": UPDATES if updates is None else updates}  # fmt: skip
        base = scenario_of(scenario if isinstance(scenario, Scenario) else run_options["scenario"],
                            run_options["set"])  # fmt: skip
        env = environment_of(base, run_options["seed"])
        now, changed = began_with(run_options, base, env), []
        if resume:
            changed = changes_since(folder, now, accept_changes)
        learner = learner_of(
            run_options["method"], env, run_options["options"], run_options["backend"]
        )
        if not resume:
            folder = RunFolder.create(out, config_of(run_options, base, command), digest=now)
        run = _LearningRun(folder, env, learner, run_options, base)
        first = run.begun()
        if resume:
            accept(folder, now, changed, at=len(first.history))
            folder.write_json(RunFolder.CONFIG, {**folder.read_config(), **run_options})
        return run.go(first, accepted_changes(folder), progress)


ONE = ("scenario", "method", "seed", "set", "options", "backend")


def kept_options(folder: RunFolder, names: Sequence[str]) -> dict[str, Any]:
    """Options of a run in a folder, of these names and "updates".

    Raises ValueError for another kind of run.
    """
    config = folder.read_config()
    if "options" not in config:
        raise ValueError(f"{folder.path} holds another kind of run, no learning")
    if config["scenario"] is None:
        raise ValueError(f"{folder / RunFolder.CONFIG} names no scenario; {RESTORE}")
    return {name: config[name] for name in names} | {"updates": config.get("updates", UPDATES)}


def config_of(
    run_options: Mapping[str, Any], base: Scenario, command: Sequence[str]
) -> dict[str, Any]:
    """Contents of config.json for a run."""
    timing = {"dt": float(base.scheme.dt), "seconds": base.seconds}
    precision = np.dtype(base.model.mass.dtype).name
    return {**run_options, **timing, "precision": precision, "command": list(command)}


def began_with(run_options: Mapping[str, Any], base: Scenario, env: Environment) -> Digest:
    """Digest of a new run: its options, its environment table, and the arrays of these."""
    table = base.environment
    config = {**run_options, "environment": {} if table is None else table.values()}
    # the scenario's controller does not act here: it may be what an earlier run has learned
    arrays = {part: base.tree[part] for part in ("state", "scheme", "forces")}
    arrays |= {"beginnings": env.beginnings, "clip": env.track, "pose": (env.pose, env.rest)}
    return digest(config, model=base.model, arrays=arrays)


@dataclass(frozen=True)
class _Begun:
    """Point from which a run continues."""

    state: Any
    history: list[dict[str, Any]]
    best: float


@dataclass
class _LearningRun:
    folder: RunFolder
    env: Environment
    learner: Any
    asked: dict[str, Any]
    scenario: Scenario

    def begun(self) -> _Begun:
        """State saved in the folder, or the initial one if the run ended before it saved any."""
        state = self.learner.init(self.asked["seed"])
        path = self.folder / STATE
        if not path.is_file():
            return _Begun(state, [], -np.inf)
        state, more = read_state(path, state)
        with reading(path):
            lines, best = int(more["lines"]), float(more["best"])
        history = kept_history(self.folder)
        if len(history) < lines:
            raise ValueError(
                f"{self.folder / RunFolder.HISTORY} has {len(history)} lines, and {STATE} is of"
                f" {lines} updates; {RESTORE}"
            )
        return _Begun(state, history[:lines], best if best > NO_WORTH / 2 else -np.inf)

    def go(self, first: _Begun, accepted: Mapping[int, list[str]], progress: bool) -> Learned:
        """Run updates with history, checks and checkpoints."""
        updates, history, best = self.asked["updates"], first.history, first.best
        state = _placed(first.state)
        interrupted, spent = False, (history[-1]["seconds"] if history else 0.0)
        used = history[-1]["cpu_seconds"] if history else 0.0
        began, cpu = time.perf_counter() - spent, time.process_time() - used
        try:
            with defer_interrupts() as check, self._bar(updates, len(history), progress) as bar:
                while len(history) < updates:
                    before = state
                    state, info = self.learner.update(state)
                    line = _line(len(history), info, self.learner.actions)
                    if len(history) in accepted:
                        line["changes"] = accepted[len(history)]
                    self._guard(before, info, line)
                    if len(history) % EVERY == EVERY - 1 or len(history) == updates - 1:
                        line |= self._checked(state, best)
                        best = max(best, line["worth"])
                    line |= {"seconds": time.perf_counter() - began,
                             "cpu_seconds": time.process_time() - cpu}  # fmt: skip
                    history.append(line)
                    if "worth" in line:
                        self._keep(state, history, best)
                    reward = np.nan if line["reward"] is None else line["reward"]
                    bar.set_postfix_str(f"reward {reward:.3f}")
                    bar.update()
                    check()
        except KeyboardInterrupt:
            interrupted = True
            self._keep(state, history, best)
        if not interrupted:
            self._shown(history)
        return Learned(self.folder.path, len(history), best, interrupted, history)

    def _checked(self, state: Any, best: float) -> dict[str, float]:
        """Evaluate the policy without noise; save it where it is the best."""
        network = self.learner.network(state)
        result = evaluate_policy(
            self.env, self.learner.run, network, self.learner.members, self.learner.length,
            self.asked["seed"] + CHECK_SEED,
        )  # fmt: skip
        worth = float(result.returns.mean())
        if worth > best:
            self.policy(network).write(self.folder / POLICY)
        return {"worth": worth, "whole": float(result.whole.mean())}

    def policy(self, network: Network) -> PolicyFile:
        """Policy file of a network learned here."""
        env, scenario, action = self.env, self.scenario, self.env.action
        assert not isinstance(action, Numbers)  # of a table it never is
        about = {
            "observation": list(env.observation),
            "action": name_of(action),
            "scale": action.scale,
            "rate": 1 / env.dt,
            "command": default_command(env),
            "motors": list(scenario.model.topology.actuated_dof_names),
            "scenario": Path(self.asked["scenario"]).stem,
            "learned": {k: self.asked[k] for k in ("method", "seed", "set", "options")},
            "versions": library_versions(),
        }
        track = jax.tree.map(np.asarray, env.track)
        return PolicyFile(jax.tree.map(np.asarray, network), env.pose, about, track, env.rest)

    def _guard(self, before: Any, info: Any, line: dict[str, Any]) -> None:
        """Save the actions that led a member to diverge; the others go on."""
        which = getattr(info, "which_failed", None)
        if not line.get("failed") or which is None:
            return
        path, about = write_failure(
            self.folder.path, self.env, self.learner.network(before),
            self.learner.log_deviation(before), before.members, np.asarray(which),
            self.asked["seed"], line["update"], self.asked["backend"],
        )  # fmt: skip
        faults = ", ".join(about["faults"]) or "nothing, when simulated again"
        line["failure"] = (
            f"member {about['member']}, action {about['step']}: {path.name}; not finite: {faults}"
        )

    def _keep(self, state: Any, history: list[dict[str, Any]], best: float) -> None:
        text = "".join(json.dumps(line) + "\n" for line in history)
        self.folder.write_text(RunFolder.HISTORY, text)
        best = best if np.isfinite(best) else NO_WORTH
        write_state(self.folder / STATE, state, lines=len(history), best=best)

    def _shown(self, history: list[dict[str, Any]]) -> None:
        """Write the curve, and the page of the best policy."""
        from optimize.learning.curve import write_curve
        from optimize.running.simulate import simulate, write_simulation

        try:
            write_curve(self.folder / CURVE, history)
        except ImportError:
            pass  # without matplotlib there is none
        if (self.folder / POLICY).is_file():
            play = with_policy(self.scenario, self.folder / POLICY)
            write_simulation(self.folder.path, simulate(play, progress=False), with_files=False)

    def _bar(self, updates: int, done: int, progress: bool):
        return tqdm(
            total=updates, initial=done, unit="update", disable=None if progress else True,
            desc=f"{self.asked['method']} {self.asked['scenario']}",
        )  # fmt: skip


def _placed(state: Any) -> Any:
    """Commit the arrays of a state to their device, as those that a kernel returns are.

    Then all updates are one program, the first one too.
    """
    return jax.tree.map(
        lambda x: jax.device_put(x, x.sharding) if isinstance(x, jax.Array) else x, state
    )


def with_policy(scenario: Scenario, path: str | Path) -> Scenario:
    """Scenario with the controller of a policy file, starting on its clip if it has one.

    A note says where it was learned in another scenario. Raises PolicyError for one of another
    character.
    """
    file = read_policy(path)
    controller = file.controller(scenario.model, scenario.state)
    controller.check(scenario.model)
    conditions = {**scenario.conditions, "controller": f"policy {Path(path).name}"}
    state = controller.begun(scenario.model, scenario.state)
    notes = (*scenario.notes, *file.other_scenario(scenario.name))
    return dataclasses.replace(
        scenario, controller=controller, state=state, phases=(), conditions=conditions, notes=notes
    )


def _line(update: int, info: Any, actions: int) -> dict[str, Any]:
    """Line of the history; a number that is not finite is None."""
    numbers = {
        name: _number(getattr(info, name))
        for name in (
            "reward",
            "length",
            "ended",
            "failed",
            "change",
            "deviation",
            "rate",
            "slope",
            "error",
        )
        if hasattr(info, name)
    }
    parts = {name: _number(part) for name, part in info.parts.items()}
    return {"update": update, "actions": actions * (update + 1), **numbers, "parts": parts}


def _number(x: Any) -> float | None:
    value = float(x)
    return value if np.isfinite(value) else None


__all__ = ["METHODS", "Learned", "learn", "with_policy"]
