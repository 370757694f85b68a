"""Machine that sits down: a seat that carries load, and goals that lower it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.balance import SOLE, Gait, no_step, sole_down
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.sensors import support_center
from controllers.goals.tasks import Goal
from jaxsim.dynamics.effectors import Effectors, effectors
from jaxsim.model import Model
from jaxsim.model.roles import FEET, THIGHS
from jaxsim.synthesis.observation import EffectorObservation

SEAT = "seat"  # the group of points that sit
ALONG = {"Back": -0.5, "Front": 0.2}  # of a thigh, where they are: -1 the hip, 1 the knee
DOWN = Response(1.0, 100.0)  # of the seat on its way
OVER = Response(0.3, 30.0)  # of the centre of mass, over the ankles
BACK = Response(1.0, 30.0)  # of the same, on its way between seat and feet


def seated_effectors(model: Model) -> Effectors:
    """Effectors of the character, and two points below either thigh, in the group ``SEAT``.

    Raises ModelError for a body without thighs.
    """
    top = model.topology
    top.require("a seat", *FEET, *THIGHS)
    shapes = [top.shape_names[top.shape_link.index(top.part(name))] for name in THIGHS]
    seat = [
        (f"{name}{where}", SEAT, shape, (along, 0.0, -1.0))
        for name, shape in zip(THIGHS, shapes)
        for where, along in ALONG.items()
    ]
    return effectors(model, (*top.roles.points, *seat))


def sit(place: Sequence[float], start: float = 0.5) -> GoalMachine:
    """Machine that stands, and sits down from ``start`` [s] on.

    The middle of the seat goes to ``place`` (3,) [m], on top of a chair; the centre of mass stays
    over the feet until the chair carries load (``lower``), and then comes between seat and feet
    (``sit``).

    For a scheme whose effectors are ``seated_effectors(model)``. Raises ValueError for a place of
    other than three finite numbers.
    """
    where = np.asarray(place, float)
    if where.shape != (3,) or not np.isfinite(where).all():
        raise ValueError(f"place is {place!r}; give three finite numbers [m]")

    def bears(obs: EffectorObservation) -> Array:
        return (obs.touching & obs.group(SEAT)).any()

    def under(obs: EffectorObservation, _: Any) -> Array:
        conf = obs.conf
        ankles = [conf.kin.link_pos[conf.link(name)][:2] for name in FEET]
        middle = (ankles[0] + ankles[1]) / 2
        return jnp.where(bears(obs), support_center(obs, obs.touching), middle)

    upright = {"com": OVER, "damping": 0.5, "sole": SOLE}
    return GoalMachine(
        goals=(
            goals.com_over("com", under),
            goals.upright("chest"),
            goals.damping(),
            sole_down(),
            _seat_to(where),
        ),
        states={
            "stand": GoalState({**upright, "spine": 70.0}, lambda obs, _: obs.time < start),
            "lower": GoalState({**upright, "spine": 1.0, "seat": DOWN}, lambda obs, _: ~bears(obs)),
            "sit": GoalState(
                {**upright, "com": BACK, "spine": 70.0, "seat": DOWN},
                lambda obs, _: jnp.asarray(True),
            ),
        },
        transitions={"stand": ("lower",), "lower": ("sit",)},
        variables=no_step(Gait()),
    )


def _seat_to(where: np.ndarray) -> Goal:
    """Middle of the seat at a place (3,) [m]."""

    def rows(obs: EffectorObservation, _: Any):
        own = jnp.asarray(obs.group(SEAT) / obs.group(SEAT).sum(), obs.conf.q.dtype)
        return own @ obs.conf.position - where, jnp.einsum("e,eij->ij", own, obs.conf.jacobian)

    return Goal("seat", "limb", rows)
