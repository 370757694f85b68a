"""Machine that sits down: a seat that carries load, and goals that lower it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.balance import SOLE, Gait, check_balances, no_step, sole_down
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.sensors import support_center
from controllers.goals.tasks import Goal
from jaxsim.dynamics.effectors import Effectors, effectors
from jaxsim.model import Model
from jaxsim.model.roles import FEET, THIGHS, Point
from jaxsim.synthesis.observation import EffectorObservation

SEAT = "seat"  # the group of points that sit
ALONG = {"Back": -0.5, "Front": 0.2}  # of a thigh, where they are: -1 the hip, 1 the knee
DOWN = Response(1.0, 100.0)  # of the seat on its way
OVER = Response(0.3, 30.0)  # of the centre of mass, over the ankles
BACK = Response(1.0, 30.0)  # of the same, on its way between seat and feet


def seat_points(model: Model) -> tuple[Point, ...]:
    """Two points below either thigh, in the group ``SEAT``.

    Raises ModelError for a body without thighs.
    """
    top = model.topology
    top.require("a seat", *FEET, *THIGHS)
    shapes = [top.shape_names[top.shape_link.index(top.part(name))] for name in THIGHS]
    return tuple(
        (f"{name}{where}", SEAT, shape, (along, 0.0, -1.0))
        for name, shape in zip(THIGHS, shapes)
        for where, along in ALONG.items()
    )


def seated_effectors(model: Model) -> Effectors:
    """Effectors of the character, and the ``seat_points``. Raises ModelError as these do."""
    return effectors(model, (*model.topology.roles.points, *seat_points(model)))


def sit(place: Sequence[float], start: float = 0.5) -> GoalMachine:
    """Machine that stands, and sits down from ``start`` [s] on.

    The middle of the seat goes to ``place`` (3,) [m], on top of a chair; the centre of mass stays
    over the feet until the chair carries load (``lower``), and then comes between seat and feet
    (``sit``).

    For a scheme whose effectors are ``seated_effectors(model)``. Raises ValueError for a place of
    other than three finite numbers.
    """
    where = _checked(place)
    upright = {"com": OVER, "damping": 0.5, "sole": SOLE}
    return GoalMachine(
        goals=(
            goals.com_over("com", _under),
            goals.upright("chest"),
            goals.damping(),
            sole_down(),
            _seat_to("seat", where),
        ),
        states={
            "stand": GoalState({**upright, "spine": 70.0}, lambda obs, _: obs.time < start),
            "lower": GoalState(
                {**upright, "spine": 1.0, "seat": DOWN}, lambda obs, _: ~_is_loaded(obs)
            ),
            "sit": GoalState(
                {**upright, "com": BACK, "spine": 70.0, "seat": DOWN},
                lambda obs, _: jnp.asarray(True),
            ),
        },
        transitions={"stand": ("lower",), "lower": ("sit",)},
        variables=no_step(Gait()),
    )


def adding_seat(
    machine: GoalMachine,
    place: Sequence[float],
    start: float = 0.5,
    name: str = "seat",
    down: float | Response = DOWN,
) -> GoalMachine:
    """Balance machine that sits down from ``start`` [s] on, as ``sit`` does.

    The states ``lower`` and ``sit`` have the machine's other goals, too. name: of the goal of the
    seat, down: its weight or response. Raises ValueError for a place of other than three finite
    numbers, and for a machine without the states of a balance machine, or with those of a seat.
    """
    where = _checked(place)
    check_balances(machine, "a seat", "lower")
    balance = machine.states["balance"]
    spine = balance.goals["spine"]
    bent = replace(spine, priority=spine.priority / 70) if isinstance(spine, Response) else 1.0
    seated = {goal: weight for goal, weight in balance.goals.items() if goal != "com"}
    seated |= {"over_seat": BACK, name: down}

    def begun(obs: EffectorObservation) -> Array:
        return obs.time >= start

    states = {
        **machine.states,
        "balance": replace(
            balance, condition=lambda obs, step: balance.condition(obs, step) & ~begun(obs)
        ),
        "lower": GoalState(
            {**seated, "over_seat": OVER, "spine": bent},
            lambda obs, _: begun(obs) & ~_is_loaded(obs),
        ),
        "sit": GoalState(seated, lambda obs, _: begun(obs)),
    }
    transitions = {
        **machine.transitions,
        "balance": ("lower", *machine.transitions["balance"]),
        "lower": ("sit",),
    }
    added = goals.com_over("over_seat", _under), _seat_to(name, where)
    return replace(machine, goals=(*machine.goals, *added), states=states, transitions=transitions)


def _checked(place: Sequence[float]) -> np.ndarray:
    where = np.asarray(place, float)
    if where.shape != (3,) or not np.isfinite(where).all():
        raise ValueError(f"place is {place!r}; give three finite numbers [m]")
    return where


def _is_loaded(obs: EffectorObservation) -> Array:
    """True while the seat touches."""
    return (obs.touching & obs.group(SEAT)).any()


def _under(obs: EffectorObservation, _: Any) -> Array:
    """Point (2,) for the centre of mass: between the ankles, then between all that touches [m]."""
    conf = obs.conf
    ankles = [conf.kin.link_pos[conf.link(name)][:2] for name in FEET]
    middle = (ankles[0] + ankles[1]) / 2
    return jnp.where(_is_loaded(obs), support_center(obs, obs.touching), middle)


def _seat_to(name: str, where: np.ndarray) -> Goal:
    """Middle of the seat at a place (3,) [m]."""

    def rows(obs: EffectorObservation, _: Any):
        conf = obs.conf
        share = jnp.asarray(obs.group(SEAT) / obs.group(SEAT).sum(), conf.q.dtype)
        return share @ conf.position - where, jnp.einsum("e,eij->ij", share, conf.jacobian)

    return Goal(name, "limb", rows)
