"""Configuration of a tuning run: one record, made of options or read from a run folder.

``new_config`` and ``resumed_config`` check every option and turn it into what the run works with;
``TuneConfig.as_json`` is the content of config.json.
"""

import dataclasses
import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.fused import choose_backend
from jaxsim.io.user_code import check_code
from jaxsim.ranges import within
from jaxsim.renamed import read_earlier
from jaxsim.simulation.checks import check_kind
from optimize.problems.fitness import aggregate, successes
from optimize.problems.problem import WIDEST
from optimize.problems.starts import ANGLE, RATE
from optimize.results.folder import EARLIER, RESTORE, RunFolder, command_line, reading
from optimize.running.batch import CHUNK
from optimize.running.objectives import OBJECTIVES, TERMS, Objective, user_objective
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.descent import optimiser
from optimize.tuning.front import check_front
from optimize.tuning.names import EVOLUTION, WEIGHTS, Stage, of_runs, stages

SOURCE = "scenario.toml"


@dataclass(frozen=True)
class PelvisPush:
    """Push at the pelvis: a force [N], and the direction it acts in [deg], None for eight sides.

    Direction 0 is forward, 90 to the left.
    """

    force: float
    direction: float | None = None

    @classmethod
    def of(cls, value: Any) -> Self:
        """Push from a force, or a pair of force and direction. Raises ValueError."""
        if isinstance(value, cls):
            return value
        numbers = np.asarray(value, float)
        good = numbers.shape in ((), (2,)) and np.isfinite(numbers).all() and numbers.flat[0] > 0
        if not good:
            raise ValueError(
                f"push {value}: give a force of more than zero [N], or such a force and a"
                " direction [deg]"
            )
        return cls(*map(float, numbers.reshape(-1)))

    def as_json(self) -> float | list[float]:
        """Value in config.json."""
        return self.force if self.direction is None else [self.force, self.direction]


@dataclass(frozen=True)
class Variant:
    """Further scenario of a run: its settings beside the run's, and its pushes."""

    set: Mapping[str, Any]
    pushes: tuple[PelvisPush, ...]

    @classmethod
    def of(cls, value: Any, pushes: tuple[PelvisPush, ...]) -> Self:
        """Variant from a mapping with settings and pushes, those of the run by default."""
        if isinstance(value, cls):
            return value
        unknown = set(value) - {"set", "pushes"}
        if unknown or not value.get("set"):
            what = f"there is no {', '.join(sorted(unknown))}" if unknown else "it sets nothing"
            raise ValueError(f"variant {dict(value)}: {what}; give settings, and pushes")
        own = (
            tuple(PelvisPush.of(push) for push in value["pushes"]) if "pushes" in value else pushes
        )
        return cls(dict(value["set"]), own)

    def as_json(self) -> dict[str, Any]:
        """Value in config.json."""
        return {"set": dict(self.set), "pushes": [push.as_json() for push in self.pushes]}


