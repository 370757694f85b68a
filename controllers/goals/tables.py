"""Goals of scenario files: ``[[controller.goal]]``, by kind, and how strong a goal is.

A kind registers with one entry of ``GOALS``: a class that declares the keys, and makes the goal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from controllers.goals import tasks
from controllers.goals.everyday import look_at, wave
from controllers.goals.response import Response
from controllers.goals.tasks import Goal
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table, suggestion
from jaxsim.model import Model
from jaxsim.model.roles import HANDS
from jaxsim.options import REQUIRED, option
from jaxsim.plugins import Registry

WEIGHT, ONSET = 2.0, 0.3  # of a goal to reach: its weight, and the time until it has that [s]


@dataclass(frozen=True, kw_only=True)
class StrengthKeys(Keys):
    """Weight of a goal, or its response."""

    weight: float | None = option(
        None, "weight of the goal", shown=f"{WEIGHT:g}", kind=float, above=0.0
    )
    time: float | None = option(
        None,
        "in the place of `weight`: [time constant](../guides/goals.md#how-fast-how-firmly) of the"
        " error",
        unit="s",
        kind=float,
        above=0.0,
    )
    priority: float | None = option(
        None, "with `time`: priority", shown=f"{Response.priority:g}", kind=float, above=0.0
    )

    @property
    def strength(self) -> float | Response:
        """Weight, or response. Raises WorldError where both are given, or a priority alone."""
        if self.time is None and self.priority is None:
            return self.weight or WEIGHT
        self.refuse("weight")
        return Response(self.table.number("time", above=0.0), self.priority or Response.priority)

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


GOALS: dict[str, type[GoalTable]] = Registry(
    "jaxsim.goals",
    {
        "look_at": LookAtKeys,
        "wave": WaveKeys,
        "upright": UprightKeys,
        "pose": PoseKeys,
        "com": ComKeys,
    },
)


def part_of(table: Table, key: str, name: str, model: Model) -> int:
    """Index of a link by name or role. Raises WorldError for an unknown one."""
    try:
        return model.topology.part(name)
    except KeyError as error:
        raise table.error(str(error.args[0]), key) from error


def named_goals(tables: Sequence[GoalTable], taken: Sequence[str], model: Model) -> list[tuple]:
    """(goal, weight or response) of each table. Raises WorldError for a name given twice."""
    goals, names = [], list(taken)
    for each in tables:
        name = each.name or each.table.text("kind")
        if name in names:
            raise each.table.error(f"there is a goal {name!r} already; give another name", "name")
        names.append(name)
        try:
            goals.append((each.goal(name, model), each.strength))
        except ValueError as error:
            if each.table.file in str(error):
                raise
            raise each.table.error(str(error)) from error
    return goals
