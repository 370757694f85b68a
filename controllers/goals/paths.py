"""Goal on a path: an effector, a foot or the centre of mass goes through points at their times.

A foot or hand on its path need not stay where it touches; the other foot has to carry the body
meanwhile, see ``one_foot`` and ``step_to`` for machines that see to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.response import Response
from controllers.goals.tasks import Goal
from jaxsim.synthesis.observation import EffectorObservation

COM = "com"  # what follows a path is the centre of mass


@dataclass(frozen=True)
class GoalPath:
    """Points that a part of the body passes at given times, on straight lines between them.

    what: a foot, hand or other group of effectors, whose middle follows, or ``COM``. The path lasts
    from the first time until ``end`` [s], the last time by default; after the last one it stays at
    its last point. Raises ValueError for fewer than two points, for times that do not increase, and
    for an end before the last time.
    """

    what: str
    points: tuple[tuple[float, float, float, float], ...]  # time [s], then the point [m]
    end: float | None = None  # [s]

    def __post_init__(self):
        rows = np.asarray(self.points, float)
        if rows.ndim != 2 or rows.shape[1] != 4 or len(rows) < 2 or not np.isfinite(rows).all():
            raise ValueError("a path has two points or more, [time, x, y, z] each")
        if not (np.diff(rows[:, 0]) > 0).all():
            raise ValueError("times of a path increase from each point to the next")
        if self.end is not None and not self.end >= rows[-1, 0]:
            raise ValueError(f"end is {self.end:g} s, before the last point at {rows[-1, 0]:g} s")

    def lasts(self, time: Array) -> Array:
        """() bool: the path has begun and is not over."""
        end = self.points[-1][0] if self.end is None else self.end
        return (time >= self.points[0][0]) & (time <= end)

    def at(self, time: Array) -> Array:
        """(3,) point of a time () [s]."""
        rows = jnp.asarray(self.points, jnp.result_type(time))
        return jnp.stack([jnp.interp(time, rows[:, 0], rows[:, k]) for k in (1, 2, 3)])

    def moves(self, obs: EffectorObservation) -> np.ndarray:
        """(ne,) bool: effectors on the path. Raises KeyError for a group that the body lacks."""
        if self.what == COM:
            return np.zeros(obs.conf.effectors.count, bool)
        return obs.group(self.what)


def along(name: str, path: GoalPath) -> Goal:
    """Goal on a path; it asks for nothing at other times."""

    def rows(obs: EffectorObservation, _: Any):
        conf = obs.conf
        if path.what == COM:
            place, J = conf.com, conf.com_jacobian
        else:
            on = path.moves(obs)
            part = jnp.asarray(on / on.sum(), conf.q.dtype)
            place, J = obs.place(on), jnp.einsum("e,eij->ij", part, conf.jacobian)
        now = jnp.where(path.lasts(obs.time), 1.0, 0.0).astype(conf.q.dtype)
        return now * (place - path.at(obs.time)), now * J

    return Goal(name, "com" if path.what == COM else "limb", rows)


def adding_path(
    machine: GoalMachine, path: GoalPath, name: str, strength: float | Response
) -> GoalMachine:
    """Machine with a path as a goal of all states; what is on the path lifts off."""

    def lifting(state: GoalState) -> Callable:
        def lifts(obs: EffectorObservation, memory: Any) -> Array:
            return state.lifts(obs, memory) | (path.lasts(obs.time) & path.moves(obs))

        return lifts

    machine = machine.adding(along(name, path), strength)
    states = {key: replace(state, lifts=lifting(state)) for key, state in machine.states.items()}
    return replace(machine, states=states)


def path_of(what: str, points: Sequence[Sequence[float]], end: float | None = None) -> GoalPath:
    """GoalPath from lists, as files have them. Raises ValueError as ``GoalPath`` does."""
    try:
        rows = tuple((float(t), float(x), float(y), float(z)) for t, x, y, z in points)
    except (TypeError, ValueError):
        raise ValueError("a path has two points or more, [time, x, y, z] each") from None
    return GoalPath(what, rows, end)
