"""Goal that responds to the surroundings: a hand on a wall.

It is added to the balance controller (``GoalMachine.adding``). Source: Jain, Ye, Liu (2009),
section 6.1.3.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from controllers.goals.sensors import reachable
from controllers.goals.tasks import Goal
from jaxsim.model.roles import HANDS, UPPER_ARMS
from jaxsim.synthesis.observation import EffectorObservation

ARMS = dict(zip(HANDS, UPPER_ARMS))
FALLING = 0.15  # a hand goes to a wall that the centre of mass nears faster than this [m/s]
STEEP = 0.5  # the normal of a wall has at most this much of the vertical


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
