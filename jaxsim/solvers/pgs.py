"""Projected Gauss-Seidel on the complementarity problem of contact, friction and joint limits.

Unknown impulses f with, for a row of velocity r = J v - b and local friction coefficient mu,

    limit, contact normal:  r >= 0, f >= 0, r f = 0
    friction (one or two rows after their normal):  |f_t| <= mu f_n, f_t opposes r_t
    bilateral (a grip):  r = 0, f of any sign

Source: Kokkevis, Practical Physics for Articulated Characters (2004), section 4 (the rows);
Jourdan, Alart and Jean (1998) for Gauss-Seidel with local projection. The problem is solved in
whitened coordinates y (see ``tree_factor.whiten``), where an impulse f on a row x changes y by x f.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide, safe_max, safe_norm, safe_sqrt
from jaxsim.math.varying import alike
from jaxsim.solvers.idle import unless_idle

SAME = 1e-3  # two rows are one if 1 - (squared cosine between them) is below it
PRESSED = 0.2  # least pressing share of friction in the normal impulse that shortens its way


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RowGroup:
    """Constraint rows in blocks of P points with K rows each: a normal row, then K - 1 tangents.

    One block is visited at a time; within it the points are updated one after the other.
    """

    x: Array  # (n, P * K, nv) whitened rows [1/sqrt(kg) and the like]
    target: Array  # (n, P * K) b, the velocity a row should reach [m/s or rad/s]
    impulse: Array  # (n, P * K) warm start in, solution out [N s or N m s]
    friction: Array  # (n, P)
    bilateral: bool = dataclasses.field(
        default=False, metadata={"static": True}
    )  # an equation a point
    used: Array | None = None  # () bool: some row is not zeros; None for unknown

    @property
    def rows_per_point(self) -> int:
        return self.target.shape[1] // self.friction.shape[1]


def solve(
    groups: tuple[RowGroup, ...], y: Array, sweeps: int
) -> tuple[tuple[RowGroup, ...], Array]:
    """Do ``sweeps`` sweeps over all blocks of all groups, from the whitened velocity y (nv,).

    Returns the groups with their impulses and the whitened velocity after them. Differentiable
    in both modes (fixed trip counts); the gradient is that of the iteration, not of the exact
    solution (for which see ``implicit.solve``).
    """
    scales, unit, coupling, y = scale_problem(groups, y)
    y, impulses = run_sweeps(unit, coupling, y, sweeps)
    solved = tuple(
        dataclasses.replace(group, impulse=safe_divide(impulse, scale))
        for group, impulse, scale in zip(groups, impulses, scales, strict=True)
    )
    return solved, y


def useful_start(groups: tuple[RowGroup, ...], y: Array) -> tuple[RowGroup, ...]:
    """Scale the warm start of all groups by the best factor s in [0, 1].

    Without friction the solution minimises |y + s change|^2 / 2 - s (impulses . targets); s is the
    minimum along the last impulses as a whole. Those of bodies at rest pass unchanged. Those of an
    impact, a step later, would throw the body back, more than a few sweeps can undo. Without a warm
    start the derivative with regard to it is zero.
    """
    change, reached = jnp.zeros_like(y), jnp.zeros((), y.dtype)
    for group in groups:
        change = change + jnp.einsum("nrv,nr->v", group.x, group.impulse, precision="highest")
        reached = reached + jnp.sum(group.impulse * group.target)
    share = safe_divide(reached - jnp.sum(change * y), jnp.sum(change * change))
    share = jnp.where(share < 0, 0, share)  # NaN stays
    share = jnp.where(share > 1, 1, share)
    return tuple(dataclasses.replace(f, impulse=share * f.impulse) for f in groups)


def scale_problem(groups: tuple[RowGroup, ...], y: Array):
    """Scale a problem for its sweeps.

    Returns the lengths of the groups' rows, the groups with rows of length 1, their ``delassus``,
    and the velocity y (nv,) with their impulses.
    """

    def of(group):
        scale = lengths(group)
        unit = unit_rows(group, scale)
        moved = jnp.einsum("nrv,nr->v", unit.x, unit.impulse, precision="highest")
        return scale, unit, delassus(unit), moved

    problems = [unless_idle(group.used, of, group) for group in groups]
    for *_, moved in problems:
        y = y + moved
    scales, unit, coupling = (tuple(each[k] for each in problems) for k in range(3))
    return scales, unit, coupling, y


class Cone(NamedTuple):
    """Projections of trial impulses onto the admissible ones."""

    normal: Callable[[Array, Array, Array | None], Array]  # from the last one, a trial, a share
    tangents: Callable[[list[Array], Array], list[Array]]  # from one or two trials and a bound
    pair: Callable[[list[Array], Array], list[Array]] | None = None  # of limits, see ``_pair``


def delassus(group: RowGroup) -> Array:
    """(n, P * K, P * K) Delassus matrices: coupling of the rows within each block."""
    return jnp.einsum("nrv,nsv->nrs", group.x, group.x, precision="highest")


def sweep(unit: tuple[RowGroup, ...], coupling: tuple[Array, ...], cone: Cone, y: Array, impulses):
    """Do one sweep over all blocks of all groups, whose rows have length 1.

    coupling: ``delassus`` of the groups. y (nv,): the velocity with ``impulses``, an array of a
    group each. Returns both after the sweep.
    """

    def once(block: RowBlock, y, numbers):
        y, impulse = visit(block, cone, y, numbers[0])
        return y, (impulse,)

    y, numbers = over_blocks(unit, coupling, once, y, [(impulse,) for impulse in impulses])
    return y, tuple(impulse for (impulse,) in numbers)


def run_sweeps(unit: tuple[RowGroup, ...], coupling: tuple[Array, ...], y: Array, count: int):
    """Do ``count`` sweeps of unit rows from their own impulses, whose velocity is y (nv,)."""
    start = alike((y, tuple(group.impulse for group in unit)), unit)
    once = partial(sweep, unit, coupling, CONE)
    return jax.lax.scan(lambda now, _: (once(*now), None), start, length=count)[0]


class RowBlock(NamedTuple):
    """Unit rows that are visited at once, with their static layout."""

    x: Array  # (P * K, nv)
    coupling: Array  # (P * K, P * K)
    target: Array  # (P * K,)
    friction: Array  # (P,)
    rows_per_point: int
    bilateral: bool


def over_blocks(unit, coupling, work: Callable, carry, numbers) -> tuple[Any, list]:
    """Scan ``work(block, carry, numbers)`` over the blocks of all groups.

    Returns the last carry and, a group each, the numbers that work returns. numbers: a tuple of
    arrays (n, ...) a group. A group without rows leaves the carry and the first numbers unchanged,
    as many as work returns.
    """
    out = []
    for group, D, group_numbers in zip(unit, coupling, numbers, strict=True):
        static = group.rows_per_point, group.bilateral

        def of_block(carry, rows, static=static):
            return work(RowBlock(*rows[0], *static), carry, rows[1])

        def idle(carry, rows, of_block=of_block):
            some = jax.eval_shape(of_block, carry, jax.tree.map(lambda a: a[0], rows))
            return carry, rows[1][: len(some[1])]

        rows = (group.x, D, group.target, group.friction), group_numbers
        carry = alike(carry, rows)
        carry, new = unless_idle(
            group.used, partial(jax.lax.scan, of_block), carry, rows, idle=idle
        )
        out.append(new)
    return carry, out


def lengths(group: RowGroup) -> Array:
    """(n, P * K) lengths of the rows; the two tangents of a point share the larger one.

    So the force opposes the slip at the fixed point.
    """
    k = group.rows_per_point
    d = jnp.sum(group.x * group.x, axis=-1).reshape(*group.friction.shape, k)
    if k > 1:
        shared = jnp.broadcast_to(_larger(d[..., 1:])[..., None], d[..., 1:].shape)
        d = jnp.concatenate([d[..., :1], shared], axis=-1)
    return safe_sqrt(d).reshape(group.target.shape)


def unit_rows(group: RowGroup, scale: Array) -> RowGroup:
    """Scale rows to length 1 (zeros stay) and impulses by the inverse.

    Then an impulse answers a residual one to one.
    """
    inverse = safe_divide(jnp.ones_like(scale), scale)
    points = (*group.friction.shape, group.rows_per_point)
    return dataclasses.replace(
        group,
        x=group.x * inverse[..., None],
        target=group.target * inverse,
        impulse=group.impulse * scale,
        friction=group.friction * scale.reshape(points)[..., -1] * inverse.reshape(points)[..., 0],
    )


def visit(block: RowBlock, cone: Cone, y: Array, impulse: Array) -> tuple[Array, Array]:
    """Update one block's impulses and the velocity; its rows have length 1."""
    free = impulse + block.target - matmul(block.x, y)
    limits = block.rows_per_point == 1 and not block.bilateral
    if limits and cone.pair and len(free) > 1:
        new = _pairs(block.coupling, impulse, free, cone.pair)
    else:
        new = _points(block, cone, impulse, free)
    impulse_new = jnp.stack(new)
    return y + matmul(impulse_new - impulse, block.x), impulse_new


