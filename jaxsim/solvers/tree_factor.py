"""M = L^T L for a mass matrix, eliminated from the leaves so that the tree's zeros stay zero.

Degrees of freedom of one depth lie on different branches and are eliminated together. Source:
Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.5 (LTL).
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.model.topology import Topology


def whiten(top: Topology, M: Array, B: Array) -> tuple[Array, Array]:
    """L (nv, nv), lower triangular with L^T L = M, and L^-T B for B (nv, m).

    Both have their rows and L its columns in the order of ``level_order``. With y = L v, kinetic
    energy is |y|^2 / 2 and a row J has J v = (L^-T J^T)^T y: in these coordinates the inverse mass
    matrix is the identity. M must be positive definite (NaN if not).
    """
    order = level_order(top)
    ancestors = jnp.asarray(top.dof_ancestors[np.ix_(order, order)], M.dtype)
    nv = top.nv
    given = jnp.concatenate([M[order][:, order], B[order]], axis=1)
    done = jnp.zeros((0, given.shape[1]), M.dtype)  # [L, L^-T B] of the levels below
    last = nv
    for level in reversed(top.dof_levels):
        first = last - len(level)
        here = given[first:last] - matmul(done[:, first:last].T, done)
        rows = here / jnp.sqrt(jnp.diagonal(here[:, first:last]))[:, None]
        L_k = rows[:, :nv] * ancestors[first:last]
        done = jnp.concatenate([jnp.concatenate([L_k, rows[:, nv:]], axis=1), done])
        last = first
    return done[:, :nv], done[:, nv:]


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
    """(nv,) the degrees of freedom by depth, so that ancestors come first and in one piece."""
    return np.array([dof for level in top.dof_levels for dof in level], int)