class TuneOptions(TypedDict, total=False):
    """Options of ``tune``; those left out, or None, have their defaults (``DEFAULTS``)."""

    set: Mapping[str, Any] | None  # keys of the scenario's file, or numbers by label or path
    seconds: float | None  # of a rollout [s]; by default those of the objective
    generations: int | None  # in all, those before a resume among them
    population: int | None  # members of a generation, at least 4
    seed: int | None
    sigma: float | None  # first step size, in the scales of the numbers' roles
    dt: float | None  # time step of the search [s]
    final_dt: float | None  # time step of the final evaluation of a script [s]
    free: str | None  # "marked": the numbers with '@'; "all": every number
    numbers: Mapping[str, Any] | None  # path or label -> (lower, upper[, scale or "log"])
    vary: Mapping[str, Any] | None  # path or label -> values that trials take in turn
    pushes: Sequence[Any] | None  # ``PelvisPush``, [N] or ([N], [deg]), that trials take in turn
    pushed_at: float | None  # when they begin [s]
    variant: Sequence[Any] | None  # ``Variant``, or {"set": settings, "pushes": pushes}
    method: str | None  # of ``optimize.tuning.names.stages``: cma, adam@0.1, cma:40,adam:20 ...
    restarts: str | None  # of cma: "ipop" or "bipop", populations that grow
    runs: int | None  # that advance together, with the seeds from ``seed`` on
    by_run: Mapping[str, Any] | None  # sigma, population, weights.NAME or a path -> values by run
    trials: int | None  # motions a member is evaluated by; see ``Problem``
    spread: tuple[float, float] | None  # of their starts: joint angles [rad], speeds [rad/s]
    sample: Mapping[str, Any] | None  # path or label -> (lower, upper): sampled for each trial
    resample: bool | None  # new trials in every generation; see ``optimize.tuning.robust``
    aggregate: str | None  # of the trials: "mean", "worst", "cvar:0.25", "success"
    halve_after: int | None  # trials after which the worse half of the members gets no more
    checks: int | None  # starts that evaluate a mean of a search with ``resample``
    success_rate: float | None  # over these, that the chosen mean needs
    front: Sequence[str] | None  # terms of the objective: saves their Pareto front
    trust_derivative: bool | None  # follow a derivative whatever ``gradient_health`` says
    chunk: int | None  # members that XLA computes together; last digits of results depend on it
    backend: str | None  # "fused", a population as one kernel, or "xla"; None: the faster one


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """Configuration of a tuning run: what is tuned, for what, and every option as it is used.

    scenario: name or path of the file. objective: with the weights and the length of the run;
    objective_name: NAME, or FILE.py:NAME. python_scenario: where it was
    made in Python. script:
    text of the script; None for other scenarios. objective_file: text of the objective's file.
    Raises ValueError where a value would fail late, or silently.
    """

    scenario: str
    objective: Objective
    objective_name: str
    python_scenario: Scenario | None = None
    script: str | None = None
    objective_file: str | None = None
    scenario_digest: str | None = None
    precision: str = ""
    command: Sequence[str] = ()

    # options, see TuneOptions
    set: Mapping[str, Any] = field(default_factory=dict)
    generations: int = 60
    population: int = 20
    seed: int = 0
    sigma: float = 0.1
    dt: float = 0.001
    final_dt: float = 0.00025
    free: str = "marked"
    numbers: Mapping[str, tuple] = field(default_factory=dict)
    vary: Mapping[str, Any] = field(default_factory=dict)
    pushes: tuple[PelvisPush, ...] = ()
    pushed_at: float = 0.5
    variant: tuple[Variant, ...] = ()
    method: str = "cma"
    restarts: str | None = None
    runs: int = 1
    by_run: Mapping[str, Sequence[float]] = field(default_factory=dict)
    trials: int = 1
    spread: tuple[float, float] = (ANGLE, RATE)
    sample: Mapping[str, tuple] = field(default_factory=dict)
    resample: bool = False
    aggregate: str = "mean"
    halve_after: int = 0
    checks: int = 100
    success_rate: float = 0.97
    front: tuple[str, ...] = ()
    trust_derivative: bool = False
    chunk: int | None = None
    backend: str | None = None

    def __post_init__(self):
        _check_values(self)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Chain of the method."""
        return stages(self.method)

    @property
    def coarse(self) -> bool:
        """True if the search takes longer steps than the final evaluation: that of a script."""
        return self.script is not None

    @property
    def values_by_run(self) -> dict[str, np.ndarray]:
        """Settings that differ by run, (runs,) each."""
        return of_runs(self.by_run, self.runs)

    @property
    def own_weights(self) -> bool:
        """True if runs have objective weights of their own."""
        return any(name.startswith(WEIGHTS) for name in self.by_run)

    def search(self, size: int) -> dict[str, Any]:
        """Arguments of ``evolve_runs`` for a problem of ``size`` numbers."""
        values = {name: np.full(self.runs, getattr(self, name)) for name in ("sigma", "population")}
        values |= self.values_by_run
        return {
            "mean": np.zeros(size),
            "seed": [self.seed + k for k in range(self.runs)],
            "sigma": values["sigma"],
            "population": values["population"].astype(int),
            "generations": self.generations,
            "method": self.method,
            "restarts": self.restarts,
        }

    def as_json(self) -> dict[str, Any]:
        """Content of config.json."""
        return {
            "scenario": self.scenario,
            "in_python": self.python_scenario is not None,
            "objective": self.objective_name,
            "weights": dict(self.objective.weights),
            "objective_digest": _hash(self.objective_file),
            "scenario_digest": self.scenario_digest,
            "precision": self.precision,
            "command": list(self.command),
            **{name: _plain(getattr(self, name)) for name in OPTIONS if name != "seconds"},
            "seconds": self.objective.seconds,
        }


OPTIONS = tuple(TuneOptions.__annotations__)
DEFAULTS: dict[str, Any] = {
    f.name: f.default_factory() if f.default is dataclasses.MISSING else f.default  # type: ignore[misc]
    for f in dataclasses.fields(TuneConfig)
    if f.name in OPTIONS
} | {"seconds": None}


def _plain(value: Any) -> Any:
    """Convert an option to what JSON stores."""
    if isinstance(value, PelvisPush | Variant):
        return value.as_json()
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


# ---- a new run


def new_config(
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: Mapping[str, Any],
    command: list[str] | None,
) -> TuneConfig:
    """Configuration of a new run. Raises TypeError, KeyError, ValueError, ScriptError."""
    if scenario is None or objective is None:
        what = "a script or scenario" if scenario is None else "an objective"
        raise ValueError(f"a new run needs {what}; only a resumed one finds it in its folder")
    values = _options(options)
    base_objective, text = user_objective(objective)
    python_scenario = scenario if isinstance(scenario, Scenario) else None
    name = python_scenario.name if python_scenario else os.fspath(scenario)  # type: ignore[arg-type]
    base = python_scenario or find_scenario(name, values.get("set", {}))
    script = None if python_scenario else _script_of(base, values.get("free", DEFAULTS["free"]))
    if "dt" not in values and script is None:
        values["dt"] = float(base.scheme.dt)
    if "generations" not in values:
        values["generations"] = _length(values.get("method", DEFAULTS["method"]))
    seconds = values.pop("seconds", base_objective.seconds)
    config = TuneConfig(
        scenario=name,
        objective=replace(base_objective, seconds=seconds),
        objective_name=objective if isinstance(objective, str) else base_objective.name,
        python_scenario=python_scenario,
        script=script,
        objective_file=text,
        scenario_digest=_hash(base.files.get(SOURCE)),
        precision=jnp.zeros(()).dtype.name,
        command=command_line() if command is None else command,
        **values,
    )
    return config if config.chunk is not None else replace(config, chunk=_even_chunk(config))


def _script_of(scenario: Scenario, free: str) -> str | None:
    """Text of a scenario's script, for free = "all" with '@' before every number."""
    if free == "all" and (text := scenario.number_source.text_with_marks()) is not None:
        return text
    return scenario.files.get(RunFolder.SCRIPT)


