"""M = L^T L for a mass matrix, eliminated from the leaves so that the tree's zeros stay zero.

Degrees of freedom of one depth lie on different branches and are eliminated together. Source:
Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.5 (LTL).
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import matmul
from jaxsim.model.topology import Topology


def whiten(top: Topology, M: Array, B: Array) -> tuple[Array, Array]:
    """L (nv, nv), lower triangular with L^T L = M, and L^-T B for B (nv, m).

    With y = L v, kinetic energy is |y|^2 / 2 and a row J has J v = (L^-T J^T)^T y: in these
    coordinates the inverse mass matrix is the identity. M must be positive definite (NaN if not).
    """
    ancestors = jnp.asarray(top.dof_ancestors, M.dtype)
    work = jnp.concatenate([M, B], axis=1)
    order = []
    lower, solved = [], []
    for level in reversed(top.dof_levels):
        k = np.array(level)
        rows = work[k] / jnp.sqrt(work[k, k])[:, None]
        L_k = rows[:, : top.nv] * ancestors[k]
        rest = rows[:, top.nv :]
        lower.append(L_k)
        solved.append(rest)
        order += level
        if level != top.dof_levels[0]:
            work = work - matmul(L_k.T, jnp.concatenate([L_k, rest], axis=1))
    inverse = np.argsort(order)
    return jnp.concatenate(lower)[inverse], jnp.concatenate(solved)[inverse]


def solve_lower(top: Topology, L: Array, y: Array) -> Array:
    """v (nv,) with L v = y, from the roots outward."""
    done: list[int] = []
    v = None
    parts = []
    for level in top.dof_levels:
        k = np.array(level)
        rest = y[k]
        if v is not None:
            rest = rest - matmul(L[k][:, np.array(done)], v)
        parts.append(rest / L[k, k])
        v = jnp.concatenate(parts)
        done += level
    return v[np.argsort(done)]