def _points(block: RowBlock, cone: Cone, impulse: Array, free: Array) -> list[Array]:
    """Update a block's points one after the other: their new impulses.

    free: impulse of each row while no other changes. The changes within the block are scalars: XLA
    fuses their chain, where it would make three kernels a point of updates to the vector of
    residuals. The normal impulse of a contact goes ``_share`` of its way, all of it where friction
    presses little.
    """
    D, friction, k = block.coupling, block.friction, block.rows_per_point
    new: list[Array] = []

    def trial(row: int) -> Array:
        now = free[row]
        for other, value in enumerate(new):
            now = now - D[row, other] * (value - impulse[other])
        return now

    for point in range(friction.shape[0]):
        first = point * k
        normal = trial(first)
        if not block.bilateral:
            share = _share(D[first], impulse, first, k) if k > 1 else None
            normal = cone.normal(impulse[first], normal, share)
        new.append(normal)
        if k > 1:
            tangents = [trial(first + 1 + i) for i in range(k - 1)]
            new.extend(cone.tangents(tangents, friction[point] * normal))
    return new


def _pairs(D: Array, impulse: Array, free: Array, pair: Callable) -> list[Array]:
    """Update joint limits in pairs of rows (0, 1), then (1, 2), and so on: their new impulses.

    Limits of neighbouring joints on a light link (a neck) can be nearly one row. Visited one after
    the other they undo one another, and a hundred sweeps leave a third of the error.
    """
    new = [impulse[row] for row in range(len(D))]
    for first in range(len(D) - 1):
        rows = (first, first + 1)
        alone = []  # each one's impulse where the other one is zero
        for row in rows:
            now = free[row]
            for other in range(len(D)):
                if other not in rows:
                    now = now - D[row, other] * (new[other] - impulse[other])
            alone.append(now + D[rows] * sum(impulse[other] for other in rows if other != row))
        new[first], new[first + 1] = pair(alone, D[rows])
    return new


