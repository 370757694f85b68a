"""A step on purpose: a foot to a mark, then balance on both."""

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import (
    SOLE,
    SWINGS,
    Gait,
    Step,
    balance_machine,
    bearing_feet,
    com_ahead,
    com_is_supported,
    foot,
    foot_is_loaded,
    foot_is_under_way,
    foot_to_place,
    step_time,
)
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.sensors import support_margin
from controllers.goals.tasks import Goal, com_over
from jaxsim.math.safe import safe_norm
from jaxsim.model.roles import FEET
from jaxsim.synthesis.observation import EffectorObservation

NEAR = 0.03  # a foot that stands so near to its mark is there [m]
OVER = 0.03  # the centre of mass is over a foot's middle [m]
SLOWER = 1.5  # than a protective step, see ``Gait.time``
LEAN = Response(0.5, 3.0)  # of the centre of mass on its way over the other foot
PRESSED = 0.02  # a foot that is put down is sent so far below the ground, see ``Gait.sunk``
STRIDE = Response(0.25, 10.0)  # of the foot on its way


def step_to(
    foot_name: str, place: Sequence[float], start: float = 0.5, gait: Gait | None = None
) -> GoalMachine:
    """The balance machine with a step on purpose: from ``start`` [s] on, until the middle of the
    foot's heel and ball is within ``NEAR`` of a mark ``place`` (2,) of the ground [m].

    The centre of mass goes over the other foot (``shift``), this one is relieved (``lift``), goes
    to the mark (``toMark``) and is put down; ``settle`` brings the centre of mass between both.
    Whoever loses balance meanwhile takes protective steps, and then tries again. ValueError for a
    foot that is none, and for a mark of other than two finite numbers.
    """
    if foot_name not in FEET:
        raise ValueError(f"foot is {foot_name!r}; choose from {', '.join(FEET)}")
    mark = np.asarray(place, float)
    if mark.shape != (2,) or not np.isfinite(mark).all():
        raise ValueError(f"place is {place!r}; give two finite numbers on the ground [m]")
    which = FEET.index(foot_name)

    def away(obs: EffectorObservation) -> Array:
        return safe_norm(sole_middle(obs, foot_name) - mark)

    def due(obs: EffectorObservation) -> Array:
        return (obs.time >= start) & (away(obs) > NEAR)

    def begin(obs: EffectorObservation, step: Step) -> Step:
        return replace(step, swing=jnp.full_like(step.swing, which), stepping=jnp.asarray(False))

    def stance(obs: EffectorObservation, step: Step) -> Array:
        return obs.place(foot(obs, 1 - step.swing))[:2]

    def not_over(obs: EffectorObservation, step: Step) -> Array:
        far = safe_norm(obs.conf.com[:2] - stance(obs, step)) > OVER
        return due(obs) & com_is_supported(obs, step) & far

    def loaded(obs: EffectorObservation, step: Step) -> Array:
        return due(obs) & foot_is_loaded(obs, step) & com_is_supported(obs, step)

    def lift(obs: EffectorObservation, step: Step) -> Step:
        begun = replace(begin(obs, step), begun=obs.time, stepping=jnp.asarray(True))
        return replace(begun, placing=jnp.asarray(False), place=jnp.asarray(mark, step.place.dtype))

    def watch(obs: EffectorObservation, step: Step) -> Step:
        late = obs.time - step.begun > SLOWER * step_time(obs, step)
        return replace(step, placing=step.placing | late | (away(obs) < NEAR / 3))

    def on_one_foot(obs: EffectorObservation, step: Step) -> Array:
        bears = bearing_feet(obs, step)
        kept = support_margin(obs, bears, com_ahead(obs)) >= step.gait.margin * obs.height
        return foot_is_under_way(obs, step) & kept

    def settles(obs: EffectorObservation, step: Step) -> Array:
        inside = com_is_supported(obs, replace(step, stepping=jnp.asarray(True)))
        return com_is_supported(obs, step) & ~inside

    machine, upright = (
        balance_machine(gait or Gait()),
        {"spine": 70.0, "damping": 0.5, "sole": SOLE},
    )
    stays = machine.states["balance"].condition
    over = {**upright, "over": LEAN}
    added = com_over("over", stance), _foot_to_mark()
    states = {
        **machine.states,
        "balance": replace(
            machine.states["balance"], condition=lambda obs, step: stays(obs, step) & ~due(obs)
        ),
        "shift": GoalState(over, not_over, begin),
        "lift": GoalState({**over, "relax": 1.0}, loaded, begin),
        "toMark": GoalState(
            {**over, "mark": STRIDE, "relax": SWINGS},
            on_one_foot,
            lift,
            watch,
            lambda obs, step: foot(obs, step.swing),
        ),
        "settle": GoalState({**upright, "com": 5.0}, settles, begin),
    }
    transitions = {
        **machine.transitions,
        "balance": ("shift", "lift", "relaxFoot"),
        "shift": ("lift", "relaxFoot"),
        "lift": ("toMark", "relaxFoot"),
        "toMark": ("settle", "balance", "takeStep"),
        "settle": ("balance", "relaxFoot"),
    }
    goals = (*machine.goals, *added)
    return replace(machine, goals=goals, states=states, transitions=transitions)


def _foot_to_mark() -> Goal:
    """As a protective step's foot goes, but put down gently."""
    to_place = foot_to_place()

    def rows(obs: EffectorObservation, step: Step):
        return to_place.rows(obs, replace(step, gait=replace(step.gait, sunk=PRESSED)))

    return replace(to_place, name="mark", rows=rows)


def sole_middle(obs: EffectorObservation, foot_name: str) -> Array:
    """(2,) between a foot's heel and ball [m]."""
    names = obs.conf.effectors.names
    ends = [
        obs.place(np.array([name.startswith(f"{foot_name}{end}") for name in names]))
        for end in ("Heel", "Ball")
    ]
    return (ends[0][:2] + ends[1][:2]) / 2
