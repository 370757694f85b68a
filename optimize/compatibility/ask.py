"""Queries of a model in a folder: answered, simulated, saved in queries.json."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimize.compatibility.query import Diverse, diverse
from optimize.compatibility.question import CHAIR_KEY
from optimize.compatibility.run import SavedModel, load
from optimize.interrupts import note_interrupts
from optimize.results.folder import RESTORE, RunFolder
from optimize.results.lock import lock_folder
from optimize.running.simulate import Simulation, run_scenario
from optimize.scenarios.seated import CHAIR

QUERIES = "queries.json"


@dataclass(frozen=True)
class QueryResult:
    """Queries with their answers, and whether the simulation confirms these.

    given: name -> (k,) values. points (k, n, d); decision (k, n) of the volume; known (k, n): the
    volume says yes; succeeded (k, n): the simulation does. seconds: of all queries together, when
    their program is compiled.
    """

    names: tuple[str, ...]
    given: dict[str, list[float]]
    points: np.ndarray
    decision: np.ndarray
    known: np.ndarray
    succeeded: np.ndarray
    seconds: float


@note_interrupts()
def ask(
    out: str | os.PathLike, given: Mapping[str, Sequence[float]], options: Diverse | None = None
) -> QueryResult:
    """Answer queries by the model in ``out``, simulate each answer, save all in queries.json.

    given: name -> k values, as {"character.chair_height": [0.45, 0.16]}. Raises as ``load`` and
    ``diverse``, FolderInUse where another process works there.
    """
    with lock_folder(RunFolder.open(out)):
        model = load(out)
        result = answer_queries(model, given, options)
        model.folder.write_json(QUERIES, result)
    return result


def answer_queries(
    model: SavedModel, given: Mapping[str, Sequence[float]], options: Diverse | None = None
) -> QueryResult:
    """Answer and simulate queries without writing, see ``ask``."""
    space = model.question.space
    values = {
        (CHAIR if name == CHAIR_KEY else name): np.atleast_1d(np.asarray(column, float))
        for name, column in given.items()
    }
    diverse(space, model.volume, values, options)  # compiles
    began = time.perf_counter()
    answers, _ = diverse(space, model.volume, values, options)
    seconds = time.perf_counter() - began
    succeeded = model.question.answers(answers.points.reshape(-1, space.size))
    return QueryResult(
        space.names,
        {name: column.tolist() for name, column in values.items()},
        answers.points,
        answers.decision,
        answers.known,
        succeeded.reshape(answers.known.shape),
        seconds,
    )


def queries(model: SavedModel) -> QueryResult | None:
    """Last queries of a model; None where none was asked. Raises ValueError for a damaged file."""
    if not (model.folder / QUERIES).is_file():
        return None
    content = model.folder.read_json(QUERIES)
    try:
        arrays = {
            name: np.asarray(content[name], kind)
            for name, kind in (
                ("points", float), ("decision", float), ("known", bool), ("succeeded", bool)
            )
        }  # fmt: skip
        good = arrays["points"].shape == (*arrays["known"].shape, model.question.space.size)
        if not good or arrays["known"].ndim != 2:
            raise ValueError("its points do not fit the model")
        return QueryResult(
            tuple(content["names"]), dict(content["given"]), seconds=content["seconds"], **arrays
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{model.folder / QUERIES} is damaged ({error}); {RESTORE}") from error


def motion_of(model: SavedModel, point: np.ndarray) -> Simulation:
    """Simulate a point (d,) for as long as the question does."""
    made = model.question.scenario_at(point)
    seconds = model.options.seconds
    return run_scenario(replace(made, seconds=seconds), fps=60.0, backend="xla")


def table(result: QueryResult) -> str:
    """Format a line for each answer."""
    names = [name.split(": ")[-1] for name in result.names]
    wide = [max(len(name), 9) for name in names]
    head = "  ".join(f"{name:>{w}}" for name, w in zip(names, wide))
    lines = [f"{head}  decision  simulated"]
    for k, n in np.ndindex(result.known.shape):
        row = "  ".join(f"{x:>{w}.4g}" for x, w in zip(result.points[k, n], wide))
        verdict = "succeeds" if result.succeeded[k, n] else "fails"
        if not result.known[k, n]:
            verdict += " (the model knows no compatible answer)"
        lines.append(f"{row}  {result.decision[k, n]:8.2f}  {verdict}")
    done = f"{result.succeeded.sum()} of {result.succeeded.size} succeed"
    return "\n".join([*lines, "", f"{done}; answered in {1e3 * result.seconds:.0f} ms"])


def as_plain(result: QueryResult) -> dict[str, Any]:
    """Dictionary of the answers for the page."""
    return {
        "names": result.names,
        "points": result.points.reshape(-1, len(result.names)).tolist(),
        "succeeded": result.succeeded.reshape(-1).tolist(),
    }
