"""Goal that moves the body out of the way of what flies at it, in the time that is left.

Jain, Ye, Liu (2009), section 6.1.4, maximise the distance of points of the body from the line along
which a ball flies, without regard to when it comes. Here each ball is followed to where it passes
each capsule of the body. Where one would be hit, all move to one side, each so fast that it is
clear when the ball comes: the side on which the largest way is the shorter one. Of a hand it is
rather the side that is not nearer to whose hand it is, and what is near a hand that rests moves
straight away from it. Balance and protective steps are left to the other goals of the machine.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import heading
from controllers.goals.sensors import Objects, gravity
from controllers.goals.tasks import Goal
from jaxsim.collision.contacts import shape_poses
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_divide, safe_norm, safe_normalize, safe_sqrt
from jaxsim.model.roles import HANDS
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.observation import EffectorObservation

WATCHED = ("head", "chest", "abdomen", "pelvis", "leftUpperArm", "rightUpperArm", "leftForearm",
           "rightForearm", "leftThigh", "rightThigh")  # fmt: skip
STRUCK = ("head", "chest")  # what leaves the way of a hand
SLOW = 0.5  # what moves slower does not come at anybody: a ball lies, a hand rests [m/s]
STRIKES = 0.15  # distance from its end at which a hand may strike [m]
MARGIN = 0.05  # least distance at which a ball passes [heights of the centre of mass]
EARLY = 0.05  # the way is clear so long before the ball comes [s]
NEARER = 0.3  # by so much longer is a way straight to whom a hand belongs [m]
LEAVES = 0.2  # time in which what is near a hand at rest leaves it [s]
FASTEST = 0.65  # speed at which a link leaves the way, at most [sqrt(height g)]
PASSED = -0.03  # a ball that passed so long ago does not count [s]
ROUNDS = 3  # of Newton's method for the time of passing
UP = np.array([0.0, 0.0, 1.0])


def flying(obs: EffectorObservation) -> Objects:
    """Flying balls of the observation; raises ValueError if there are none."""
    if obs.objects is None:
        raise ValueError("the goal 'dodge' needs objects that fly; give the run some")
    return obs.objects


def hand_of_another(obs: EffectorObservation) -> Objects:
    """Hand of another character that is to be dodged, as a ball.

    Of hands faster than ``SLOW`` the one nearest to the head; without any, the nearest of all.
    """
    places, velocities = [], []
    for other in others(obs):
        hands = np.flatnonzero(np.any([other.effectors.of(name) for name in HANDS], axis=0))
        places.append(other.position[hands])
        velocities.append(other.velocity[hands])
    if not places:
        raise ValueError("there are no hands of others to dodge; give the scene a [[companion]]")
    place, velocity = jnp.concatenate(places), jnp.concatenate(velocities)
    away = safe_norm(place - obs.conf.kin.com[obs.conf.link("head")])
    fast = safe_norm(velocity) > SLOW
    nearest = jnp.argmin(jnp.where(fast | ~fast.any(), away, jnp.inf))
    one = (np.arange(len(away)) == nearest)[:, None]
    at, moves = (jnp.sum(jnp.where(one, x, 0.0), axis=0) for x in (place, velocity))
    return Objects(at[None], moves[None], jnp.full(1, STRIKES, place.dtype))


def others(obs: EffectorObservation) -> list[Configuration]:
    """Configurations of the other characters."""
    return [other for k, other in enumerate(obs.company) if k != obs.me]


def to_another(obs: EffectorObservation) -> Array:
    """Horizontal unit vector (3,) to the nearest other character."""
    ways = jnp.stack([other.com - obs.com for other in others(obs)]) * (1 - UP)
    away = safe_norm(ways)
    one = (np.arange(len(ways)) == jnp.argmin(away))[:, None]
    return safe_normalize(jnp.sum(jnp.where(one, ways, 0.0), axis=0))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Flight:
    """Path of a ball from now on."""

    place: Array  # (3,) [m]
    velocity: Array  # (3,) [m/s]
    acceleration: Array  # (3,) [m/s^2]

    def at(self, time: Array) -> tuple[Array, Array]:
        """Place and velocity (3,) after a time () [s]."""
        moves = self.velocity + time * self.acceleration
        return self.place + time / 2 * (self.velocity + moves), moves

    def passes(self, point: Array) -> Array:
        """Time () until the ball is nearest to a point (3,) [s]; Newton's method."""
        time = jnp.zeros_like(point[0])
        for _ in range(ROUNDS):
            place, moves = self.at(time)
            time = time + safe_divide(jnp.sum((point - place) * moves), jnp.sum(moves**2))
        return time


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BodyCapsule:
    """Capsule of the body, or a sphere."""

    middle: Array  # (3,) of its axis [m]
    half: Array  # (3,) half of its axis [m]
    radius: Array  # () [m]

    def nearest(self, line: tuple[Array, Array]) -> Array:
        """Point (3,) of the axis that is nearest to a line: a point and a direction (3,).

        Nearest to the point itself where the direction is zero.
        """
        place, along = line
        half, off = (x - along * jnp.sum(along * x) for x in (self.half, self.middle - place))
        part = -safe_divide(jnp.sum(half * off), jnp.sum(half**2))
        return self.middle + jnp.clip(part, -1.0, 1.0) * self.half

    def distance(self, point: Array) -> Array:
        """Distance () of a point (3,) from the surface [m]; negative inside."""
        along = jnp.sum((point - self.middle) * self.half)
        part = jnp.clip(safe_divide(along, jnp.sum(self.half**2)), -1.0, 1.0)
        return safe_norm(point - self.middle - part * self.half) - self.radius


