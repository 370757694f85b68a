"""Projected Gauss-Seidel with as many sweeps as a step needs, accelerated.

A body at rest or in flight is solved by a sweep or two from its warm start; one that falls on bent
joints takes many. ``solve`` does ``sweeps`` passes, and goes on, to ``most`` at the most, while the
last one changed the velocity of some row by more than ``tolerance``. Members of a batch that are
done wait for the others under XLA; in a fused kernel for the lanes of one vector.

Passes come in pairs. With f the impulses, a pair begins at f - gamma (the last change of f). Of the
changes r1 and r2 of a pair gamma is what makes r2 - gamma (r2 - r1) the shortest: Anderson
acceleration of depth one (Walker and Ni 2011), the secant method where one error is left. Errors
that shrink slowly are left behind (gamma < 0, to ``AHEAD``), those that change their sign from pass
to pass are averaged (gamma > 0, to ``BACK``). Passes that change next to nothing are left alone:
there gamma would be a ratio of roundings. A pass, which projects, is always the last.

Gradients: of the first ``sweeps`` that of the iteration. A loop of unknown length has none in
reverse, so what goes on is linearised where it ended, and carries the changes on by ``sweeps``
linear passes, as ``implicit`` does; where nothing went on the derivative is that of the passes.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide
from jaxsim.math.varying import alike
from jaxsim.solvers import pgs
from jaxsim.solvers.pgs import RowGroup

AHEAD, BACK = -30.0, 0.5  # bounds of gamma
LITTLE = 0.1  # of the tolerance: pairs that change less are not accelerated


def solve(
    groups: tuple[RowGroup, ...],
    y: Array,
    sweeps: int,
    most: int,
    tolerance: Array | float,
) -> tuple[tuple[RowGroup, ...], Array]:
    """At least ``sweeps`` passes, in pairs, and up to ``most``; tolerance () [m/s, rad/s].

    With ``most`` up to ``sweeps`` it is ``pgs.solve``: so many plain passes.
    """
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


class Pass(NamedTuple):
    """Where the iteration is after a pass."""

    count: Array  # () passes
    y: Array  # (nv,)
    impulses: tuple[Array, ...]  # of unit rows, an array a group
    y_step: Array  # (nv,) by how much the last pass changed y
    steps: tuple[Array, ...]  # and the impulses
    size: Array  # () the sum of squares of ``steps``
    change: Array  # () by how much the last pass changed the velocity of a row at most
    gamma: Array  # () that the next pass begins with


def _begun(y: Array, impulses: tuple[Array, ...]) -> Pass:
    zero, inf = jnp.zeros((), y.dtype), jnp.full((), jnp.inf, y.dtype)
    still = jnp.zeros_like(y), tuple(map(jnp.zeros_like, impulses))
    return Pass(jnp.zeros((), jnp.int32), y, impulses, *still, zero, inf, zero)


def _next(unit, coupling, scales, tolerance: Array, now: Pass) -> Pass:
    """One more pass."""

    def visit(block, carry, numbers):
        y, size, both, change = carry
        impulse, before, scale = numbers
        begin = impulse - now.gamma * before
        y, end = pgs.visit(block, pgs.CONE, y, begin)
        step = end - begin
        change = jnp.maximum(change, jnp.max(stop_gradient(jnp.abs(step) * scale)))
        size, both = size + jnp.sum(step * step), both + jnp.sum(step * before)
        return (y, size, both, change), (end, step)

    zero = jnp.zeros((), now.y.dtype)
    begin = now.y - now.gamma * now.y_step
    numbers = list(zip(now.impulses, now.steps, scales, strict=True))
    carry = begin, zero, zero, zero
    (y, size, both, change), numbers = pgs.over_blocks(unit, coupling, visit, carry, numbers)
    impulses, steps = (tuple(each[k] for each in numbers) for k in range(2))
    gamma = safe_divide(size - both, size - 2 * both + now.size)
    gamma = jnp.where(gamma < AHEAD, AHEAD, jnp.where(gamma > BACK, BACK, gamma))
    paired = (now.count % 2 == 1) & (change > LITTLE * tolerance)
    gamma = jnp.where(paired, gamma, 0)
    return Pass(now.count + 1, y, impulses, y - begin, steps, size, change, gamma)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _iterated(sweeps, most, unit, coupling, scales, y, impulses, tolerance):
    """y (nv,) and the impulses of unit rows after all passes, as one loop."""
    end = _loop(sweeps, most, unit, coupling, scales, _begun(y, impulses), tolerance)
    return end.y, end.impulses


@_iterated.defjvp
def _iterated_jvp(sweeps, most, primals, tangents):
    """The same by a scan, which has a derivative, and what goes on after it."""

    def by_scan(unit, coupling, scales, y, impulses, tolerance):
        def once(now, _):
            return _next(unit, coupling, scales, tolerance, now), None

        begun = alike(_begun(y, impulses), unit)
        now, _ = jax.lax.scan(once, begun, None, length=sweeps)
        return _go_on(sweeps, most, unit, coupling, scales, now, tolerance)

    return jax.jvp(by_scan, primals, tangents)


def _loop(least: int, most: int, unit, coupling, scales, now: Pass, tolerance) -> Pass:
    """After ``least`` passes, or more while they change much."""

    def goes_on(now):
        return (now.count < least) | ((now.count < most) & (now.change > tolerance))

    once = partial(_next, unit, coupling, scales, tolerance)
    return jax.lax.while_loop(goes_on, once, alike(now, unit))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _go_on(sweeps, most, unit, coupling, scales, now: Pass, tolerance):
    """y (nv,) and the impulses of unit rows after more passes, if any are needed."""
    end = _loop(0, most, unit, coupling, scales, now, tolerance)
    return end.y, end.impulses


@_go_on.defjvp
def _go_on_jvp(sweeps, most, primals, tangents):
    unit, coupling, _, now, tolerance = primals
    unit_dot, _, _, now_dot, _ = tangents
    end_y, end = _go_on(sweeps, most, *primals)
    went = now.change > tolerance
    moved_dot, targets, frictions = now_dot.y, [], []
    for dot, before, after in zip(unit_dot, now.impulses, end, strict=True):
        moved_dot = moved_dot + jnp.einsum("nrv,nr->v", dot.x, after - before, precision="highest")
        targets.append(dot.target - matmul(dot.x, end_y))
        frictions.append(dot.friction)
    begin = moved_dot, now_dot.impulses
    linear_y, linear = linear_sweeps(
        unit, coupling, pgs.CONE, (end_y, end), begin, targets, frictions, sweeps
    )
    y_dot = jnp.where(went, linear_y, now_dot.y)
    end_dot = tuple(jnp.where(went, a, b) for a, b in zip(linear, now_dot.impulses, strict=True))
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
