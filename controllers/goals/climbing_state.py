"""Where a climber is: what it remembers, and what of it an observation shows."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.climbing_moves import LIMBS, Limbs
from controllers.goals.sensors import pendulum_time
from jaxsim.synthesis.holds import HoldsNow
from jaxsim.synthesis.observation import EffectorObservation


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pace:
    """When it goes on, where the document says nothing. Arrays: may be tuned. Times are in
    sqrt(height / g), speeds in sqrt(height g), of the height of the centre of mass."""

    still: Array | float = 0.03  # slower, the centre of mass is at rest
    stuck: Array | float = 0.01  # slower, it comes no nearer to where it is to be
    rest: Array | float = 0.3  # all four limbs stay on their holds for at least so long
    near: Array | float = 0.05  # the centre of mass is to come so near to its place [heights]
    patience: Array | float = 5.0  # for so long at most
    relaxed: Array | float = 0.05  # a limb with a smaller load lets go [body weights]
    relaxing: Array | float = 1.5  # after so long it lets go whatever its load
    moving: Array | float = 12.0  # after so long on its way a limb goes to the nearest hold
    strays: Array | float = 0.1  # and so it does where the body gets away from its place [heights]
    bears: Array | float = 1.0  # three limbs bear the body with such torques, by their limits; more
    # cost the move as many heights that it gains
    again: Array | float = 0.3  # what it costs that the limb goes that went last [heights]
    keeps: Array | float = 0.1  # what another limb's move must be better by [heights]
    off: Array | float = 0.0  # knees and so on are so far out from the holds [heights]
    ahead: Array | float = 0.3  # and are kept from being behind that within so long
    further: Array | float = 0.5  # who has no move goes back if a hold is so far beyond [heights]
    pose: Array | float = 0.1  # a foot nearer to its hold begins to draw the body in pose [heights]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Climb:
    """Where the climber is. Limbs in the order of ``LIMBS``."""

    frame: Array  # (3, 3) rows: left, up, out of the holds' plane
    origin: Array  # (3,) on that plane [m]
    way: Array  # (2,) unit, (left, up): where it wants to get
    depth: Array  # () how far out the centre of mass is from the holds [m]
    limbs: Limbs
    pose: Array  # (n,) hinges at the start [rad]
    pace: Pace
    asked: Array  # (4,) int: the hold of each limb, or the one that it is on its way to
    com: Array  # (2,) where the centre of mass is to be [m]
    limb: Array  # () int: the limb of the move
    hold: Array  # () int: the hold of the move
    back: Array  # () int: the hold that the limb left
    saved: Array  # () bool: the limb has given up its hold for the nearest one
    found: Array  # () bool: there is a move
    last: Array  # () int: the limb that moved last
    begun: Array  # () when the state began [s]
    been: Array  # (4, nh) int: where limbs have been, see ``climbing_moves.leaving``
    moves: Array  # () int: holds gained
    returns: Array  # () int: moves that were taken back
    short: Array  # () how far the centre of mass was from its place as the limb let go [m]

    def places(self, obs: EffectorObservation) -> Array:
        """(nh, 2) of the holds, in the plane [m]."""
        return (the_holds(obs).pos - self.origin) @ self.frame[:2].T

    @property
    def com_target(self) -> Array:
        """(3,) where the centre of mass is to be, in the world [m]."""
        return self.origin + jnp.append(self.com, self.depth) @ self.frame

    def waited(self, obs: EffectorObservation, time: Array | float) -> Array:
        """The state has lasted for a time, in sqrt(height / g)."""
        return obs.time - self.begun > time * pendulum_time(obs, self.limbs.height)


def order_of(obs: EffectorObservation) -> np.ndarray:
    """(4,) of each limb its gripper."""
    names = obs.conf.effectors.group_names
    return np.array([names.index(name) for name in LIMBS])


def held_now(obs: EffectorObservation) -> Array:
    """(4,) int: the hold that each limb holds, or NO_HOLD."""
    return the_holds(obs).grips.held[order_of(obs)]


def on_its_way(obs: EffectorObservation, climb: Climb) -> Array:
    """(ne,) bool: the effectors of the limb of the move."""
    return row_of(climb.limb, [obs.group(name) for name in LIMBS])


def the_holds(obs: EffectorObservation) -> HoldsNow:
    """Those of the scene: one who climbs has some."""
    assert obs.conf.holds is not None
    return obs.conf.holds


def row_of(index: Array, rows: Any) -> Array:
    """The row of an index; zeros for -1, before the first move."""
    one = index == np.arange(len(rows))
    stacked = jnp.stack([jnp.asarray(row) for row in rows])
    if stacked.dtype == bool:
        return (one.reshape(-1, *(1,) * (stacked.ndim - 1)) & stacked).any(axis=0)
    return jnp.tensordot(one.astype(stacked.dtype), stacked, axes=1)
