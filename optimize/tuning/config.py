"""Settings of a tuning run: new from options, or from its folder and checked against options."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.scl.load import free_all, vocabulary
from jaxsim.io.user_code import check_code
from optimize.problems.problem import WIDEST
from optimize.results.folder import RESTORE, RunFolder, command_line, reading
from optimize.running.batch import CHUNK
from optimize.running.objectives import OBJECTIVES, TERMS, Objective, user_objective
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.names import EVOLUTION, stages
from optimize.tuning.options import DEFAULTS, TuneOptions, check_names, check_values
from optimize.tuning.pushes import plain

SOURCE = "scenario.toml"


@dataclass(frozen=True)
class RunConfig:
    """Options of a run, as config.json holds them.

    text: of its script; None for other scenarios. judged: the objective as it was passed, or as its
    file defines it; objective_text: of that file. given: a scenario made in Python.
    """

    options: dict[str, Any]
    text: str | None
    judged: Objective
    objective_text: str | None = None
    given: Scenario | None = None

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    @property
    def gradient_based(self) -> bool:
        """True if a stage of the method follows the derivative."""
        return any(stage.name not in EVOLUTION for stage in stages(self["method"]))

    @property
    def objective(self) -> Objective:
        """Objective with the run's own weights and length."""
        return replace(self.judged, seconds=self["seconds"], weights=self["weights"])


def new_config(
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: TuneOptions,
    command: list[str] | None,
) -> RunConfig:
    """Options of a new run. Raises TypeError, KeyError, ValueError, ScriptError."""
    if scenario is None or objective is None:
        what = "a script or scenario" if scenario is None else "an objective"
        raise ValueError(f"a new run needs {what}; only a resumed one finds it in its folder")
    check_names(options)
    overrides = {name: value for name, value in options.items() if value is not None}
    config: dict[str, Any] = DEFAULTS | overrides
    run_objective, text = user_objective(objective)
    custom = scenario if isinstance(scenario, Scenario) else None
    config["scenario"] = custom.name if custom else os.fspath(scenario)  # type: ignore[arg-type]
    config["in_python"] = custom is not None
    config["objective"] = objective if isinstance(objective, str) else run_objective.name
    config["weights"] = dict(run_objective.weights)
    config["objective_digest"] = _hash(text)
    config["seconds"] = run_objective.seconds if config["seconds"] is None else config["seconds"]
    base = custom or find_scenario(config["scenario"], config["set"])
    script = base.files.get(RunFolder.SCRIPT) if custom is None else None
    if script is not None and config["free"] == "all":
        script = free_all(script, vocabulary(base.model), config["scenario"])
    if "dt" not in overrides and script is None:
        config["dt"] = float(base.scheme.dt)
    config["scenario_digest"] = _hash(base.files.get(SOURCE))
    config["numbers"] = _plain(config["numbers"])
    config["draw"] = _plain(config["draw"])
    for name in ("variants", "each"):
        config[name] = {path: np.asarray(v).tolist() for path, v in config[name].items()}
    config["spread"] = list(map(float, config["spread"]))
    config["pushes"] = plain(config["pushes"])
    config["also"] = _also(config["also"], config)
    config["front"] = list(config["front"])
    if "generations" not in overrides:
        config["generations"] = _length(config["method"]) or config["generations"]
    config["precision"] = jnp.zeros(()).dtype.name
    config["command"] = command_line() if command is None else command
    check_values(config)
    if config["chunk"] is None:
        config["chunk"] = _even_chunk(config["population"] if script is not None else 0, config)
    return RunConfig(config, script, run_objective, text, custom)


def _length(method: str) -> int | None:
    """Generations of a chain in which every stage has an end; None otherwise."""
    parts = [stage.generations for stage in stages(method)]
    return sum(filter(None, parts)) if None not in parts else None


def _plain(numbers: Mapping[str, Any]) -> dict[str, list]:
    """Number specifications as JSON stores them: strings, and floats for all else."""
    return {
        name: [part if isinstance(part, str) else float(part) for part in spec]
        for name, spec in numbers.items()
    }


