"""Random QPs in the shape of a step of motion, and what must be true of their solutions."""

from dataclasses import fields, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from jaxsim.solvers import qp
from tests.compiling import quick_jit

NQ, NF, E, K, M = 6, 4, 3, 5, 18  # velocities, forces, equations, inequalities, tasks
KC = 3  # of the inequalities, the last ones, with a ceiling
N = NQ + NF
MASKED = N - 1  # a force that nothing depends on
IDLE = K - 1  # a row of G
FREE = 2  # unknowns that have no bounds, where these are left away
MEMBERS = 48
ALONE = tuple(f.name for f in fields(qp.QuadraticProgram) if f.name != "joint")  # of one by itself
NAMES = [f"A{i}" for i in range(E)] + [f"G{i}" for i in range(K)] + [f"x{i}" for i in range(N)]


def problems(seed: int = 0, members: int = MEMBERS) -> qp.QuadraticProgram:
    """Random ones in the shape of the per-step problem, with a point inside of all constraints."""
    rng = np.random.default_rng(seed)
    size = 10 ** rng.uniform(-1, 1, (members, M))
    J = rng.normal(size=(members, M, N)) * size[..., None]
    A, G = rng.normal(size=(members, E, N)), rng.normal(size=(members, K, N))
    inside = np.concatenate(
        [0.3 * rng.normal(size=(members, NQ)), rng.exponential(size=(members, NF))], axis=1
    )
    lower, upper = np.full((members, N), -np.inf), np.full((members, N), np.inf)
    lower[:, 2:NQ] = inside[:, 2:NQ] - rng.uniform(0.05, 0.5, (members, NQ - 2))
    upper[:, 2:NQ] = inside[:, 2:NQ] + rng.uniform(0.05, 0.5, (members, NQ - 2))
    lower[:, NQ:] = 0
    for matrix in (J, A, G):
        matrix[:, :, MASKED] = 0
    h = np.einsum("bij,bj->bi", G, inside) - rng.uniform(0.01, 0.5, (members, K))
    G[:, IDLE], h[:, IDLE] = 0, -1
    b = np.einsum("bij,bj->bi", A, inside)
    r = rng.normal(size=(members, M)) * size
    ceiling = np.einsum("bij,bj->bi", G, inside) + rng.uniform(0.01, 0.5, (members, K))
    ceiling = ceiling[:, -KC:]
    return qp.QuadraticProgram(*map(jnp.asarray, (J, r, A, b, G, h, lower, upper, ceiling)))


def one(p, k=0):
    return jax.tree.map(lambda x: x[k], p)


def single(p):
    """In float32."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, p)


def with_(p: qp.QuadraticProgram, **values) -> qp.QuadraticProgram:
    """``p`` with some of its arrays changed by functions that edit them."""
    changed = {}
    for name, edit in values.items():
        array = np.array(getattr(p, name))
        edit(array)
        changed[name] = jnp.asarray(array)
    return replace(p, **changed)


@cache
def solver(**options):
    return quick_jit(jax.vmap(partial(qp.solve, **options)))


def reference(p: qp.QuadraticProgram) -> np.ndarray:
    """x of one member as a least-distance problem, by non-negative least squares, which is an
    active-set method (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23)."""
    J, r, A, b, G, h, lower, upper = (np.asarray(getattr(p, name)) for name in ALONE[:8])
    eye, low, high = np.eye(J.shape[1]), np.isfinite(lower), np.isfinite(upper)
    top = np.asarray(p.ceilings)
    C = np.concatenate([A, -A, G, -G[len(h) - len(top) :], eye[low], -eye[high]])
    d = np.concatenate([b, -b, h, -top, lower[low], -upper[high]])
    idle = ~np.concatenate([J, A, G]).any(axis=0)
    L = np.linalg.cholesky(J.T @ J + np.diag(1.0 * idle))
    free = np.linalg.solve(L, J.T @ r)  # x = L^-T (u + free), the least |u|
    rows = np.linalg.solve(L, C.T).T
    stacked = np.concatenate([rows.T, (d - rows @ free)[None]])
    goal = np.append(np.zeros(len(L)), 1.0)
    left = stacked @ scipy.optimize.nnls(stacked, goal, maxiter=1000)[0] - goal
    return np.linalg.solve(L.T, free - left[:-1] / left[-1])


def relative(x, wanted):
    return np.linalg.norm(np.asarray(x, float) - wanted, axis=1) / np.linalg.norm(wanted, axis=1)


def assert_optimal(p: qp.QuadraticProgram, s: qp.QPSolution, atol: float):
    """The conditions of Karush, Kuhn and Tucker, in the units of the problem."""
    J, r, A, b, G, h, lower, upper, ceiling = (
        np.asarray(getattr(p, name), float) for name in ALONE
    )
    x, y, z, low, high, above = (
        np.asarray(v, float)
        for v in (s.x, s.equality, s.inequality, s.at_lower, s.at_upper, s.at_ceiling)
    )
    gradient = np.einsum("bij,bi->bj", J, np.einsum("bij,bj->bi", J, x) - r)
    last = G[:, G.shape[1] - ceiling.shape[1] :]
    pull = np.einsum("bij,bi->bj", A, y) + np.einsum("bij,bi->bj", G, z) + low - high
    pull = pull - np.einsum("bij,bi->bj", last, above)
    np.testing.assert_allclose(gradient, pull, atol=atol * np.abs(gradient).max())
    room = np.einsum("bij,bj->bi", G, x) - h
    np.testing.assert_allclose(np.einsum("bij,bj->bi", A, x), b, atol=atol)
    under = ceiling - np.einsum("bij,bj->bi", last, x)
    for slack, force in ((room, z), (under, above), (x - lower, low), (upper - x, high)):
        assert (slack > -atol).all() and (force >= 0).all()
        there = np.isfinite(slack)
        assert (force[~there] == 0).all()
        assert (np.minimum(slack, force)[there] < 1e3 * atol).all()


def copy_row(a):
    a[:, 1] = a[:, 0]


INFEASIBLE = {
    "equations": (lambda p: with_(p, A=copy_row, b=lambda b: b.__setitem__((..., 1), b[:, 0] + 1)),
                  {"A0", "A1"}),
    "a row of zeros": (lambda p: with_(p, A=lambda A: A.__setitem__((slice(None), 0), 0),
                                       b=lambda b: b.__setitem__((..., 0), 1)), {"A0"}),
    "inequalities": (lambda p: with_(p, G=lambda G: G.__setitem__((slice(None), 0), -G[:, 1]),
                                     h=lambda h: h.__setitem__((..., 0), 1 - h[:, 1])),
                     {"G0", "G1"}),
    "the sides of a row": (lambda p: with_(p, ceiling=lambda c: c.__setitem__(
        (..., 0), p.h[:, K - KC] - 0.5)), {f"G{K - KC}"}),
    "bounds": (lambda p: with_(p, lower=lambda x: x.__setitem__((..., 3), 1 + p.upper[:, 3])),
               {"x3"}),
}  # fmt: skip
