"""Surfaces that support effectors: planes and boxes of the world and of prescribed links."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.pairs import box_distance
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.products import matmul
from jaxsim.math.rotation import quat_to_matrix, rotate
from jaxsim.math.safe import safe_sqrt
from jaxsim.model import Model, ModelError, Topology
from jaxsim.model.part import driven_part
from jaxsim.model.topology import WORLD

SURFACES = ("plane", "box")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Surroundings:
    """nf supporting shapes at a step's beginning, and of prescribed motion also at its end.

    Index of a shape: into ``bearing_shapes``.
    """

    kinds: tuple[str, ...] = field(metadata={"static": True})
    pos: Array  # (nf, 3) [m]
    rot: Array  # (nf, 3, 3)
    size: Array  # (nf, 3), see jaxsim.model.shapes [m]
    friction: Array  # (nf,)
    end_pos: Array | None = None  # (nf, 3) at the step's end [m]; None where nothing moves
    end_rot: Array | None = None  # (nf, 3, 3)

    def at_end(self) -> "Surroundings":
        """Surroundings at the step's end, taken as at rest."""
        if self.end_pos is None:
            return self
        return replace(self, pos=self.end_pos, rot=self.end_rot, end_pos=None, end_rot=None)

    def surfaces(self, points: Array) -> "Surfaces":
        """Distances and normals of all shapes at points (n, 3) [m]."""
        gaps, normals = [], []
        for s, kind in enumerate(self.kinds):
            rot = self.rot[s]
            local = (points - self.pos[s]) @ rot
            if kind == "plane":
                gap, normal = local[:, 2], jnp.broadcast_to(rot[:, 2], points.shape)
            else:
                half = self.size[s]
                gap, gradient = jax.vmap(lambda p, half=half: box_distance(p, half))(local)
                normal = gradient @ rot.T
            gaps.append(gap)
            normals.append(normal)
        return Surfaces(jnp.stack(gaps, axis=1), jnp.stack(normals, axis=1))

    def moved(self, points: Array, which: Array) -> Array | None:
        """(n, 3) displacement in the step of the material points of shapes at points (n, 3) [m].

        which (n, nf): 1 for the shape of each point. None where nothing moves.
        """
        if self.end_pos is None or self.end_rot is None:
            return None
        ways = []
        for s in range(len(self.kinds)):
            local = (points - self.pos[s]) @ self.rot[s]
            ways.append(self.end_pos[s] + local @ self.end_rot[s].T - points)
        return jnp.sum(which[..., None] * jnp.stack(ways, axis=1), axis=1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Surfaces:
    """Signed distances and normals of n points to each of the nf surfaces."""

    gap: Array  # (n, nf) signed distance [m]
    normal: Array  # (n, nf, 3) unit, away from the surface


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nearest:
    """Nearest surface of each effector: gap, normal, friction and motion."""

    gap: Array  # (ne,) signed distance [m]
    normal: Array  # (ne, 3) unit, away from the surface
    friction: Array  # (ne,) coefficient
    surface: Array  # (ne,) int, index into ``bearing_shapes``
    moved: Array | None = None  # (ne, 3) its displacement in the step [m]; None where none moves


def bearing_shapes(top: Topology) -> tuple[int, ...]:
    """Indices of the planes and boxes of the world and of links with prescribed motion.

    Raises ModelError where there are none, and for shapes of other kinds, unless they touch
    nothing.
    """
    driven = {top.joint_link[j] for j, moves in enumerate(top.joint_driven) if moves}
    touching = {s for pair in top.shape_pairs for s in pair}
    shapes = [s for s, link in enumerate(top.shape_link) if link == WORLD or link in driven]
    shapes = [s for s in shapes if top.shape_kinds[s] in SURFACES or s in touching]
    for s in shapes:
        if top.shape_kinds[s] not in SURFACES:
            raise ModelError(
                f"shape {top.shape_names[s]!r} of the world is a {top.shape_kinds[s]}; synthesis "
                f"knows {', '.join(SURFACES)}"
            )
    if not shapes:
        raise ModelError("the world has no shape to stand on; add a plane or a box to it")
    return tuple(shapes)


def surroundings(
    model: Model, time: Array | float = 0.0, dt: Array | float | None = None
) -> Surroundings:
    """Supporting shapes at a time [s], and with ``dt`` [s] where they are at the step's end.

    model: the whole one, with its links of prescribed motion.
    """
    shapes = np.array(bearing_shapes(model.topology))
    fields = model.shape_size[shapes], model.friction[shapes]
    kinds = tuple(model.topology.shape_kinds[s] for s in shapes)
    now = frames(model, shapes, time)
    still = all(model.topology.shape_link[s] == WORLD for s in shapes)
    ahead = (None, None) if still or dt is None else frames(model, shapes, time + dt)
    return Surroundings(kinds, *now, *fields, *ahead)


def frames(model: Model, shapes: np.ndarray, time: Array | float) -> tuple[Array, Array]:
    """Positions (n, 3) [m] and rotations (n, 3, 3) of shapes of the world and prescribed links."""
    top = model.topology
    links = np.array([top.shape_link[s] for s in shapes])
    pos, rot = model.shape_pos[shapes], jax.vmap(quat_to_matrix)(model.shape_quat[shapes])
    if (links == WORLD).all():
        return pos, rot
    part = driven_part(top)
    of = part.of(model)
    q = of.drive.position(jnp.asarray(time, pos.dtype))
    kin = forward_kinematics(of, q, jnp.zeros_like(q))
    places, turns = [], []
    for k, link in enumerate(links):
        if link == WORLD:
            places.append(pos[k])
            turns.append(rot[k])
            continue
        own = int(np.flatnonzero(part.links == link)[0])
        places.append(kin.link_pos[own] + rotate(kin.link_rot[own], pos[k]))
        turns.append(matmul(kin.link_rot[own], rot[k]))
    return jnp.stack(places), jnp.stack(turns)


def nearest(
    model: Model, effectors: Effectors, points: Array, around: Surroundings, surfaces: Surfaces
) -> Nearest:
    """Nearest surface of each effector at points (ne, 3) [m], from distances to all surfaces.

    Friction is the root of both coefficients' product.
    """
    surface = jnp.argmin(surfaces.gap, axis=1)
    one = surface[:, None] == np.arange(len(around.kinds))
    pick = jnp.where(one, 1.0, 0.0).astype(surfaces.gap.dtype)
    other = jnp.sum(pick * around.friction, axis=1)
    return Nearest(
        gap=jnp.sum(jnp.where(one, surfaces.gap, 0.0), axis=1),
        normal=jnp.sum(pick[..., None] * surfaces.normal, axis=1),
        friction=safe_sqrt(model.friction[np.array(effectors.shapes)] * other),
        surface=surface,
        moved=around.moved(points, pick),
    )
