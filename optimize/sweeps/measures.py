"""What a sweep measures: terms of objectives, what summaries tell, and measures of one's own."""

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsim.simulation.measures import Measure, Sample
from optimize.problems.problem import Problem
from optimize.running.objectives import (
    FILE,
    OBJECTIVES,
    TERMS,
    Objective,
    Term,
    as_term,
    in_file,
)
from optimize.running.recording import measures_of
from optimize.running.summary import FALLEN, LABELS
from optimize.scenarios.scenario import Scenario

DEFAULT = ("distance", "final_com_height", "standing")

Measures = Sequence[str] | Mapping[str, Measure | Term]


@dataclass(frozen=True)
class Columns:
    """What each member gives: raw terms, folded by ``objective``, and weighted sums of them.

    shown: names of the terms that are kept; totals: name -> objective.
    """

    objective: Objective
    shown: tuple[str, ...]
    totals: Mapping[str, Objective]

    @property
    def units(self) -> dict[str, str]:
        """Name -> unit, in the order of the result."""
        terms = {name: self.objective.term(name).unit for name in self.shown}
        return {**dict.fromkeys(self.totals, ""), **terms}

    def of(self, parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of raw terms."""
        sums = {name: judged.total(parts) for name, judged in self.totals.items()}
        return {**sums, **{name: parts[name] for name in self.shown}}


def columns(problem: Problem, measures: Measures | None) -> Columns:
    """Those of the problem's objective ("fitness" and its terms), then what is asked for.

    measures: names, of a term, an objective (its weighted sum) or a number of the summary, or as
    "my_file.py:name" of a Measure, Term, Objective or function of a sample; or name -> Measure or
    Term. Raises KeyError for a name that there is none of, with the nearest, and the errors of
    ``user_objective`` for files.
    """
    known = available(problem.scenario)
    terms = {name: problem.objective.term(name) for name in problem.objective.weights}
    shown, totals = list(terms), {"fitness": problem.objective} if terms else {}
    asked = measures if measures is not None else () if terms else DEFAULT
    for name in [asked] if isinstance(asked, str) else asked:
        own = asked[name] if isinstance(asked, Mapping) else None
        if own is None and FILE in name:
            own, name = as_term(in_file(name)[0]), name.rpartition(":")[2]
            if not isinstance(own, (Measure, Term, Objective)):
                raise TypeError(
                    f"measure {name} is {own!r}; a file gives a Measure, a Term, an Objective or a"
                    " function of a sample"
                )
        if own is None:
            own = OBJECTIVES.get(name)
        if isinstance(own, Objective):
            totals[name] = own
            terms = {n: own.term(n) for n in own.weights} | terms
            continue
        if own is None and name not in known | terms:
            raise KeyError(_unknown(name, [*known, *OBJECTIVES]))
        term = known.get(name) if own is None else own
        if isinstance(term, Measure):
            term = Term(name, "", lambda model, fold=term: fold)
        if term is not None:
            terms[name] = replace(term, name=name)
        if name not in shown:
            shown.append(name)
    # Weights of nothing: the terms are folded, and no sum is taken of them.
    folded = Objective("sweep", 0.0, dict.fromkeys(terms, 0.0), terms=tuple(terms.values()))
    folded.measures(problem.scenario.model)  # what the body lacks for them is told now
    return Columns(folded, tuple(shown), totals)


def sources(measures: Measures | None) -> dict[str, str]:
    """File -> SHA-256 of the files that measures are of."""
    names = [] if measures is None or isinstance(measures, Mapping) else measures
    files = [name for name in ([names] if isinstance(names, str) else names) if FILE in name]
    return {n: hashlib.sha256(in_file(n)[1].encode()).hexdigest()[:16] for n in files}


def available(scenario: Scenario) -> dict[str, Term]:
    """Name -> term, of all that a sweep of this scenario can measure."""
    found = {
        "distance": Term("distance", "m", lambda model: _from_start(0), lambda x: x[1] - x[0]),
        "final_com_height": Term("", "m", lambda model: _from_start(2), lambda x: x[1]),
        "standing": Term(
            "", "1", lambda model: _from_start(2), lambda x: jnp.where(x[1] > FALLEN * x[0], 1, 0)
        ),
    }
    for name, measure in measures_of(scenario, {}).items():
        if np.ndim(measure.initial) == 0:
            found[name] = Term(name, _unit(name), lambda model, fold=measure: fold)
    return {**found, **TERMS}


def _from_start(axis: int) -> Measure:
    """The centre of mass along an axis: at the first step, and at the last [m]."""

    def update(value: Any, sample: Sample) -> Any:
        now = sample.obs.com[axis]
        return jnp.stack([jnp.where(jnp.isnan(value[0]), now, value[0]), now])

    return Measure(jnp.full(2, jnp.nan), update)


def _unit(name: str) -> str:
    """As the summary's label has it."""
    label = next((labels[name] for labels in LABELS.values() if name in labels), "")
    return label.rpartition("[")[2].rstrip("]") if label.endswith("]") else ""


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"nearest are: {', '.join(near)}; all: " if near else "there are: "
    return f"no measure {name!r}; {hint}{', '.join(known)}"
