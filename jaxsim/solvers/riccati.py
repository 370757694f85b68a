"""Newton steps of quadratic programs over a chain of stages, by a Riccati recursion.

A stage k has controls u_k (n,) and a state s_k (nx,) that follows from the stage before,

    s_(k+1) = F_k s_k + B_k u_k,  s_0 = 0,

so states are no unknowns. From the last stage back the cost to go is a quadratic form of the state,
(P, p); a stage is then a small problem of its own controls and equations. The work grows with the
number of stages, where one factorisation of all controls grows with its cube.

Source: Rao, Wright and Rawlings, Application of interior-point methods to model predictive control
(1998), with the equations of a stage in its own small system.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.products import matmul


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StageRows:
    """Rows linear in controls and state of a stage: u (m, n), s (m, nx); leading axis: stages."""

    u: Array  # (H, m, n)
    s: Array  # (H, m, nx)

    def of(self, u: Array, s: Array) -> Array:
        """(H, m) values of the rows at controls (H, n) and states (H, nx)."""
        return jnp.einsum("kmn,kn->km", self.u, u) + jnp.einsum("kmx,kx->km", self.s, s)

    def pull(self, y: Array) -> tuple[Array, Array]:
        """(H, n), (H, nx): transposed product of the rows with y (H, m)."""
        return jnp.einsum("kmn,km->kn", self.u, y), jnp.einsum("kmx,km->kx", self.s, y)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chain:
    """Linear dynamics of a chain of stages: s_(k+1) = F s_k + B u_k (+ a constant)."""

    F: Array  # (H, nx, nx)
    B: Array  # (H, nx, n)

    def states(self, u: Array, constant: Array | None = None) -> Array:
        """(H, nx) states that controls (H, n) lead to; constant (H, nx)."""
        drive = jnp.einsum("kxn,kn->kx", self.B, u)
        drive = drive if constant is None else drive + constant

        def follow(s, stage):
            F, added = stage
            return matmul(F, s) + added, s

        return lax.scan(follow, jnp.zeros_like(drive[0]), (self.F, drive))[1]

    def reduced(self, of_u: Array, of_s: Array) -> Array:
        """(H, n) total gradient by the controls.

        From the partial ones by controls (H, n) and by states (H, nx), which follow from controls.
        """

        def back(p, stage):
            F, B, g_u, g_s = stage
            return g_s + matmul(p, F), g_u + matmul(p, B)

        stages = (self.F, self.B, of_u, of_s)
        return lax.scan(back, jnp.zeros_like(of_s[0]), stages, reverse=True)[1]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Square:
    """Quadratic part of a cost: ½ u' uu u + u' us s + ½ s' ss s, by stage."""

    uu: Array  # (H, n, n)
    us: Array  # (H, n, nx)
    ss: Array  # (H, nx, nx)

    @classmethod
    def of(cls, rows: StageRows, weight: Array | None = None) -> "Square":
        """Cost of half the squares of rows, times weights (H, m)."""
        u, s = (rows.u, rows.s) if weight is None else (w * weight[..., None] for w in _both(rows))
        return cls(_gram(rows.u, u), _gram(rows.u, s), _gram(rows.s, s))

    def __add__(self, other: "Square") -> "Square":
        return jax.tree.map(jnp.add, self, other)


def _both(rows: StageRows) -> tuple[Array, Array]:
    return rows.u, rows.s


def _gram(a: Array, b: Array) -> Array:
    return jnp.einsum("kma,kmb->kab", a, b)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RiccatiFactor:
    """Matrices of the recursion: u = gain s + (term of ``solve``) in stage k, and y likewise."""

    inverse: Array  # (H, n, n) of the lower factor of the controls' matrix
    through: Array  # (H, n, e) that times A^T
    small: Array  # (H, e, e) inverse of the lower factor of the equations' system
    gain: Array  # (H, n, nx)
    y_gain: Array  # (H, e, nx)
    cross: Array  # (H, n, nx) mixed term of the cost to go


def factor(
    chain: Chain, cost: Square, A: StageRows, diagonal: Array, delta: Array | float
) -> RiccatiFactor:
    """Factorise the conditions of ``solve``, from the last stage back.

    diagonal (H, n) is added to the controls' matrix; delta () softens the equations, relative to
    the diagonal of their system.
    """
    n, e, nx = A.u.shape[2], A.u.shape[1], A.s.shape[2]

    def back(P, stage):
        F, B, uu, us, ss, A_u, A_s, added = stage
        PB, PF = matmul(P, B), matmul(P, F)
        uu = uu + matmul(B.T, PB) + jnp.diag(added)
        cross = us + matmul(B.T, PF)
        lower = lax.linalg.cholesky(uu, symmetrize_input=False)
        sides = jnp.concatenate([jnp.eye(n, dtype=uu.dtype), A_u.T, cross], axis=1)
        sides = lax.linalg.triangular_solve(lower, sides, left_side=True, lower=True)
        inverse, through, by_state = sides[:, :n], sides[:, n : n + e], sides[:, n + e :]
        S = matmul(through.T, through)
        S = S + jnp.diag(delta * (1 + jnp.diagonal(S)))
        lower = lax.linalg.cholesky(S, symmetrize_input=False)
        eye = jnp.eye(e, dtype=S.dtype)
        small = lax.linalg.triangular_solve(lower, eye, left_side=True, lower=True)
        asked = matmul(through.T, by_state) - A_s
        y_gain = matmul(small.T, matmul(small, asked))
        gain = matmul(inverse.T, matmul(through, y_gain) - by_state)
        P = ss + matmul(F.T, PF) + matmul(cross.T, gain) - matmul(A_s.T, y_gain)
        return (P + P.T) / 2, RiccatiFactor(inverse, through, small, gain, y_gain, cross)

    none = jnp.zeros((nx, nx), A.u.dtype)
    stages = (chain.F, chain.B, cost.uu, cost.us, cost.ss, A.u, A.s, diagonal)
    return lax.scan(back, none, stages, reverse=True)[1]


def solve(
    f: RiccatiFactor, chain: Chain, A: StageRows, g: Array, g_s: Array, e: Array
) -> tuple[Array, Array, Array]:
    """Minimise the cost less g u and g_s s, subject to A u + A_s s + delta y = e.

    g (H, n), g_s (H, nx), e (H, e); returns u (H, n), s (H, nx) and multipliers y (H, e).
    """

    def back(p, stage):
        f, F, B, A_s, g, g_s, e = stage
        g = matmul(f.inverse, g - matmul(p, B))
        y = matmul(matmul(f.small, e - matmul(g, f.through)), f.small)
        u = matmul(g + matmul(f.through, y), f.inverse)
        p = matmul(u, f.cross) - matmul(y, A_s) - g_s + matmul(p, F)
        return p, (u, y)

    stages = (f, chain.F, chain.B, A.s, g, g_s, e)
    _, (u, y) = lax.scan(back, jnp.zeros_like(g_s[0]), stages, reverse=True)

    def follow(s, stage):
        f, F, B, u, y = stage
        u, y = u + matmul(f.gain, s), y + matmul(f.y_gain, s)
        return matmul(F, s) + matmul(B, u), (u, s, y)

    return lax.scan(follow, jnp.zeros_like(g_s[0]), (f, chain.F, chain.B, u, y))[1]
