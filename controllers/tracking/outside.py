"""External controllers of an animator: points that attract links, turns, and steps of a foot.

Source: the topple-free-foot paper, equations 15 and 16.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.balance import Balance
from controllers.tracking.parts import Parts
from controllers.virtual_forces import virtual_force
from jaxsim.dynamics.kinematics import Kinematics, point_velocity
from jaxsim.model import Model, ModelError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pulls:
    """n moving points, each of which pulls the centre of mass of a link by an external force.

    The points move at constant velocity, from ``start`` until ``end``.
    """

    place: Array  # (n, 3) at ``start`` [m]
    velocity: Array  # (n, 3) [m/s]
    start: Array  # (n,) [s]
    end: Array  # (n,) [s]
    links: tuple[int, ...] = dataclasses.field(metadata={"static": True})

    def force(self, balance: Balance, kin: Kinematics, time: Array) -> Array:
        """Force (n, 3) on each link [N], equation 15."""
        link = np.array(self.links)
        passed = (time - self.start)[:, None]
        at, moves = kin.com[link], point_velocity(kin, jnp.asarray(link), kin.com[link])
        force = balance.pull_p * (self.place + passed * self.velocity - at)
        force = force + balance.pull_d * (self.velocity - moves)
        return jnp.where(((time >= self.start) & (time < self.end))[:, None], force, 0.0)


def pull(
    model: Model,
    link: str,
    place: Sequence[float],
    velocity: Sequence[float] = (0.0, 0.0, 0.0),
    start: float = 0.0,
    end: float = np.inf,
) -> Pulls:
    """Pull on a link by name or role; place (3,) [m] at ``start`` [s]; velocity (3,) [m/s]."""
    dtype = model.mass.dtype
    at, moves, begins, ends = (jnp.asarray(x, dtype)[None] for x in (place, velocity, start, end))
    return Pulls(at, moves, begins, ends, (model.topology.part(link),))


def pulls_together(*pulls: Pulls) -> Pulls:
    """Pulls on several links in one."""

    def joined(name: str) -> Array:
        return jnp.concatenate([getattr(each, name) for each in pulls])

    links = tuple(link for each in pulls for link in each.links)
    return Pulls(joined("place"), joined("velocity"), joined("start"), joined("end"), links)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Turns:
    """Heading of a reference over time: n angles, each reached at its time, linear between them.

    The first one applies before it, the last one after it.
    """

    time: Array  # (n,) in order [s]
    angle: Array  # (n,) about the vertical [rad]

    def at(self, time: Array) -> tuple[Array, Array]:
        """Angle () [rad] at a time [s], and its rate () [rad/s]."""
        span, way = jnp.diff(self.time), jnp.diff(self.angle)
        passed = (time - self.time[:-1]) / span
        inside = (passed >= 0) & (passed < 1)
        angle = self.angle[0] + jnp.sum(way * jnp.clip(passed, 0.0, 1.0))
        return angle, jnp.sum(jnp.where(inside, way / span, 0.0))


def turns(model: Model, keys: Sequence[tuple[float, float]]) -> Turns:
    """Turns from pairs of a time [s] and an angle [rad].

    Raises ModelError for times that do not increase and numbers that are not finite.
    """
    time, angle = np.array(keys, float).reshape(-1, 2).T
    if len(time) == 0 or not np.isfinite([time, angle]).all() or (np.diff(time) <= 0).any():
        raise ModelError(
            f"turns: times are {time.tolist()}, angles {angle.tolist()}; give at least one, finite,"
            " with times that rise"
        )
    dtype = model.mass.dtype
    return Turns(jnp.asarray(time, dtype), jnp.asarray(angle, dtype))


def swing_force(
    balance: Balance, kin: Kinematics, parts: Parts, standing: Array, ahead: Array, speed: Array
) -> Array:
    """Force (2, 3) on a foot that swings while the other one is a stance foot [N], equation 16.

    ahead (2, 3): position of the body ahead of each foot, speed (3,): its velocity, both less the
    reference's, so that a motion that goes as planned is left alone.
    """
    flat = np.array([1.0, 1.0, 0.0])
    other = ahead[::-1]
    force = flat * (balance.step_p * other + balance.step_d * speed)
    swings = ~standing & standing[::-1]
    return jnp.where(swings[:, None], force, 0.0)


def leg_torque(model: Model, kin: Kinematics, parts: Parts, force: Array) -> Array:
    """Torques (nv,) of the legs that act like forces (2, 3) on the feet, seen from the pelvis."""
    dofs = model.topology.link_dofs.astype(float)
    torque = jnp.zeros(model.topology.nv, force.dtype)
    for k, foot in enumerate(parts.feet):
        chain = dofs[foot] - dofs[parts.pelvis]
        torque = torque + virtual_force(model, kin, chain, kin.com[foot], force[k])
    return torque