def _length(method: str) -> int:
    """Generations of a chain in which every stage has an end; else the default."""
    counts = [stage.generations for stage in stages(method)]
    return DEFAULTS["generations"] if None in counts else sum(filter(None, counts))


def _options(options: Mapping[str, Any], pushes: tuple[PelvisPush, ...] = ()) -> dict[str, Any]:
    """Options that are not None, by their present names, in the types of ``TuneConfig``.

    pushes: those of variants without their own, where ``options`` has none. Raises TypeError for
    unknown options and wrong types, ValueError for values of no sense.
    """
    options = read_earlier(options, EARLIER, "tune", level=5)
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise TypeError(f"no option {', '.join(unknown)}; the options are: {', '.join(OPTIONS)}")
    return _typed({name: v for name, v in options.items() if v is not None}, pushes)


def _typed(values: Mapping[str, Any], pushes: tuple[PelvisPush, ...] = ()) -> dict[str, Any]:
    """Values of options, of a caller or of config.json, in the types of ``TuneConfig``.

    pushes: those of variants without their own, where ``values`` has none.
    """
    out = dict(values)
    if "set" in out:
        check_kind("set", out["set"], Mapping, how=" from a path or key to a value")
    for name in ("numbers", "vary"):
        if name in out:
            how = " from a path or label to (lower, upper) or (lower, upper, scale)"
            check_kind(name, out[name], Mapping, how=how)
    for name in out.keys() & {"numbers", "sample"}:
        out[name] = {path: _specification(spec) for path, spec in out[name].items()}
    for name in out.keys() & {"vary", "by_run"}:
        out[name] = {path: np.asarray(v).tolist() for path, v in out[name].items()}
    if "spread" in out:
        out["spread"] = tuple(map(float, out["spread"]))
    if "front" in out:
        out["front"] = tuple(out["front"])
    if "pushes" in out:
        pushes = out["pushes"] = tuple(map(PelvisPush.of, out["pushes"]))
    if "variant" in out:
        out["variant"] = tuple(Variant.of(each, pushes) for each in out["variant"])
    return out


def _specification(spec: Iterable) -> tuple:
    """Bounds and scale of a number: floats, and a scale that is a text."""
    return tuple(part if isinstance(part, str) else float(part) for part in spec)


