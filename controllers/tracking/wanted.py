"""Desired force and torque on the whole body, for balance.

Source: the topple-free-foot paper, equations 7 to 12 and figure 6.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.balance import Balance
from controllers.tracking.parts import Parts
from controllers.tracking.reference import Instant
from controllers.tracking.support import towards_other_foot
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.dynamics.momentum import angular_momentum
from jaxsim.math.rotation import matrix_to_quat, quat_conjugate, quat_log, quat_multiply
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.model import Model

LEAST_LOAD = 0.3  # of the weight: least load in the centre of pressure


def pressed_ahead(model: Model, com: Array, ankle: Array, target: Instant) -> Array:
    """Offset (3,) [m], horizontal, of the centre of pressure by the target's momentum rates.

    From below the centre of mass ``com`` (3,); ankle (2, 3) [m]; zero for a pose at rest. model:
    the character alone.
    """
    mass, rate = model.mass.sum(), target.momentum_rate
    force = mass * (target.com_acceleration - model.gravity)
    load = jnp.maximum(force[2], LEAST_LOAD * mass * safe_norm(model.gravity))
    height = com[2] - jnp.min(ankle[:, 2])
    x, y = -height * force[0] - rate[1], rate[0] - height * force[1]
    return jnp.stack([x, y, jnp.zeros_like(x)]) / load


def desired_wrench(
    balance: Balance,
    model: Model,
    kin: Kinematics,
    parts: Parts,
    com: tuple[Array, Array],
    target: Instant,
    standing: Array,
) -> tuple[Array, Array]:
    """Desired torque (3,) [N m] and force (3,) [N] on the whole body.

    model: the character alone; com: its centre of mass (3,) [m] and velocity (3,) [m/s]; standing
    (2,) bool: stance feet. A target without ``sole`` is a pose: then the body is to rest over its
    feet, however these move.
    """
    place, velocity = com
    sole, feet = parts.soles(kin), standing.astype(place.dtype)

    def over_feet(of_feet):
        return safe_divide(feet @ of_feet, jnp.sum(feet))

    ahead, rate = place - over_feet(sole), target.com_velocity - velocity
    if target.sole is None:
        planned, rate = jnp.zeros_like(ahead), rate + over_feet(parts.sole_velocity(kin))
    else:
        planned = target.com - over_feet(target.sole)
    level, up = np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    whole = balance.com_p * (planned - ahead) + balance.com_d * rate
    force = level * whole
    force = force * jnp.minimum(1.0, safe_divide(balance.com_most, safe_norm(force)))
    force = towards_other_foot(force, place, sole, standing)
    torque = balance.momentum * (target.momentum - angular_momentum(model, kin, place))
    if target.trunk is not None:
        axes = jnp.stack([jnp.ones_like(balance.trunk_yaw)] * 2 + [balance.trunk_yaw])
        now = matrix_to_quat(kin.link_rot[parts.trunk])
        turn = quat_log(quat_multiply(target.trunk, quat_conjugate(now)))
        spin = target.trunk_velocity - kin.velocity[parts.trunk, :3]
        torque = torque + axes * (balance.trunk_p * turn + balance.trunk_d * spin)
    mass, along = model.mass.sum(), target.sole is not None
    if along:  # the height of a pose is its joints'
        force = force + up * balance.com_height * whole
        force = force + balance.inertia * mass * target.com_acceleration
        torque = torque + balance.inertia * target.momentum_rate
    return torque, force - balance.gravity * mass * model.gravity
