"""Projected Gauss-Seidel with as many sweeps as a step needs.

A body at rest or in flight is solved by a sweep or two from its warm start; one that falls on bent
joints can take a hundred. ``solve`` does ``sweeps`` passes, and goes on, to ``most`` at the most,
while the last one changed the velocity of some row by more than ``tolerance``. Members of a batch
that are done wait for the others under XLA; in a fused kernel for the lanes of one vector.

Gradients: of the first ``sweeps`` that of the iteration. A loop of unknown length has none in
reverse, so what goes on is linearised where it ended, and carries the changes on by ``sweeps``
linear passes, as ``implicit`` does; where nothing went on the derivative is that of ``pgs.solve``.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide
from jaxsim.solvers import pgs
from jaxsim.solvers.pgs import RowGroup


def solve(
    groups: tuple[RowGroup, ...],
    y: Array,
    sweeps: int,
    most: int,
    tolerance: Array | float,
) -> tuple[tuple[RowGroup, ...], Array]:
    """``pgs.solve`` by ``sweeps`` passes or more, up to ``most``; tolerance () [m/s, rad/s]."""
    if most <= sweeps:
        return pgs.solve(groups, y, sweeps)
    scales, unit, coupling, y = pgs.prepared(groups, y)
    begin = tuple(group.impulse for group in unit)
    limit = jnp.asarray(tolerance, y.dtype)
    y, impulses = _iterated(sweeps, most, unit, coupling, scales, y, begin, limit)
    solved = tuple(
        replace(group, impulse=safe_divide(impulse, scale))
        for group, impulse, scale in zip(groups, impulses, scales, strict=True)
    )
    return solved, y


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _iterated(sweeps, most, unit, coupling, scales, y, impulses, tolerance):
    """y (nv,) and the impulses of unit rows after all sweeps, as one loop."""
    return _loop(0, sweeps, most, unit, coupling, scales, (y, impulses), tolerance)


@_iterated.defjvp
def _iterated_jvp(sweeps, most, primals, tangents):
    """The same by a scan, which has a derivative, and what goes on after it."""

    def by_scan(unit, coupling, scales, y, impulses, tolerance):
        def once(carry, _):
            y, impulses, _ = carry
            new_y, new = pgs.sweep(unit, coupling, pgs.CONE, y, impulses)
            return (new_y, new, _change(scales, impulses, new, jnp.zeros((), y.dtype))), None

        begin = y, impulses, jnp.zeros((), y.dtype)
        (y, impulses, change), _ = jax.lax.scan(once, begin, None, length=sweeps)
        return _go_on(sweeps, most, unit, coupling, scales, y, impulses, change, tolerance)

    return jax.jvp(by_scan, primals, tangents)


def _loop(count, least, most, unit, coupling, scales, begun, tolerance, change=jnp.inf):
    """(y, impulses) after sweeps number ``count`` to ``least``, or more while they change much."""

    def goes_on(carry):
        count, _, _, change = carry
        return (count < least) | ((count < most) & (change > tolerance))

    def once(carry):
        count, y, impulses, _ = carry
        new_y, new = pgs.sweep(unit, coupling, pgs.CONE, y, impulses)
        return count + 1, new_y, new, _change(scales, impulses, new, jnp.zeros((), y.dtype))

    y, impulses = begun
    begin = jnp.asarray(count, jnp.int32), y, impulses, jnp.asarray(change, y.dtype)
    _, y, impulses, _ = jax.lax.while_loop(goes_on, once, begin)
    return y, impulses


def _change(scales, old, new, worst: Array) -> Array:
    """() by how much a sweep changed the velocity of a row at most; no gradient passes. worst: 0"""
    for scale, before, after in zip(scales, old, new, strict=True):
        if after.size:
            worst = jnp.maximum(worst, jnp.max(stop_gradient(jnp.abs(after - before) * scale)))
    return worst


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _go_on(sweeps, most, unit, coupling, scales, y, impulses, change, tolerance):
    """y (nv,) and the impulses of unit rows after more sweeps, if any are needed."""
    begun = y, impulses
    return _loop(sweeps, 0, most, unit, coupling, scales, begun, tolerance, change)


@_go_on.defjvp
def _go_on_jvp(sweeps, most, primals, tangents):
    unit, coupling, _, _, impulses, change, tolerance = primals
    unit_dot, _, _, y_dot, begin_dot, _, _ = tangents
    end_y, end = _go_on(sweeps, most, *primals)
    went = change > tolerance
    moved_dot, targets, frictions = y_dot, [], []
    for dot, before, after in zip(unit_dot, impulses, end, strict=True):
        moved_dot = moved_dot + jnp.einsum("nrv,nr->v", dot.x, after - before, precision="highest")
        targets.append(dot.target - matmul(dot.x, end_y))
        frictions.append(dot.friction)
    linear_y, linear = linear_sweeps(
        unit, coupling, pgs.CONE, (end_y, end), (moved_dot, begin_dot), targets, frictions, sweeps
    )
    y_dot = jnp.where(went, linear_y, y_dot)
    end_dot = tuple(jnp.where(went, a, b) for a, b in zip(linear, begin_dot, strict=True))
    return (end_y, end), (y_dot, end_dot)


def linear_sweeps(unit, coupling, cone, at, begin, targets, frictions, sweeps: int):
    """``sweeps`` passes linearised at (y, impulses), on changes that begin as ``begin``.

    targets, frictions: the changes of the rows' numbers, an array a group each. Returns the
    changes of y and, as a tuple, of the impulses.
    """

    def once(y, impulses, targets, frictions):
        moved = (
            replace(u, target=t, friction=m)
            for u, t, m in zip(unit, targets, frictions, strict=True)
        )
        return pgs.sweep(tuple(moved), coupling, cone, y, impulses)

    numbers = [tuple(getattr(u, name) for u in unit) for name in ("target", "friction")]
    _, linear = jax.linearize(once, *at, *numbers)
    held = tuple(targets), tuple(frictions)
    (y_dot, changes), _ = jax.lax.scan(
        lambda now, _: (linear(*now, *held), None), begin, None, length=sweeps
    )
    return y_dot, changes