def _even_chunk(config: TuneConfig) -> int:
    """Largest chunk size up to CHUNK that wastes the least padding.

    A GPU takes all members at once; steps that are optimised go up to ``WIDEST`` together.
    """
    if not config.coarse:
        members = config.population * config.trials
        return min(WIDEST, -(-members // jax.local_device_count()))
    if jax.default_backend() != "cpu":
        return config.population
    share = -(-config.population // jax.local_device_count())
    return -(-share // -(-share // CHUNK))


def _hash(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- a run of a folder


def resumed_config(
    folder: RunFolder,
    scenario: Scenario | str | os.PathLike | None,
    objective: Any,
    options: Mapping[str, Any],
) -> TuneConfig:
    """Configuration of the run in a folder; only ``generations`` may be new.

    Raises ValueError naming every option that is given and differs, FileNotFoundError where the
    folder holds no run.
    """
    saved = _plain(DEFAULTS) | folder.read_config()
    _check_kinds(folder, saved)
    script = folder.read_text(RunFolder.SCRIPT) if (folder / RunFolder.SCRIPT).is_file() else None
    python_scenario = scenario if isinstance(scenario, Scenario) else None
    with reading(folder / RunFolder.CONFIG):
        values = _typed({name: saved[name] for name in OPTIONS if saved[name] is not None})
    changes = _options(options, values["pushes"])
    conflicts = _conflicts(saved, values, changes, objective)
    conflicts += _other_scenario(saved, script, scenario)
    if conflicts:
        raise ValueError(
            f"{folder.path} holds a run with {'; '.join(conflicts)}. Leave these out to go on with"
            " it, or begin a new run in another folder"
        )
    if saved.get("in_python") and python_scenario is None:
        raise ValueError(
            f"{folder.path} holds a run of the scenario {saved['scenario']}, made in Python; pass"
            " it again to go on"
        )
    values["generations"] = changes.get("generations", saved["generations"])
    saved_objective, text = _saved_objective(folder, saved, objective)
    digest = saved.get("scenario_digest")
    if python_scenario is None and script is None:
        made = find_scenario(saved["scenario"], values["set"])
        digest = _hash(made.files.get(SOURCE))
    with reading(folder / RunFolder.CONFIG):
        seconds = values.pop("seconds")
        return TuneConfig(
            scenario=saved["scenario"],
            objective=replace(saved_objective, seconds=seconds, weights=saved["weights"]),
            objective_name=saved["objective"],
            python_scenario=python_scenario,
            script=script,
            objective_file=text,
            scenario_digest=digest,
            precision=saved["precision"],
            command=saved["command"],
            **values,
        )


def _conflicts(
    saved: Mapping[str, Any],
    values: Mapping[str, Any],
    changes: Mapping[str, Any],
    objective: Any,
) -> list[str]:
    """Options, objective and precision that are not those of a saved run."""
    found = [
        (name, _plain(values.get(name)), _plain(value))
        for name, value in changes.items()
        if name != "generations"
    ]
    if objective is not None:
        name = objective if isinstance(objective, str) else user_objective(objective)[0].name
        found.append(("objective", saved["objective"], name))
    found.append(("precision", saved["precision"], jnp.zeros(()).dtype.name))
    return [f"{name} {before} (now {now})" for name, before, now in found if before != now]


def _other_scenario(saved: Mapping[str, Any], script: str | None, scenario: Any) -> list[str]:
    """Conflict of a scenario that is not that of a saved run; none for None."""
    if scenario is None:
        return []
    name = scenario.name if isinstance(scenario, Scenario) else os.fspath(scenario)
    if isinstance(scenario, Scenario) or script is None:
        return [] if name == saved["scenario"] else [f"scenario {saved['scenario']} (now {name})"]
    text = _script_of(find_scenario(name, saved["set"]), saved["free"])
    return [] if text == script else [f"another text of the script ({RunFolder.SCRIPT})"]


def _saved_objective(
    folder: RunFolder, saved: Mapping[str, Any], objective: Any
) -> tuple[Objective, str | None]:
    """Objective of a run that is resumed, and the text of its file as the folder holds it.

    Raises ValueError for terms of Python that are not passed again.
    """
    if (folder / RunFolder.OBJECTIVE).is_file():
        check_code(folder / RunFolder.OBJECTIVE)
        text = folder.read_text(RunFolder.OBJECTIVE)
        return user_objective(saved["objective"], text)
    if objective is not None and not isinstance(objective, str):
        return user_objective(objective)
    if set(saved["weights"]) <= set(TERMS):
        known = OBJECTIVES.get(saved["objective"])
        about = known.about if known else ""
        return Objective(saved["objective"], saved["seconds"], saved["weights"], about), None
    raise ValueError(
        f"{folder.path} was judged by terms of Python, {', '.join(saved['weights'])}; pass the"
        " objective again to go on, or put it in a file and name that"
    )


_TEXTS = ("scenario", "objective", "precision", "free", "method")


def _check_kinds(folder: RunFolder, saved: Mapping[str, Any]) -> None:
    """Raise ValueError where config.json holds a value of a type that no run writes."""
    wrong = [name for name in _TEXTS if not isinstance(saved.get(name), str)]
    wrong += [] if isinstance(saved.get("backend"), str | None) else ["backend"]
    wrong += [] if isinstance(saved.get("restarts"), str | None) else ["restarts"]
    wrong += [name for name in ("set", "by_run") if not isinstance(saved.get(name), Mapping)]
    for name in ("weights", "numbers"):
        value = saved.get(name)
        values = value.values() if isinstance(value, Mapping) else [None]
        good = [_are_bounds(v) if name == "numbers" else _are_numbers([v]) for v in values]
        wrong += [] if all(good) else [name]
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"{folder / RunFolder.CONFIG}: {name} is {saved.get(name)!r}, which no run writes;"
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


# ---- checks of values


def check_number(what: str, value: float, expected: str) -> float:
    """Convert to a float; raises ValueError unless it is finite and positive."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} is {value!r}; give {expected}")
    return number


def _check_values(config: TuneConfig) -> None:
    """Raise ValueError for values that would otherwise fail late, or silently."""
    seconds = config.objective.seconds
    check_number("seconds", seconds, "a positive number")
    for name in ("sigma", "dt", "final_dt", "pushed_at"):
        check_number(name, getattr(config, name), "a positive number")
    if config.dt > seconds:
        raise ValueError(f"dt is {config.dt} s, longer than a rollout of {seconds} s")
    within("seconds", seconds)
    within("dt", config.dt)
    within("final_dt", config.final_dt, of="dt")
    least_of = {"generations": 1, "population": 4, "trials": 1, "chunk": 1, "seed": 0}
    least_of |= {"runs": 1, "halve_after": 0, "checks": 1}
    for name, least in least_of.items():
        value = getattr(config, name)
        if value is None and name == "chunk":
            continue  # chosen later
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
    if config.seed >= 2**32:
        raise ValueError(f"seed is {config.seed}; it must be below 2**32")
    if config.backend is not None:
        choose_backend(config.backend)
    for stage in config.stages:
        if stage.name not in EVOLUTION:
            optimiser(stage.name)  # its errors show now
    _ = config.values_by_run
    _check_trials(config)
    if config.front:
        check_front(config.stages, config.by_run, config.resample)
    if config.free not in ("marked", "all"):
        raise ValueError(f"free is {config.free!r}; choose 'marked' or 'all'")
    if config.variant and config.python_scenario is not None:
        raise ValueError(
            "variant: a scenario made in Python has no settings to change; pose the problems, as"
            " in Problem(..., others=(Problem(...),))"
        )


def _check_trials(config: TuneConfig) -> None:
    """Check the options by which members are evaluated over their trials.

    An aggregation other than the mean needs all members to be of one run.
    """
    none = np.zeros((1, 1))
    ok = successes(dict.fromkeys(config.objective.weights, none))
    aggregate(none, ok, config.aggregate)  # its errors
    if len(config.spread) != 2 or not all(0 <= s < np.inf for s in config.spread):
        raise ValueError(f"spread {config.spread}: give that of angles [rad] and speeds [rad/s]")
    rate = config.success_rate
    if check_number("success_rate", rate, "a share of the starts") > 1:
        raise ValueError(f"success_rate is {rate}; give a share of the starts, at most 1")
    names = "resample", "aggregate", "halve_after", "checks", "success_rate"
    changed = [name for name in names if getattr(config, name) != DEFAULTS[name]]
    methods = [stage.name for stage in config.stages]
    alone = config.runs == 1 and not config.by_run and config.restarts is None
    if changed and not (alone and methods == ["cma"]):
        raise ValueError(
            f"{', '.join(changed)}: only for one run of the method cma; leave out other methods,"
            " chains, restarts, runs and by_run"
        )
