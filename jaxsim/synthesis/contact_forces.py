"""Contact modes of effectors, and the bases of their contact forces.

Source: Jain, Ye, Liu (2009), section 4.2, equations 11 and 12.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.constraints.rows import contact_frame
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.holds import ActiveGrips

EDGES = 4  # coefficients of a contact


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ContactModes:
    """Effectors in contact in this step, with their force bases and friction cones."""

    on: Array  # (ne,) bool: may carry force
    sliding: Array  # (ne,) bool: faster over the surface than ``slip_speed``
    basis: Array  # (ne, 4, 3) force of each coefficient; zero rows where it has none
    signed: Array  # (ne,) bool: a grip, whose coefficients may be negative
    normal: Array  # (ne, 3) unit: the axis of the cone
    friction: Array  # (ne,) coefficient
    holds: Array  # (ne,) bool: on a hold, where it stays


def contact_modes(
    conf: Configuration,
    touch_distance: Array | float,
    slip_speed: Array | float,
    dt: Array | float,
    blocked: Array | None = None,
    grip: Array | None = None,
    held: ActiveGrips | None = None,
) -> ContactModes:
    """Contact modes of effectors that touch, will touch within ``dt`` at their velocity, or grip.

    blocked (ne,) bool: must not carry force, because it would leave the surface while it does.
    grip (ne,) bool: hold on, with any force. A static contact has the four edges of the friction
    pyramid (equation 11), a sliding one the single direction n - mu v / |v| (equation 12), a grip
    the three axes of the contact's frame. A foot on a hold has the pyramid about the hold's push.
    """
    near, velocity = conf.near, conf.velocity - conf.surface_moved() / dt
    axis, friction, holds = near.normal, near.friction, jnp.zeros(near.gap.shape, bool)
    if held is not None and conf.holds is not None:
        at, hands = conf.holds.grippers, np.array(conf.holds.holds.hands)
        holds = holds.at[at].set(held.on)
        axis = axis.at[at].set(jnp.where(held.on[:, None], held.push, axis[at]))
        friction = friction.at[at].set(jnp.where(held.on, held.friction, friction[at]))
        hand = jnp.zeros_like(holds).at[at].set(held.on & hands)
        grip = hand if grip is None else grip | hand
    frame = contact_frame(conf.model.topology, axis)
    normal, first, second = frame[:, 0], frame[:, 1], frame[:, 2]
    approach = jnp.sum(velocity * normal, axis=-1)
    on = (near.gap <= touch_distance) | (near.gap + dt * approach <= 0)
    if blocked is not None:
        on = on & ~blocked
    on = on | holds
    along = velocity - approach[:, None] * normal
    speed = safe_norm(along)
    sliding = on & ~holds & (speed > slip_speed)
    mu = friction[:, None]
    edges = [normal + mu * first, normal + mu * second]
    edges += [normal - mu * first, normal - mu * second]
    static = jnp.stack(edges, axis=1)
    slip = safe_divide(along, speed[:, None])
    first_only = jnp.zeros(EDGES, static.dtype).at[0].set(1.0)
    kinetic = (normal - mu * slip)[:, None, :] * first_only[:, None]
    basis = jnp.where(sliding[:, None, None], kinetic, static)
    signed = jnp.zeros_like(on) if grip is None else grip
    if grip is not None:
        axes = jnp.concatenate([frame, jnp.zeros_like(frame[:, :1])], axis=1)
        basis = jnp.where(grip[:, None, None], axes, basis)
        on, sliding = on | grip, sliding & ~grip
    basis = jnp.where(on[:, None, None], basis, 0.0)
    return ContactModes(on, sliding, basis, signed, axis, friction, holds)
