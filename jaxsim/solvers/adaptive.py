"""Projected Gauss-Seidel with as many sweeps as a step needs, accelerated.

A body at rest or in flight is solved by a sweep or two from its warm start; a fall on bent joints
takes many. ``solve`` does ``sweeps`` sweeps, and continues, up to ``most``, while the last one
changed the velocity of some row by more than ``tolerance``. Members of a batch that are done wait
for the lanes of their vector in a fused kernel; under XLA until a small share (``FEW``) continues,
which then is a batch by itself.

The last three of the first ``sweeps`` sweeps and all later ones are accelerated: they begin ahead
of the end of the last one by beta times the last step from end to end. With r1, r2 the changes of y
by the last two sweeps, each from where it began, beta minimises the length of r2 + beta (r2 - r1):
Anderson acceleration of depth one (Walker and Ni 2011), the secant method where one error is left.
In whitened coordinates the length is that of the kinetic energy. Errors that shrink slowly are
extrapolated (beta > 0, to ``AHEAD``), those that change their sign from sweep to sweep are averaged
(beta < 0, to ``-BACK``). beta is 0 after a sweep that changed more than the last one, and after one
that changed next to nothing: it would be a ratio of roundings. A sweep that changed ``MISSED``
times as much as the last one began too far ahead: the next one begins where the one before it ended
(``UNDO``), with an eighth as the bound of beta. The last operation is always a sweep, which
projects.

Gradients: that of the iteration for the first ``sweeps``. A loop of unknown length has none in
reverse, so later sweeps are linearised where they ended, and the changes are propagated by
``sweeps`` linear sweeps, as in ``implicit``; without later sweeps the derivative is that of the
iteration.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.lax import stop_gradient

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide
from jaxsim.math.varying import alike, mesh_axes
from jaxsim.solvers import pgs
from jaxsim.solvers.pgs import RowGroup

AHEAD, BACK = 30.0, 0.5  # bounds of beta and -beta
ACCELERATED = 3  # number of accelerated sweeps among those that each step does, the last ones
MISSED = 1000.0  # ratio of a sum of squares to the last one, from which a sweep is undone
UNDO = -1.0  # beta with which a sweep begins where the last but one ended
FEW = 0.125  # share of a batch whose members continue without the others
LITTLE = 0.1  # least change that is accelerated, relative to the tolerance


def solve(
    groups: tuple[RowGroup, ...],
    y: Array,
    sweeps: int,
    most: int,
    tolerance: Array | float,
) -> tuple[tuple[RowGroup, ...], Array]:
    """Solve by at least ``sweeps`` and up to ``most`` sweeps; tolerance () [m/s, rad/s].

    If ``most`` does not exceed ``sweeps``, it is ``pgs.solve`` with plain sweeps.
    """
    if most <= sweeps:
        return pgs.solve(groups, y, sweeps)
    scales, unit, coupling, y = pgs.scale_problem(groups, y)
    y, begin = pgs.run_sweeps(unit, coupling, y, _plain(sweeps))
    limit = jnp.asarray(tolerance, y.dtype)
    y, impulses = _iterated(sweeps, most, unit, coupling, scales, y, begin, limit)
    solved = tuple(
        replace(group, impulse=safe_divide(impulse, scale))
        for group, impulse, scale in zip(groups, impulses, scales, strict=True)
    )
    return solved, y


class Pass(NamedTuple):
    """State of the iteration after a sweep."""

    count: Array  # () sweeps
    y: Array  # (nv,)
    impulses: tuple[Array, ...]  # of unit rows, an array a group
    y_step: Array  # (nv,) change of y from the end of the sweep before
    steps: tuple[Array, ...]  # changes of the impulses from there
    r: Array  # (nv,) change of y from where the sweep began
    change: Array  # () largest change of a row's velocity
    beta: Array  # () share of the step by which the next sweep begins ahead
    ahead: Array  # () bound of beta


def _plain(sweeps: int) -> int:
    """Number of plain sweeps before the accelerated ones."""
    return max(sweeps - ACCELERATED, 0)


def _begun(sweeps: int, y: Array, impulses: tuple[Array, ...]) -> Pass:
    """Initial state of the accelerated sweeps, after the plain ones."""
    count = jnp.full((), _plain(sweeps), jnp.int32)
    none, still = jnp.zeros_like(y), tuple(map(jnp.zeros_like, impulses))
    zero, inf = jnp.zeros((), y.dtype), jnp.full((), jnp.inf, y.dtype)
    return Pass(count, y, impulses, none, still, none, inf, zero, zero + AHEAD)


def _next(unit, coupling, scales, tolerance: Array, now: Pass) -> Pass:
    """Do one accelerated sweep."""

    def visited(block, carry, numbers):
        (y, change), (last, step, scale) = carry, numbers
        begin = last + now.beta * step
        y, end = pgs.visit(block, pgs.CONE, y, begin)
        change = jnp.maximum(change, jnp.max(stop_gradient(jnp.abs(end - begin) * scale)))
        return (y, change), (end, end - last)

    begin = now.y + now.beta * now.y_step
    carry = begin, jnp.zeros((), begin.dtype)
    numbers = list(zip(now.impulses, now.steps, scales, strict=True))
    (y, change), numbers = pgs.over_blocks(unit, coupling, visited, carry, numbers)
    impulses, steps = (tuple(each[k] for each in numbers) for k in range(2))
    r = y - begin
    more = r - now.r
    size, last = jnp.sum(r * r), jnp.sum(now.r * now.r)
    beta = -safe_divide(jnp.sum(r * more), jnp.sum(more * more))
    beta = jnp.where(beta > now.ahead, now.ahead, jnp.where(beta < -BACK, -BACK, beta))
    beta = jnp.where((size >= last) | (change <= LITTLE * tolerance) | (now.beta == UNDO), 0, beta)
    missed = (now.beta > 0) & (size > MISSED * last)
    ahead = jnp.where(missed, now.beta / 8, jnp.minimum(2 * now.ahead, AHEAD))
    beta = jnp.where(missed, UNDO, beta)
    return Pass(now.count + 1, y, impulses, y - now.y, steps, r, change, beta, ahead)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _iterated(sweeps, most, unit, coupling, scales, y, impulses, tolerance):
    """y (nv,) and the impulses of unit rows after all sweeps, as one loop."""
    end = _loop(sweeps, most, unit, coupling, scales, _begun(sweeps, y, impulses), tolerance)
    return end.y, end.impulses


@_iterated.defjvp
def _iterated_jvp(sweeps, most, primals, tangents):
    """Derivative of the first sweeps as a scan, then of the later ones, see ``_go_on_jvp``."""

    def by_scan(unit, coupling, scales, y, impulses, tolerance):
        def once(now, _):
            return _next(unit, coupling, scales, tolerance, now), None

        begun = alike(_begun(sweeps, y, impulses), unit)
        now, _ = jax.lax.scan(once, begun, None, length=sweeps - _plain(sweeps))
        return _go_on(sweeps, most, unit, coupling, scales, now, tolerance)

    return jax.jvp(by_scan, primals, tangents)


def _loop(least: int, most: int, unit, coupling, scales, now: Pass, tolerance) -> Pass:
    """Do ``least`` sweeps, and more while they change a velocity by more than the tolerance."""
    now = alike(now, unit)
    if mesh_axes(now.y):
        return _one_loop(least, most, unit, coupling, scales, now, tolerance)
    return _loop_of(least, most)(unit, coupling, scales, now, tolerance)


@cache
def _loop_of(least: int, most: int) -> Callable:
    """``_one_loop`` with a batching rule, ``_batch_loop``."""
    loop = custom_vmap(partial(_one_loop, least, most))

    @loop.def_vmap
    def of_batch(size: int, batched, *args):
        def each(x, has):
            return x if has else jnp.broadcast_to(x, (size, *jnp.shape(x)))

        end = _batch_loop(least, most, size, *jax.tree.map(each, args, tuple(batched)))
        return end, jax.tree.map(lambda _: True, end)

    return loop


def _goes_on(least: int, most: int, now: Pass, tolerance: Array) -> Array:
    more = (now.count < most) | (now.beta == UNDO)
    return (now.count < least) | (more & (now.change > tolerance))


def _one_loop(least: int, most: int, unit, coupling, scales, now: Pass, tolerance) -> Pass:
    return jax.lax.while_loop(
        lambda now: _goes_on(least, most, now, tolerance),
        partial(_next, unit, coupling, scales, tolerance),
        now,
    )


def _batch_loop(least: int, most: int, size: int, *args) -> Pass:
    """``_one_loop`` of each member of a batch; args with a leading axis of members.

    All members take part while more than a share ``FEW`` continues, then only those that do.
    """
    few = round(FEW * size)
    *rows, now, tolerance = args
    now = _until(few, least, most, rows, now, tolerance)
    if not few:
        return now
    places = jnp.argsort(~_goes_on(least, most, now, tolerance), stable=True)[:few]
    last = _until(0, least, most, *jax.tree.map(lambda x: x[places], (rows, now, tolerance)))
    return jax.tree.map(lambda x, new: x.at[places].set(new), now, last)


def _until(few: int, least: int, most: int, rows, now: Pass, tolerance) -> Pass:
    """Sweep a batch until at most ``few`` members continue; members that are done do not change."""

    def on(now):
        return _goes_on(least, most, now, tolerance)

    def once(now):
        stays = ~on(now)

        def chosen(old, new):
            return jnp.where(stays.reshape(-1, *[1] * (old.ndim - 1)), old, new)

        unit, coupling, scales = rows
        return jax.tree.map(chosen, now, jax.vmap(_next)(unit, coupling, scales, tolerance, now))

    return jax.lax.while_loop(lambda now: jnp.sum(on(now)) > few, once, now)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _go_on(sweeps, most, unit, coupling, scales, now: Pass, tolerance):
    """y (nv,) and the impulses of unit rows after more sweeps, if any are needed."""
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
    """Propagate changes by ``sweeps`` sweeps linearised at (y, impulses), from ``begin``.

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
