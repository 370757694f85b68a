"""The options of a tuning run: defaults, what a folder remembers, and whether the two agree."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import jax
import jax.numpy as jnp

from controllers.scl.load import vocabulary
from jaxsim.characters.planar_human import planar_human
from jaxsim.fused import choose_backend
from jaxsim.ranges import within
from optimize.results.folder import RESTORE, RunFolder, command_line
from optimize.running.batch import CHUNK
from optimize.running.objectives import OBJECTIVES, Objective
from optimize.running.objectives import objective as objective_named
from optimize.scenarios.script_scene import check_number, default_start, free_all, read_script

DEFAULTS: dict[str, Any] = {
    "start": None,
    "seconds": None,
    "generations": 60,
    "population": 20,
    "seed": 0,
    "sigma": 0.1,
    "dt": 0.001,
    "judge_dt": 0.00025,
    "chair_height": None,
    "friction": None,
    "free": "marked",
    "also": {},
    "trials": 1,
    "noise": 0.05,
    "chunk": None,
    "backend": "fused",
}


class TuneOptions(TypedDict, total=False):
    """Options of ``tune``; those left out, or None, have their defaults (``DEFAULTS``)."""

    start: str | None  # pose; by default what the script's name says, else standing
    seconds: float | None  # of a rollout [s]; by default those of the objective
    generations: int | None  # in all, those before a resume among them
    population: int | None  # members of a generation, at least 4
    seed: int | None
    sigma: float | None  # first step size, in the scales of the numbers' roles
    dt: float | None  # time step of the search [s]
    judge_dt: float | None  # time step with which the result is judged [s]
    chair_height: float | None  # [m]
    friction: float | None  # coefficient
    free: str | None  # "marked": the numbers with '@'; "all": every number
    also: Mapping[str, tuple[float, ...]] | None  # path -> (lower, upper[, scale]) of arrays
    trials: int | None  # motions a member is judged by; see ``ScriptProblem``
    noise: float | None  # random speeds the joints of all but the first begin with [rad/s]
    chunk: int | None  # members that XLA computes together; last digits of results depend on it
    backend: str | None  # "fused", a population as one kernel, or "xla"


@dataclass(frozen=True)
class RunConfig:
    """All options of a run, as config.json holds them, and the text of its script."""

    options: dict[str, Any]
    text: str

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    @property
    def objective(self) -> Objective:
        """The objective with the run's own weights and length."""
        known = OBJECTIVES.get(self["objective"])
        about = known.about if known else ""
        return Objective(self["objective"], self["seconds"], self["weights"], about)


def new_config(
    script: str | os.PathLike | None,
    objective: Objective | str | None,
    options: TuneOptions,
    command: list[str] | None,
) -> RunConfig:
    """All options of a run that begins. Raises TypeError, KeyError, ValueError, ScriptError."""
    if script is None or objective is None:
        what = "a script" if script is None else "an objective"
        raise ValueError(f"a new run needs {what}; only a resumed one finds it in its folder")
    _check_names(options)
    given = {name: value for name, value in options.items() if value is not None}
    config: dict[str, Any] = DEFAULTS | given
    judged = objective_named(objective) if isinstance(objective, str) else objective
    config["script"] = os.fspath(script)
    config["objective"], config["weights"] = judged.name, dict(judged.weights)
    config["seconds"] = judged.seconds if config["seconds"] is None else config["seconds"]
    config["start"] = config["start"] or default_start(script) or "standing"
    config["also"] = {path: list(map(float, spec)) for path, spec in config["also"].items()}
    config["precision"] = jnp.zeros(()).dtype.name
    config["command"] = command_line() if command is None else command
    _check_values(config)
    if config["chunk"] is None:
        config["chunk"] = _even_chunk(config["population"])
    return RunConfig(config, _text(script, config["free"]))