def capsules(obs: EffectorObservation, links: Iterable[int]) -> list[tuple[int, BodyCapsule]]:
    """Capsules and spheres of some links, by link."""
    model, chosen, parts = obs.conf.model, set(links), []
    pos, rot = shape_poses(model, obs.conf.kin)
    for s, (kind, link) in enumerate(zip(model.topology.shape_kinds, model.topology.shape_link)):
        if link in chosen and kind in ("sphere", "capsule"):
            size = model.shape_size[s]
            length = size[2] if kind == "capsule" else jnp.zeros_like(size[2])
            parts.append((link, BodyCapsule(pos[s], length * rot[s, :, 0], size[0])))
    return parts


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Passing:
    """Passing of a ball at a capsule, and the ways that take the capsule out of the ball's way."""

    point: Array  # (3,) of the capsule's axis, nearest to the ball's path [m]
    time: Array  # () until then [s]
    left: Array  # () way to the left of the ball's flight; negative where it is clear there [m]
    right: Array  # () way to the right; both 0 for a ball that passes above or below [m]


def passing(
    flight: Flight, left: Array, capsule: BodyCapsule, clear: Array, horizon: float
) -> Passing:
    """Passing of a ball that counts for a ``horizon`` [s].

    left: unit vector (3,), horizontal, across the flight; clear: distance () between the ball's
    middle and the capsule's axis at which they pass one another [m].
    """
    place, moves = flight.at(flight.passes(capsule.middle))
    point = capsule.nearest((place, safe_normalize(moves)))
    time = flight.passes(point)
    place, moves = flight.at(time)
    off = point - place
    aside, above = jnp.sum(off * left), jnp.sum(off * cross(safe_normalize(moves), left))
    half = safe_sqrt(jnp.maximum(clear**2 - above**2, 0.0))
    comes = (half > 0) & (time > PASSED) & (time < horizon)
    return Passing(
        point,
        time,
        left=jnp.where(comes, half - aside, 0.0),
        right=jnp.where(comes, half + aside, 0.0),
    )


