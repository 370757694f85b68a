"""What a point of the body can bear on: the planes and boxes of the world."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.pairs import box_distance
from jaxsim.dynamics.effectors import Effectors
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.math.safe import safe_sqrt
from jaxsim.model import Model, ModelError, Topology

SURFACES = ("plane", "box")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Surfaces:
    """Of each of n points to each of the nf surfaces."""

    gap: Array  # (n, nf) signed distance [m]
    normal: Array  # (n, nf, 3) unit, away from the surface


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nearest:
    """The nearest surface of each effector."""

    gap: Array  # (ne,) signed distance [m]
    normal: Array  # (ne, 3) unit, away from the surface
    friction: Array  # (ne,) coefficient
    surface: Array  # (ne,) int, index into ``world_surfaces``


def world_surfaces(top: Topology) -> tuple[int, ...]:
    """The shapes of the world that bear; ModelError where there are none, or other kinds."""
    own = [s for s, link in enumerate(top.shape_link) if link < 0]
    for s in own:
        if top.shape_kinds[s] not in SURFACES:
            raise ModelError(
                f"shape {top.shape_names[s]!r} of the world is a {top.shape_kinds[s]}; synthesis "
                f"knows {', '.join(SURFACES)}"
            )
    if not own:
        raise ModelError("the world has no shape to stand on; add a plane or a box to it")
    return tuple(own)


def surfaces(model: Model, points: Array) -> Surfaces:
    """Distances of points (n, 3) [m] to all surfaces of the world."""
    gaps, normals = [], []
    for s in world_surfaces(model.topology):
        rot = quat_to_matrix(model.shape_quat[s])
        local = (points - model.shape_pos[s]) @ rot
        if model.topology.shape_kinds[s] == "plane":
            gap, normal = local[:, 2], jnp.broadcast_to(rot[:, 2], points.shape)
        else:
            half = model.shape_size[s]
            gap, gradient = jax.vmap(lambda p, half=half: box_distance(p, half))(local)
            normal = gradient @ rot.T
        gaps.append(gap)
        normals.append(normal)
    return Surfaces(jnp.stack(gaps, axis=1), jnp.stack(normals, axis=1))


def nearest(model: Model, effectors: Effectors, found: Surfaces) -> Nearest:
    """The nearest surface of each effector; friction is the root of both coefficients' product."""
    surface = jnp.argmin(found.gap, axis=1)
    own = np.array(world_surfaces(model.topology))
    one = surface[:, None] == np.arange(len(own))
    pick = jnp.where(one, 1.0, 0.0).astype(found.gap.dtype)
    other = jnp.sum(pick * model.friction[own], axis=1)
    return Nearest(
        gap=jnp.sum(jnp.where(one, found.gap, 0.0), axis=1),
        normal=jnp.sum(pick[..., None] * found.normal, axis=1),
        friction=safe_sqrt(model.friction[np.array(effectors.shapes)] * other),
        surface=surface,
    )