def _also(variants: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Variants that a member is evaluated in besides the run's scenario, by as many trials each.

    Each has further settings, and its pushes, by default those of the run.
    """
    out = []
    for variant in variants:
        unknown = set(variant) - {"set", "pushes"}
        if unknown or not variant.get("set"):
            what = f"there is no {', '.join(sorted(unknown))}" if unknown else "it sets nothing"
            raise ValueError(f"also {dict(variant)}: {what}; give settings, and pushes")
        forces = variant.get("pushes", config["pushes"])
        out.append({"set": dict(variant["set"]), "pushes": plain(forces)})
    if out and config["in_python"]:
        raise ValueError(
            "also: a scenario made in Python has no settings to change; pose the problems, as in"
            " Problem(..., also=(Problem(...),))"
        )
    return out


def _hash(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def _even_chunk(population: int, config: Mapping[str, Any]) -> int:
    """Largest chunk size up to CHUNK that wastes the least padding.

    A GPU takes all members at once; steps that are optimised go up to ``WIDEST`` together.
    """
    if not population:
        members = config["population"] * config["trials"]
        return min(WIDEST, -(-members // jax.local_device_count()))
    if jax.default_backend() != "cpu":
        return population
    each = -(-population // jax.local_device_count())
    return -(-each // -(-each // CHUNK))


def resumed_config(
    folder: RunFolder,
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: TuneOptions,
) -> RunConfig:
    """Options of the run in a folder; only ``generations`` may be new.

    Raises ValueError naming every option that is given and differs, FileNotFoundError where the
    folder holds no run.
    """
    check_names(options)
    config = DEFAULTS | folder.read_config()
    _check_kinds(folder, config)
    text = folder.read_text(RunFolder.SCRIPT) if (folder / RunFolder.SCRIPT).is_file() else None
    overrides: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
    for name in {"numbers", "draw"} & overrides.keys():
        overrides[name] = _plain(overrides[name])
    for name in {"variants", "each"} & overrides.keys():
        overrides[name] = {path: np.asarray(v).tolist() for path, v in overrides[name].items()}
    if "spread" in overrides:
        overrides["spread"] = list(map(float, overrides["spread"]))
    if "pushes" in overrides:
        overrides["pushes"] = plain(overrides["pushes"])
    if "front" in overrides:
        overrides["front"] = list(overrides["front"])
    if "also" in overrides:
        overrides["also"] = _also(overrides["also"], config)
    if objective is not None:
        overrides["objective"] = (
            objective if isinstance(objective, str) else user_objective(objective)[0].name
        )
    overrides["precision"] = jnp.zeros(()).dtype.name
    conflicts = [
        f"{name} {config.get(name)} (now {value})"
        for name, value in overrides.items()
        if name != "generations" and value != config.get(name)
    ]
    custom = scenario if isinstance(scenario, Scenario) else None
    if custom is not None:
        if custom.name != config["scenario"]:
            conflicts.append(f"scenario {config['scenario']} (now {custom.name})")
    if scenario is not None and not isinstance(scenario, Scenario):
        if text is None and os.fspath(scenario) != config["scenario"]:
            conflicts.append(f"scenario {config['scenario']} (now {os.fspath(scenario)})")
        if text is not None and _text(os.fspath(scenario), config) != text:
            conflicts.append(f"another text of the script ({RunFolder.SCRIPT})")
    if conflicts:
        raise ValueError(
            f"{folder.path} holds a run with {'; '.join(conflicts)}. Leave these out to go on with"
            " it, or begin a new run in another folder"
        )
    if config.get("in_python") and custom is None:
        raise ValueError(
            f"{folder.path} holds a run of the scenario {config['scenario']}, made in Python; pass"
            " it again to go on"
        )
    config["generations"] = overrides.get("generations", config["generations"])
    with reading(folder / RunFolder.CONFIG):
        check_values(config)
    run_objective, source = _kept_objective(folder, config, objective)
    config["objective_digest"] = _hash(source)
    if custom is None and text is None:
        config["scenario_digest"] = _hash(
            find_scenario(config["scenario"], config["set"]).files.get(SOURCE)
        )
    return RunConfig(config, text, run_objective, source, custom)


def _kept_objective(
    folder: RunFolder, config: Mapping[str, Any], objective: Any
) -> tuple[Objective, str | None]:
    """Objective of a run that is resumed, and the text of its file as the folder holds it.

    Raises ValueError for terms of Python that are not passed again.
    """
    if (folder / RunFolder.OBJECTIVE).is_file():
        check_code(folder / RunFolder.OBJECTIVE)
        text = folder.read_text(RunFolder.OBJECTIVE)
        return user_objective(config["objective"], text)
    if objective is not None and not isinstance(objective, str):
        return user_objective(objective)
    if set(config["weights"]) <= set(TERMS):
        known = OBJECTIVES.get(config["objective"])
        about = known.about if known else ""
        return Objective(config["objective"], config["seconds"], config["weights"], about), None
    raise ValueError(
        f"{folder.path} was judged by terms of Python, {', '.join(config['weights'])}; pass the"
        " objective again to go on, or put it in a file and name that"
    )


def _text(name: str, config: Mapping[str, Any]) -> str | None:
    """Text of a scenario's script; for free = "all" with '@' before every number."""
    made = find_scenario(name, config["set"])
    text = made.files.get(RunFolder.SCRIPT)
    every = text is not None and config["free"] == "all"
    return free_all(text, vocabulary(made.model)) if every else text  # type: ignore[arg-type]


_TEXTS = ("scenario", "objective", "precision", "free", "method")


def _check_kinds(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """Raise ValueError where config.json holds a value of a type that no run writes."""
    wrong = [name for name in _TEXTS if not isinstance(config.get(name), str)]
    wrong += [] if isinstance(config.get("backend"), str | None) else ["backend"]
    wrong += [] if isinstance(config.get("restarts"), str | None) else ["restarts"]
    wrong += [name for name in ("set", "each") if not isinstance(config.get(name), Mapping)]
    for name in ("weights", "numbers"):
        value = config.get(name)
        values = value.values() if isinstance(value, Mapping) else [None]
        good = [_are_bounds(v) if name == "numbers" else _are_numbers([v]) for v in values]
        wrong += [] if all(good) else [name]
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


def _are_bounds(values: Any) -> bool:
    return _are_numbers(
        values[:-1] if isinstance(values, list) and values[-1:] == ["log"] else values
    )
