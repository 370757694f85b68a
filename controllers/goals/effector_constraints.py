"""Constraints that a machine of goals keeps for a while: effectors that hold on.

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
from jaxsim.synthesis.tasks import TaskRows, position_rows, stacked


@dataclass(frozen=True)
class EffectorConstraint:
    """From time ``start`` until ``end`` [s] an effector stays where it was as that began, by
    whatever force it takes. ValueError for times that are no interval."""

    effector: str
    start: float
    end: float

    def __post_init__(self):
        if not (np.isfinite(self.start) and self.start < self.end):
            raise ValueError(
                f"hold of {self.effector!r}: from {self.start:g} to {self.end:g} s is no interval"
            )


def check_constraints(holds: Sequence[EffectorConstraint]) -> None:
    """ValueError for an effector that is to be in two places at once: nothing solves that."""
    for k, later in enumerate(holds):
        for earlier in holds[:k]:
            if earlier.effector == later.effector and at_once(earlier, later):
                raise ValueError(
                    f"two holds of {later.effector!r}: {_times(earlier)} and {_times(later)};"
                    " let one end before the other begins"
                )


def at_once(a, b) -> bool:
    """Whether two things from ``start`` to ``end`` overlap."""
    return a.start < b.end and b.start < a.end


def _times(hold: EffectorConstraint) -> str:
    return f"from {hold.start:g} to {hold.end:g} s"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConstraintMemory:
    """What is remembered of holds."""

    on: Array  # (nh,) bool
    place: Array  # (nh, 3) where the effector is held, or now is [m]


def constraints_now(
    holds: Sequence[EffectorConstraint], obs: EffectorObservation, before: ConstraintMemory | None
) -> ConstraintMemory:
    """Holds that have begun keep their place. ValueError for an effector that the body lacks."""
    begun = jnp.array([hold.start for hold in holds]) <= obs.time
    on = begun & (obs.time < jnp.array([hold.end for hold in holds]))
    place = obs.conf.position[_effectors(holds, obs.conf)]
    if before is not None:
        place = jnp.where((on & before.on)[:, None], before.place, place)
    return ConstraintMemory(on, place)


def constraint_rows(
    holds: Sequence[EffectorConstraint],
    held: ConstraintMemory,
    conf: Configuration,
    at_v: Array,
    unit: Units,
    dt: Array | float,
) -> tuple[TaskRows, Array]:
    """Equations (3 nh rows, zeros where a hold is off), and which effectors (ne,) bool hold on."""
    parts, grips = [], jnp.zeros(conf.effectors.count, bool)
    for k, at in enumerate(_effectors(holds, conf)):
        scale = jnp.where(held.on[k], 1.0, 0.0) / unit.contact
        error = conf.position[at] - held.place[k]
        parts.append(position_rows(conf, error, conf.jacobian[at], at_v, scale, dt))
        grips = grips.at[at].set(grips[at] | held.on[k])
    return stacked(*parts), grips


def _effectors(holds: Sequence[EffectorConstraint], conf: Configuration) -> np.ndarray:
    names = conf.effectors.names
    for hold in holds:
        if hold.effector not in names:
            raise ValueError(f"hold: no effector {hold.effector!r}; there are {', '.join(names)}")
    return np.array([names.index(hold.effector) for hold in holds], int)
