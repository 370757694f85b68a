"""Bodies of other sizes, masses and strengths from one model, as arrays."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.poses import without_side
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.model import Model, ModelError
from jaxsim.model.kinds import KINDS
from jaxsim.model.state import neutral_q
from jaxsim.model.topology import WORLD, Topology

Factors = Mapping[str, float | Array] | float | Array


def scaled(
    model: Model, sizes: Factors = 1.0, masses: Factors = 1.0, strength: Factors | None = None
) -> Model:
    """Scale sizes, masses and strengths of a model's links.

    Factors may be traced or batched. sizes: factors of each link along its frame's axes: one
    number, (nl,), (nl, 3), or a mapping from link names to a number or (3,). A name without its
    side ("thigh") means both sides. Of the humans in space a limb's or the trunk's length is z, a
    foot's x. The link's joints, centre of mass, shapes and grips move along, and so do the links
    that hang on it.

    masses: factors of each link's mass: one number, (nl,), or a mapping. A body of the same density
    has the product of the sizes. The inertia is that of the stretched body: each element of mass
    moves with the link's axes.

    strength: factors of kp and of the largest torque of each link's joints; kd and the passive
    damping follow, so that each dof keeps its damping ratio in the zero pose. Bodies that move
    alike, slowed by the root of their size, have masses times sizes (Hof 1996). None leaves gains
    and damping unchanged.

    Shapes of the world and limits stay; armature scales with the link's mass and squared size. A
    round shape stretched across its axis takes the geometric mean of the two factors; a shape
    turned against its link's axes is stretched along its own. Raises ModelError for an unknown name
    or a wrong shape of the factors.
    """
    top = model.topology
    dtype = model.mass.dtype
    size = _factors("sizes", top, sizes, dtype, (3,))
    mass = _factors("masses", top, masses, dtype, ())
    new = model.replace(
        mass=model.mass * mass,
        com=model.com * size,
        inertia=_stretched_inertia(model.inertia, size, mass),
        armature=model.armature * _armature_factor(top, size, mass),
        **_moved_joints(model, size),
        **_moved_grips(model, size),
        **_stretched_shapes(model, size),
    )
    if strength is None:
        return new
    return _strengthened(model, new, _factors("strength", top, strength, dtype, ()))


def _factors(what: str, top: Topology, given: Factors, dtype, tail: tuple[int, ...]) -> Array:
    """Factors (nl, *tail) of the links from an argument of ``scaled``."""
    shape = (top.n_links, *tail)
    if isinstance(given, Mapping):
        factors = jnp.ones(shape, dtype)
        for name, value in given.items():
            links = _links_of(what, top, name)
            factors = factors.at[links].set(_checked(f"{what}[{name!r}]", value, dtype, tail))
        return factors
    value = jnp.asarray(given, dtype)
    if value.shape not in ((), shape[:1], shape):
        raise ModelError(
            f"{what} has shape {value.shape}; give one number, {shape[:1]}"
            + (f", {shape}" if tail else "")
            + " or a mapping from link names"
        )
    return jnp.broadcast_to(value[:, None] if tail and value.ndim == 1 else value, shape)


def _checked(where: str, value, dtype, tail: tuple[int, ...]) -> Array:
    value = jnp.asarray(value, dtype)
    if value.shape not in ((), tail):
        raise ModelError(
            f"{where} has shape {value.shape}; give one number" + (f" or {tail}" if tail else "")
        )
    return value


def _links_of(what: str, top: Topology, name: str) -> np.ndarray:
    """Links that a name with or without its side means."""
    links = [i for i, own in enumerate(top.link_names) if name in (own, without_side(own))]
    if not links:
        names = dict.fromkeys(without_side(own) for own in top.link_names)
        raise ModelError(f"{what}: no link named {name!r}; the links are: {', '.join(names)}")
    return np.array(links)


def _stretched_inertia(inertia: Array, size: Array, mass: Array) -> Array:
    """Inertia (nl, 3, 3) of stretched links, from their stretched second moments of mass.

    Unchanged to the last bit for factors of 1.
    """
    eye = jnp.eye(3, dtype=inertia.dtype)

    def trace(x):
        return jnp.trace(x, axis1=-2, axis2=-1)[:, None, None]

    second = trace(inertia) / 2 * eye - inertia
    more = mass[:, None, None] * size[:, :, None] * second * size[:, None, :] - second
    return inertia + trace(more) * eye - more


def _moved_joints(model: Model, size: Array) -> dict[str, Array]:
    """Positions of joints in the scaled frames of the links before them, anchors in their own."""
    top = model.topology
    own = np.array(top.joint_link)
    before = np.array([WORLD if p == WORLD else top.joint_link[p] for p in top.joint_parent])
    rooted = (before == WORLD)[:, None]
    return {
        "joint_pos": model.joint_pos * jnp.where(rooted, 1.0, size[before]),
        "joint_anchor": model.joint_anchor * size[own],
    }


def _moved_grips(model: Model, size: Array) -> dict[str, Array]:
    """Points of grips in the scaled frames of the links that they connect."""
    top = model.topology
    own, other = np.array(top.grip_link, int), np.array(top.grip_other, int)
    in_world = (other == WORLD)[:, None]
    return {
        "grip_point": model.grip_point * size[own],
        "grip_other_point": model.grip_other_point * jnp.where(in_world, 1.0, size[other]),
    }


def _armature_factor(top: Topology, size: Array, mass: Array) -> Array:
    """Factor (nv,) of the armature: mass times, for rotations, the mean square of the sizes."""
    square = jnp.mean(size**2, axis=1)
    kinds = np.array([top.joint_kinds[j] for j in top.dof_joint])
    turns = (kinds != "slide") & (top.dof_stage > 0)
    link = top.dof_link
    return mass[link] * jnp.where(turns, square[link], 1.0)


def _stretched_shapes(model: Model, size: Array) -> dict[str, Array]:
    top = model.topology
    if not top.shape_kinds:
        return {}
    link = np.array(top.shape_link)
    size = jnp.where((link == WORLD)[:, None], 1.0, size[link])
    axes = quat_to_matrix(model.shape_quat)
    along = jnp.sqrt(jnp.sum((size[:, :, None] * axes) ** 2, axis=1))  # (ns, 3)
    x, y, z = along[:, 0], along[:, 1], along[:, 2]
    factor = jnp.ones_like(along)
    for kind in dict.fromkeys(top.shape_kinds):
        stretch = KINDS[kind].stretch(x, y, z)
        if stretch is not None:
            same = np.array([k == kind for k in top.shape_kinds])
            factor = jnp.where(same[:, None], jnp.stack(stretch, axis=-1), factor)
    return {"shape_pos": model.shape_pos * size, "shape_size": model.shape_size * factor}


def _strengthened(old: Model, new: Model, strength: Array) -> Model:
    factor = strength[np.array(old.topology.dof_link)]
    carried = _carried_inertia(new) / _carried_inertia(old)
    damping = jnp.sqrt(factor * carried)
    return new.replace(
        gain_p=new.gain_p * factor,
        torque_limit=new.torque_limit * factor,
        gain_d=new.gain_d * damping,
        damping=new.damping * damping,
    )


def _carried_inertia(model: Model) -> Array:
    """Inertia (nv,) that each dof moves in the zero pose [kg m^2 or kg]."""
    q = jnp.asarray(neutral_q(model), model.mass.dtype)
    kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype))
    return jnp.diagonal(mass_matrix(model, kin))
