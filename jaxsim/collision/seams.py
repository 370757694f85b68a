"""Corrected contacts at the seams of flush surfaces, where a neighbour continues a surface.

A body that slides over two flush boxes would meet the second one at its hidden side, or at the edge
between the two, with a normal against its motion. The component of a normal that points out of a
face where a flush neighbour covers it is removed; where that is more than a trace the neighbour has
its own contact, and this one is dropped.
"""

from dataclasses import replace
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import FAR
from jaxsim.collision.contacts import Contacts, shape_poses
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.safe import safe_norm, safe_normalize
from jaxsim.model.model import Model
from jaxsim.model.seams import AHEAD, FLUSH
from jaxsim.model.topology import INDEX, Topology

TRACE = 0.02  # sine of the angle by which a normal may point over a seam and still be a contact


def without_seams(
    model: Model, pos: Array, rot: Array, sites: tuple[Array, Array], normal: Array, gap: Array
) -> tuple[Array, Array]:
    """Correct the normals (nc, 3) and gaps (nc,) of all slots at seams; dropped ones are FAR.

    pos (ns, 3), rot (ns, 3, 3) of the shapes, sites: points on shape a and on shape b where each
    slot touches, (nc, 3) each. Gradients treat the covered faces as constant.
    """
    for side, site in enumerate(sites):
        slots, faces, face_index = _seams(model.topology, side)
        if not slots.size:
            continue
        box, face, other = faces.T
        out = -normal[slots] if side == 0 else normal[slots]
        at = slots_box(model.topology, side)[slots]
        frame = rot[at]
        local = jnp.sum((site[slots] - pos[at])[:, :, None] * frame, axis=1)
        out = jnp.sum(out[:, :, None] * frame, axis=1)
        turn = jnp.einsum("nij,nik->njk", rot[other], rot[box])
        shift = jnp.einsum("nij,ni->nj", rot[other], pos[box] - pos[other])
        covers = jnp.zeros(out.shape, bool)
        for column in face_index.T:  # every neighbour of a box
            row = np.maximum(column, 0)
            axis, sign = face[row] // 2, 1.0 - 2.0 * (face[row] % 2)
            half = model.shape_size[box[row]]
            on = np.eye(3, dtype=bool)[axis]
            sign = jnp.asarray(sign, local.dtype)[:, None]
            rim = ~on & (jnp.abs(local) > half - FLUSH)
            inner = jnp.clip(local, FLUSH - half, half - FLUSH)
            point = jnp.where(on, sign * (half + AHEAD), inner)
            slack = jnp.where(jnp.any(rim, axis=1), FLUSH / 2, -FLUSH / 2)
            place = jnp.sum(turn[row] * point[:, None], axis=-1) + shift[row]
            flat = np.array([kind == "plane" for kind in model.topology.shape_kinds])[other[row]]
            excess = jnp.where(
                flat,
                place[:, 2],
                jnp.max(jnp.abs(place) - model.shape_size[other[row]], axis=-1),
            )
            hidden = (column >= 0) & (excess < slack)
            beyond = on & (sign * out > 0) & (sign * local > half - FLUSH)
            covers = covers | (hidden[:, None] & beyond)
        lost = safe_norm(jnp.where(covers, out, 0))
        mended = safe_normalize(jnp.where(covers, 0, out))
        mended = jnp.sum(mended[:, None] * frame, axis=-1) * (1 if side else -1)
        seam = jnp.any(covers, axis=1)
        new_gap = jnp.where(seam & (lost > TRACE), FAR, gap[slots])
        gap = gap.at[slots].set(new_gap)
        normal = normal.at[slots].set(jnp.where(seam[:, None], mended, normal[slots]))
    return normal, gap


def correct_seams(model: Model, kin: Kinematics, contacts: Contacts) -> Contacts:
    """Correct the contacts of one configuration, see ``without_seams``."""
    if not has_seams(model.topology):
        return contacts
    half = contacts.normal * contacts.gap[:, None] / 2
    sites = contacts.point + half, contacts.point - half
    poses = shape_poses(model, kin)
    normal, gap = without_seams(model, *poses, sites, contacts.normal, contacts.gap)
    return replace(contacts, normal=normal, gap=gap)


def has_seams(top: Topology) -> bool:
    """True if any slot may touch a box at a seam."""
    return any(_seams(top, side)[0].size for side in (0, 1))


def slots_box(top: Topology, side: int) -> np.ndarray:
    """(nc,) first (side 0) or second shape of every slot."""
    slots = contact_slots(top)
    return (slots.shape_a, slots.shape_b)[side]


@lru_cache(maxsize=64)
def _seams(top: Topology, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slots (n,) whose shape on this side is a box with covered faces, and these faces.

    Also the faces (m, 3) as in ``Topology.flush_faces``, and for each slot the rows of its box
    (n, most), -1 for none.
    """
    faces = np.array(top.flush_faces, INDEX).reshape(-1, 3)
    shape, second = slots_box(top, side), slots_box(top, 1)
    of_boxes = np.array([kind == "box" for kind in top.shape_kinds], bool)[second]
    slots = np.flatnonzero(np.isin(shape, faces[:, 0]) & of_boxes).astype(INDEX)
    rows_of = {b: np.flatnonzero(faces[:, 0] == b) for b in np.unique(faces[:, 0])}
    partner = slots_box(top, 1 - side)
    meets = {frozenset(pair) for pair in top.shape_pairs}
    of_slot = [
        [k for k in rows_of[shape[s]] if frozenset((partner[s], faces[k, 2])) in meets]
        for s in slots
    ]
    most = max((len(rows) for rows in of_slot), default=0)
    table = np.full((len(slots), most), -1, INDEX)
    for k, rows in enumerate(of_slot):
        table[k, : len(rows)] = rows
    return slots, faces, table
