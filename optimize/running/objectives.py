"""Objective terms of Shen's thesis: raw values with units, folded over a rollout.

Weights stand apart. Source: Shen, section 5.3. A term is a measure of the rollout and the function
that turns its final value into the raw number; all are minimised.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import com_ahead
from jaxsim.characters.standing import above_standing, standing_height
from jaxsim.dynamics.kinematics import plane_angles
from jaxsim.io.user_code import found_in, run_file
from jaxsim.model import Model, ModelError
from jaxsim.model.roles import FEET
from jaxsim.plugins import Registry
from jaxsim.simulation.measures import Measure, Sample, final, largest, total

SKID_ANGLE = math.pi / 9  # a foot in contact tilted by more skids [rad]
FLIGHT_CLEARANCE = 0.01  # of everything in flight; a stance that trembles is none [m]
FILE = ".py:"  # in the name of something in a file of Python, as my_file.py:name
FALLEN = 1000.0  # what the final state costs, and what each metre below standing adds


@dataclass(frozen=True)
class Term:
    """Raw objective term: a measure of the rollout, turned into a number at its end.

    measure: None for terms computed by the survival rollout (``problems.survival``).
    """

    name: str
    unit: str
    measure: Callable[[Model], Measure] | None
    value: Callable[[Array], Array] = lambda folded: folded
    meaning: str = ""


def capture_offset(model: Model, obs: Any) -> Array:
    """Offset (2,) of the capture point x + v sqrt(z / g) from the middle of the feet [m].

    obs: observation of any scheme.
    """
    if hasattr(obs, "conf"):
        feet = [obs.place(jnp.asarray(obs.group(name)))[:2] for name in FEET]
        return com_ahead(obs) - sum(feet) / len(FEET)
    feet = _feet(model)
    gravity = jnp.linalg.norm(model.gravity)
    ahead = obs.com_velocity[:2] * jnp.sqrt(jnp.maximum(obs.com[2] / gravity, 1e-6))
    return obs.com[:2] + ahead - jnp.mean(obs.kin.com[feet, :2], axis=0)


def _strayed(sample: Sample) -> Array:
    return jnp.sum(capture_offset(sample.model, sample.obs) ** 2)


def _height(model: Model, role: str) -> Callable[[Sample], Array]:
    model.topology.require("the objective", role)
    index = model.topology.part(role)
    return lambda sample: sample.obs.kin.com[index, 2]


def _below(model: Model) -> Callable[[Sample], Array]:
    """Height that the head lacks to count as standing [m]."""
    above = above_standing(model)
    return lambda sample: -above(sample.obs.kin.com)


def _feet(model: Model) -> np.ndarray:
    model.topology.require("the objective", *FEET)
    return np.array(model.topology.parts(FEET))


def in_flight(sample: Sample) -> Array:
    """True () bool where every link is clear of the ground and of all else."""
    return jnp.min(sample.obs.contacts.gap, initial=jnp.inf) > FLIGHT_CLEARANCE


def contactless(sample: Sample) -> Array:
    """True () bool where no link is in contact."""
    return ~jnp.any(sample.obs.link_touching)


def _time(model: Model) -> Measure:
    below = _below(model)
    return total(lambda sample: below(sample) > 0)


def _shortfall(model: Model) -> Measure:
    below = _below(model)
    return total(lambda sample: jnp.maximum(below(sample), 0.0))


def _imbalance(model: Model) -> Measure:
    feet = _feet(model)
    return total(lambda s: jnp.abs(s.obs.com[0] - jnp.mean(s.obs.kin.com[feet, 0])))


def _pelvis_height(model: Model) -> Measure:
    pelvis = _height(model, "pelvis")
    return largest(lambda sample: jnp.where(in_flight(sample), pelvis(sample), 0.0), 0.0)


def _in_flight(model: Model) -> Measure:
    return total(in_flight)


def _contactless(model: Model) -> Measure:
    return total(contactless)


def _unrest(model: Model) -> Measure:
    below = _below(model)
    joints = model.topology.actuated_dofs

    def rate(sample: Sample) -> Array:
        return jnp.where(below(sample) < 0, jnp.sum(sample.state.qd[joints] ** 2), 0.0)

    return total(rate)


def _energy(model: Model) -> Measure:
    return total(lambda sample: jnp.sum(sample.control.torque**2))


def _skid(model: Model, above: float | Array) -> Measure:
    if not model.topology.planar:
        raise ModelError("the terms skid and skid_standing are for planar characters")
    feet, head = _feet(model), _height(model, "head")

    def rate(sample: Sample) -> Array:
        tilt = plane_angles(sample.model, sample.state.q)[feet] - jnp.pi
        tilt = jnp.abs(tilt - 2 * jnp.pi * jnp.round(tilt / (2 * jnp.pi)))
        skids = sample.obs.touching[feet] & (tilt > SKID_ANGLE) & (head(sample) > above)
        return jnp.sum(jnp.where(skids, tilt**2, 0.0))

    return total(rate)


def _skid_standing(model: Model) -> Measure:
    return _skid(model, standing_height(model) * 5 / 6)


def _clip_error(model: Model) -> Measure:
    def rate(sample: Sample) -> Array:
        error = getattr(sample.memory, "clip_error", None)
        if error is None:
            raise ModelError(
                "the term clip_error compares with a clip, and the controller has none; choose"
                ' name = "balance" with a table [controller.clip]'
            )
        return error

    return total(rate)


def _final_shortfall(model: Model) -> Measure:
    return final(_below(model))


def _fallen(short: Array) -> Array:
    return jnp.where(short > 0, FALLEN * (1 + short), 0.0)


def negative(folded: Array) -> Array:
    """Negative value, for what is to be large."""
    return -folded


TERMS = Registry(
    "jaxsim.terms",
    {
        term.name: term
        for term in (
            Term("time", "s", _time, meaning="time with the head below standing height"),
            Term(
                "shortfall",
                "m s",
                _shortfall,
                meaning="height that the head lacks to standing, over time",
            ),
            Term(
                "imbalance",
                "m s",
                _imbalance,
                meaning="distance along x of the centre of mass from the feet, over time",
            ),
            Term(
                "height",
                "m",
                _pelvis_height,
                negative,
                "largest height of the pelvis in flight, as a negative number",
            ),
            Term("airborne", "s", _in_flight, negative, "time in flight, as a negative number"),
            Term("contactless", "s", _contactless, meaning="time without contact"),
            Term(
                "unrest",
                "rad^2/s",
                _unrest,
                meaning="squared rates of the joints while standing, over time",
            ),
            Term("energy", "(N m)^2 s", _energy, meaning="squared torques, over time"),
            Term(
                "skid",
                "rad^2 s",
                lambda model: _skid(model, -1.0),
                meaning="squared tilt of feet in contact where it exceeds 20 degrees, over time",
            ),
            Term(
                "skid_standing",
                "rad^2 s",
                _skid_standing,
                meaning="`skid` with the head above 5/6 of standing height",
            ),
            Term(
                "final_state",
                "1",
                _final_shortfall,
                _fallen,
                f"0 standing at the end, else {FALLEN:g} and as much for each metre below",
            ),
            Term("fallen", "1", None, meaning="share of the time in which it is not standing"),
            Term("toppled", "1", None, meaning="1 if it is not standing to the end, else 0"),
            Term("survived", "1", None, meaning="1 if it is standing to the end, else 0"),
            Term(
                "unsolved_while_standing",
                "1",
                None,
                meaning="steps while standing whose optimisation was not solved",
            ),
            Term(
                "residual_while_standing",
                "N",
                None,
                meaning="largest contact force without a source in those steps",
            ),
            Term(
                "strayed",
                "m^2 s",
                lambda _: total(_strayed),
                meaning="squared distance of the capture point from the feet, over time",
            ),
            Term(
                "clip_error",
                "m s",
                _clip_error,
                meaning="mean distance of the links from their places in the clip of"
                " `[controller.clip]`, both from the pelvis, over time",
            ),
        )
    },
)


@dataclass(frozen=True)
class Objective:
    """Weighted sum of terms over a motion of a given length.

    weights by term name; seconds of simulation; terms: custom ones, beside ``TERMS``. to_the_end:
    a fall ends no motion that has terms besides those of survival. Raises KeyError naming the terms
    for an unknown one.
    """

    name: str
    seconds: float
    weights: Mapping[str, float]
    about: str = ""
    terms: tuple[Term, ...] = ()
    to_the_end: bool = False

    def __post_init__(self):
        for name in self.weights:
            if name not in self._known:
                known = ", ".join(self._known)
                raise KeyError(f"no objective term {name!r}; the terms are: {known}")

    @property
    def _known(self) -> dict[str, Term]:
        custom = {term.name: term for term in self.terms}
        return Registry(TERMS.group, {**dict(TERMS.items()), **custom})

    def term(self, name: str) -> Term:
        """Term of one of the weights, by name."""
        return self._known[name]

    @property
    def of_survival(self) -> bool:
        """True if a term is one of survival, so that a fallen member may wait."""
        return any(self.term(name).measure is None for name in self.weights)

    @property
    def ends_with_a_fall(self) -> bool:
        """True if no term depends on the motion after a fall."""
        survival = [self.term(name).measure is None for name in self.weights]
        return any(survival) and (all(survival) or not self.to_the_end)

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures that a rollout must fold for the terms."""
        terms = {name: self.term(name).measure for name in self.weights}
        return {name: measure(model) for name, measure in terms.items() if measure is not None}

    def parts(self, folded: Mapping[str, Array]) -> dict[str, Array]:
        """Raw terms in their units, from folded measures."""
        return {name: self.term(name).value(folded[name]) for name in self.weights}

    def total(self, parts: Mapping[str, Any]) -> Any:
        """Weighted sum of terms that are numbers, or arrays with one number a member."""
        return sum(self.weights[name] * parts[name] for name in self.weights)


