"""Compatibility model in a folder: sampled, learned, saved; an interrupted run is resumed.

fit(FitOptions("sit_to_stand_arms", state={...}, action={...}), out="runs/chair")

The folder, beside the files of every run: samples.npz (points and answers so far), volume.npz (the
support vector machine), model.json (what was learned, and the time it took).
"""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxsim.io.archive import LARGEST, ArchiveError, read_arrays
from jaxsim.io.files import try_folder, write_arrays
from optimize.compatibility.paths import PathSampler
from optimize.compatibility.question import OUTCOMES, STANDS, Question
from optimize.compatibility.refinement import RefinementSampler
from optimize.compatibility.space import Space
from optimize.compatibility.volume import LearnedVolume, Volume, learn, machine
from optimize.interrupts import defer_interrupts, note_interrupts
from optimize.results.digest import accept, changes_since, digest
from optimize.results.folder import RESTORE, RunFolder, command_line
from optimize.results.lock import lock_folder
from optimize.scenarios.find import scenario
from optimize.scenarios.seated import TILT, as_seated

SAMPLES, VOLUME, MODEL = "samples.npz", "volume.npz", "model.json"
KEPT_EVERY = 2.0  # [s]
METHODS = ("paths", "refinement")


@dataclass(frozen=True)
class FitOptions:
    """Options of a compatibility model: ranges to sample, and the criterion of success.

    state, action: name -> (lower, upper[, scale]), see ``Space.of``. scenario: a name or file; set:
    of its keys and numbers, before anything varies. outcome: of ``OUTCOMES``, what counts as
    success. samples: at least so many. trials: slightly different starts, all of which must
    succeed.
    """

    scenario: str
    state: Mapping[str, Sequence[float]]
    action: Mapping[str, Sequence[float]]
    method: str = "refinement"
    outcome: str = STANDS.name
    samples: int = 2560
    seconds: float = STANDS.seconds
    trials: int = 1
    seed: int = 0
    set: Mapping[str, Any] = field(default_factory=dict)
    backend: str | None = None

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; choose from {', '.join(METHODS)}")
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome is {self.outcome!r}; choose from {', '.join(OUTCOMES)}")
        if not (self.samples >= 1 and self.trials >= 1 and self.seconds > 0):
            raise ValueError("samples, trials and seconds must be positive")

    def question(self) -> Question:
        """Question of these options. Raises as ``scenario`` and ``Question.of``."""
        changes = dict(self.set)
        tilt = changes.pop(TILT, None)
        made = scenario(self.scenario, changes)
        made = made if tilt is None else as_seated(made).set(TILT, tilt)
        more: dict[str, Any] = dict(trials=self.trials, backend=self.backend, seed=self.seed)
        judged = OUTCOMES[self.outcome]
        return Question.of(made, self.state, self.action, judged, seconds=self.seconds, **more)


def sampler(question: Question, method: str, seed: int) -> PathSampler | RefinementSampler:
    """Create a sampler by the name of its method."""
    if method == "paths":
        return PathSampler(question.space, question.start, seed)
    return RefinementSampler(question.space, seed)


class Fitted(NamedTuple):
    """Learned model. points (n, d), yes (n,): all samples. seconds: of sampling and learning."""

    options: FitOptions
    space: Space
    points: np.ndarray
    yes: np.ndarray
    learned: LearnedVolume
    seconds: dict[str, float]


@note_interrupts()
def fit(
    options: FitOptions | None = None,
    out: str | os.PathLike | None = None,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    progress: bool = False,
    command: list[str] | None = None,
) -> Fitted:
    """Sample and learn a model; with ``out`` in a folder that can be resumed.

    To resume, ``options`` is None. A resumed run samples the same points as an unbroken one. Ctrl-C
    ends it after a batch.

    Raises FileExistsError for a folder that holds something, FileNotFoundError where there is
    nothing to resume, RunChanged where that began with something else, FolderInUse where another
    process works there, ImportError without scikit-learn, ValueError for invalid options, for
    samples that do not belong to the run, and where all answers are the same.
    """
    machine()  # its error comes before the work
    with contextlib.ExitStack() as stack:
        folder, saved = None, None
        if resume:
            options, folder, saved = _resumed(out, options, accept_changes, stack)
        elif options is None:
            raise ValueError("give options, or resume a run")
        question = options.question()
        _ = question.start, question.problem.steps
        if out is not None and folder is None:
            try_folder(out)
            stack.enter_context(lock_folder(out))
            folder = _created(out, options, question, command)
        began, worked = time.perf_counter(), time.process_time()
        points, yes = _sampled(question, options, folder, saved, progress)
        sampled, worked = time.perf_counter(), time.process_time() - worked
        with defer_interrupts():
            learned = learn(question.space, points, yes, options.seed)
            seconds = {
                "sampling": sampled - began,
                "sampling, of processors": worked,
                "learning": time.perf_counter() - sampled,
            }
            fitted = Fitted(options, question.space, points, yes, learned, seconds)
            if folder is not None:
                write_arrays(folder / VOLUME, learned.volume.arrays)
                folder.write_json(MODEL, fit_statistics(fitted))
    return fitted


def fit_statistics(fitted: Fitted) -> dict[str, Any]:
    """Statistics of a learned model, for model.json."""
    return {
        "samples": len(fitted.yes),
        "compatible": int(fitted.yes.sum()),
        "accuracy": fitted.learned.accuracy,
        "support_vectors": fitted.learned.vectors,
        "names": fitted.space.names,
        "seconds": fitted.seconds,
    }


