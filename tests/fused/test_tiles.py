"""Products, factors and solutions of matrices too large to be written out."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import explain, fuse, lanes
from jaxsim.fused.core import core
from jaxsim.fused.errors import FuseError
from jaxsim.fused.launch import Kernel
from jaxsim.fused.program import walk
from jaxsim.fused.rules.linear import MOST_OF_A_MATRIX, MOST_PRODUCTS, MOST_ROWS
from jaxsim.math.products import matmul
from tests.compiling import quick_jit
from tests.fused.agree import agree
from tests.fused.cases import randoms

# Without AVX-512 LLVM takes a minute or more for each of these kernels.
pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.slow]

B, N, TIMES = 3, 29, 40  # four rows of tiles, the last not full
SOME = randoms(80, B, N, N)
SPD = SOME @ np.swapaxes(SOME, 1, 2) + N * np.eye(N)
RIGHT = randoms(81, B, N, 2)
RTOL = {"float32": 1e-3, "float64": 1e-10}  # rounding times the condition of the matrix
cholesky = partial(lax.linalg.cholesky, symmetrize_input=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_factor_and_what_it_solves(dtype):
    def solved(a, b):
        lower = cholesky(a)
        first = lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)
        return (
            lower,
            first,
            lax.linalg.triangular_solve(lower, first, left_side=True, lower=True, transpose_a=True),
        )

    a, b = (jnp.asarray(x, dtype) for x in (SPD, RIGHT))
    _, _, x = agree(solved, a, b, rtol=RTOL, atol=1e-5 if dtype == "float32" else 1e-13)
    np.testing.assert_allclose(np.asarray(a) @ x, b, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("columns", [2, 11])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_every_kind_of_triangle(left, lower, columns):
    """Of one that is no factor here, and whose other half holds something else; many columns go in
    tiles."""

    def solved(a, b):
        right = b if left else b.T
        ways = [(t, u) for t in (True, False) for u in (True, False)]
        return [
            lax.linalg.triangular_solve(
                a, right, left_side=left, lower=lower, transpose_a=t, unit_diagonal=u
            )
            for t, u in ways
        ]

    triangle, right = 0.3 * SOME + 2 * np.eye(N), randoms(82, B, N, columns)
    agree(solved, triangle, right, rtol={"float64": 1e-9}, atol=1e-12)


def test_the_leading_part_of_a_factor_is_read_where_it_is():
    """The factor of rows 0 to 26 with what stands below, as QPs use it; no copy is made."""

    def solved(a, b):
        lower = cholesky(a)[:27, :27]
        return lax.linalg.triangular_solve(lower, b[:27], left_side=True, lower=True)

    agree(solved, SPD, RIGHT, rtol=RTOL)
    stores = [v for v in walk(explain(solved, SPD[0], RIGHT[0]).program.block) if v.op == "store"]
    of_factor = 8 * 8 * 10 - 4 * 28  # ten tiles, of four on the diagonal the lower half
    in_loops = 36 + 64  # a tile on the diagonal, and one below
    of_solution = 2 * (32 + 8)
    assert len(stores) == of_factor + in_loops + of_solution


def test_a_factor_in_a_loop_is_made_anew_in_each_round():
    def rounds(a):
        def one(carry, scale):
            lower = cholesky(a * (1 + scale) + carry * jnp.eye(N))
            return lower[-1, -1], lower[:, 3]

        return lax.scan(one, a[0, 0], jnp.linspace(0.0, 1.0, TIMES).astype(a.dtype))

    agree(rounds, SPD, rtol=RTOL)


def test_members_that_are_not_positive_definite_are_not_finite_alone():
    a = SPD.copy()
    a[1] -= 40 * N * np.eye(N)
    got = np.asarray(fuse(cholesky)(a))
    assert np.isnan(got[1]).any()
    assert np.array_equal(got[::2], np.asarray(fuse(cholesky)(SPD))[::2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products(dtype):
    x, y = (jnp.asarray(10 * a, dtype) for a in (randoms(82, B, 28, 27), randoms(83, B, 27, 28)))
    assert 28 * 27 * 28 > MOST_PRODUCTS
    agree(lambda x, y: x @ y, x, y, atol=1e-5)


def test_a_matrix_and_its_transpose_times_vectors():
    """Kept once, where it was made; in a loop over vectors that change."""

    def descent(m, r):
        def one(x, _):
            return x - 0.01 * (m @ x - r) @ m, None

        return lax.scan(one, jnp.zeros(70, m.dtype), None, length=TIMES)[0]

    m, r = randoms(84, B, 61, 70), randoms(85, B, 61)
    agree(descent, m, r, rtol=RTOL, atol=1e-12)
    program = explain(descent, m[0], r[0]).program
    kept = [v for v in walk(program.block) if v.op == "store" and v.data.size == 8 * 9]
    (steps,) = [v.data for v in program.block.ops if v.op == "loop" and v.data.length == TIMES]
    assert len(kept) == 64 * 4 and 61 * 70 > MOST_OF_A_MATRIX  # full tiles and those at the edges
    assert not set(kept) & set(walk(steps.body))


def test_columns_with_few_numbers_are_added_one_by_one():
    """A sum of what most entries have and of what few have: one in loops, the other not."""
    few = np.zeros((N + 20, N + 20))
    few[np.arange(N + 20), np.arange(N + 20)] = 3.0

    def squared(x):
        rows = jnp.concatenate([jnp.tile(x, (2, 2))[: N + 20, : N + 20], few * x[0, 0]])
        return rows.T @ rows

    agree(squared, SOME, rtol=RTOL, atol=1e-12)


def test_there_is_little_code():
    """A tenth of the n^3 / 3 operations of the factor, and less."""
    n = 64
    a = jax.ShapeDtypeStruct((n, n), np.float64)
    assert n > MOST_ROWS and explain(cholesky, a).after < n**3 / 3 / 10


def test_gradients():
    def energy(f, a, b):
        return jnp.sum(jnp.sin(f(a, b)))

    def solution(a, b):
        lower = cholesky(a)
        return lax.linalg.triangular_solve(lower, b[:, :1], left_side=True, lower=True)

    got = jax.grad(partial(energy, fuse(solution)), argnums=(0, 1))(SPD, RIGHT)
    wanted = quick_jit(jax.grad(partial(energy, jax.vmap(solution)), argnums=(0, 1)))(SPD, RIGHT)
    for x, y in zip(got, wanted):
        np.testing.assert_allclose(x, y, atol=1e-11)


def test_kernels_with_much_local_memory_take_fewer_lanes_at_once(monkeypatch):
    fuse(jnp.sin)(np.ones(3))  # Dr.Jit is there
    found, many = core(), 10**6
    if found is None:
        pytest.skip("there is no choice")
    for stack in (lanes.SMALLEST_STACK, 2**23):
        monkeypatch.setattr(lanes, "stack", lambda stack=stack: stack)
        most = 3 * stack // 4 // found.most
        assert lanes.set_lanes(many, False, most) == found.most
        assert lanes.set_lanes(many, False, most + 1) == lanes.NARROW


def test_a_large_kernel_is_not_compiled_again_for_fewer_lanes(monkeypatch):
    fuse(jnp.sin)(np.ones(3))  # Dr.Jit is there
    found = core()
    if found is None or found.most != lanes.MOST:
        pytest.skip("there is no choice")
    monkeypatch.setattr(lanes, "stack", lambda: 2**26)
    small, large = lanes.LARGE, lanes.LARGE + 1
    assert lanes.set_lanes(lanes.NARROW + 1, False, large) == lanes.MOST
    assert lanes.set_lanes(lanes.NARROW, False, large) == lanes.NARROW
    for local, width in ((large, lanes.MOST), (small, lanes.NARROW)):
        assert lanes.set_lanes(1, False, local, {lanes.MOST}) == width
    assert lanes.set_lanes(1, True, large, {lanes.MOST // 2}) == lanes.MOST // 2
    assert lanes.set_lanes(1, True, large) == lanes.LEAST


def test_a_batch_that_gets_smaller_has_the_kernel_of_the_larger_one(monkeypatch):
    asked = []

    def noted(batch, doubles, local, made):
        asked.append((batch, made))
        return lanes.set_lanes(batch, doubles, local, made)

    monkeypatch.setattr("jaxsim.fused.launch.set_lanes", noted)
    monkeypatch.setattr(lanes, "LARGE", -1)
    run = fuse(lambda x: jnp.sin(x) + 2)
    for count in (500, 3):
        np.testing.assert_allclose(run(np.ones(count)), np.sin(1.0) + 2, rtol=1e-6)
    (_, before), (_, after) = asked
    assert before == set() and len(after) == 1


def test_more_local_memory_than_eight_lanes_have_room_for_is_refused(monkeypatch):
    kernel = Kernel(jax.make_jaxpr(cholesky)(jnp.eye(N)))
    needed = kernel.local
    stack = 4 * lanes.NARROW * needed // 3
    monkeypatch.setattr(lanes, "stack", lambda: stack + 64)
    kernel.check((False,), 1, "cpu")
    monkeypatch.setattr(lanes, "stack", lambda: stack - 64)
    with pytest.raises(FuseError, match=rf"keeps {needed} bytes .*ulimit -s.* room for \d+"):
        kernel.check((False,), 1, "cpu")
    kernel.check((False,), 1, "cuda")


@pytest.mark.usefixtures("x64")
def test_a_few_numbers_of_64_bits_do_not_make_the_vectors_of_a_kernel_narrow():
    def doubles(dtype):
        def fn(x):
            return jnp.sin(x) * x + x[0] * jnp.where(x[1] > 0, 2.0, 3.0)

        return Kernel(jax.make_jaxpr(fn)(jnp.ones(3, dtype))).doubles

    assert (doubles(jnp.float32), doubles(jnp.float64)) == (False, True)


def _products(J, x, y):
    """Of a matrix that is an argument, in an order in which a loop asks first."""
    start = jnp.concatenate([x, y])

    def again(_, carry):
        x, y = carry[: len(x0)], carry[len(x0) :]
        return jnp.concatenate([jnp.sin(matmul(y, J)) + x, jnp.cos(matmul(J, x)) - y])

    x0 = x
    ended = lax.fori_loop(0, 70, again, start)
    gram = lax.dot_general(J, J, (((0,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)
    return ended, gram, matmul(J, x), jnp.sum(J[3])


# The widest one compiles for minutes where there is no AVX-512.
WIDEST = pytest.param((3, 2001), marks=pytest.mark.slow)


@pytest.mark.parametrize("shape", [(130, 37), (128, 40), (70, 61), WIDEST])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_large_argument_is_copied_in_loops(dtype, shape):
    """Of sizes that fill tiles and that do not; its rows of eight are read together."""
    m, n = shape
    few = n if n < 200 else 8  # of a wide one only the products with vectors
    J = jnp.asarray(randoms(84, B, m, n) / np.sqrt(m * n), dtype)
    x, y = (jnp.asarray(randoms(85 + k, B, size), dtype) for k, size in enumerate((n, m)))
    fn = _products if few == n else lambda J, x, y: (matmul(J, x), matmul(y, J))
    rtol, atol = dict(float32=1e-4, float64=1e-12), 1e-6 if dtype == "float32" else 1e-13
    agree(fn, J, x, y, rtol=rtol, atol=atol)
    size = explain(lambda J, x, y: (matmul(J, x), matmul(y, J)), J[0], x[0], y[0]).parts
    assert sum(part.operations for part in size) < m * n  # which grow with m + n alone


def test_rows_that_a_loop_stacks_are_such_a_matrix():
    def fn(x):
        _, rows = lax.scan(lambda c, _: (jnp.sin(c + x), c), x, length=120)
        return matmul(rows, x), matmul(rows[:, 0], rows)

    agree(fn, jnp.asarray(randoms(88, B, 41), "float32"), rtol=dict(float32=1e-4), atol=1e-6)