def _pair(alone: list[Array], coupling: Array) -> list[Array]:
    """Solve two unit rows, f >= 0, r >= 0, f r = 0, by its cases.

    alone: impulse of each where the other has none. Of two rows that are equal to rounding
    (``SAME``) one pushes for both.
    """
    a, b = alone
    most = [jnp.where(value <= 0, 0, value) for value in alone]
    apart = 1 - coupling * coupling
    both_a, both_b = a - coupling * b, b - coupling * a
    both = (both_a >= 0) & (both_b >= 0) & (apart > SAME)
    apart = jnp.where(both, apart, 1)
    first = b <= coupling * most[0]
    return [
        jnp.where(both, both_a / apart, jnp.where(first, most[0], 0)),
        jnp.where(both, both_b / apart, jnp.where(first, 0, most[1])),
    ]


def _share(response: Array, impulse: Array, first: int, k: int) -> Array:
    """() step length of the normal impulse of a contact, at most 1.

    The normal is solved with the last friction, which then follows it. Where sliding presses the
    bodies together, by s > 0 for each 1 that the normal separates them (toes that are pushed over
    the ground), the full step is too long, and from s = 1 on leads from one error to the opposite
    one, for ever. 1 / (1 + s) is Newton's step; below ``PRESSED`` it is the full one. response
    (P * K,): of the normal to the rows.
    """
    normal = impulse[first]
    pressed = sum(response[first + i] * impulse[first + i] for i in range(1, k))
    much = pressed > PRESSED * normal
    return jnp.where(much, normal / jnp.where(much, normal + pressed, 1), 1)