def _sampled(
    question: Question,
    options: FitOptions,
    folder: RunFolder | None,
    saved_samples: tuple[np.ndarray, np.ndarray] | None,
    progress: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Points and answers; saved answers are replayed without simulating them."""
    draws = sampler(question, options.method, options.seed)
    points, yes = [], []
    done, saved = 0, time.monotonic()

    def keep():
        if folder is not None and points:
            arrays = {"points": np.concatenate(points), "yes": np.concatenate(yes)}
            write_arrays(folder / SAMPLES, arrays)

    bar = tqdm(total=options.samples, disable=not progress, unit="point", desc="sampling")
    with bar, defer_interrupts() as check:
        try:
            while done < options.samples:
                batch = draws.ask()
                answers = _known(saved_samples, batch, done, folder)
                answers = question.answers(batch) if answers is None else answers
                draws.tell(answers)
                points.append(batch)
                yes.append(answers)
                done += len(batch)
                bar.update(len(batch))
                bar.set_postfix_str(f"{np.concatenate(yes).mean():.0%} compatible", refresh=False)
                if time.monotonic() - saved > KEPT_EVERY:
                    keep()
                    saved = time.monotonic()
                check()
        finally:
            keep()
    return np.concatenate(points), np.concatenate(yes)


def _known(saved_samples, batch: np.ndarray, done: int, folder) -> np.ndarray | None:
    """Saved answers to a batch; None where there are none yet.

    Raises ValueError where the saved points are others.
    """
    if saved_samples is None or done + len(batch) > len(saved_samples[1]):
        return None
    here = slice(done, done + len(batch))
    if not np.array_equal(saved_samples[0][here], batch):
        raise ValueError(
            f"{folder / SAMPLES} holds other points than this run draws: it was changed, or drawn"
            f" in another precision or by other versions; {RESTORE}"
        )
    return saved_samples[1][here]


def _created(out, options: FitOptions, question: Question, command: list[str] | None) -> RunFolder:
    config = {
        "compatibility": asdict(options),
        "seed": options.seed,
        "seconds": options.seconds,
        "dt": float(question.problem.scenario.scheme.dt),
        "precision": jnp.zeros(()).dtype.name,
        "command": command or command_line(),
    }
    return RunFolder.create(out, config, digest=digest(config))


def _resumed(out, options, accept_changes: bool, stack: contextlib.ExitStack):
    """Options of the run in a folder, which is locked; the folder; its samples, if any."""
    if out is None or options is not None:
        raise ValueError("to resume, name the folder of the run, and no options: it has its own")
    folder = RunFolder.open(out)
    stack.enter_context(lock_folder(folder))
    config = folder.read_config()
    own = kept_options(folder, config)
    now = digest(config)
    changed = changes_since(folder, now, accept_changes)
    samples = None
    if (folder / SAMPLES).is_file():
        samples = _samples(folder, len(own.state) + len(own.action))
    accept(folder, now, changed, at=0 if samples is None else len(samples[1]))
    return own, folder, samples


def kept_options(folder: RunFolder, config: Mapping[str, Any]) -> FitOptions:
    """Options in config.json. Raises ValueError where they are invalid."""
    options = config.get("compatibility")
    if options is None:
        raise ValueError(f"{folder.path} holds another kind of run, no compatibility model")
    try:
        return FitOptions(**options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / RunFolder.CONFIG} holds options that no run writes ({error}); {RESTORE}"
        ) from error


def _samples(folder: RunFolder, size: int) -> tuple[np.ndarray, np.ndarray]:
    arrays = _read(folder, SAMPLES, ("points", "yes"))
    points, yes = arrays["points"], arrays["yes"]
    if points.ndim != 2 or points.shape != (len(yes), size) or yes.dtype != bool:
        raise ValueError(f"{folder / SAMPLES} holds no samples of this run; {RESTORE}")
    return points, yes


def _read(folder: RunFolder, name: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        arrays = read_arrays(folder / name, dict.fromkeys(names, LARGEST))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{folder.path} has no {name} yet; go on with jaxsim compat fit --resume"
        ) from None
    except ArchiveError as error:
        raise ValueError(f"{error}; {RESTORE}") from None
    missing = [each for each in names if each not in arrays]
    if missing:
        raise ValueError(f"{folder / name} lacks {', '.join(missing)}; {RESTORE}")
    return arrays


class SavedModel(NamedTuple):
    """Saved model, loaded from its folder."""

    folder: RunFolder
    options: FitOptions
    question: Question
    points: np.ndarray
    yes: np.ndarray
    volume: Volume
    model: dict[str, Any]


def load(out: str | os.PathLike) -> SavedModel:
    """Load a finished model.

    Raises FileNotFoundError where there is none, ValueError for damage.
    """
    folder = RunFolder.open(Path(out))
    options = kept_options(folder, folder.read_config())
    question = options.question()
    volume = _read(folder, VOLUME, ("support", "weight", "offset"))
    own = Volume(**{name: volume[name] for name in ("support", "weight", "offset")})
    points, yes = _samples(folder, question.space.size)
    return SavedModel(folder, options, question, points, yes, own, folder.read_json(MODEL))
