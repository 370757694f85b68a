"""The tree-sparse factor M = L^T L: what it whitens, which entries stay zero, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.planar_human import planar_human
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.fused import fuse
from jaxsim.model import ModelBuilder, ball, free, hinge, slide
from jaxsim.solvers.tree_factor import (
    level_order,
    lower_product,
    solve_lower,
    whiten,
    whiten_rows,
)
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

COLUMNS = 5


def forest():
    """Two trees with branches, declared so that depth and index order differ."""
    b = ModelBuilder()
    body = dict(mass=1.0, com=(0.2, 0.1, 0.3), inertia=(0.3, 0.2, 0.4))
    b.add_link("base", "world", joints=[free("float")], **body)
    b.add_link("arm", "base", pos=(0, 0, 1), joints=[ball("shoulder")], **body)
    b.add_link("other", "world", joints=[slide("x", (1, 0, 0)), hinge("swing", (0, 1, 0))], **body)
    b.add_link("leg", "base", pos=(0, 1, 0), joints=[hinge("hip", (0, 1, 0))], **body)
    b.add_link("hand", "arm", pos=(0, 0, 1), joints=[hinge("wrist", (1, 0, 0))], **body)
    b.add_link("weld", "hand", **body)
    return b.build()


MODELS = {"forest": forest, "planar human": planar_human}


@pytest.fixture(scope="module", params=MODELS)
def case(request, x64_module):
    """A model's topology, its mass matrix at a random pose, columns, a velocity; and the factor."""
    model = MODELS[request.param]()
    top = model.topology
    rng = np.random.default_rng(0)
    q = rng.normal(size=top.nq)
    for kind, first in zip(top.joint_kinds, top.q_start, strict=True):
        if kind in ("ball", "free"):
            part = slice(first + (3 if kind == "free" else 0), first + (7 if kind == "free" else 4))
            q[part] /= np.linalg.norm(q[part])
    B, v = rng.normal(size=(top.nv, COLUMNS)), rng.normal(size=top.nv)

    def every(q, B, v):
        M = mass_matrix(model, forward_kinematics(model, q, v))
        L, white = whiten(top, M, B)
        y = lower_product(top, L, v)
        return M, L, white, y, solve_lower(top, L, y)

    return top, B, v, jax.tree.map(np.asarray, quick_jit(every)(q, B, v))


def test_factor_reproduces_the_mass_matrix(case):
    top, _, v, (M, L, _, y, _) = case
    order = level_order(top)
    np.testing.assert_allclose(L.T @ L, M[np.ix_(order, order)], atol=1e-10 * M.max())
    np.testing.assert_allclose(y @ y, v @ M @ v, rtol=1e-12)


def test_factor_is_lower_triangular_and_keeps_the_zeros_of_the_tree(case):
    top, _, _, (_, L, *_) = case
    order = level_order(top)
    assert sorted(order) == list(range(top.nv))
    np.testing.assert_array_equal(np.triu(L, 1), 0)
    np.testing.assert_array_equal(L[~top.dof_ancestors[np.ix_(order, order)]], 0)
    assert (np.diagonal(L) > 0).all()


def test_solve_lower_undoes_the_product(case):
    *_, v, (_, _, _, _, back) = case
    np.testing.assert_allclose(back, v, atol=1e-11)


def test_whitened_columns_have_the_inner_products_of_the_inverse_mass_matrix(case):
    """White = L^-T B: J v = white^T y for the rows J = B^T, and A = J M^-1 J^T = white^T white."""
    _, B, v, (M, _, white, y, _) = case
    np.testing.assert_allclose(white.T @ white, B.T @ np.linalg.solve(M, B), atol=1e-9)
    np.testing.assert_allclose(white.T @ y, B.T @ v, atol=1e-10)


def test_impulse_in_white_coordinates_is_an_impulse_on_the_body(case):
    """y + white f, taken back, is v + M^-1 J^T f."""
    top, B, v, (M, L, white, y, _) = case
    f = np.arange(1.0, COLUMNS + 1)
    moved = quick_jit(lambda L, y: solve_lower(top, L, y))(L, y + white @ f)
    np.testing.assert_allclose(moved, v + np.linalg.solve(M, B @ f), atol=1e-9)


@pytest.mark.parametrize("backend", ["xla", "fused"])
def test_rows_that_may_be_idle_are_whitened_alike(case, backend):
    """In a kernel by parts, of which one is zeros and said to be; by XLA all at once."""
    top, B, _, (M, L, white, *_) = case
    rows = np.concatenate([B.T, 0 * B.T, B.T])
    parts = [slice(0, COLUMNS), slice(COLUMNS, 2 * COLUMNS)]

    def of(M, rows, used):
        return whiten_rows(top, M, rows, rows[0], list(zip(parts, used, strict=True)))

    used = np.array([True, False])
    found = fuse(of, backend=backend)(M[None], rows[None], used[None])
    factor, whitened, change = (np.asarray(x[0]) for x in found)
    np.testing.assert_allclose(factor, L, atol=1e-12)
    np.testing.assert_allclose(whitened, np.concatenate([white.T, 0 * white.T, white.T]), atol=1e-9)
    np.testing.assert_allclose(change, white[:, 0], atol=1e-9)


def test_a_matrix_that_is_not_positive_definite_gives_nan():
    top = forest().topology
    L, white = quick_jit(lambda M: whiten(top, M, jnp.ones((top.nv, 1))))(-np.eye(top.nv))
    assert np.isnan(L).any() and np.isnan(white).any()


def test_gradient_is_that_of_a_dense_solve():
    """d/dM of |L^-T b|^2 = b^T M^-1 b, over the entries that a tree's matrix has."""
    top = planar_human().topology
    rng = np.random.default_rng(1)
    mask = top.dof_ancestors | top.dof_ancestors.T
    factor = np.where(top.dof_ancestors, rng.normal(size=(top.nv, top.nv)), 0) + 3 * np.eye(top.nv)
    M, b = factor.T @ factor, rng.normal(size=top.nv)

    def ours(M):
        return jnp.sum(whiten(top, (M + M.T) / 2, jnp.asarray(b)[:, None])[1] ** 2)

    value, gradient = quick_jit(jax.value_and_grad(ours))(M)
    x = np.linalg.solve(M, b)
    np.testing.assert_allclose(value, b @ x, rtol=1e-10)
    wanted = -np.outer(x, x)
    np.testing.assert_allclose(np.asarray(gradient)[mask], wanted[mask], atol=1e-10)
