"""Derivatives of solved complementarity problems, from the conditions that hold at the solution.

A solution is a fixed point f = P(f - r(f)) of the projection onto what forces may be, with r the
rows' residual velocities (rows scaled so that a unit force changes its row by one). With D the
derivative of P, a change of the problem changes the solution by the linear system

    (1 - D) df + D dr = (effect of a change of the bounds),

for every iteration: a row that pushes or sticks keeps dr = 0, one that is open has df = 0,
one that slides follows its normal force. Source of the idea: de Avila Belbute-Peres et al.,
End-to-end differentiable physics for learning and control (2018).

``solve`` iterates this system with the sweeps that solved the problem, linearised where they ended
(the two phases of Christianson, Reverse accumulation and attractive fixed points, 1994): it is as
accurate as these converge, duplicate rows included. ``solvers.lcp`` has the system as a matrix and
uses ``solution_of``; there duplicate rows make it singular, and ``ROUNDS`` steps of the proximal
point method (Rockafellar 1976) lead to the fixed point of the system itself.

``smoothing`` relaxes complementarity f r = 0 to f r = smoothing [J], as an interior-point method
does (Howell et al., Dojo, 2022). It replaces the steps of D by slopes, so that a contact about to
be made, or just lost, has a derivative. It changes derivatives only, never the solution.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.ad_checkpoint import checkpoint_name
from jax.lax import stop_gradient

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide, safe_norm, safe_sqrt
from jaxsim.solvers import adaptive, pgs
from jaxsim.solvers.pgs import RowGroup

SOLVED = 1e-4  # change of a solved velocity by one more sweep, relative to it, at most
ROUNDS = 4  # an error shrinks to proximal_weight / (least eigenvalue of the rows) in each


def proximal_weight(dtype) -> float:
    """Weight of a proximal term, between rounding and 1: 5e-7 in float64, 2e-3 in float32."""
    return float(jnp.finfo(dtype).eps) ** 0.4


def relaxed_positive(u: Array, smoothing: Array) -> tuple[Array, Array]:
    """Relaxed max(u, 0), the larger root f of f (f - u) = smoothing, and its derivative df/du."""
    root = safe_sqrt(u * u + 4 * smoothing)
    value = jnp.where(u > 0, 0.5 * (u + root), safe_divide(2 * smoothing, root - u))
    return value, safe_divide(value, root)


def solve(
    groups: tuple[RowGroup, ...],
    y: Array,
    sweeps: int,
    smoothing: Array | float = 0.0,
    most: int = 0,
    tolerance: Array | float = 0.0,
) -> tuple[tuple[RowGroup, ...], Array]:
    """``adaptive.solve`` with the derivative of the exact solution, in both modes.

    It is that of ``sweeps`` sweeps, each linearised at the returned solution: as accurate as they
    converge (``pgs.natural_residual``). The influence of the warm start that remains is part of the
    derivative. Where duplicate rows leave impulses undetermined the velocity still has a
    derivative, and the impulses have one only along changes that fit all rows. smoothing () [J].
    """
    numbers = (jnp.asarray(x, y.dtype) for x in (smoothing, tolerance))
    impulses, y = _solution(sweeps, most, groups, y, *numbers)
    solved = (replace(group, impulse=f) for group, f in zip(groups, impulses, strict=True))
    return tuple(solved), y


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _solution(sweeps: int, most: int, groups, y: Array, smoothing: Array, tolerance: Array):
    solved, y = adaptive.solve(groups, y, sweeps, most, tolerance)
    return tuple(group.impulse for group in solved), y


@_solution.defjvp
def _solution_jvp(sweeps: int, most: int, primals, tangents):
    """Derivative by ``sweeps`` linear sweeps, linearised at the returned solution.

    A change of rows acts at unchanged impulses and velocity, before the first sweep and in their
    residuals. Where one more sweep would still change the velocity, sliding rows do not follow
    their normal impulse: the linear sweeps are then those of a convex problem, and cannot grow
    without bound from step to step, as they may where the sweeps have not converged.
    """
    (groups, y, smoothing, tolerance), (groups_dot, y_dot, _, _) = primals, tangents
    found = _solution(sweeps, most, groups, y, smoothing, tolerance)
    impulses, y = checkpoint_name(found, "costly")
    scales = tuple(map(pgs.lengths, groups))
    unit = tuple(map(pgs.unit_rows, groups, scales))
    inverses = [safe_divide(jnp.ones_like(scale), scale) for scale in scales]

    targets, frictions, begin = [], [], []
    for group, dot, u, f, scale, inverse in zip(
        groups, groups_dot, unit, impulses, scales, inverses, strict=True
    ):
        targets.append((dot.target - matmul(dot.x, y)) * inverse)
        frictions.append(pgs.unit_rows(replace(group, friction=dot.friction), scale).friction)
        begin.append(scale * dot.impulse)
        y_dot = y_dot + jnp.einsum("nrv,nr->v", dot.x, f, precision="highest")
        y_dot = y_dot + jnp.einsum("nrv,nr->v", u.x, begin[-1], precision="highest")

    coupling = tuple(map(pgs.delassus, unit))
    reached = tuple(f * scale for f, scale in zip(impulses, scales, strict=True))
    further, _ = pgs.sweep(unit, coupling, pgs.CONE, y, reached)
    solved = jnp.sum((further - y) ** 2) <= SOLVED**2 * jnp.sum(y * y)
    cone = relaxed_cone(smoothing, jnp.where(solved, jnp.ones_like(smoothing), 0))

    y_dot, changes = adaptive.linear_sweeps(
        unit, coupling, cone, (y, reached), (y_dot, tuple(begin)), targets, frictions, sweeps
    )
    impulses_dot = tuple(f * inverse for f, inverse in zip(changes, inverses, strict=True))
    return (impulses, y), (impulses_dot, y_dot)


def relaxed_cone(smoothing: Array, follows: Array) -> pgs.Cone:
    """Friction cone with its own values, but the derivatives of the relaxed one.

    follows: 0 to 1, derivative of sliding impulses by their bound.
    """

    def normal(last: Array, trial: Array, share: Array | None) -> Array:
        """Normal impulse; its derivative is that of the whole way, to the same fixed point."""
        at, before = stop_gradient(trial), stop_gradient(last)
        change = relaxed_positive(at, smoothing)[1] * (trial - at)
        if share is not None:
            share = stop_gradient(share)
            change = (1 - share) * (last - before) + share * change
        return pgs.CONE.normal(before, at, share) + change

    def tangents(trial: list[Array], bound: Array) -> list[Array]:
        """Tangent impulses; they follow the trial within the cone, on it the bound's length."""
        at, limit = stop_gradient(jnp.stack(trial)), stop_gradient(bound)
        size = safe_norm(at)
        _, sticks = relaxed_positive(limit - size, smoothing)
        turns = jnp.where(size < limit, 1.0, safe_divide(limit, size))
        along = safe_divide(at, size)
        change = jnp.stack(trial) - at
        forth = jnp.sum(along * change)
        slope = sticks * forth + follows * (1 - sticks) * (bound - limit)
        across = turns * (change - along * forth) if len(trial) > 1 else 0.0
        return list(turns * at + along * slope + across)

    return pgs.Cone(normal, tangents)


def solution_of(A: Array) -> Callable[[Array], Array]:
    """Solution x of A x = b as a linear function of b: by orthogonalisation, and refined once.

    A is not symmetric where contacts slide, and can need pivots; the columns' modified
    Gram-Schmidt process needs none, and is the same for each member of a batch.
    """
    n = A.shape[0]
    both = jnp.concatenate([A, jnp.eye(n, dtype=A.dtype)])  # becomes Q = A W, and W

    def next_column(both, masks):
        here, later = masks
        column = matmul(both, here)
        unit = safe_divide(column, safe_norm(column[:n]))
        taken = matmul(unit[:n], both[:n]) * later
        return both - unit[:, None] * taken + (unit - column)[:, None] * here, None

    masks = np.eye(n), np.triu(np.ones((n, n)), 1)
    both, _ = jax.lax.scan(next_column, both, tuple(jnp.asarray(m, A.dtype) for m in masks))
    Q, W = both[:n], both[n:]

    def solve(b: Array) -> Array:
        x = matmul(W, matmul(Q.T, b))
        return x + matmul(W, matmul(Q.T, b - matmul(A, x)))

    return solve
