"""What is rewarded, by name: functions of a moment, () each, of order one; weights stand apart."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.observations import clock, joint_angles
from controllers.policy.view import View
from jaxsim.model.roles import FEET
from optimize.running.objectives import capture_offset

SPEED = 0.5  # m/s that a speed may be off by for exp(-1) of its reward
CAPTURE = 0.15  # m of the capture point from the middle of the feet for exp(-1)
ANGLE = 0.3  # the same of an angle, in the mean of all joints [rad]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moment:
    """What happened while an action was held."""

    view: View  # at the end of it; its action is this one
    before: Array  # (na,) the action before
    effort: Array  # () mean over the time of the mean of (torque / greatest torque)^2
    moved: Array  # (3,) of the centre of mass [m]
    seconds: Array  # () that it took [s]


def alive(moment: Moment) -> Array:
    """1."""
    return jnp.ones_like(moment.effort)


def speed(moment: Moment) -> Array:
    """1 at the commanded "speed" ahead [m/s] (without one 0), falling off on both sides."""
    ahead = moment.view.ahead(moment.moved)[0] / moment.seconds
    off = (ahead - moment.view.command.get("speed", 0.0)) / SPEED
    return jnp.exp(-off * off)


def progress(moment: Moment) -> Array:
    """Speed ahead in parts of the commanded "speed", at most 1."""
    ahead = moment.view.ahead(moment.moved)[0] / moment.seconds
    return jnp.minimum(ahead / jnp.maximum(moment.view.command.get("speed", 1.0), 1e-3), 1.0)


def still(moment: Moment) -> Array:
    """1 while the centre of mass rests, falling off with its horizontal speed."""
    off = moment.moved[:2] / moment.seconds / SPEED
    return jnp.exp(-jnp.sum(off * off))


def caught(moment: Moment) -> Array:
    """1 with the capture point in the middle of the feet, falling off with its distance."""
    off = capture_offset(moment.view.model, moment.view.obs) / CAPTURE
    return jnp.exp(-jnp.sum(off * off))


def upright(moment: Moment) -> Array:
    """The cosine of the root's tilt out of the pose."""
    return moment.view.turned[2, 2]


def pose(moment: Moment) -> Array:
    """1 in the pose, falling off with the joints' angles from it."""
    return jnp.exp(-jnp.mean(jnp.square(joint_angles(moment.view))) / ANGLE**2)


def effort(moment: Moment) -> Array:
    """Of the motors: mean square torque, in parts of the greatest torques."""
    return moment.effort


def change(moment: Moment) -> Array:
    """Mean square change of the action."""
    return jnp.mean(jnp.square(moment.view.action - moment.before))


def gait(moment: Moment) -> Array:
    """Feet that touch the ground when the clock says: the left one in its first half, the right
    one in its second; 1 for both as they should be, 0 for none."""
    feet = np.array(moment.view.model.topology.parts(FEET), int)
    touching = moment.view.obs.link_touching[feet]
    first = clock(moment.view) % 1.0 < 0.5
    wanted = jnp.stack([first, ~first])
    return jnp.mean(jnp.where(touching == wanted, 1.0, 0.0))


REWARDS: dict[str, Callable[[Moment], Array]] = {
    each.__name__: each
    for each in (alive, speed, progress, still, caught, upright, pose, effort, change, gait)
}