def _even_chunk(population: int) -> int:
    """The width up to CHUNK that pads the last chunks least; a GPU has room for all at once."""
    if jax.default_backend() != "cpu":
        return population
    each = -(-population // jax.local_device_count())
    return -(-each // -(-each // CHUNK))


def resumed_config(
    folder: RunFolder,
    script: str | os.PathLike | None,
    objective: Objective | str | None,
    options: TuneOptions,
) -> RunConfig:
    """The options of the folder's run; ``generations`` may be new.

    Raises ValueError naming every option that is given and differs, FileNotFoundError where the
    folder holds no run.
    """
    _check_names(options)
    config = DEFAULTS | folder.read_config()
    _check_kinds(folder, config)
    text = folder.read_text(RunFolder.SCRIPT)
    given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
    if "also" in given:
        given["also"] = {path: list(map(float, spec)) for path, spec in given["also"].items()}
    if objective is not None:
        given["objective"] = objective if isinstance(objective, str) else objective.name
    given["precision"] = jnp.zeros(()).dtype.name
    conflicts = [
        f"{name} {config.get(name)} (now {value})"
        for name, value in given.items()
        if name != "generations" and value != config.get(name)
    ]
    if script is not None and _text(script, config["free"]) != text:
        conflicts.append(f"another text of the script ({RunFolder.SCRIPT})")
    if conflicts:
        raise ValueError(
            f"{folder.path} holds a run with {'; '.join(conflicts)}. Leave these out to go on with"
            " it, or begin a new run in another folder"
        )
    config["generations"] = given.get("generations", config["generations"])
    _check_values(config)
    return RunConfig(config, text)


def _text(script: str | os.PathLike, free: str) -> str:
    """The script's text; for free = "all" with '@' before every number."""
    model = planar_human()
    loaded = read_script(script, model)
    return free_all(loaded.source, vocabulary(model)) if free == "all" else loaded.source


_TEXTS = ("script", "objective", "precision", "start", "free", "backend")


def _check_kinds(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """ValueError where config.json holds another kind of value than a run writes."""
    wrong = [name for name in _TEXTS if not isinstance(config.get(name), str)]
    for name in ("weights", "also"):
        held = config.get(name)
        values = held.values() if isinstance(held, Mapping) else [None]
        good = [_are_numbers(v if name == "also" else [v]) for v in values]
        wrong += [] if all(good) else [name]
    for name in ("chair_height", "friction"):
        wrong += [] if config.get(name) is None or _are_numbers([config[name]]) else [name]
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"{folder / RunFolder.CONFIG}: {name} is {config.get(name)!r}, which no run writes;"
            f" {RESTORE}"
        )


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in values
    )


def _check_names(options: Mapping[str, Any]) -> None:
    unknown = [name for name in options if name not in DEFAULTS]
    if unknown:
        raise TypeError(f"no option {', '.join(unknown)}; the options are: {', '.join(DEFAULTS)}")


def _check_values(config: Mapping[str, Any]) -> None:
    """What would otherwise be noticed late, or not at all."""
    for name in ("seconds", "sigma", "dt", "judge_dt", "noise"):
        check_number(name, config[name], "a positive number")
    if config["dt"] > config["seconds"]:
        raise ValueError(f"dt is {config['dt']} s, longer than a rollout of {config['seconds']} s")
    for name in ("seconds", "dt", "judge_dt"):
        within(name, config[name], of="dt" if name == "judge_dt" else "")
    least_of = {"generations": 1, "population": 4, "trials": 1, "chunk": 1, "seed": 0}
    for name, least in least_of.items():
        value = config[name]
        if value is None and name == "chunk":
            continue  # chosen later
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
    if config["seed"] >= 2**32:
        raise ValueError(f"seed is {config['seed']}; it must be below 2**32")
    choose_backend(config["backend"])
    if config["free"] not in ("marked", "all"):
        raise ValueError(f"free is {config['free']!r}; choose 'marked' or 'all'")
