"""External effects of a controller: wrenches on links, scaled friction of links."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.math.rotation import cross
from jaxsim.math.spatial import spatial
from jaxsim.model.model import Model


def link_wrenches(model: Model, kin: Kinematics, wrench: Array) -> Array:
    """Generalised forces (nv,) [N m or N] of wrenches (nl, 6) on the links, in the world's axes.

    A wrench has the torque [N m], and the force at the link's centre of mass [N].
    """
    torque, force = wrench[:, :3], wrench[:, 3:]
    about = spatial(torque + cross(kin.com - kin.reference, force), force)
    return jnp.sum(kin.axis * mask_product(model.topology.link_dofs.T, about), axis=-1)


def with_friction(model: Model, contacts: Contacts, scale: Array) -> Contacts:
    """Contacts whose friction is multiplied by the factors, scale (nl,), of both touching links."""
    slots, link = contact_slots(model.topology), np.array(model.topology.shape_link, int)
    factor = jnp.append(scale, 1.0)[link]  # the world's is 1
    return replace(
        contacts, friction=contacts.friction * factor[slots.shape_a] * factor[slots.shape_b]
    )