OBJECTIVES = Registry(
    "jaxsim.objectives",
    {
        objective.name: objective
        for objective in (
            Objective(
                "athletic-kip-up",
                5.0,
                {
                    "time": 1.0,
                    "height": 10.0,
                    "airborne": 10.0,
                    "energy": 1 / 50000,
                    "skid": 10.0,
                    "final_state": 1.0,
                },
                "height and time in the air, time until it stands, effort, weighed (section 5.3.1)",
            ),
            Objective(
                "quick-prone-to-stand",
                6.0,
                {
                    "time": 1.0,
                    "energy": 1 / 50000,
                    "contactless": 10000.0,
                    "skid_standing": 100.0,
                    "final_state": 1.0,
                },
                "time until it stands and effort, weighed, never in flight (section 5.3.2)",
            ),
            Objective(
                "quick-rise",
                3.0,
                {"time": 1.0, "energy": 1 / 50000, "skid": 10.0, "final_state": 1.0},
                "time until it stands, effort and skidding feet, weighed: for rising from a chair",
            ),
            Objective(
                "stand",
                6.0,
                {
                    "time": 1.0,
                    "shortfall": 10.0,
                    "unrest": 0.01,
                    "energy": 1e-6,
                    "final_state": 0.01,
                },
                "end standing and still: for scripts that do not yet succeed",
            ),
            Objective(
                "stand-over-feet",
                6.0,
                {
                    "time": 1.0,
                    "shortfall": 10.0,
                    "imbalance": 5.0,
                    "contactless": 10.0,
                    "unrest": 0.01,
                    "energy": 1e-6,
                    "final_state": 0.01,
                },
                "end standing and still, on the way with the weight over the feet, never in flight",
            ),
            Objective("survive", 4.7, {"fallen": 1.0, "toppled": 0.0}, "stand as long as it can"),
            Objective("capture", 0.55, {"strayed": 1.0}, "keep the capture point between the feet"),
            Objective(
                "follow-clip",
                4.0,
                {"clip_error": 1.0},
                "move as the clip of [controller.clip]: weights learned from a motion",
            ),
        )
    },
)


