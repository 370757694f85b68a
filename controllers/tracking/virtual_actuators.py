"""Virtual actuators: a force and a torque on the whole body, from the torques of its joints.

The transposed Jacobian of centre of mass and angular momentum, re-rooted at the stance feet. With y
= I_c^-1 tau, I_c the inertia of the locked body about its centre of mass c, its transpose applied
to (tau, f) is the torque with which a force m_l (f / m + y x s_l) and a torque I_l y act on each
link, s_l its centre of mass from c. Moving the root to the feet means that these take the opposite
wrench: each foot carries a share of force and moment, at its ankle. The root's own rows are then
zero, so no tree is rebuilt.

Source: the topple-free-foot paper, section 3.2 and appendix B; that two feet share one wrench,
rather than each being a root by itself, is ours: two roots put opposite torques on the ankles of a
body that stands still.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.tracking.parts import Parts
from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.dynamics.rigid import link_inertias
from jaxsim.math.rotation import cross, rotate
from jaxsim.math.spatial import inertia_apply, spatial
from jaxsim.model import Model


def whole_inertia(model: Model, kin: Kinematics, com: Array) -> Array:
    """Inertia (3, 3) of all links about the centre of mass [kg m^2]."""
    mass, first, second = link_inertias(model, kin)
    shift = kin.reference - com  # (nl, 3)
    squared = jnp.sum(shift * shift, axis=-1)[:, None, None] * jnp.eye(3, dtype=com.dtype)
    parallel = mass[:, None, None] * (squared - shift[:, :, None] * shift[:, None, :])
    dot = jnp.sum(first * shift, axis=-1)[:, None, None] * jnp.eye(3, dtype=com.dtype)
    outer = first[:, :, None] * shift[:, None, :]
    return (second + parallel + 2 * dot - outer - jnp.swapaxes(outer, -1, -2)).sum(axis=0)


def virtual_torque(
    model: Model,
    kin: Kinematics,
    parts: Parts,
    com: Array,
    share: Array,
    torque: Array,
    force: Array,
) -> tuple[Array, Array]:
    """Joint torques (nv,) [N m] that act like a torque and a force on the whole body.

    ``torque`` (3,) [N m] and ``force`` (3,) [N] at the centre of mass, against feet that carry the
    shares (2,). Also returns the torque on each foot (2, 3) [N m], in the world's axes, as far as
    its motors reach.
    """
    mass, first, second = link_inertias(model, kin)
    y = _solve3(whole_inertia(model, kin, com), torque)
    # as momentum of a body that turns with y about c and moves with f / m
    moving = spatial(
        jnp.broadcast_to(y, kin.com.shape), force / mass.sum() + cross(y, kin.reference - com)
    )
    on_links = inertia_apply(mass, first, second, moving)
    ankle = parts.ankle(kin)
    feet = np.array(parts.feet)
    moment = jnp.sum(share[:, None] * cross(com - ankle, force), axis=0) + torque
    bears = share[:, None] * force
    about = share[:, None] * moment + cross(ankle - kin.reference[feet], bears)
    of_foot = (feet[:, None] == np.arange(len(mass)))[..., None]
    on_links = on_links - jnp.sum(
        jnp.where(of_foot, spatial(about, bears)[:, None, :], 0.0), axis=0
    )
    below = mask_product(model.topology.link_dofs.T, on_links)  # (nv, 6) that a dof carries
    joint_torque = jnp.where(parts.mask("inner"), jnp.sum(kin.axis * below, axis=-1), 0.0)
    # the whole moment: what an ankle's hinges do not turn about, it passes on by itself
    of_ankle = model.topology.dof_link == feet[:, None]
    carried = below[of_ankle.argmax(axis=1)]
    on_feet = carried[:, :3] - cross(ankle - kin.reference[feet], carried[:, 3:])
    beyond = joint_torque - jnp.clip(joint_torque, -model.torque_limit, model.torque_limit)
    on_ankles = jnp.where(of_ankle[..., None], beyond[:, None] * kin.axis[:, :3], 0.0)
    return joint_torque, on_feet - jnp.sum(on_ankles, axis=1)


def _solve3(A: Array, b: Array) -> Array:
    """Solution A^-1 b by cross products; A (3, 3), b (3,)."""
    rows = jnp.stack([cross(A[:, 1], A[:, 2]), cross(A[:, 2], A[:, 0]), cross(A[:, 0], A[:, 1])])
    return rotate(rows, b) / jnp.sum(A[:, 0] * rows[0])
