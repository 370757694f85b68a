"""What a step came to, computed anew from its result."""

import jax.numpy as jnp
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import inverse_dynamics
from jaxsim.math.safe import safe_divide, safe_max, safe_norm
from jaxsim.model import Model
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.contact_forces import ContactModes
from jaxsim.synthesis.holds import Held
from jaxsim.synthesis.problem import actuated


def needed(
    conf: Configuration, v: Array, force: Array, outside: Array, config: SynthesisConfig
) -> tuple[Array, Array]:
    """L (nv,) of the joints in a step that ends with v (nv,) under contact forces (ne, 3), by RNEA,
    and () the largest that is missing at the root."""
    model, kin = conf.model, conf.kin
    if config.form == "central":
        kin = forward_kinematics(model, conf.q, (conf.v + v) / 2)
    given = inverse_dynamics(model, kin, (v - conf.v) / config.dt) - outside
    given = given - jnp.einsum("eid,ei->d", conf.jacobian, force)
    muscles = actuated(model.topology)
    return jnp.where(muscles, given, 0.0), safe_max(jnp.abs(jnp.where(muscles, 0.0, given)))


def effort(model: Model, torque: Array) -> Array:
    """() the largest of torque (nv,) over its limit; dofs without a limit do not count."""
    limit = model.torque_limit
    return safe_max(jnp.append(safe_divide(jnp.abs(torque), limit), 0.0))


def cone_excess(modes: ContactModes, force: Array) -> Array:
    """() [N] how far the worst contact force of (ne, 3), but those of grips, is outside of
    Coulomb's cone."""
    normal = jnp.sum(force * modes.normal, axis=-1)
    tangent = safe_norm(force - normal[:, None] * modes.normal)
    excess = jnp.maximum(tangent - modes.friction * normal, -normal)
    return safe_max(jnp.append(jnp.where(modes.signed, 0.0, excess), 0.0))


def grip_speed(conf: Configuration, held: Held | None, dt: Array | float) -> Array | None:
    """How fast the fastest that takes hold meets its hold [m/s]: what the impact stops."""
    if held is None or conf.holds is None:
        return None
    meets = safe_norm(conf.velocity[conf.holds.grippers] - held.moved / dt)
    return safe_max(jnp.where(held.fresh, meets, 0.0))