def objective(name: str) -> Objective:
    """Objective by name; KeyError lists the names."""
    if name not in OBJECTIVES:
        raise KeyError(f"no objective {name!r}; choose from: {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def user_objective(what: Any, text: str | None = None) -> tuple[Objective, str | None]:
    """Objective of a user, and the text of the file that defines it, if any.

    what: an Objective, a Term, a function of a sample (its integral over time counts), a name, or
    "my_file.py:name" of one of these. text: of the file, where it was saved.

    Raises KeyError for an unknown name, ValueError for a file that holds no such thing,
    FileNotFoundError where there is none.
    """
    if isinstance(what, str) and FILE in what:
        inside, text = in_file(what, text)
        return user_objective(inside)[0], text
    if isinstance(what, Objective):
        return what, text
    if isinstance(what, str):
        return objective(what), text
    what = as_term(what)
    if isinstance(what, Term):
        return Objective(what.name, 5.0, {what.name: 1.0}, terms=(what,)), text
    raise TypeError(
        f"objective is {what!r}; give a name, an Objective, a Term or a function of a sample"
    )


def in_file(name_in_file: str, text: str | None = None) -> tuple[Any, str]:
    """Object that "my_file.py:name" names, and the text of the file.

    Raises as ``user_objective``.
    """
    file, _, name = name_in_file.rpartition(":")
    path = Path(file)
    if text is None and not path.is_file():
        raise FileNotFoundError(f"there is no file {file}; give FILE.py:NAME")
    module = run_file(path, text)
    return found_in(module, name), path.read_text("utf-8") if text is None else text


def as_term(what: Any) -> Any:
    """Term of the integral over time of a function of a sample; other arguments are returned."""
    if isinstance(what, (Term, Objective)) or not callable(what):
        return what
    rate: Any = what
    meaning = " ".join((what.__doc__ or "").split("\n\n")[0].split())
    return Term(getattr(what, "__name__", "term"), "s", lambda model: total(rate), meaning=meaning)
