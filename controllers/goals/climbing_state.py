"""Memory of a climber, and what an observation shows of its holds."""

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
    """Thresholds and times of a climb that Jain, Ye, Liu (2009) leave open.

    Fields may be arrays: a search may change them. Times are in sqrt(height / g), speeds in
    sqrt(height g), of the height of the centre of mass.
    """

    still: Array | float = 0.03  # speed below which the centre of mass is at rest
    stuck: Array | float = 0.01  # speed below which it no longer approaches its target
    rest: Array | float = 0.3  # least time with all four limbs on their holds
    near: Array | float = 0.05  # distance at which the centre of mass is at its target [heights]
    patience: Array | float = 5.0  # longest wait for that
    relaxed: Array | float = 0.05  # load below which a limb lets go [body weights]
    relaxing: Array | float = 1.5  # time after which it lets go whatever its load
    moving: Array | float = 12.0  # time after which a moving limb goes to the nearest hold
    strays: Array | float = 0.1  # abort distance of the body from its target [heights]
    bears: Array | float = 1.0  # torque relative to its limit above which a move is penalised,
    # by one height per unit
    again: Array | float = 0.3  # penalty for moving the same limb twice [heights]
    keeps: Array | float = 0.1  # lead that another limb's move needs [heights]
    off: Array | float = 0.0  # distance of knees, elbows and so on from the plane [heights]
    ahead: Array | float = 0.3  # time within which they may not come behind that
    further: Array | float = 0.5  # distance of a hold beyond the limbs that is worth going back for
    pose: Array | float = 0.1  # distance of a foot from its hold where the pose begins [heights]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Climb:
    """Memory of a climb. Limbs in the order of ``LIMBS``."""

    frame: Array  # (3, 3) rows: left, up, out of the holds' plane
    origin: Array  # (3,) on that plane [m]
    way: Array  # (2,) unit, (left, up): direction of the climb
    depth: Array  # () distance of the centre of mass from the plane of the holds [m]
    limbs: Limbs
    pose: Array  # (n,) hinges at the start [rad]
    pace: Pace
    asked: Array  # (4,) int: the hold of each limb, or the one that it is on its way to
    com: Array  # (2,) target of the centre of mass [m]
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
    short: Array  # () distance of the centre of mass from its target as the limb let go [m]

    def places(self, obs: EffectorObservation) -> Array:
        """Positions (nh, 2) of the holds in their plane [m]."""
        return (the_holds(obs).pos - self.origin) @ self.frame[:2].T

    @property
    def com_target(self) -> Array:
        """Target (3,) of the centre of mass in the world [m]."""
        return self.origin + jnp.append(self.com, self.depth) @ self.frame

    def waited(self, obs: EffectorObservation, time: Array | float) -> Array:
        """True if the state has lasted for a time, in sqrt(height / g)."""
        return obs.time - self.begun > time * pendulum_time(obs, self.limbs.height)


def order_of(obs: EffectorObservation) -> np.ndarray:
    """Index (4,) of each limb's gripper."""
    names = obs.conf.effectors.group_names
    return np.array([names.index(name) for name in LIMBS])


def held_now(obs: EffectorObservation) -> Array:
    """Index (4,) of the hold that each limb holds, or NO_HOLD."""
    return the_holds(obs).grips.held[order_of(obs)]


def on_its_way(obs: EffectorObservation, climb: Climb) -> Array:
    """Mask (ne,) of the effectors of the moving limb."""
    return row_of(climb.limb, [obs.group(name) for name in LIMBS])


def the_holds(obs: EffectorObservation) -> HoldsNow:
    """Holds of the scenario; a climbing scenario has some."""
    assert obs.conf.holds is not None
    return obs.conf.holds


def row_of(index: Array, rows: Any) -> Array:
    """Row of an index; zeros for -1, before the first move."""
    one = index == np.arange(len(rows))
    stacked = jnp.stack([jnp.asarray(row) for row in rows])
    if stacked.dtype == bool:
        return (one.reshape(-1, *(1,) * (stacked.ndim - 1)) & stacked).any(axis=0)
    return jnp.tensordot(one.astype(stacked.dtype), stacked, axes=1)
