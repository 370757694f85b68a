"""Effectors: points of a body that may touch its surroundings, such as heels, toes and hands."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.jacobians import motion_jacobian
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.rotation import quat_rotate, rotate
from jaxsim.model import Model, ModelError
from jaxsim.model.topology import INDEX


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Effectors:
    """ne effector points of shapes of links; those of one group (a foot, a hand) act together."""

    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    shapes: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    links: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    group_names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    groups: tuple[int, ...] = dataclasses.field(metadata={"static": True})  # (ne,) index
    point: Array  # (ne, 3) in the link's frame [m]

    @property
    def count(self) -> int:
        return len(self.names)

    def of(self, group: str) -> np.ndarray:
        """(ne,) bool: points of a group by name; KeyError lists the groups."""
        if group not in self.group_names:
            raise KeyError(f"no group {group!r}; the groups are: {', '.join(self.group_names)}")
        return np.array(self.groups) == self.group_names.index(group)

    @property
    def in_group(self) -> np.ndarray:
        """(n groups, ne) bool: membership of the points in groups."""
        return np.arange(len(self.group_names))[:, None] == np.array(self.groups)

    def positions(self, kin: Kinematics) -> Array:
        """(ne, 3) positions of the points in the world [m]."""
        link = np.array(self.links, INDEX)
        return kin.link_pos[link] + rotate(kin.link_rot[link], self.point)

    def jacobians(self, model: Model, kin: Kinematics, positions: Array) -> Array:
        """(ne, 3, nv): d(velocities of the points now at ``positions`` (ne, 3)) / d qd."""
        carried = model.topology.link_dofs[np.array(self.links, INDEX)]
        along = jax.vmap(lambda point: motion_jacobian(model, kin, point))(positions)
        return jnp.swapaxes(jnp.asarray(carried, along.dtype)[:, :, None] * along, 1, 2)


def effectors(
    model: Model, points: Sequence[tuple[str, str, str, Sequence[float] | Array]]
) -> Effectors:
    """Make effectors from (name, group, shape, place): place (3,) relative to the half size.

    A box's half extents are its size; a capsule reaches half its length and a radius along x, a
    radius across. Raises ModelError for a shape that the model lacks or that belongs to the world.
    """
    top = model.topology
    shapes, positions, names, groups = [], [], [], []
    for name, group, shape, place in points:
        if shape not in top.shape_names or top.shape_link[top.shape(shape)] < 0:
            own = [s for s, link in zip(top.shape_names, top.shape_link) if link >= 0]
            raise ModelError(
                f"effector {name!r}: no link has a shape {shape!r}; there are {', '.join(own)}"
            )
        index = top.shape(shape)
        size = model.shape_size[index]
        half = top.shape_record(index).half(size)
        half = half if half is size else jnp.stack(half)
        local = jnp.asarray(place, size.dtype) * half
        positions.append(model.shape_pos[index] + quat_rotate(model.shape_quat[index], local))
        shapes.append(index)
        names.append(name)
        groups.append(group)
    group_names = tuple(dict.fromkeys(groups))
    return Effectors(
        names=tuple(names),
        shapes=tuple(shapes),
        links=tuple(top.shape_link[s] for s in shapes),
        group_names=group_names,
        groups=tuple(group_names.index(g) for g in groups),
        point=jnp.stack(positions),
    )
