"""External forces on points of links between two times: pushes, pulls, loads."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxsim.dynamics.kinematics import Kinematics, mask_product
from jaxsim.math.rotation import rotate
from jaxsim.math.spatial import wrench_at
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pushes:
    """n constant external forces. All are arrays, so that members of a batch may differ in them."""

    link: Array  # (n,) int index
    point: Array  # (n, 3) in the link's frame [m]
    force: Array  # (n, 3) in the world's frame [N]
    start: Array  # (n,) [s]
    duration: Array  # (n,) [s]
    direction: Array  # (n,) angle by which the force is turned about the vertical, leftwards [rad]


def push(
    model: Model,
    link: str,
    force: Sequence[float],
    start: float = 0.0,
    duration: float = np.inf,
    point: Sequence[float] | None = None,
    direction: float = 0.0,
) -> Pushes:
    """Make a push on a link by role ("pelvis", "leftFoot") or name.

    It acts at the link's centre of mass unless a ``point`` of it is given [m], and is turned about
    the vertical by ``direction`` [rad]: (f, 0, 0) points forward at 0, to the left at pi / 2.
    ``pushes_together`` joins several. Raises ModelError for an unknown link, ValueError for NaN.
    """
    try:
        index = model.topology.part(link)
    except KeyError:
        known = (*model.topology.link_names, *(role for role, _ in model.topology.roles.links))
        raise ModelError(
            f"no link {link!r} to push; there are {', '.join(dict.fromkeys(known))}"
        ) from None
    at = model.com[index] if point is None else point
    values = {
        "force": (force, (3,)),
        "point": (at, (3,)),
        "start": (start, ()),
        "duration": (duration, ()),
        "direction": (direction, ()),
    }
    arrays = {}
    for name, (value, shape) in values.items():
        array = jnp.asarray(value, model.mass.dtype)
        if array.shape != shape:
            raise ValueError(f"push on {link!r}: {name} has shape {array.shape}, not {shape}")
        if not isinstance(array, Tracer) and np.isnan(np.asarray(array)).any():
            raise ValueError(f"push on {link!r}: {name} is not a number")
        arrays[name] = array[None]
    return Pushes(link=jnp.array([index]), **arrays)


def pushes_together(*pushes: Pushes) -> Pushes:
    """Join pushes, which may overlap in time; their forces add up."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *pushes)


def push_torque(model: Model, kin: Kinematics, pushes: Pushes, time: Array) -> Array:
    """Generalised forces (nv,) [N m or N] of the pushes that act at ``time`` [s]."""
    acts = (time >= pushes.start) & (time < pushes.start + pushes.duration)
    x, y, z = jnp.moveaxis(pushes.force, -1, 0)
    cos, sin = jnp.cos(pushes.direction), jnp.sin(pushes.direction)
    turned = jnp.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)
    force = jnp.where(acts[:, None], turned, 0.0)
    arm = rotate(kin.link_rot[pushes.link], pushes.point)
    point = kin.link_pos[pushes.link] + arm
    wrench = wrench_at(point, kin.reference[pushes.link], force)
    links = jnp.arange(model.topology.n_links)
    on_link = jnp.sum(jnp.where((pushes.link == links[:, None])[..., None], wrench, 0.0), axis=1)
    return jnp.sum(kin.axis * mask_product(model.topology.link_dofs.T, on_link), axis=-1)
