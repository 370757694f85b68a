"""Quantities derived from an observation: support, reachable surfaces, flight of objects."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.safe import safe_divide, safe_norm, safe_sqrt
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.observation import EffectorObservation

DIRECTIONS = 24  # in which the edge of the support is looked for


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Objects:
    """Balls in free flight, no of them; arrays of length 0 if there are none."""

    position: Array  # (no, 3) [m]
    velocity: Array  # (no, 3) [m/s]
    radius: Array  # (no,) [m]

    def at(self, time: Array, gravity: Array) -> "Objects":
        """Objects after a free flight of ``time`` [s]; one that lands, at height 0, stays there."""
        up, down = self.velocity[:, 2], -gravity[2]
        drop = jnp.maximum(self.position[:, 2] - self.radius, 0.0)
        lands = safe_divide(up + safe_sqrt(up**2 + 2 * down * drop), down)
        lands = jnp.where(down > 0, lands, jnp.inf)
        flown = jnp.minimum(time, lands[:, None])
        fallen = self.position + self.velocity * flown + gravity * flown**2 / 2
        moves = jnp.where(time < lands[:, None], self.velocity + gravity * flown, 0.0)
        return Objects(fallen, moves, self.radius)


def gravity(obs: EffectorObservation) -> Array:
    """Magnitude () of gravity [m/s^2]."""
    return safe_norm(obs.conf.model.gravity)


def pendulum_time(obs: EffectorObservation, height: Array) -> Array:
    """Time constant () sqrt(height / g) with which a pendulum falls over [s]; height: [m]."""
    return jnp.sqrt(height / gravity(obs))


def support_center(obs: EffectorObservation, bearing: Array) -> Array:
    """Mean position (2,) of the supporting feet, each at the mean of its points on the ground [m].

    bearing (ne,) bool: supporting points. Without any, the mean of all points.
    """
    effectors = obs.conf.effectors
    on = bearing[None, :] & effectors.in_group  # (groups, ne)
    counts = jnp.sum(on, axis=1)
    place = obs.conf.position[:, :2]
    middle = safe_divide(jnp.where(on, 1.0, 0.0).astype(place.dtype) @ place, counts[:, None])
    groups = jnp.sum(counts > 0)
    mean = safe_divide(jnp.sum(middle, axis=0), groups.astype(place.dtype))
    return jnp.where(groups > 0, mean, jnp.mean(place, axis=0))


def support_margin(obs: EffectorObservation, bearing: Array, point: Array) -> Array:
    """Distance () by which a point (2,) of the ground is inside the hull of supporting points [m].

    Negative outside. The hull is that of ``DIRECTIONS`` tangents.
    """
    angle = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    direction = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=1), point.dtype)
    along = jnp.where(bearing, direction @ (obs.conf.position[:, :2] - point).T, -jnp.inf)
    return jnp.min(jnp.max(along, axis=1))


def reachable(obs: EffectorObservation, limbs: Mapping[str, str]) -> Array:
    """Visual sensor, (ne, nf) bool: the surfaces that each effector can reach now.

    limbs: group of effectors -> the link (or its role) at whose origin their limb begins; other
    groups reach nothing. A surface is in reach if it is nearer to that point than the limb is long.
    Source: Jain, Ye, Liu (2009), sections 5.2 and 6.1.3.
    """
    roots, lengths = _limbs(obs.conf, limbs)
    lengths = lengths[:, None]
    return (obs.conf.around.surfaces(roots).gap < lengths) & (lengths > 0)


def reachable_points(obs: EffectorObservation, limbs: Mapping[str, str], points: Array) -> Array:
    """Visual sensor for points, (ne, np) bool: the points (np, 3) that each effector can reach [m].

    limbs: as for ``reachable``. Points may move: grips, or another character's hands, its
    ``conf.position[conf.effectors.of("rightHand")]``.
    """
    roots, lengths = _limbs(obs.conf, limbs)
    return safe_norm(points[None] - roots[:, None]) < lengths[:, None]


def _limbs(conf: Configuration, limbs: Mapping[str, str]) -> tuple[Array, Array]:
    """Origins (ne, 3) and lengths (ne,) of the effectors' limbs [m]; length 0 without a limb."""
    top = conf.model.topology
    roots, lengths = [], []
    for index, (link, group) in enumerate(zip(conf.effectors.links, conf.effectors.groups)):
        first = limbs.get(conf.effectors.group_names[group])
        at, length = conf.position[index], jnp.zeros((), conf.q.dtype)
        while first is not None:
            length = length + safe_norm(at - conf.kin.link_pos[link])
            at = conf.kin.link_pos[link]
            if link == top.part(first):
                break
            link = top.link_parent[link]
        roots.append(at)
        lengths.append(length)
    return jnp.stack(roots), jnp.stack(lengths)
