"""Goals of scenario files: ``[[controller.goal]]``, by kind, and how strong a goal is.

A kind registers with one entry of ``GOALS``: a class that declares the keys, and makes the goal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from controllers.goals import tasks
from controllers.goals.everyday import look_at, wave
from controllers.goals.machine import GoalMachine
from controllers.goals.paths import COM, adding_path, path_of
from controllers.goals.response import Response
from controllers.goals.sitting import DOWN, adding_seat, seat_points
from controllers.goals.step_to import STRIDE, adding_step
from controllers.goals.tasks import Goal
from jaxsim.characters.standing import effectors_of
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table, suggestion
from jaxsim.model import Model
from jaxsim.model.roles import FEET, HANDS, Point
from jaxsim.options import REQUIRED, option
from jaxsim.plugins import Registry

WEIGHT, ONSET = 2.0, 0.3  # of a goal to reach: its weight, and the time until it has that [s]


def _weight(meaning: str, shown: str) -> Any:
    return option(None, meaning, shown=shown, kind=float, above=0.0)


def _time(shown: str) -> Any:
    return option(
        None,
        "in the place of `weight`: [time constant](../guides/goals.md#how-fast-how-firmly) of the"
        " error",
        unit="s",
        shown=shown,
        kind=float,
        above=0.0,
    )


def _priority(shown: float) -> Any:
    return option(None, "with `time`: priority", shown=f"{shown:g}", kind=float, above=0.0)


@dataclass(frozen=True, kw_only=True)
class StrengthKeys(Keys):
    """Weight of a goal, or its response."""

    weight: float | None = _weight("weight of the goal", f"{WEIGHT:g}")
    time: float | None = _time("none")
    priority: float | None = _priority(Response.priority)

    @property
    def strength(self) -> float | Response:
        """Weight, or response. Raises WorldError where both are given, or a priority alone."""
        if self.time is None and self.priority is None:
            return self.weight or WEIGHT
        self.refuse("weight")
        return Response(self.table.number("time", above=0.0), self.priority or Response.priority)

    def strength_or(self, default: Response) -> float | Response:
        """Weight, or response; ``default`` gives what the file leaves out.

        Raises WorldError where both are given.
        """
        if self.time is None and self.priority is None:
            return self.weight or default
        self.refuse("weight")
        return Response(self.time or default.time, self.priority or default.priority)

    def refuse(self, key: str) -> None:
        """Raise WorldError for a key that contradicts ``time`` and ``priority``."""
        if self.table.has(key):
            message = "goes with no time and priority; give one or the other"
            raise self.table.error(message, key)


@dataclass(frozen=True, kw_only=True)
class GoalTable(StrengthKeys):
    """Goal of a kind; ``name`` is its label among the numbers: ``balance.NAME``."""

    name: str | None = option(
        None, "label of its weight, `balance.NAME`", shown="the kind", kind=str
    )

    def goal(self, name: str, model: Model) -> Goal:
        """Goal for a model. Raises WorldError where the table does not fit it."""
        raise NotImplementedError

    def add_to(self, machine: GoalMachine, name: str, model: Model) -> GoalMachine:
        """Machine with the goal in all states. Raises WorldError or ValueError.

        A kind that adds states of its own has this in the place of ``goal``.
        """
        return machine.adding(self.goal(name, model), self.strength)

    def points(self, model: Model) -> tuple[Point, ...]:
        """Effectors that the goal needs besides those of the character."""
        return ()


@dataclass(frozen=True, kw_only=True)
class LookAtKeys(GoalTable):
    """Head, or another link, that looks at a point."""

    place: tuple = option(REQUIRED, "point to look at", unit="m", kind=tuple)
    link: str = option("head", "link, or role, that looks there")

    def goal(self, name: str, model: Model) -> Goal:
        part_of(self.table, "link", self.link, model)
        return look_at(self.place, self.link, name)


@dataclass(frozen=True, kw_only=True)
class WaveKeys(GoalTable):
    """Hand that waves beside its shoulder."""

    hand: str = option("rightHand", "hand that waves", choices=HANDS)
    frequency: float = option(1.0, "waves a second", unit="Hz", above=0.0)
    start: float = option(0.0, "when it begins", unit="s")
    end: float = option(np.inf, "when it ends", unit="s", shown="never")

    def goal(self, name: str, model: Model) -> Goal:
        return wave(self.hand, self.frequency, self.start, self.end, name)


@dataclass(frozen=True, kw_only=True)
class UprightKeys(GoalTable):
    """Link that stays upright."""

    link: str = option("chest", "link, or role, to keep upright")

    def goal(self, name: str, model: Model) -> Goal:
        part_of(self.table, "link", self.link, model)
        upright = tasks.upright(self.link)
        return Goal(name, upright.unit, upright.rows)


@dataclass(frozen=True, kw_only=True)
class PoseKeys(GoalTable):
    """Hinges at angles."""

    angles: Table = option(REQUIRED, "hinge = angle", unit="deg", kind=dict)

    def goal(self, name: str, model: Model) -> Goal:
        joints = tuple(self.angles.keys())
        if not joints:
            raise self.table.error("give at least one hinge with its angle", "angles")
        top = model.topology
        hinges = [n for n, kind in zip(top.joint_names, top.joint_kinds) if kind == "hinge"]
        for joint in joints:
            if joint not in hinges:
                raise self.angles.error(
                    f"there is no hinge {joint!r}{suggestion(joint, hinges)}", joint
                )
        angles = np.deg2rad([self.angles.number(joint) for joint in joints])
        return tasks.pose(name, joints, lambda *_: jnp.asarray(angles))


@dataclass(frozen=True, kw_only=True)
class ComKeys(GoalTable):
    """Centre of mass over a point of the ground."""

    place: tuple = option(REQUIRED, "point of the ground", unit="m", kind=tuple, size=2)

    def goal(self, name: str, model: Model) -> Goal:
        return tasks.com_over(name, lambda *_: jnp.asarray(self.place))


@dataclass(frozen=True, kw_only=True)
class AngularMomentumKeys(GoalTable):
    """Angular momentum about the centre of mass."""

    momentum: tuple = option((0.0, 0.0, 0.0), "that the body is to have", unit="N m s")

    def goal(self, name: str, model: Model) -> Goal:
        return tasks.angular_momentum(name, lambda *_: jnp.asarray(self.momentum))


@dataclass(frozen=True, kw_only=True)
class PathKeys(GoalTable):
    """Foot, hand or centre of mass on a path, from its first point until `end`."""

    effector: str = option(REQUIRED, f'foot, hand or other effector, or `"{COM}"`', kind=str)
    points: Any = option(
        REQUIRED,
        "points with their times, on straight lines between them",
        unit="s, m",
        kind=object,
        values="list of [time, x, y, z]",
    )
    end: float | None = option(
        None, "when it ends", unit="s", shown="the last time", kind=float, above=0.0
    )

    def add_to(self, machine: GoalMachine, name: str, model: Model) -> GoalMachine:
        known = [*effectors_of(model).group_names, COM]
        if self.effector not in known:
            raise self.table.error(
                f"there is no effector {self.effector!r}{suggestion(self.effector, known)}; there"
                f" are {', '.join(known)}",
                "effector",
            )
        try:
            path = path_of(self.effector, self.points, self.end)
        except ValueError as error:
            raise self.table.error(str(error), "points") from error
        return adding_path(machine, path, name, self.strength)


@dataclass(frozen=True, kw_only=True)
class StepToKeys(GoalTable):
    """Foot that takes one step to a mark on the ground; the controller is `balance`.

    `weight`, `time` and `priority` are of the foot on its way, as `toMark.NAME`.
    """

    weight: float | None = _weight("weight of the foot on its way", "none")
    time: float | None = _time(f"{STRIDE.time:g}")
    priority: float | None = _priority(STRIDE.priority)
    name: str | None = option(
        None, "label of its response, `toMark.NAME.time`", shown="the kind", kind=str
    )
    foot: str = option(REQUIRED, "foot that steps", kind=str, choices=FEET)
    place: tuple = option(REQUIRED, "mark on the ground", unit="m", kind=tuple, size=2)
    start: float = option(0.5, "when it begins", unit="s", least=0.0)

    def add_to(self, machine: GoalMachine, name: str, model: Model) -> GoalMachine:
        stride = self.strength_or(STRIDE)
        return adding_step(machine, self.foot, self.place, self.start, name, stride)


@dataclass(frozen=True, kw_only=True)
class SitKeys(GoalTable):
    """Seat that goes down onto a chair; the controller is `balance`.

    `weight`, `time` and `priority` are of the seat on its way, as `lower.NAME`.
    """

    weight: float | None = _weight("weight of the seat on its way", "none")
    time: float | None = _time(f"{DOWN.time:g}")
    priority: float | None = _priority(DOWN.priority)
    name: str | None = option(
        None, "label of its response, `lower.NAME.time`", shown="the kind", kind=str
    )
    place: tuple = option(
        REQUIRED, "where the middle of the seat goes: on top of a chair", unit="m", kind=tuple
    )
    start: float = option(0.5, "when it begins", unit="s", least=0.0)

    def add_to(self, machine: GoalMachine, name: str, model: Model) -> GoalMachine:
        return adding_seat(machine, self.place, self.start, name, self.strength_or(DOWN))

    def points(self, model: Model) -> tuple[Point, ...]:
        return seat_points(model)


GOALS: dict[str, type[GoalTable]] = Registry(
    "jaxsim.goals",
    {
        "look_at": LookAtKeys,
        "wave": WaveKeys,
        "upright": UprightKeys,
        "pose": PoseKeys,
        "com": ComKeys,
        "angular_momentum": AngularMomentumKeys,
        "path": PathKeys,
        "step_to": StepToKeys,
        "sit": SitKeys,
    },
)


def part_of(table: Table, key: str, name: str, model: Model) -> int:
    """Index of a link by name or role. Raises WorldError for an unknown one."""
    try:
        return model.topology.part(name)
    except KeyError as error:
        raise table.error(str(error.args[0]), key) from error


def with_goals(machine: GoalMachine, tables: Sequence[GoalTable], model: Model) -> GoalMachine:
    """Machine with the goals of tables added. Raises WorldError for a name given twice."""
    for each in tables:
        name = each.name or each.table.text("kind")
        if name in (goal.name for goal in machine.goals):
            raise each.table.error(f"there is a goal {name!r} already; give another name", "name")
        try:
            machine = each.add_to(machine, name, model)
        except ValueError as error:
            if each.table.file in str(error):
                raise
            raise each.table.error(str(error)) from error
    return machine