def shorter_side(left: Array, right: Array, nearer: Array) -> Array:
    """True if the way to the left is the shorter one.

    left, right: ways () [m]; nearer: cosine () of the angle between the left and the way to whom a
    hand belongs; 0 for a ball.
    """
    return left + NEARER * nearer <= right - NEARER * nearer


def way_out(place: Array, capsule: BodyCapsule, clear: Array) -> tuple[Array, Array, Array]:
    """Way () of a capsule that leaves what rests at a place (3,) [m]: point, direction, length.

    clear: distance () between the place and the capsule's axis at which there is no way left [m].
    """
    point = capsule.nearest((place, jnp.zeros_like(place)))
    off = point - place
    level = off * jnp.asarray(1 - UP, off.dtype)
    return point, safe_normalize(level), jnp.maximum(clear - safe_norm(off), 0.0)


def dodge(
    horizon: float = 1.5,
    sees: Callable[[EffectorObservation], Objects] = flying,
    watched: tuple[str, ...] = WATCHED,
) -> Goal:
    """Gdodge: watched links out of the way of objects by the time that these come.

    sees: balls, which fall, or ``hand_of_another``, which goes straight on, and keeps others away
    where it rests; horizon: time before the passing from which on an object counts [s]; watched:
    links. One row a capsule and object.
    """
    falling = sees is flying

    def rows(obs: EffectorObservation, _: Any):
        conf, objects = obs.conf, sees(obs)
        body = capsules(obs, conf.model.topology.parts(watched))
        if not body:
            raise ValueError(
                "the goal 'dodge' needs a body with capsules or spheres at one of: "
                + ", ".join(watched)
            )
        falls = conf.model.gravity if falling else jnp.zeros_like(conf.model.gravity)
        ahead = 1e-3 * jnp.append(heading(obs), 0.0)  # of a ball from straight above
        nearer = jnp.zeros_like(ahead) if falling else to_another(obs)
        fastest = FASTEST * jnp.sqrt(gravity(obs) * obs.height)

        def of_object(position, velocity, radius):
            flight = Flight(position, velocity, falls)
            left = safe_normalize(cross(jnp.asarray(UP, position.dtype), velocity + ahead))
            clear = radius + MARGIN * obs.height
            passings = [passing(flight, left, c, clear + c.radius, horizon) for _, c in body]
            lefts = jnp.stack([p.left for p in passings])
            rights = jnp.stack([p.right for p in passings])
            hits = (jnp.minimum(lefts, rights) > 0).any() & (safe_norm(velocity) > SLOW)
            to_left = shorter_side(jnp.max(lefts), jnp.max(rights), left @ nearer)
            ways = jnp.where(hits, jnp.maximum(jnp.where(to_left, lefts, rights), 0.0), 0.0)
            times = jnp.stack([p.time for p in passings])
            times = jnp.maximum(times - EARLY, EARLY)
            points = jnp.stack([p.point for p in passings])
            outs = jnp.where(to_left, left, -left) * jnp.ones_like(points)
            if not falling:
                leaves = [way_out(position, c, clear + c.radius) for _, c in body]
                rest = [jnp.stack(x) for x in zip(*leaves)]
                moves = points, outs, ways, times
                rests = safe_norm(velocity) < SLOW
                points, outs, ways, times = (
                    jnp.where(rests, x, y) for x, y in zip((*rest, LEAVES), moves)
                )
            speeds = jnp.minimum(ways / times, fastest)
            J = jnp.stack(
                [
                    out @ point_jacobian(conf.model, conf.kin, link, point)
                    for (link, _), out, point in zip(body, outs, points)
                ]
            )
            return -speeds, jnp.where(ways[:, None] > 0, J, 0.0)

        errors, J = jax.vmap(of_object)(objects.position, objects.velocity, objects.radius)
        return errors.reshape(-1), J.reshape(-1, J.shape[-1])

    return Goal("dodge", "com", rows, "velocity")
