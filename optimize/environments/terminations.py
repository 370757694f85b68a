"""Terminations of episodes by name: functions of a ``PolicyInput``, () bool each."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.observations import clip_pose
from controllers.policy.view import PolicyInput
from jaxsim.dynamics.kinematics import difference
from jaxsim.options import unit

LOW = 0.75  # of the height of the centre of mass in the pose
TILT = 0.5  # cosine of 60 degrees
ASTRAY, TURN = 0.5, np.pi / 3  # from a clip [m], [rad]


@unit("true, false")
def fallen(view: PolicyInput) -> Array:
    """True if the centre of mass is lower than 3/4 of its height in the pose."""
    return view.obs.com[2] < LOW * view.height


@unit("true, false")
def tilted(view: PolicyInput) -> Array:
    """True if the root is tilted by over 60 degrees out of the pose."""
    return view.turned[2, 2] < TILT


@unit("true, false")
def astray(view: PolicyInput) -> Array:
    """True if the root is over 0.5 m away from the clip's, or turned by over 60 degrees."""
    model, top = view.model, view.model.topology
    off = difference(model, view.state.q, clip_pose(view))
    root = top.v_start[top.joints_of("free")[0]]
    place, turn = off[root : root + 3], off[root + 3 : root + 6]
    return (jnp.sum(place * place) > ASTRAY**2) | (jnp.sum(turn * turn) > TURN**2)


TERMINATIONS: dict[str, Callable[[PolicyInput], Array]] = {
    each.__name__: each for each in (fallen, tilted, astray)
}
