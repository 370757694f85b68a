"""Contact detection: fill all contact slots of a configuration."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import FAR
from jaxsim.collision.families import FAMILIES, Scene, Touch, ball_centers
from jaxsim.collision.nearest import Chosen
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.math.rotation import compose, quat_to_matrix, rotate
from jaxsim.math.safe import safe_max, safe_sqrt
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Contacts:
    """Contacts of all slots, one row a slot; a slot whose gap is large touches nothing."""

    point: Array  # (nc, 3) midway between the two surfaces, in the world [m]
    normal: Array  # (nc, 3) unit, from shape b to shape a
    gap: Array  # (nc,) signed distance [m]
    friction: Array  # (nc,) coefficient
    restitution: Array  # (nc,)


def find_contacts(model: Model, kin: Kinematics) -> Contacts:
    """Fill every contact slot of the model (see ``contact_slots``)."""
    slots = contact_slots(model.topology)
    scene = Scene(model, *shape_poses(model, kin))
    touches: list[Touch] = []
    for family in FAMILIES:
        rows = slots.rows[family.name]
        if len(rows):
            touch = family.touch(scene, rows)
            touches += touch if isinstance(touch, list) else [touch]
    if not touches:
        empty = jnp.zeros((0, 3), model.mass.dtype)
        touches.append((empty, empty, empty[:, 0]))
    point, normal, gap = (jnp.concatenate(x) for x in zip(*touches, strict=True))
    a, b = slots.shape_a, slots.shape_b
    return Contacts(
        point=point,
        normal=normal,
        gap=gap,
        friction=safe_sqrt(model.friction[a] * model.friction[b]),
        restitution=jnp.maximum(model.restitution[a], model.restitution[b]),
    )


def overlapping_pairs(model: Model, q: Array) -> tuple[tuple[str, str], ...]:
    """Names of pairs of shapes that may touch and overlap at q (nq,)."""
    top = model.topology

    @jax.jit
    def gaps(model, q):
        kin = forward_kinematics(model, q, jnp.zeros(top.nv, q.dtype))
        return find_contacts(model, kin).gap

    slots, deep = contact_slots(top), np.asarray(gaps(model, q)) < 0
    pairs = zip(slots.shape_a[deep].tolist(), slots.shape_b[deep].tolist(), strict=True)
    return tuple((top.shape_names[a], top.shape_names[b]) for a, b in dict.fromkeys(pairs))


def take(contacts: Contacts, chosen: Chosen) -> Contacts:
    """Select the chosen contacts; the gap of an empty slot is ``FAR``."""
    taken = jax.tree.map(chosen.gather, contacts)
    return dataclasses.replace(taken, gap=jnp.where(chosen.used, taken.gap, FAR))


def shape_poses(model: Model, kin: Kinematics) -> tuple[Array, Array]:
    """World positions (ns, 3) and rotations (ns, 3, 3) of the shapes."""
    link = np.array(model.topology.shape_link, int)
    local_rot = quat_to_matrix(model.shape_quat)
    if not link.size:
        return model.shape_pos, local_rot
    in_world = (link < 0)[:, None]
    link_rot, link_pos = kin.link_rot[link], kin.link_pos[link]
    rot = jnp.where(in_world[..., None], local_rot, compose(link_rot, local_rot))
    moved = link_pos + rotate(link_rot, model.shape_pos)
    return jnp.where(in_world, model.shape_pos, moved), rot


def lowest_point(model: Model, kin: Kinematics, links: np.ndarray | None = None) -> Array:
    """() height of the lowest point of any link's shapes [m].

    links: (nl,) bool, only these. Raises ModelError where none of them has a shape.
    """
    top = model.topology
    pos, rot = shape_poses(model, kin)
    ends = ball_centers(pos, rot, model.shape_size)
    lows = []
    for s, link in enumerate(top.shape_link):
        if link < 0 or (links is not None and not links[link]):
            continue
        kind, size = top.shape_record(s), model.shape_size[s]
        if kind.ends:
            lows.append(ends[s, :, 2] - size[:2])
        else:
            lows.append((pos[s, 2] - kind.support(size, -rot[s, 2]))[None])
    if not lows:
        raise ModelError("no link has a shape, so there is no lowest point; give links shapes")
    return -safe_max(-jnp.concatenate(lows))
