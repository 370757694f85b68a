"""Machine with an intentional step: a foot to a mark, then balance on both feet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import (
    SWINGS,
    Gait,
    StepState,
    balance_machine,
    bearing_feet,
    check_balances,
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
    """Balance machine with an intentional step of one foot to a mark.

    From ``start`` [s] on, until the middle of the foot's heel and ball is within ``NEAR`` of the
    mark ``place`` (2,) on the ground [m]. The centre of mass goes over the other foot (``shift``),
    the foot is unloaded (``lift``), goes to the mark (``toMark``) and is set down; ``settle``
    brings the centre of mass between both. A character that loses balance meanwhile takes
    protective steps, and then tries again. Raises ValueError for an unknown foot, and for a mark of
    other than two finite numbers.
    """
    return adding_step(balance_machine(gait or Gait()), foot_name, place, start)


def adding_step(
    machine: GoalMachine,
    foot_name: str,
    place: Sequence[float],
    start: float = 0.5,
    name: str = "mark",
    stride: float | Response = STRIDE,
) -> GoalMachine:
    """Balance machine with the states of ``step_to`` added; they have its other goals, too.

    name: of the goal of the foot on its way, stride: its weight or response. Raises ValueError for
    a machine without the states of a balance machine, or with those of a step to a mark.
    """
    purpose = _Purpose.of(foot_name, place, start)
    check_balances(machine, "a step to a mark", "toMark")
    balance = machine.states["balance"]
    over = {goal: weight for goal, weight in balance.goals.items() if goal != "com"}
    over["over"] = LEAN
    states = {
        **machine.states,
        "balance": replace(
            balance,
            condition=lambda obs, step: balance.condition(obs, step) & ~purpose.due(obs),
        ),
        "shift": GoalState(over, purpose.not_over, purpose.begin),
        "lift": GoalState({**over, "relax": 1.0}, purpose.loaded, purpose.begin),
        "toMark": GoalState(
            {**over, name: stride, "relax": SWINGS},
            purpose.on_one_foot,
            purpose.lift,
            purpose.watch,
            lambda obs, step: foot(obs, step.swing),
        ),
        "settle": GoalState(balance.goals, purpose.settles, purpose.begin),
    }
    transitions = {
        **machine.transitions,
        "balance": ("shift", "lift", *machine.transitions["balance"]),
        "shift": ("lift", "relaxFoot"),
        "lift": ("toMark", "relaxFoot"),
        "toMark": ("settle", "balance", "takeStep"),
        "settle": ("balance", "relaxFoot"),
    }
    goals = (*machine.goals, com_over("over", purpose.stance), _foot_to_mark(name))
    return replace(machine, goals=goals, states=states, transitions=transitions)


@dataclass(frozen=True)
class _Purpose:
    """Foot, mark and start of an intentional step; conditions and entries of its states."""

    foot_name: str
    mark: tuple[float, ...]  # on the ground [m]
    start: float  # [s]

    @classmethod
    def of(cls, foot_name: str, place: Sequence[float], start: float) -> "_Purpose":
        """Checked arguments of ``step_to``."""
        if foot_name not in FEET:
            raise ValueError(f"foot is {foot_name!r}; choose from {', '.join(FEET)}")
        mark = np.asarray(place, float)
        if mark.shape != (2,) or not np.isfinite(mark).all():
            raise ValueError(f"place is {place!r}; give two finite numbers on the ground [m]")
        return cls(foot_name, tuple(mark), start)

    def away(self, obs: EffectorObservation) -> Array:
        """Distance () of the foot from its mark [m]."""
        return safe_norm(sole_middle(obs, self.foot_name) - np.array(self.mark))

    def due(self, obs: EffectorObservation) -> Array:
        """True from the start on, while the foot is away from its mark."""
        return (obs.time >= self.start) & (self.away(obs) > NEAR)

    def begin(self, obs: EffectorObservation, step: StepState) -> StepState:
        """Select the foot of the intentional step."""
        swing = jnp.full_like(step.swing, FEET.index(self.foot_name))
        return replace(step, swing=swing, stepping=jnp.asarray(False))

    def stance(self, obs: EffectorObservation, step: StepState) -> Array:
        """Position (2,) of the other foot [m]."""
        return obs.place(foot(obs, 1 - step.swing))[:2]

    def not_over(self, obs: EffectorObservation, step: StepState) -> Array:
        """True until the centre of mass is over the other foot."""
        far = safe_norm(obs.conf.com[:2] - self.stance(obs, step)) > OVER
        return self.due(obs) & com_is_supported(obs, step) & far

    def loaded(self, obs: EffectorObservation, step: StepState) -> Array:
        """True while the foot of the step carries load."""
        return self.due(obs) & foot_is_loaded(obs, step) & com_is_supported(obs, step)

    def lift(self, obs: EffectorObservation, step: StepState) -> StepState:
        """Enter ``toMark``: the foot lifts off."""
        begun = replace(self.begin(obs, step), begun=obs.time, stepping=jnp.asarray(True))
        place = jnp.asarray(self.mark, step.place.dtype)
        return replace(begun, placing=jnp.asarray(False), place=place)

    def watch(self, obs: EffectorObservation, step: StepState) -> StepState:
        """Set the foot down at its mark, or when it takes too long."""
        late = obs.time - step.begun > SLOWER * step_time(obs, step)
        return replace(step, placing=step.placing | late | (self.away(obs) < NEAR / 3))

    def on_one_foot(self, obs: EffectorObservation, step: StepState) -> Array:
        """True while the foot is under way, and the other one keeps the balance."""
        bears = bearing_feet(obs, step)
        kept = support_margin(obs, bears, com_ahead(obs)) >= step.gait.margin * obs.height
        return foot_is_under_way(obs, step) & kept

    def settles(self, obs: EffectorObservation, step: StepState) -> Array:
        """True while the centre of mass is supported, but not as far inside as a step requires."""
        inside = com_is_supported(obs, replace(step, stepping=jnp.asarray(True)))
        return com_is_supported(obs, step) & ~inside


def _foot_to_mark(name: str) -> Goal:
    """Goal of a protective step's foot, with a gentler landing."""
    to_place = foot_to_place()

    def rows(obs: EffectorObservation, step: StepState):
        return to_place.rows(obs, replace(step, gait=replace(step.gait, sunk=PRESSED)))

    return replace(to_place, name=name, rows=rows)


def sole_middle(obs: EffectorObservation, foot_name: str) -> Array:
    """Midpoint (2,) of a foot's heel and ball [m]."""
    names = obs.conf.effectors.names
    ends = [
        obs.place(np.array([name.startswith(f"{foot_name}{end}") for name in names]))
        for end in ("Heel", "Ball")
    ]
    return (ends[0][:2] + ends[1][:2]) / 2
