"""Factorisation M = L^T L of a mass matrix from the leaves, which keeps the tree's zeros.

Degrees of freedom of one depth lie on different branches and are eliminated together. Source:
Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.5 (LTL).
"""

from collections.abc import Sequence
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.math.products import matmul
from jaxsim.model.topology import Topology
from jaxsim.solvers.idle import unless_idle


def whiten(top: Topology, M: Array, B: Array) -> tuple[Array, Array]:
    """Factorise M = L^T L: L (nv, nv), lower triangular, and L^-T B for B (nv, m).

    Both have their rows and L its columns in the order of ``level_order``. With y = L v, kinetic
    energy is |y|^2 / 2 and a row J has J v = (L^-T J^T)^T y: in these coordinates the inverse mass
    matrix is the identity. M must be positive definite (NaN if not).
    """
    order = level_order(top)
    ancestors = jnp.asarray(top.dof_ancestors[np.ix_(order, order)], M.dtype)
    nv = top.nv
    columns = jnp.concatenate([M[order][:, order], B[order]], axis=1)
    done = jnp.zeros((0, columns.shape[1]), M.dtype)  # [L, L^-T B] of the levels below
    last = nv
    for level in reversed(top.dof_levels):
        first = last - len(level)
        here = columns[first:last] - matmul(done[:, first:last].T, done)
        rows = here / jnp.sqrt(jnp.diagonal(here[:, first:last]))[:, None]
        L_k = rows[:, :nv] * ancestors[first:last]
        done = jnp.concatenate([jnp.concatenate([L_k, rows[:, nv:]], axis=1), done])
        last = first
    return done[:, :nv], done[:, nv:]


def whiten_rows(
    top: Topology, M: Array, rows: Array, change: Array, acting: Sequence[tuple[slice, Array]]
) -> tuple[Array, Array, Array]:
    """Whiten rows (m, nv) and a change (nv,): L, and L^-T of both as (m, nv), (nv,).

    acting: slices of rows, each with () bool, false if its rows are zeros. A fused kernel skips
    slices of zeros.
    """
    parts, used = [part for part, _ in acting], [used for _, used in acting]

    def at_once(M, rows, change, *_):
        L, white = whiten(top, M, jnp.concatenate([rows.T, change[:, None]], axis=1))
        return L, white[:, :-1].T, white[:, -1]

    def by_parts(M, rows, change, *used):
        last = parts[-1].stop
        always = jnp.concatenate([rows[last:].T, change[:, None]], axis=1)
        L, white = whiten(top, M, always)
        some = [
            unless_idle(use, partial(solve_upper, top), L, rows[part].T)
            for use, part in zip(used, parts, strict=True)
        ]
        return L, jnp.concatenate([*some, white[:, :-1]], axis=1).T, white[:, -1]

    if not acting:
        return at_once(M, rows, change)
    return lax.platform_dependent(M, rows, change, *used, fused=by_parts, default=at_once)


def solve_upper(top: Topology, L: Array, B: Array) -> Array:
    """L^-T B for B (nv, m) in the model's order; its rows are in the order of ``level_order``."""
    B = B[level_order(top)]
    done = jnp.zeros((0, B.shape[1]), B.dtype)
    last = top.nv
    for level in reversed(top.dof_levels):
        first = last - len(level)
        here = B[first:last] - matmul(L[last:, first:last].T, done)
        done = jnp.concatenate([here / jnp.diagonal(L[first:last, first:last])[:, None], done])
        last = first
    return done


def lower_product(top: Topology, L: Array, v: Array) -> Array:
    """y = L v, for v (nv,) in the model's order."""
    return matmul(L, v[level_order(top)])


def solve_lower(top: Topology, L: Array, y: Array) -> Array:
    """v (nv,), in the model's order, with L v = y."""
    v = jnp.zeros(0, y.dtype)
    first = 0
    for level in top.dof_levels:
        last = first + len(level)
        rows = L[first:last]
        rest = y[first:last] - matmul(rows[:, :first], v)
        v = jnp.concatenate([v, rest / jnp.diagonal(rows[:, first:last])])
        first = last
    return v[np.argsort(level_order(top))]


def level_order(top: Topology) -> np.ndarray:
    """(nv,) degrees of freedom by depth, so that ancestors come first and are contiguous."""
    return np.array([dof for level in top.dof_levels for dof in level], int)
