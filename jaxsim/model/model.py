"""Model: a topology with its numbers, a pytree whose arrays may be batched and tuned."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.model.drives import Drive
from jaxsim.model.topology import Topology


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Model:
    """Bodies, joints, shapes and grips of one character or world.

    ``topology`` is static; all other fields are arrays (nl links, nj joints counting fixed ones,
    nv degrees of freedom, ns shapes, nd driven joints, ng grips). Use ``dataclasses.replace`` (or
    :meth:`replace`) to change numbers; a vmapped function may take a Model with a leading batch
    axis on any field.
    """

    topology: Topology = dataclasses.field(metadata={"static": True})
    gravity: Array  # (3,) [m/s^2]
    mass: Array  # (nl,) [kg]
    com: Array  # (nl, 3) centre of mass in the link's frame [m]
    inertia: Array  # (nl, 3, 3) about the centre of mass, link axes [kg m^2]
    joint_pos: Array  # (nj, 3) frame of the joint's zero pose in the parent node's frame [m]
    joint_quat: Array  # (nj, 4) orientation of that frame
    joint_axis: Array  # (nj, 3) unit axis, in the joint's own frame
    joint_anchor: Array  # (nj, 3) point on the axis, in the joint's own frame [m]
    joint_lower: Array  # (nj,) [rad or m]; meaningless where the joint has no limits
    joint_upper: Array  # (nj,) of a ball joint its greatest angle [rad]
    drive: Drive  # of (nd,) arrays, one for each driven joint
    damping: Array  # (nv,) passive joint damping [N m s/rad or N s/m]
    armature: Array  # (nv,) added to the diagonal of the mass matrix [kg m^2 or kg]
    gain_p: Array  # (nv,) PD stiffness [N m/rad or N/m]
    gain_d: Array  # (nv,) PD damping [N m s/rad or N s/m]
    torque_limit: Array  # (nv,) largest actuator torque [N m or N]; 0 where there is no actuator
    shape_pos: Array  # (ns, 3) in the link's (or the world's) frame [m]
    shape_quat: Array  # (ns, 4)
    shape_size: Array  # (ns, 3), see jaxsim.model.shapes [m]
    friction: Array  # (ns,) Coulomb coefficient; a contact uses sqrt(a b)
    restitution: Array  # (ns,) in [0, 1]; a contact uses the larger
    grip_point: Array  # (ng, 3) in the frame of the gripping link [m]
    grip_other_point: Array  # (ng, 3) in the frame of the gripped link, or the world [m]
    grip_strength: Array  # (ng,) force at which the grip breaks [N]
    heights: tuple[Array, ...] = ()  # (nx, ny) of each height field, along its z axis [m]

    def replace(self, **changes) -> "Model":
        """Copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def with_shape(self, name: str, **changes) -> "Model":
        """Copy with changed pos, quat, size, friction, restitution or heights of one shape."""
        index = self.topology.shape(name)
        field = self.topology.shape_field[index]
        fields = {
            "pos": "shape_pos",
            "quat": "shape_quat",
            "size": "shape_size",
            "friction": "friction",
            "restitution": "restitution",
        }
        new = {}
        for key, value in changes.items():
            if key == "heights" and field >= 0:
                old = self.heights[field]
                grid = jnp.broadcast_to(jnp.asarray(value, old.dtype), old.shape)
                new[key] = (*self.heights[:field], grid, *self.heights[field + 1 :])
                continue
            if key not in fields:
                raise KeyError(f"a shape has no {key!r}; choose from {', '.join(fields)}")
            new[fields[key]] = getattr(self, fields[key]).at[index].set(value)
        return self.replace(**new)

    @property
    def total_mass(self) -> Array:
        """Mass of all links [kg]."""
        return self.mass.sum()
