"""Derivatives of solved complementarity problems, from the conditions that hold at the solution.

A solution is a fixed point f = P(f - r(f)) of the projection onto what forces may be, with r the
rows' residual velocities (rows scaled to answer a force one to one). With D the derivative of P, a
change of the problem changes the solution by the linear system

    (1 - D) df + D dr = (what the bounds' own change does),

whatever iteration found it: a row that pushes or sticks keeps dr = 0, one that is open has df = 0,
one that slides follows its normal force. Duplicate rows make the system singular; it is solved by
``ROUNDS`` steps of the proximal point method (Rockafellar 1976), whose fixed point is that of the
system itself. Source of the idea: de Avila Belbute-Peres et al., End-to-end differentiable physics
for learning and control (2018).

``smoothing`` relaxes complementarity f r = 0 to f r = smoothing [J], as an interior-point method
does (Howell et al., Dojo, 2022). It replaces the steps of D by slopes, so that a contact about to
be made, or just lost, has a derivative. It acts here alone and never on the solution.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import matmul
from jaxsim.math.safe import safe_divide, safe_norm, safe_sqrt
from jaxsim.solvers import pgs
from jaxsim.solvers.pgs import Rows

ROUNDS = 4  # an error shrinks to proximal_weight / (least eigenvalue of the rows) in each


def proximal_weight(dtype) -> float:
    """Small beside 1, and large beside rounding: 5e-7 in float64, 2e-3 in float32."""
    return float(jnp.finfo(dtype).eps) ** 0.4


def relaxed_positive(u: Array, smoothing: Array) -> tuple[Array, Array]:
    """The larger root f of f (f - u) = smoothing, and df/du: max(u, 0) and its step at 0."""
    root = safe_sqrt(u * u + 4 * smoothing)
    value = jnp.where(u > 0, 0.5 * (u + root), safe_divide(2 * smoothing, root - u))
    return value, safe_divide(value, root)


def solve(
    families: tuple[Rows, ...], y: Array, sweeps: int, smoothing: Array | float = 0.0
) -> tuple[tuple[Rows, ...], Array]:
    """``pgs.solve`` with the derivative of the exact solution, in both modes.

    It is taken at what the sweeps return: as good as these converge (``pgs.natural_residual``).
    No derivative goes to the warm start. Where duplicate rows leave impulses undetermined the
    velocity still has a derivative, and the impulses have one only along changes that fit all rows.
    smoothing () [J].
    """
    impulses, y = _solution(sweeps, families, y, jnp.asarray(smoothing, y.dtype))
    solved = (replace(family, impulse=f) for family, f in zip(families, impulses, strict=True))
    return tuple(solved), y


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(sweeps: int, families: tuple[Rows, ...], y: Array, smoothing: Array):
    solved, y = pgs.solve(families, y, sweeps)
    return tuple(family.impulse for family in solved), y


@_solution.defjvp
def _solution_jvp(sweeps: int, primals, tangents):
    """In whitened coordinates: the unknowns are the nv velocities, however many rows there are."""
    (families, y, smoothing), (families_dot, y_dot, _) = primals, tangents
    impulses, y = _solution(sweeps, families, y, smoothing)
    weight = proximal_weight(y.dtype)
    points = [
        _Points.at(family, impulse, y, smoothing, weight)
        for family, impulse in zip(families, impulses, strict=True)
    ]
    system = jnp.eye(y.shape[0], dtype=y.dtype)
    for p in points:
        system = system + jnp.einsum("pkv,pkw->vw", p.x, p.response(p.x), precision="highest")
    velocity = solution_of(system)

    moved = [p.moved(dot) for p, dot in zip(points, families_dot, strict=True)]
    y_dot = y_dot + sum(m.pushed for m in moved)

    def again(changes, _):
        """What impulses do at an unchanged velocity, then the velocity that all agree on."""
        held = [
            m.bound - p.response((m.residual - weight * f)[..., None])[..., 0]
            for p, m, f in zip(points, moved, changes, strict=True)
        ]
        y_end = velocity(y_dot + sum(p.push(f) for p, f in zip(points, held, strict=True)))
        changes = [
            f - p.response(matmul(p.x, y_end)[..., None])[..., 0]
            for p, f in zip(points, held, strict=True)
        ]
        return changes, y_end

    nothing = [jnp.zeros_like(m.residual) for m in moved]
    changes, velocities = jax.lax.scan(again, nothing, None, length=ROUNDS)
    impulses_dot = tuple(
        (f * p.inverse_length).reshape(dot.target.shape)
        for f, p, dot in zip(changes, points, families_dot, strict=True)
    )
    return (impulses, y), (impulses_dot, velocities[-1])


@dataclass(frozen=True)
class _Moved:
    """How a change of the problem reaches the points, at unchanged impulses and velocity after."""

    residual: Array  # (p, K) change of the rows' residuals
    bound: Array  # (p, K) change of the impulses by that of the friction coefficients
    pushed: Array  # (nv,) change of the velocity


@dataclass(frozen=True)
class _Points:
    """The points of a family at the solution, with rows of length 1, and how they answer."""

    x: Array  # (p, K, nv)
    inverse_length: Array  # (p, K) of the rows as given; 0 of idle ones
    impulse: Array  # (p, K) as given
    velocity: Array  # (nv,) after the impulses
    normal: Array  # (p,) change of the normal impulse by its residual, negative
    tangent: Array  # (p, K - 1, K - 1) the same of the tangents
    follow: Array  # (p, K - 1) change of the tangents by the normal impulse
    by_friction: Array  # (p, K - 1) and by the friction coefficient as given

    @staticmethod
    def at(family: Rows, impulse: Array, y: Array, smoothing: Array, weight: float) -> "_Points":
        k = family.rows_per_point
        scale = pgs.lengths(family)
        unit = pgs.unit_rows(family, scale)
        x = unit.x.reshape(impulse.size // k, k, y.shape[0])
        trial = (impulse * scale + unit.target).reshape(-1, k) - matmul(x, y)
        value, slope = relaxed_positive(trial[:, 0], smoothing)
        if family.held:
            value, slope = trial[:, 0], jnp.ones_like(slope)
        friction = unit.friction.reshape(-1)
        tangents = trial[:, 1:]
        size = safe_norm(tangents, keepdims=True)
        along = safe_divide(tangents, size)
        bound = (friction * value)[:, None]
        _, sticks = relaxed_positive(bound - size, smoothing)  # 1: within the cone, 0: it slides
        turns = jnp.where(size < bound, 1.0, safe_divide(bound, size))
        outer = along[:, :, None] * along[:, None, :]
        across = jnp.eye(k - 1, dtype=y.dtype) - outer
        answer = [_proximal(share, weight)[..., None] for share in (sticks, turns)]
        follow = along * (1 - sticks) / (1 - sticks + weight * sticks)
        inverse = safe_divide(jnp.ones_like(scale), scale).reshape(-1, k)
        ratio = scale.reshape(-1, k)[:, -1:] * inverse[:, :1]  # of friction, unit rows to given
        return _Points(
            x=x,
            inverse_length=inverse,
            impulse=impulse.reshape(-1, k),
            velocity=y,
            normal=_proximal(slope, weight),
            tangent=answer[0] * outer + answer[1] * across,
            follow=follow * friction[:, None],
            by_friction=follow * value[:, None] * ratio,
        )

    def response(self, residual: Array) -> Array:
        """(p, K, m): minus the change of the impulses by that of the residuals (p, K, m)."""
        normal = self.normal[:, None, None] * residual[:, :1]
        tangent = matmul(self.tangent, residual[:, 1:]) + self.follow[:, :, None] * normal
        return jnp.concatenate([normal, tangent], axis=1)

    def push(self, impulse: Array) -> Array:
        """(nv,) what unit impulses (p, K) do to the velocity."""
        return jnp.einsum("pkv,pk->v", self.x, impulse, precision="highest")

    def moved(self, dot: Rows) -> _Moved:
        x = dot.x.reshape(self.x.shape)
        target = dot.target.reshape(self.impulse.shape)
        bound = self.by_friction * dot.friction.reshape(-1, 1)
        return _Moved(
            residual=(matmul(x, self.velocity) - target) * self.inverse_length,
            bound=jnp.concatenate([jnp.zeros_like(target[:, :1]), bound], axis=1),
            pushed=jnp.einsum("pkv,pk->v", x, self.impulse, precision="highest"),
        )


def _proximal(share: Array, weight: float) -> Array:
    """(1 - D + weight D)^-1 D of a row with D = share."""
    return share / (1 - share + weight * share)


def solution_of(A: Array) -> Callable[[Array], Array]:
    """x of A x = b as a linear function of b: by orthogonalisation, and refined once.

    A is not symmetric where something slides, and can need pivots; the columns' modified
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
