"""Goals that respond to the surroundings: a hand on a wall, parts of the body out of a ball's path.

They are added to the balance controller (``GoalMachine.adding``). Source: Jain, Ye, Liu (2009),
sections 6.1.3 and 6.1.4.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.goals.sensors import Objects, reachable
from controllers.goals.tasks import Goal
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.math.safe import safe_divide, safe_norm, safe_normalize
from jaxsim.model.roles import HANDS, UPPER_ARMS
from jaxsim.synthesis.observation import EffectorObservation

ARMS = dict(zip(HANDS, UPPER_ARMS))
FALLING = 0.15  # a hand goes to a wall that the centre of mass nears faster than this [m/s]
STEEP = 0.5  # the normal of a wall has at most this much of the vertical
SLOW = 0.5  # a hand that moves slower does not come at anybody [m/s]
AWAY = 1.0  # how far out of a ball's way a point would like to go at once [m]
WATCHED = ("head", "chest", "abdomen", "pelvis", "leftForearm", "rightForearm", "leftThigh",
           "rightThigh")  # fmt: skip
STRUCK = ("head", "chest")  # what leaves the way of a hand


def hands_to_wall() -> Goal:
    """Move each hand to the nearest point of the nearest wall in reach, while that helps.

    It helps while the body falls towards the wall, and from then on while the hand touches.
    """

    def rows(obs: EffectorObservation, _: Any):
        conf = obs.conf
        hands = np.flatnonzero(
            np.any([obs.group(name) for name in ARMS if name in conf.effectors.group_names], 0)
        )
        wall = jnp.abs(conf.surfaces.normal[hands, :, 2]) < STEEP
        can = reachable(obs, ARMS)[hands] & wall  # (hands, nf)
        gap = jnp.where(can, conf.surfaces.gap[hands], jnp.inf)
        one = (jnp.argmin(gap, axis=1)[:, None] == np.arange(gap.shape[1])) & can
        normal = jnp.sum(jnp.where(one[..., None], conf.surfaces.normal[hands], 0.0), axis=1)
        distance = jnp.sum(jnp.where(one, conf.surfaces.gap[hands], 0.0), axis=1)
        nears = -jnp.sum(normal * conf.com_velocity, axis=-1) > FALLING
        wanted = one.any(axis=1) & (nears | obs.touching[hands])
        error = jnp.where(wanted[:, None], distance[:, None] * normal, 0.0)
        J = jnp.where(wanted[:, None, None], conf.jacobian[hands], 0.0)
        return error.reshape(-1), J.reshape(-1, J.shape[-1])

    return Goal("hands", "limb", rows)


def flying(obs: EffectorObservation) -> Objects:
    """Flying balls of the observation; raises ValueError if there are none."""
    if obs.objects is None:
        raise ValueError("the goal 'dodge' needs objects that fly; give the run some")
    return obs.objects


def hand_of_another(obs: EffectorObservation) -> Objects:
    """Nearest fast hand of another character, as a moving point.

    Of hands faster than ``SLOW`` the one nearest to the head; without any, a point at rest.
    """
    places, velocities = [], []
    for k, other in enumerate(obs.company):
        hands = np.flatnonzero(np.any([other.effectors.of(name) for name in HANDS], axis=0))
        if k != obs.me:
            places.append(other.position[hands])
            velocities.append(other.velocity[hands])
    if not places:
        raise ValueError("there are no hands of others to dodge; give the scene a [[companion]]")
    place, velocity = jnp.concatenate(places), jnp.concatenate(velocities)
    away = safe_norm(place - obs.conf.kin.com[obs.conf.link("head")])
    fast = safe_norm(velocity) > SLOW
    nearest = jnp.argmin(jnp.where(fast, away, jnp.inf))
    one = (np.arange(len(away)) == nearest)[:, None]
    at, moves = (jnp.sum(jnp.where(one, x, 0.0), axis=0) for x in (place, velocity))
    moves = jnp.where(fast.any(), moves, 0.0)
    return Objects(at[None], moves[None], jnp.zeros(1, place.dtype))


def dodge(
    near: float = 1.0,
    sees: Callable[[EffectorObservation], Objects] = flying,
    watched: tuple[str, ...] = WATCHED,
) -> Goal:
    """Gdodge: move watched links away from the lines of flight of approaching objects.

    sees: balls, or ``hand_of_another``; near: distance within which they count [m]; watched: links.
    Jain, Ye, Liu (2009) give the distance to the line a negative weight, -0.05 to -0.15 by 1 /
    distance. A maximum has no place in a convex problem; its gradient does: each point is to be
    ``AWAY`` further off than it is, with that weight. One row a link and ball.
    """

    def rows(obs: EffectorObservation, _: Any):
        balls = sees(obs)
        conf = obs.conf
        errors, Js = [], []
        for link in dict.fromkeys(conf.model.topology.parts(watched)):
            point = conf.kin.com[link]
            J = point_jacobian(conf.model, conf.kin, link, point)

            def of_ball(position, velocity, point=point, J=J):
                along = safe_normalize(velocity)
                offset = point - position
                across = offset - jnp.sum(offset * along) * along
                distance = safe_norm(across)
                aside = jnp.stack([-along[1], along[0], jnp.zeros_like(along[0])])
                out = jnp.where(distance > 1e-3, safe_divide(across, distance), aside)
                comes = (jnp.sum(offset * along) > 0) & (safe_norm(offset) < near)
                weight = jnp.clip(0.05 / jnp.maximum(distance, 1e-2), 0.05, 0.15)
                scale = jnp.where(comes, jnp.sqrt(weight), 0.0)
                return -scale * AWAY, scale * (out @ J)

            error, row = jax.vmap(of_ball)(balls.position, balls.velocity)
            errors.append(error)
            Js.append(row)
        return jnp.concatenate(errors), jnp.concatenate(Js)

    return Goal("dodge", "limb", rows)
