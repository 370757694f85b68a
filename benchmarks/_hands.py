"""Impulses that hands take from parts of the world, as terms of an objective."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from jaxsim.collision.slots import contact_slots
from jaxsim.model import Model
from jaxsim.model.roles import HANDS
from jaxsim.simulation.measures import Measure, total
from optimize.compatibility.question import Question
from optimize.running.objectives import Term


def taken_from(shape: str) -> Term:
    """Impulse that both hands take from a shape of the world, by its name."""

    def measure(model: Model) -> Measure:
        top = model.topology
        top.require("the impulse of the hands", *HANDS)
        slots = contact_slots(top)
        here = np.isin(slots.link_a, top.parts(HANDS)) & (slots.shape_b == top.shape(shape))
        return total(lambda s: jnp.linalg.norm(s.info.contact_force[here], axis=-1).sum())

    return Term(f"hands on {shape}", "N s", measure)


def with_hands(question: Question, *shapes: str) -> Question:
    """The same question, whose problem also tells what the hands take from these shapes."""
    terms = tuple(taken_from(shape) for shape in shapes)
    asked = question.problem.objective
    weights = {**asked.weights, **{term.name: 0.0 for term in terms}}
    objective = replace(asked, weights=weights, terms=(*asked.terms, *terms))
    return replace(question, problem=replace(question.problem, objective=objective))
