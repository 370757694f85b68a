"""The rows of a step as blocks for the solver, and its impulses by contact, limit and grip."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from jaxsim.constraints.rows import Layout
from jaxsim.solvers.pgs import RowGroup


def row_groups(layout: Layout, x, target, friction) -> tuple[RowGroup, RowGroup, RowGroup]:
    """Contacts, limits and grips, padded with idle rows (x = 0) to whole blocks."""
    first, last = layout.contacts * layout.contact_rows, -layout.grips * layout.grip_rows
    last = x.shape[0] + last
    return (
        _blocks(x[:first], target[:first], friction, layout.contact_blocks, layout.contact_block),
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


def split_impulses(layout: Layout, impulse: Array) -> tuple[Array, Array, Array]:
    """Impulses of the contacts (nc, K), limits (nl,) and grips (ng, K), without padding."""
    n, last = layout.n_contact_rows, layout.n_contact_rows + layout.n_limit_rows
    of_contact = impulse[:n].reshape(-1, layout.contact_rows)[: layout.contacts]
    of_grip = impulse[last : layout.n_rows].reshape(-1, layout.grip_rows)
    return of_contact, impulse[n : n + layout.limits], of_grip
