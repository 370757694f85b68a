"""Measures of a sweep: terms of objectives, numbers of the summary, and custom measures."""

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsim.characters.standing import above_standing
from jaxsim.model import Model
from jaxsim.simulation.measures import Measure, Sample, final
from optimize.problems.problem import SOUND, Problem
from optimize.problems.survival import standing_measure, while_standing
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
from optimize.running.summary import LABELS
from optimize.scenarios.scenario import Scenario

DEFAULT = ("distance", "final_com_height", "standing")
# always reported of schemes that optimise; their names where only survival is measured
UNSOLVED = {
    "unsolved_frames": "unsolved_while_standing",
    "largest_root_residual": "residual_while_standing",
}

Measures = Sequence[str] | Mapping[str, Measure | Term]


@dataclass(frozen=True)
class Columns:
    """Columns of a sweep: raw terms, folded by ``objective``, and weighted sums of them.

    shown: name -> term; totals: name -> objective, and its terms by their names there. Terms that
    differ are folded apart, whatever they are called, so that no measure changes another.
    """

    objective: Objective
    shown: Mapping[str, str]
    totals: Mapping[str, tuple[Objective, Mapping[str, str]]]

    @property
    def units(self) -> dict[str, str]:
        """Unit by name, in the order of the result."""
        terms = {name: self.objective.term(key).unit for name, key in self.shown.items()}
        return {**dict.fromkeys(self.totals, ""), **terms}

    def of(self, parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of the columns from raw terms."""
        sums = {
            name: judged.total({own: parts[key] for own, key in keys.items()})
            for name, (judged, keys) in self.totals.items()
        }
        return {**sums, **{name: parts[key] for name, key in self.shown.items()}}

    def sound(self, parts: Mapping[str, np.ndarray], good: np.ndarray) -> dict[str, np.ndarray]:
        """Validity of each column, from that of the motion.

        Of survival the motion only has to be finite until a fall.
        """
        while_standing = np.asarray(parts.get(SOUND, good)) > 0.5
        sums = {
            name: while_standing if judged.ends_with_a_fall else good
            for name, (judged, _) in self.totals.items()
        }
        survival = {n: self.objective.term(key).measure is None for n, key in self.shown.items()}
        return {**sums, **{n: while_standing if s else good for n, s in survival.items()}}


class _Terms:
    """Collection of terms by unique keys; equal terms share one."""

    def __init__(self, problem: Problem):
        self.problem, self.found = problem, {}

    def key(self, name: str, term: Term) -> str:
        """Add a term and return its key."""
        key, number = name, 1
        taken = TERMS.get(name) not in (None, term)  # the name stays that of what ships
        while taken or self.found.get(key, term) != term:
            number += 1
            key, taken = f"{name} ({number})", False
        self.found[key] = term
        return key

    def keys(self, objective: Objective) -> dict[str, str]:
        """Keys of an objective's terms; where a fall ends it, of terms folded while standing."""
        own = {name: objective.term(name) for name in objective.weights}
        if objective.ends_with_a_fall:
            own = {name: self._while_standing(term) for name, term in own.items()}
        return {name: self.key(name, term) for name, term in own.items()}

    def _while_standing(self, term: Term) -> Term:
        made, scheme = term.measure, self.problem.scenario.scheme
        if made is None:
            return term
        return replace(
            term,
            measure=lambda model: while_standing(made(model), standing_measure(model, scheme)),
            value=lambda folded: term.value(folded[1]),
        )


def columns(problem: Problem, measures: Measures | None) -> Columns:
    """Columns of a sweep: the problem's objective, the requested measures, and unsolved steps.

    The objective gives "fitness" and its terms; unsolved steps are added where the scheme
    optimises. measures: names, of a term, an objective (its weighted sum) or a number of the
    summary, or as "my_file.py:name" of a Measure, Term, Objective or function of a sample; or name
    -> Measure or Term. Raises KeyError for an unknown name, with the nearest, and the errors of
    ``user_objective`` for files.
    """
    known, terms = available(problem.scenario), _Terms(problem)
    shown: dict[str, str] = {}
    totals: dict[str, tuple[Objective, Mapping[str, str]]] = {}
    if problem.objective.weights:
        own_keys = terms.keys(problem.objective)
        totals["fitness"] = problem.objective, own_keys
        shown |= own_keys
    default = [
        n for n in DEFAULT if n != "standing" or problem.scenario.model.topology.roles.stands
    ]
    asked = measures if measures is not None else () if totals else default
    for name in [asked] if isinstance(asked, str) else asked:
        custom = asked[name] if isinstance(asked, Mapping) else None
        if custom is None and FILE in name:
            custom, name = as_term(in_file(name)[0]), name.rpartition(":")[2]
            if not isinstance(custom, (Measure, Term, Objective)):
                raise TypeError(
                    f"measure {name} is {custom!r}; a file gives a Measure, a Term, an Objective or"
                    " a function of a sample"
                )
        if custom is None:
            custom = OBJECTIVES.get(name)
        if isinstance(custom, Objective):
            totals[name] = custom, terms.keys(custom)
            continue
        if custom is None and name in shown:
            continue
        if custom is None and name not in known:
            raise KeyError(_unknown(name, [*known, *OBJECTIVES]))
        term = known[name] if custom is None else custom
        if isinstance(term, Measure):
            term = Term(name, "", lambda model, fold=term: fold)
        shown[name] = terms.key(name, term)
    _show_unsolved(known, shown, terms)
    # Weights of nothing: the terms are folded, and no sum is taken of them.
    every = tuple(replace(term, name=key) for key, term in terms.found.items())
    weights = dict.fromkeys(terms.found, 0.0)
    folded = Objective("sweep", 0.0, weights, terms=every, to_the_end=True)
    folded.measures(problem.scenario.model)  # raises now for what the body lacks
    return Columns(folded, shown, totals)


def _show_unsolved(known: Mapping[str, Term], shown: dict[str, str], terms: _Terms) -> None:
    """Add columns of unsolved steps: to the end, or until a fall if nothing else is asked."""
    survival = [term.measure is None for term in terms.found.values()]
    for to_the_end, standing in UNSOLVED.items():
        name = standing if survival and all(survival) else to_the_end
        if to_the_end in known:
            shown.setdefault(name, terms.key(name, known[name]))


def sources(measures: Measures | None) -> dict[str, str]:
    """SHA-256 digests of the files that define measures, by name."""
    names = [] if measures is None or isinstance(measures, Mapping) else measures
    files = [name for name in ([names] if isinstance(names, str) else names) if FILE in name]
    return {n: hashlib.sha256(in_file(n)[1].encode()).hexdigest()[:16] for n in files}


def available(scenario: Scenario) -> dict[str, Term]:
    """Terms that a sweep of this scenario can measure, by name."""
    found = {
        "distance": Term("distance", "m", lambda model: _from_start(0), lambda x: x[1] - x[0]),
        "final_com_height": Term("", "m", lambda model: _from_start(2), lambda x: x[1]),
        "standing": Term("standing", "1", _above, lambda above: jnp.where(above >= 0, 1, 0)),
    }
    for name, measure in measures_of(scenario, {}).items():
        if np.ndim(measure.initial) == 0:
            found[name] = Term(name, _unit(name), lambda model, fold=measure: fold)
    without = () if set(UNSOLVED) <= set(found) else UNSOLVED.values()
    return {**found, **{name: term for name, term in TERMS.items() if name not in without}}


def _above(model: Model) -> Measure:
    """Measure of the head above standing height, at the last step."""
    above = above_standing(model)
    return final(lambda sample: above(sample.obs.kin.com))


def _from_start(axis: int) -> Measure:
    """Measure of the centre of mass along an axis: at the first step, and at the last [m]."""

    def update(value: Any, sample: Sample) -> Any:
        now = sample.obs.com[axis]
        return jnp.stack([jnp.where(jnp.isnan(value[0]), now, value[0]), now])

    return Measure(jnp.full(2, jnp.nan), update)


def _unit(name: str) -> str:
    """Unit of a number, from its label in the summary."""
    label = next((labels[name] for labels in LABELS.values() if name in labels), "")
    return label.rpartition("[")[2].rstrip("]") if label.endswith("]") else ""


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"nearest are: {', '.join(near)}; all: " if near else "there are: "
    return f"no measure {name!r}; {hint}{', '.join(known)}"
