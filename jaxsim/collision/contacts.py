"""Contact detection: fill all contact slots of a configuration."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import FAR, box_box
from jaxsim.collision.box_field import box_field
from jaxsim.collision.height_field import Field, ball_field, side_field
from jaxsim.collision.nearest import Chosen
from jaxsim.collision.pairs import ball_box, ball_plane, box_plane, side_box
from jaxsim.collision.round_cones import nearest_balls, side_side
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.math.products import matmul
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
    pos, rot = shape_poses(model, kin)
    families = [*_flat_contacts(model, pos, rot), *_field_contacts(model, pos, rot)]
    if not families:
        empty = jnp.zeros((0, 3), model.mass.dtype)
        families.append((empty, empty, empty[:, 0]))
    point, normal, gap = (jnp.concatenate(x) for x in zip(*families, strict=True))
    a, b = slots.shape_a, slots.shape_b
    return Contacts(
        point=point,
        normal=normal,
        gap=gap,
        friction=safe_sqrt(model.friction[a] * model.friction[b]),
        restitution=jnp.maximum(model.restitution[a], model.restitution[b]),
    )


def _flat_contacts(model: Model, pos: Array, rot: Array) -> list[tuple[Array, Array, Array]]:
    """Points, normals and gaps of all families of slots without height fields."""
    slots = contact_slots(model.topology)
    size = model.shape_size
    ends = _ball_centers(pos, rot, size)
    out = []
    if len(slots.ball_plane):
        s, e, b = slots.ball_plane.T
        out.append(jax.vmap(ball_plane)(ends[s, e], size[s, e], pos[b], rot[b]))
    if len(slots.ball_box):
        s, e, b = slots.ball_box.T
        out.append(jax.vmap(ball_box)(ends[s, e], size[s, e], pos[b], rot[b], size[b]))
    if len(slots.side_box):
        s, b = slots.side_box.T
        point, normal, gap, counts = jax.vmap(side_box)(
            ends[s], size[s, :2], pos[b], rot[b], size[b]
        )
        out.append((point, normal, jnp.where(counts, gap, FAR)))
    if len(slots.box_plane):
        s, b = slots.box_plane.T
        each = jax.vmap(box_plane)(pos[s], rot[s], size[s], pos[b], rot[b])
        out.append(_in_one_row(each))
    if len(slots.box_box):
        s, b = slots.box_box.T
        each = jax.vmap(box_box)(pos[s], rot[s], size[s], pos[b], rot[b], size[b])
        out.append(_in_one_row(each))
    sphere = np.array([kind == "sphere" for kind in model.topology.shape_kinds])
    radii = jnp.stack([size[:, 0], jnp.where(sphere, size[:, 0], size[:, 1])], axis=1)
    if len(slots.ball_ball):
        a, b = slots.ball_ball.T
        out.append(jax.vmap(nearest_balls)(ends[a], radii[a], ends[b], radii[b]))
    if len(slots.side_side):
        a, b = slots.side_side.T
        out.append(_in_one_row(jax.vmap(side_side)(ends[a], radii[a], ends[b], radii[b])))
    return out


def _field_contacts(model: Model, pos: Array, rot: Array) -> list[tuple[Array, Array, Array]]:
    """Points, normals and gaps of the families of slots with height fields.

    Fields and their shapes are mapped one by one, so that the kernel contains the large routine
    once.
    """
    top, slots, size = model.topology, contact_slots(model.topology), model.shape_size
    ends = _ball_centers(pos, rot, size)
    out = []
    for family in ("ball_field", "side_field", "box_field"):
        rows = getattr(slots, family)
        for shape in dict.fromkeys(rows[:, -1].tolist()):
            mine = rows[rows[:, -1] == shape]
            number = top.shape_field[shape]
            reach = top.field_reach[number]
            field = Field(model.heights[number], size[shape, :2])
            local_ends = matmul(ends - pos[shape], rot[shape])
            s = mine[:, 0]
            if family == "ball_field":
                e = mine[:, 1]
                find = partial(ball_field, field=field, reach=reach.ball)
                each = _one_by_one(find, local_ends[s, e], size[s, e])
            elif family == "side_field":
                half = jnp.asarray(mine[:, 1], size.dtype)
                find = partial(side_field, field=field, reach=reach)
                *each, counts = _one_by_one(find, local_ends[s], size[s, :2], half)
                each = each[0], each[1], jnp.where(counts, each[2], FAR)
            else:
                place = matmul(pos[s] - pos[shape], rot[shape])
                turn = matmul(rot[shape].T, rot[s])
                find = partial(box_field, field=field, reach=reach)
                each = _one_by_one(find, place, turn, size[s])
            point, normal, gap = each if family == "side_field" else _in_one_row(each)
            turned = (matmul(x, rot[shape].T) for x in (point, normal))
            point, normal = turned
            out.append((pos[shape] + point, normal, gap))
    return out


def _one_by_one(find: Callable, *arrays: Array) -> tuple[Array, ...]:
    """Map ``find(*rows)`` over the rows of the arrays sequentially."""
    return jax.lax.map(lambda rows: find(*rows), arrays)


def _in_one_row(each: tuple[Array, ...]) -> tuple[Array, ...]:
    """Flatten (pairs, slots, ...) to (pairs slots, ...)."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), each)


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
    """() height of the lowest point of any link's sphere, capsule or box [m].

    links: (nl,) bool, only these. Raises ModelError where none of them has a shape.
    """
    top = model.topology
    pos, rot = shape_poses(model, kin)
    ends = _ball_centers(pos, rot, model.shape_size)
    lows = []
    for s, kind in enumerate(top.shape_kinds):
        link = top.shape_link[s]
        if link < 0 or (links is not None and not links[link]):
            continue
        if kind == "box":
            lows.append((pos[s, 2] - jnp.abs(rot[s, 2]) @ model.shape_size[s])[None])
        else:
            lows.append(ends[s, :, 2] - model.shape_size[s, :2])
    if not lows:
        raise ModelError("no link has a shape, so there is no lowest point; give links shapes")
    return -safe_max(-jnp.concatenate(lows))


def _ball_centers(pos: Array, rot: Array, size: Array) -> Array:
    """(ns, 2, 3) centres of the end balls of every shape (of a sphere twice its centre)."""
    half = size[:, 2:] * rot[:, :, 0]
    return jnp.stack([pos + half, pos - half], axis=1)
