"""Links kept level: orientation in the world, free about the vertical, by the link's own joint.

Source: the topple-free-foot paper, section 6, holding a cup.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.rotation import cross, rotate
from jaxsim.math.safe import safe_divide, safe_norm
from jaxsim.model import Model, ModelError
from jaxsim.model.topology import WORLD


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Levels:
    """n links, each with a direction that is kept upright."""

    up: Array  # (n, 3) it, in the link's frame, of length 1
    links: tuple[int, ...] = dataclasses.field(metadata={"static": True})

    def instead(
        self, model: Model, kin: Kinematics, error: Array, rate: Array
    ) -> tuple[Array, Array]:
        """Replace the error and rate (nv,) of the links' joints, so that the links stay level.

        About horizontal axes the error becomes the rotation to upright [rad] and the rate the
        parent's negative angular velocity [rad/s], so that the link does not turn with it. About
        the vertical those of the pose remain.
        """
        for up, link in zip(self.up, self.links):
            own = np.array(model.topology.dof_link) == link
            axis = jnp.where(own[:, None], kin.axis[:, :3], 0.0)
            parent = kin.velocity[model.topology.link_parent[link], :3]
            error = jnp.where(own, _with_vertical(axis, error, way_up(kin, link, up)), error)
            rate = jnp.where(own, _with_vertical(axis, rate, -parent), rate)
        return error, rate


def _with_vertical(axis: Array, of_pose: Array, wanted: Array) -> Array:
    """Combine a rotation (3,) about horizontal axes with the vertical part of a pose's (nv,).

    axis (nv, 3): axes of the dofs, along which the result (nv,) is.
    """
    kept = axis[:, 2] * jnp.sum(axis[:, 2] * of_pose)
    return kept + jnp.sum(axis[:, :2] * wanted[:2], axis=-1)


def way_up(kin: Kinematics, link: int, up: Array) -> Array:
    """Rotation vector (3,), in the world's axes, that brings ``up`` (3,) of the link upright [rad].

    Upside down there is no shortest way; then it is zero.
    """
    now = rotate(kin.link_rot[link], up)
    turn = cross(now, jnp.array([0.0, 0.0, 1.0], now.dtype))
    sine = safe_norm(turn)
    return safe_divide(jnp.arctan2(sine, now[2]), sine, 1.0) * turn


def level(model: Model, link: str, up: Sequence[float] | np.ndarray) -> Levels:
    """Levels of one link by name or role; up (3,) in its frame.

    Raises ModelError for a link that hangs on no joint with a motor, and for a direction of length
    zero.
    """
    index = model.topology.part(link)
    own = np.array(model.topology.dof_link) == index
    driven = np.isin(np.arange(model.topology.nv), model.topology.actuated_dofs)
    if model.topology.link_parent[index] == WORLD or not (own & driven).any():
        raise ModelError(f"{link} cannot be kept level: it hangs on no joint with a motor")
    length = float(np.linalg.norm(up))
    if not (np.isfinite(length) and length > 0):
        raise ModelError(f"{link}: up is {list(up)}; give a direction in the link's frame")
    return Levels(jnp.asarray(np.asarray(up) / length, model.mass.dtype)[None], (index,))


def levels_together(*levels: Levels) -> Levels:
    """Levels of several links in one."""
    links = tuple(link for each in levels for link in each.links)
    return Levels(jnp.concatenate([each.up for each in levels]), links)
