"""Pins of a goal machine: effectors that stay in place for a while.

Source: Jain, Ye, Liu (2009), section 4.2: a grip may push and pull in any direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.synthesis.config import Units
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.tasks import TaskRows, position_rows, stack_rows


@dataclass(frozen=True)
class EffectorConstraint:
    """Pin: an effector stays where it was at ``start`` until ``end`` [s], with unlimited force.

    Raises ValueError for times that are no interval.
    """

    effector: str
    start: float
    end: float

    def __post_init__(self):
        if not (np.isfinite(self.start) and self.start < self.end):
            raise ValueError(
                f"hold of {self.effector!r}: from {self.start:g} to {self.end:g} s is no interval"
            )


def check_constraints(constraints: Sequence[EffectorConstraint]) -> None:
    """Raise ValueError for an effector with two pins at once, which no solution satisfies."""
    for k, later in enumerate(constraints):
        for earlier in constraints[:k]:
            if earlier.effector == later.effector and at_once(earlier, later):
                raise ValueError(
                    f"two holds of {later.effector!r}: {_times(earlier)} and {_times(later)};"
                    " let one end before the other begins"
                )


def at_once(a, b) -> bool:
    """True if two intervals, from ``start`` to ``end``, overlap."""
    return a.start < b.end and b.start < a.end


def _times(one: EffectorConstraint) -> str:
    return f"from {one.start:g} to {one.end:g} s"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConstraintMemory:
    """Memory of the pins: which are active, and where."""

    on: Array  # (nh,) bool
    place: Array  # (nh, 3) where the effector is held, or now is [m]


def constraints_now(
    constraints: Sequence[EffectorConstraint],
    obs: EffectorObservation,
    before: ConstraintMemory | None,
) -> ConstraintMemory:
    """Memory of the pins at this step: active ones keep their place.

    Raises ValueError for an effector that the body lacks.
    """
    begun = jnp.array([one.start for one in constraints]) <= obs.time
    on = begun & (obs.time < jnp.array([one.end for one in constraints]))
    place = obs.conf.position[_effectors(constraints, obs.conf)]
    if before is not None:
        place = jnp.where((on & before.on)[:, None], before.place, place)
    return ConstraintMemory(on, place)


def constraint_rows(
    constraints: Sequence[EffectorConstraint],
    memory: ConstraintMemory,
    conf: Configuration,
    at_v: Array,
    unit: Units,
    dt: Array | float,
) -> tuple[TaskRows, Array]:
    """Equations (3 nh rows, zeros for an inactive pin), and the mask (ne,) of pinned effectors."""
    parts, grips = [], jnp.zeros(conf.effectors.count, bool)
    for k, at in enumerate(_effectors(constraints, conf)):
        scale = jnp.where(memory.on[k], 1.0, 0.0) / unit.contact
        error = conf.position[at] - memory.place[k]
        parts.append(position_rows(conf, error, conf.jacobian[at], at_v, scale, dt))
        grips = grips.at[at].set(grips[at] | memory.on[k])
    return stack_rows(*parts), grips


def _effectors(constraints: Sequence[EffectorConstraint], conf: Configuration) -> np.ndarray:
    names = conf.effectors.names
    for one in constraints:
        if one.effector not in names:
            raise ValueError(f"hold: no effector {one.effector!r}; there are {', '.join(names)}")
    return np.array([names.index(one.effector) for one in constraints], int)
