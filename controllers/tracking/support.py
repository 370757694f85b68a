"""Stance feet, their shares of the body's weight, and the limits of the ground's reaction.

Source: the topple-free-foot paper, sections 4 and 5.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.balance import Balance
from controllers.tracking.parts import Parts
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.model import Model

HELP = ("threshold", "capacity", "none")
Flags = Array | np.ndarray
FRICTION_TURN = 0.05  # of a sole about its normal, in its load [m]


def standing_feet(
    touching: Flags, planned: Flags | None, com: Array, foot: Array, radius: Array | float
) -> Array:
    """Mask (2,) of stance feet.

    touching (2,) bool; planned (2,) bool, of a reference, or None: then those in whose zone, of a
    ``radius`` [m] about the foot's centre of mass ``foot`` (2, 3) [m], the body's ``com`` (3,) is,
    and all if it is in none. Source: figure 5.
    """
    if planned is not None:
        return jnp.asarray(touching & planned)
    inside = safe_norm((com - foot)[:, :2]) < radius
    return jnp.asarray(touching & (inside | ~inside.any()))


def share_of_weight(ankle: Array, com: Array, standing: Flags) -> Array:
    """Share (2,) of the weight on the left and right foot.

    From the position of the centre of mass (3,) between the ankles (2, 3); a single stance foot has
    all of it, without one both have none.
    """
    way = (ankle[0] - ankle[1])[:2]
    left = safe_divide(jnp.sum((com - ankle[1])[:2] * way), jnp.sum(way * way))
    both = jnp.stack([jnp.clip(left, 0.0, 1.0), 1 - jnp.clip(left, 0.0, 1.0)])
    return jnp.where(standing.all(), both, jnp.where(standing, 1.0, 0.0).astype(com.dtype))


def towards_other_foot(force: Array, com: Array, sole: Array, standing: Flags) -> Array:
    """Horizontal force (3,) [N] without the part that keeps the body from the swing foot.

    Applies where the centre of mass is between the feet. Source: figure 6.
    """
    single = standing[0] != standing[1]
    way = jnp.where(standing[0], sole[1] - sole[0], sole[0] - sole[1]).at[2].set(0.0)
    length = safe_norm(way)
    unit = safe_divide(way, length)
    begins = jnp.where(standing[0], sole[0], sole[1])
    along = jnp.sum((com - begins) * unit)
    back = jnp.sum(force * unit)
    drop = single & (along > 0) & (along < length) & (back < 0)
    return force - jnp.where(drop, back, 0.0) * unit


def beyond_capacity(
    model: Model, kin: Kinematics, parts: Parts, torque: Array, load: Array, part: Array
) -> Array:
    """Excess (2, 3) of the torques (2, 3) on the feet over a ``part`` of the ground's capacity.

    The capacity is what the whole sole can transmit under the loads (2,) [N]: limits in the foot's
    axes, torques in the world's.
    """
    rot = kin.link_rot[jnp.array(parts.feet)]
    own = rotate(jnp.swapaxes(rot, -1, -2), torque)
    x, y = parts.reach[:, 0], parts.reach[:, 1]
    turn = FRICTION_TURN * jnp.ones_like(x[:, 0])
    # the force at (x, y) turns a foot that it pushes up by (y, -x): the ankle gives the opposite
    least = jnp.stack([-y[:, 1], x[:, 0], -turn], axis=1) * (part * load)[:, None]
    most = jnp.stack([-y[:, 0], x[:, 1], turn], axis=1) * (part * load)[:, None]
    return rotate(rot, own - jnp.clip(own, least, most))


def help_on_feet(
    kind: str,
    balance: Balance,
    model: Model,
    kin: Kinematics,
    parts: Parts,
    share: Array,
    on_feet: Array,
    virtual: Array,
) -> tuple[Array, Array]:
    """Residual torque (2, 3) [N m] on the feet, and torques (nv,) of the virtual actuators.

    An ankle without help gives less. kind: one of ``HELP``; model: the character alone; share (2,)
    of its weight on each foot; on_feet (2, 3) torques of the virtual actuators on them, in the
    world's axes. Source: equations 13 and 14.
    """
    if kind == "threshold":
        size = safe_norm(on_feet)
        more = jnp.clip(size - balance.help_from, 0.0, balance.help_to - balance.help_from)
        return -safe_divide(more, size)[:, None] * on_feet, virtual
    load = share * model.mass.sum() * safe_norm(model.gravity)
    beyond = beyond_capacity(model, kin, parts, on_feet, load, balance.capacity)
    if kind == "capacity":
        less = jnp.minimum(1.0, safe_divide(balance.help_to, safe_norm(beyond)))
        return -less[:, None] * beyond, virtual
    for k, foot in enumerate(parts.feet):
        of_ankle = model.topology.dof_link == foot
        virtual = virtual - jnp.where(of_ankle, kin.axis[:, :3] @ beyond[k], 0.0)
    return jnp.zeros_like(on_feet), virtual
