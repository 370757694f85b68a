"""Pareto front of all members of a search over terms of its objective.

    front = load_front("runs/front")
    front.values, front.numbers

A member is in the front where no other is at least as good in every term and better in one. Only
members count that end as the objective requires. The front is saved in front.json after every
generation, with its hypervolume: the part of the space up to ``reference`` that it dominates.
Source: Guerreiro, Fonseca, Paquete, The hypervolume indicator, 2021; computed by moocore.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from optimize.problems.fitness import Evaluation, successes
from optimize.problems.problem import Problem
from optimize.results.folder import RESTORE, RunFolder
from optimize.tuning.names import EVOLUTION, FRONT, OWN, WEIGHTS, Stage


@dataclass(frozen=True)
class Front:
    """Pareto front of k members over m terms, all to be minimised.

    terms, units: of the columns of values (k, m). names: of the columns of numbers (k, n), the
    numbers that were tuned, in their units. run, generation: (k,) of each member. reference:
    (m,) the worst of each term in the first generation that had members which count; None before.
    hypervolume: a pair of generation and volume for each generation from there on.
    """

    terms: tuple[str, ...]
    units: tuple[str, ...]
    names: tuple[str, ...]
    values: np.ndarray
    numbers: np.ndarray
    run: np.ndarray
    generation: np.ndarray
    reference: np.ndarray | None = None
    hypervolume: tuple[tuple[int, float], ...] = ()

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.values)


def need_moocore() -> Any:
    """Import moocore. Raises ImportError, naming the extra."""
    try:
        import moocore
    except ImportError as error:
        raise ImportError(
            'a front needs moocore: pip install "jaxsim-characters[results]"', name=error.name
        ) from error
    return moocore


def check_front(chain: Sequence[Stage], by_run: Iterable[str], resample: bool) -> None:
    """Raise ValueError where the members of a search do not form one front.

    by_run: names of the settings that differ by run. Raises ImportError without moocore.
    """
    need_moocore()
    methods = {stage.name for stage in chain}
    numbers = [n for n in by_run if n not in OWN and not n.startswith(WEIGHTS)]
    if resample or not methods <= {*EVOLUTION} or numbers:
        raise ValueError(
            "front: candidates have to be evaluated alike; leave out resampling (resample), methods"
            " along the gradient, and numbers of the scenario that differ by run (by_run)"
        )


def empty_front(problem: Problem, terms: Sequence[str]) -> Front:
    """Front of a problem before the first evaluation.

    Raises ValueError for terms that its objective does not have, and for fewer than two.
    """
    known = problem.objective.weights
    wrong = [name for name in terms if name not in known]
    if wrong or len(set(terms)) < 2:
        raise ValueError(
            f"front is {', '.join(terms)}: give two or more of the objective's terms:"
            f" {', '.join(known)}"
        )
    units = tuple(problem.objective.term(name).unit for name in terms)
    none = np.zeros(0, int)
    values, numbers = np.zeros((0, len(terms))), np.zeros((0, len(problem.names)))
    return Front(tuple(terms), units, tuple(problem.names), values, numbers, none, none)


def extend_front(
    front: Front, values: np.ndarray, numbers: np.ndarray, run: np.ndarray, generation: int
) -> Front:
    """Front with further members (P, m), (P, n), (P,), ordered by the first term.

    Members that are in it already change nothing, so that a generation may be repeated.
    """
    moocore = need_moocore()
    good = np.isfinite(values).all(axis=1)
    if not good.any() and not front.size:
        return front
    both = np.concatenate([front.values, values[good]])
    columns = {
        "values": both,
        "numbers": np.concatenate([front.numbers, numbers[good]]),
        "run": np.concatenate([front.run, run[good]]),
        "generation": np.concatenate([front.generation, np.full(good.sum(), generation)]),
    }
    nondominated = np.flatnonzero(moocore.is_nondominated(both))
    nondominated = nondominated[np.lexsort(both[nondominated].T[::-1])]
    grown = replace(front, **{name: array[nondominated] for name, array in columns.items()})
    reference = front.reference
    if reference is None and generation >= 0:  # the start alone is no measure
        reference = values[good].max(axis=0) if good.any() else None
    if reference is None:
        return grown
    volume = float(moocore.hypervolume(grown.values, ref=reference))
    earlier = [pair for pair in front.hypervolume if pair[0] < generation]
    return replace(grown, reference=reference, hypervolume=(*earlier, (generation, volume)))


class FrontRecorder:
    """Evaluation of ``evolve_runs`` by generation that saves the Pareto front so far."""

    def __init__(
        self,
        evaluate: Callable[[np.ndarray, np.ndarray], Evaluation],
        problem: Problem,
        folder: RunFolder,
        terms: Sequence[str],
    ):
        self.evaluate, self.problem, self.folder = evaluate, problem, folder
        self.front = empty_front(problem, terms)
        if (folder / FRONT).is_file():
            self.front = load_front(folder)

    def __call__(self, x: np.ndarray, run: np.ndarray, generation: int) -> Evaluation:
        evaluation = self.evaluate(x, run)
        parts = {name: np.asarray(part, float) for name, part in evaluation.parts.items()}
        ok = ~np.broadcast_to(np.asarray(evaluation.failed, bool), len(x))
        stood = parts.get("succeeded", successes(parts))  # of several trials, their share
        if stood is not None:
            ok = ok & (np.asarray(stood) == 1)
        values = np.stack([parts[name] for name in self.front.terms], axis=1)[ok]
        numbers = np.asarray(self.problem.tunables.decode(np.asarray(x, float)))[ok]
        self.front = extend_front(self.front, values, numbers, np.asarray(run)[ok], generation)
        save_front(self.folder, self.front)  # before the checkpoint: it may be ahead, never behind
        return evaluation


def save_front(folder: RunFolder, front: Front) -> None:
    """Write front.json."""
    folder.write_json(FRONT, asdict(front))


def load_front(folder: str | os.PathLike) -> Front:
    """Load the Pareto front of the run in a folder.

    Raises FileNotFoundError where there is none, ValueError where it is damaged.
    """
    run = RunFolder(Path(folder))
    content = run.read_json(FRONT)
    try:
        texts = {name: tuple(map(str, content[name])) for name in ("terms", "units", "names")}
        count = len(content["values"])
        arrays = {
            "values": np.asarray(content["values"], float).reshape(count, len(texts["terms"])),
            "numbers": np.asarray(content["numbers"], float).reshape(count, len(texts["names"])),
            "run": np.asarray(content["run"], int).reshape(count),
            "generation": np.asarray(content["generation"], int).reshape(count),
        }
        reference = content["reference"]
        if reference is not None:
            reference = np.asarray(reference, float).reshape(len(texts["terms"]))
        volumes = tuple((int(g), float(v)) for g, v in content["hypervolume"])
        return Front(**texts, **arrays, reference=reference, hypervolume=volumes)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{run / FRONT} holds no front ({error}); {RESTORE}") from error
