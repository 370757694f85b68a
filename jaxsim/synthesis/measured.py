"""Torques and physical residuals of a step, recomputed from its result."""

import jax.numpy as jnp
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import inverse_dynamics
from jaxsim.math.safe import safe_divide, safe_max, safe_norm
from jaxsim.model import Model
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.contact_forces import ContactModes
from jaxsim.synthesis.holds import ActiveGrips
from jaxsim.synthesis.problem import motor_mask


def needed_torque(
    conf: Configuration, v: Array, force: Array, outside: Array, config: SynthesisConfig
) -> tuple[Array, Array]:
    """Joint torques (nv,) that a step needs, by RNEA, and () the largest force missing at the root.

    The step ends with v (nv,), under contact forces (ne, 3) [N].
    """
    model, kin = conf.model, conf.kin
    if config.form == "central":
        kin = forward_kinematics(model, conf.q, (conf.v + v) / 2)
    given = inverse_dynamics(model, kin, (v - conf.v) / config.dt) - outside
    given = given - jnp.einsum("eid,ei->d", conf.jacobian, force)
    muscles = motor_mask(model.topology)
    return jnp.where(muscles, given, 0.0), safe_max(jnp.abs(jnp.where(muscles, 0.0, given)))


def effort(model: Model, torque: Array) -> Array:
    """() largest ratio of torque (nv,) to its limit; dofs without a limit do not count."""
    limit = model.torque_limit
    return safe_max(jnp.append(safe_divide(jnp.abs(torque), limit), 0.0))


def cone_excess(modes: ContactModes, force: Array) -> Array:
    """() largest distance of a contact force (ne, 3) from Coulomb's cone, without grips [N]."""
    normal = jnp.sum(force * modes.normal, axis=-1)
    tangent = safe_norm(force - normal[:, None] * modes.normal)
    excess = jnp.maximum(tangent - modes.friction * normal, -normal)
    return safe_max(jnp.append(jnp.where(modes.signed, 0.0, excess), 0.0))


def grip_speed(conf: Configuration, held: ActiveGrips | None, dt: Array | float) -> Array | None:
    """() largest relative speed of an effector and the hold that it grips in this step [m/s].

    The impact stops it. None without holds.
    """
    if held is None or conf.holds is None:
        return None
    meets = safe_norm(conf.velocity[conf.holds.grippers] - held.moved / dt)
    return safe_max(jnp.where(held.fresh, meets, 0.0))
