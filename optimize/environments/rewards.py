"""Rewards by name: functions of a ``Moment``, () each, of order one; weights stand apart."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.observations import clock, heading, joint_angles, to_reach
from controllers.policy.view import PolicyInput, root_link
from controllers.tracking.reference import Instant
from jaxsim.dynamics.kinematics import difference, forward_kinematics
from jaxsim.math.safe import safe_norm
from jaxsim.model.roles import FEET, HANDS
from jaxsim.options import unit
from optimize.running.objectives import capture_offset

SPEED = 0.5  # m/s that a speed may be off by for exp(-1) of its reward
TURNING = 2.0  # rad/s about the vertical for exp(-1)
REACH = 0.2  # m of the hand from its target for exp(-1)
CAPTURE = 0.15  # m of the capture point from the middle of the feet for exp(-1)
ANGLE = 0.3  # the same of an angle, in the mean of all joints [rad]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moment:
    """Interval in which one action was held."""

    view: PolicyInput  # at the end of it; its action is this one
    before: Array  # (na,) the action before
    effort: Array  # () mean over the time of the mean of (torque / greatest torque)^2
    moved: Array  # (3,) of the centre of mass [m]
    seconds: Array  # () that it took [s]
    clip: Instant | None = None  # what is to be followed, as it is at the end

    @property
    def followed(self) -> Instant:
        """State of the clip. Raises ValueError without a clip."""
        if self.clip is None:
            raise ValueError("there is no clip to follow; name one in [environment.clip]")
        return self.clip


@unit("1")
def alive(moment: Moment) -> Array:
    """Constant reward of 1."""
    return jnp.ones_like(moment.effort)


@unit("1")
def speed(moment: Moment) -> Array:
    """1 at the commanded "speed" ahead [m/s] (without one 0), falling off within 0.5 m/s."""
    ahead = moment.view.ahead(moment.moved)[0] / moment.seconds
    off = (ahead - moment.view.command.get("speed", 0.0)) / SPEED
    return jnp.exp(-off * off)


@unit("1")
def progress(moment: Moment) -> Array:
    """Speed ahead relative to the commanded "speed", at most 1."""
    ahead = moment.view.ahead(moment.moved)[0] / moment.seconds
    return jnp.minimum(ahead / jnp.maximum(moment.view.command.get("speed", 1.0), 1e-3), 1.0)


@unit("1")
def straight(moment: Moment) -> Array:
    """1 without sideways motion or turning, falling off with both."""
    view = moment.view
    aside = view.ahead(moment.moved)[1] / moment.seconds / SPEED
    turning = view.obs.kin.velocity[root_link(view.model), 2] / TURNING
    return jnp.exp(-aside * aside - turning * turning)


@unit("1")
def facing(moment: Moment) -> Array:
    """Cosine between the heading and the commanded direction."""
    return heading(moment.view)[0]


@unit("1")
def still(moment: Moment) -> Array:
    """1 while the centre of mass rests, falling off with its horizontal speed."""
    off = moment.moved[:2] / moment.seconds / SPEED
    return jnp.exp(-jnp.sum(off * off))


@unit("1")
def caught(moment: Moment) -> Array:
    """1 with the capture point in the middle of the feet, falling off within 0.15 m."""
    off = capture_offset(moment.view.model, moment.view.obs) / CAPTURE
    return jnp.exp(-jnp.sum(off * off))


@unit("1")
def risen(moment: Moment) -> Array:
    """Height of the centre of mass relative to that in the pose, at most 1."""
    return jnp.minimum(moment.view.obs.com[2] / moment.view.height, 1.0)


@unit("1")
def raised(moment: Moment) -> Array:
    """Height of the head relative to that in the pose, at most 1."""
    view = moment.view
    head = view.model.topology.part("head")
    pose = forward_kinematics(view.model, view.pose, jnp.zeros_like(view.state.qd))
    return jnp.minimum(view.obs.kin.com[head, 2] / pose.com[head, 2], 1.0)


@unit("1")
def reached(moment: Moment) -> Array:
    """1 with the right hand at the commanded place, exp(-distance / 0.2 m) off it."""
    return jnp.exp(-safe_norm(to_reach(moment.view)) / REACH)


@unit("1")
def upright(moment: Moment) -> Array:
    """Cosine of the root's tilt out of the pose."""
    return moment.view.turned[2, 2]


@unit("1")
def pose(moment: Moment) -> Array:
    """1 in the pose, falling off with the joints' angles from it."""
    return jnp.exp(-jnp.mean(jnp.square(joint_angles(moment.view))) / ANGLE**2)


@unit("1")
def effort(moment: Moment) -> Array:
    """Mean square torque of the motors, relative to their greatest torques."""
    return moment.effort


@unit("1")
def change(moment: Moment) -> Array:
    """Mean square change of the action."""
    return jnp.mean(jnp.square(moment.view.action - moment.before))


@unit("1")
def planted(moment: Moment) -> Array:
    """Share of the feet that touch something."""
    feet = np.array(moment.view.model.topology.parts(FEET), int)
    return jnp.mean(jnp.where(moment.view.obs.link_touching[feet], 1.0, 0.0))


@unit("1")
def gait(moment: Moment) -> Array:
    """Share of the feet whose ground contact agrees with the clock.

    The left foot is to touch in the first half of the period, the right one in the second.
    """
    feet = np.array(moment.view.model.topology.parts(FEET), int)
    touching = moment.view.obs.link_touching[feet]
    first = clock(moment.view) % 1.0 < 0.5
    wanted = jnp.stack([first, ~first])
    return jnp.mean(jnp.where(touching == wanted, 1.0, 0.0))


@unit("1")
def clip_joints(moment: Moment) -> Array:
    """1 with the clip's angles of joints, exp(-2 sum of squares) off it.

    Source of this and the next three: X. Peng et al. 2018, DeepMimic, section 5.1.
    """
    model, state = moment.view.model, moment.view.state
    off = difference(model, state.q, moment.followed.q, free=False)
    return jnp.exp(-2.0 * jnp.sum(jnp.square(off[model.topology.actuated_dofs])))


@unit("1")
def clip_rates(moment: Moment) -> Array:
    """1 with the clip's velocities of joints, exp(-0.1 sum of squares) off it."""
    off = moment.view.state.qd - moment.followed.qd
    return jnp.exp(-0.1 * jnp.sum(jnp.square(off[moment.view.model.topology.actuated_dofs])))


@unit("1")
def clip_ends(moment: Moment) -> Array:
    """1 with hands and feet where the clip has them, from the centre of mass.

    exp(-40 sum of squares) off it.
    """
    model, kin = moment.view.model, moment.view.obs.kin
    ends = np.array(model.topology.parts((*FEET, *HANDS)), int)
    there = forward_kinematics(model, moment.followed.q, jnp.zeros_like(moment.view.state.qd))
    off = kin.com[ends] - moment.view.obs.com - (there.com[ends] - moment.followed.com)
    return jnp.exp(-40.0 * jnp.sum(jnp.square(off)))


@unit("1")
def clip_place(moment: Moment) -> Array:
    """1 with the centre of mass where the clip has it, exp(-10 square of the distance) off it."""
    return jnp.exp(-10.0 * jnp.sum(jnp.square(moment.view.obs.com - moment.followed.com)))


ALL = (
    *(alive, speed, progress, straight, facing, still, caught, risen, raised, reached),
    *(upright, pose, effort, change, planted, gait, clip_joints, clip_rates, clip_ends, clip_place),
)
REWARDS: dict[str, Callable[[Moment], Array]] = {each.__name__: each for each in ALL}
