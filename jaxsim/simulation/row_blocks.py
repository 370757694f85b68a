"""Constraint rows of a step as blocks for the solver, and impulses by contact, limit and grip."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.collision.nearest import Chosen
from jaxsim.constraints.rows import RowLayout, contact_jacobian
from jaxsim.solvers.idle import unless_idle
from jaxsim.solvers.pgs import RowGroup

PACK = 8  # number of contact slots that are skipped together while empty


def packs(layout: RowLayout, chosen: Chosen | None) -> list[tuple[slice, Array]]:
    """Packs of chosen contacts: slice of their rows, and () bool if there is a contact in them.

    Slots fill in order. Without a choice there are no packs.
    """
    if chosen is None:
        return []
    k, n = layout.contact_rows, layout.contacts
    return [
        (slice(k * first, k * min(first + PACK, n)), chosen.used[first])
        for first in range(0, n, PACK)
    ]


def contact_rows(model, kin, contacts, frame, chosen, acting) -> Array:
    """``contact_jacobian`` of all contacts; a fused kernel skips empty ``packs``."""

    def at_once():
        return contact_jacobian(model, kin, contacts, frame, chosen)

    def of(part):
        some, own = jax.tree.map(lambda x: x[part], (contacts, frame))
        places = dataclasses.replace(chosen, slot=chosen.slot[part], used=chosen.used[part])
        return contact_jacobian(model, kin, some, own, places)

    def by_pack():
        k = frame.shape[1]
        parts = [slice(rows.start // k, rows.stop // k) for rows, _ in acting]
        return jnp.concatenate(
            [unless_idle(used, partial(of, part)) for part, (_, used) in zip(parts, acting)]
        )

    return lax.platform_dependent(fused=by_pack, default=at_once) if acting else at_once()


def row_groups(
    layout: RowLayout, x, target, friction, acting: Sequence[tuple[slice, Array]] = ()
) -> tuple[RowGroup, ...]:
    """Row groups of contacts (by ``packs`` if there are any), limits and grips.

    Padded with idle rows (x = 0) to whole blocks.
    """
    k, size = layout.contact_rows, layout.contact_block
    first, last = layout.contacts * k, x.shape[0] - layout.grips * layout.grip_rows
    contacts = []
    for part, used in acting or [(slice(0, first), None)]:
        some = friction[part.start // k : part.stop // k]
        blocks = -(-some.shape[0] // size)
        group = _blocks(x[part], target[part], some, blocks, size)
        contacts.append(dataclasses.replace(group, used=used))
    return (
        *contacts,
        _blocks(
            x[first:last],
            target[first:last],
            jnp.zeros(layout.limits, x.dtype),
            layout.limit_blocks,
            layout.limit_block,
        ),
        dataclasses.replace(
            _blocks(
                x[last:],
                target[last:],
                jnp.zeros(layout.grips * layout.grip_rows, x.dtype),
                layout.grips,
                layout.grip_rows,
            ),
            bilateral=True,
        ),
    )


def _blocks(x, target, friction, blocks: int, points: int) -> RowGroup:
    size = points * (x.shape[0] // max(friction.shape[0], 1))
    missing, idle_points = blocks * size - x.shape[0], blocks * points - friction.shape[0]
    return RowGroup(
        x=jnp.pad(x, ((0, missing), (0, 0))).reshape(blocks, size, x.shape[1]),
        target=jnp.pad(target, (0, missing)).reshape(blocks, size),
        impulse=jnp.zeros((blocks, size), x.dtype),
        friction=jnp.pad(friction, (0, idle_points)).reshape(blocks, points),
    )


def split_impulses(layout: RowLayout, impulse: Array) -> tuple[Array, Array, Array]:
    """Impulses of the contacts (nc, K), limits (nl,) and grips (ng, K), without padding."""
    n, last = layout.n_contact_rows, layout.n_contact_rows + layout.n_limit_rows
    of_contact = impulse[:n].reshape(-1, layout.contact_rows)[: layout.contacts]
    of_grip = impulse[last : layout.n_rows].reshape(-1, layout.grip_rows)
    return of_contact, impulse[n : n + layout.limits], of_grip