def _positive(last: Array, trial: Array, share: Array | None) -> Array:
    """Normal impulse a share of the way from the last one to the trial, at least 0.

    ``where`` has a simpler derivative than the maximum; NaN stays.
    """
    normal = trial if share is None else last + share * (trial - last)
    return jnp.where(normal <= 0, 0, normal)


def _project(tangent: list[Array], bound: Array) -> list[Array]:
    """Nearest point to ``tangent`` (one or two numbers) with norm at most ``bound``."""
    if len(tangent) == 1:
        clipped = jnp.where(tangent[0] > bound, bound, tangent[0])
        return [jnp.where(clipped < -bound, -bound, clipped)]
    size = safe_sqrt(tangent[0] * tangent[0] + tangent[1] * tangent[1])
    scale = jnp.minimum(1.0, safe_divide(bound, size, otherwise=1.0))
    return [tangent[0] * scale, tangent[1] * scale]


CONE = Cone(_positive, _project, _pair)


def _larger(x: Array) -> Array:
    """Maximum of one or two numbers along the last axis.

    The gradient of jnp.max can be 0/0 here: it compares with a maximum that XLA may have rounded
    differently.
    """
    return jnp.maximum(x[..., 0], x[..., -1])


def natural_residual(groups: tuple[RowGroup, ...], y: Array) -> Array:
    """() largest violation of the complementarity conditions, as a velocity [m/s, rad/s].

    For a normal row |min(r, d f)|, for friction |d f - P(d f - r)|, with d the row's own response
    (of two tangents the larger one). Zero exactly at a solution.
    """
    worst = jnp.zeros((), y.dtype)
    for group in groups:
        k = group.rows_per_point
        shape = (*group.friction.shape, k)
        r = (jnp.einsum("nrv,v->nr", group.x, y, precision="highest") - group.target).reshape(shape)
        d = jnp.sum(group.x * group.x, axis=-1).reshape(shape)
        f = group.impulse.reshape(shape)
        real = d > 0
        f_new = f[..., 0] - safe_divide(r[..., 0], d[..., 0])
        f_new = f_new if group.bilateral else jnp.maximum(f_new, 0.0)
        parts = [jnp.where(real[..., 0], jnp.abs(f_new - f[..., 0]) * d[..., 0], 0.0)]
        if k > 1:
            bound = (group.friction * f[..., 0])[..., None]
            d_t = _larger(d[..., 1:])[..., None]
            trial = f[..., 1:] - safe_divide(r[..., 1:], d_t)
            size = safe_norm(trial, keepdims=True)
            trial = trial * jnp.minimum(1.0, safe_divide(bound, size, otherwise=1.0))
            parts.append(jnp.abs(trial - f[..., 1:]) * d_t)
        for part in parts:
            if part.size:
                worst = jnp.maximum(worst, safe_max(part))
    return worst
