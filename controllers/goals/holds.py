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
from jaxsim.synthesis.observation import Senses
from jaxsim.synthesis.tasks import Rows, position_rows, stacked
from jaxsim.synthesis.view import View


@dataclass(frozen=True)
class Hold:
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


def check_holds(holds: Sequence[Hold]) -> None:
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


def _times(hold: Hold) -> str:
    return f"from {hold.start:g} to {hold.end:g} s"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Held:
    """What is remembered of holds."""

    on: Array  # (nh,) bool
    place: Array  # (nh, 3) where the effector is held, or now is [m]


def held_now(holds: Sequence[Hold], senses: Senses, before: Held | None) -> Held:
    """Holds that have begun keep their place. ValueError for an effector that the body lacks."""
    begun = jnp.array([hold.start for hold in holds]) <= senses.time
    on = begun & (senses.time < jnp.array([hold.end for hold in holds]))
    place = senses.view.position[_effectors(holds, senses.view)]
    if before is not None:
        place = jnp.where((on & before.on)[:, None], before.place, place)
    return Held(on, place)


def hold_rows(
    holds: Sequence[Hold], held: Held, view: View, at_v: Array, unit: Units, dt: Array | float
) -> tuple[Rows, Array]:
    """Equations (3 nh rows, zeros where a hold is off), and which effectors (ne,) bool hold on."""
    parts, grips = [], jnp.zeros(view.effectors.count, bool)
    for k, at in enumerate(_effectors(holds, view)):
        scale = jnp.where(held.on[k], 1.0, 0.0) / unit.contact
        error = view.position[at] - held.place[k]
        parts.append(position_rows(view, error, view.jacobian[at], at_v, scale, dt))
        grips = grips.at[at].set(grips[at] | held.on[k])
    return stacked(*parts), grips


def _effectors(holds: Sequence[Hold], view: View) -> np.ndarray:
    names = view.effectors.names
    for hold in holds:
        if hold.effector not in names:
            raise ValueError(f"hold: no effector {hold.effector!r}; there are {', '.join(names)}")
    return np.array([names.index(hold.effector) for hold in holds], int)
