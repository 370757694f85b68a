"""Sums, extremes, running sums, products and factorisations of matrices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fused.cases import INT_MAX, INT_MIN, case, randoms

X, A = randoms(30, 5, 3, 4), randoms(31, 5, 2, 3, 1, 2)
HARD = np.array(
    [[1, np.nan, 3, 2], [np.inf, 1, np.nan, 3], [-np.inf, np.inf, 0, 2], [1, 1, 0, -0.0]]
)
HARD = np.concatenate([HARD, [[np.nan] * 4, [-np.inf] * 4, [np.inf] * 4, [0, -0.0, 0, -0.0]]])
K = np.array([[3, -2, 7, 7], [INT_MAX, INT_MIN, -1, 0], [0] * 4, [5, 1, INT_MAX, 3], [-1, 1, 1, 9]])
LONG = randoms(32, 5, 40)


@case("reduce_sum", "reduce_prod", args=[X, A, K, LONG], sums=True)
def sums(x, a, k, long):
    none = jnp.zeros((3, 0), x.dtype)
    known = x.shape[0] * jnp.arange(6).reshape(2, 3)
    added = [jnp.sum(x), x.sum(0), a.sum((1, 3)), k.sum(), none.sum(1), none.sum(), long.sum()]
    added += [
        lax.reduce_sum(x, ()),
        known.sum(1) + k[0],
        (x > 0).sum(),
        jnp.sum(k.astype("uint32")),
    ]
    multiplied = [jnp.prod(x), x.prod(1), a.prod(0), k.prod(), none.prod(1), known.prod(0) * k[0]]
    return {"reduce_sum": added, "reduce_prod": multiplied}


@case("reduce_max", "reduce_min", "argmax", "argmin", args=[HARD])
def extremes_of_floats(x):
    square, empty = x.reshape(2, 2), jnp.zeros((0, 2), x.dtype)
    most = [x.max(), square.max(0), square.max((0, 1)), lax.reduce_max(empty, (0,))]
    least = [x.min(), square.min(1), lax.reduce_min(empty, (0,)), lax.reduce_min(x, ())]
    where = [x.argmax(), square.argmax(0), square.argmax(1), x[:1].argmax(), (x > 0).argmax()]
    last = [x.argmin(), square.argmin(0), lax.argmin(square, 1, jnp.uint32), (x > 0).argmin()]
    return {"reduce_max": most, "reduce_min": least, "argmax": where, "argmin": last}


@case("reduce_max", "reduce_min", "argmax", "argmin", args=[K])
def extremes_of_integers(k):
    square, none = k.reshape(2, 2), k[:0]
    natural, truth = k.astype("uint32"), k > 0
    most = [k.max(), square.max(0), natural.max(), lax.reduce_max(none, (0,)), jnp.max(truth)]
    least = [k.min(), square.min(1), natural.min(), lax.reduce_min(none, (0,)), jnp.min(truth)]
    least += [lax.reduce_min(natural[:0], (0,)), lax.reduce_min(truth[:0], (0,))]
    places = {"argmax": [k.argmax(), square.argmax(1)], "argmin": [k.argmin(), natural.argmin()]}
    return {"reduce_max": most, "reduce_min": least} | places


@case("psum", "pmax", "pmin", args=[X, HARD[:5], K], sums=True)
def over_members(x, hard, k):
    """Of the members of a ``vmap`` inside, whose axis has a name, also in a loop."""

    def by(of):
        def member(x, k):
            def again(_, c):
                return c + of(c * x[0], "members")

            return of(x, "members"), of((k, x > 0), "members"), lax.fori_loop(0, 3, again, x[1])

        return jax.vmap(member, axis_name="members")

    square = hard.reshape(2, 2)
    most = jax.vmap(lambda row: lax.pmax(row, "members"), axis_name="members")(square)
    of_two = jax.vmap(jax.vmap(lambda x: lax.psum(x, ("rows", "members")), axis_name="rows"),
                      axis_name="members")  # fmt: skip
    return {
        "psum": [*by(lax.psum)(x, k[:3]), of_two(k.reshape(2, 2))],
        "pmax": [*by(lax.pmax)(x, k[:3]), most],
        "pmin": [*by(lax.pmin)(x, k[:3])],
    }


@case("reduce_and", "reduce_or", "reduce_xor", args=[K])
def reduced_bits(k):
    square, natural, truth = k.reshape(2, 2), k.astype("uint32"), k > 0
    arrays = [k, natural, truth, truth[:0], k[:0], natural[:0]]
    found = {}
    for name in ("reduce_and", "reduce_or", "reduce_xor"):
        reduce = getattr(lax, name)
        found[name] = [
            *(reduce(x, (0,)) for x in arrays),
            reduce(square, (1,)),
            reduce(square, (0, 1)),
        ]
    return found


@case("cumsum", "cumprod", "cummax", "cummin", args=[X, HARD[[0, 1, 2, 3, 5]], K], sums=True)
def running(x, hard, k):
    found = {}
    for name in ("cumsum", "cumprod", "cummax", "cummin"):
        run = getattr(lax, name)
        found[name] = [run(v, axis, way) for v in (x, hard.reshape(2, 2), k.reshape(2, 2))
                       for axis in (0, 1) for way in (False, True)]  # fmt: skip
        found[name] += [run(x[:1]), run(x[:0]), run(k), run(jnp.arange(1, 4)) * x[:, 0]]
    return found


B = randoms(33, 5, 4, 2)
BATCHED = randoms(34, 5, 2, 3, 2)


@case("dot_general", args=[X, B, BATCHED, K, LONG], sums=True)
def products(x, b, batched, k, long):
    known = jnp.asarray([[0.0, 1, 0, 2], [1, 0, 0, 0], [0, 0, 0, 0]], x.dtype)
    found = [x @ b, x[0] @ x[1], b[:, 0] @ b, jnp.einsum("nij,nkj->nik", batched, batched)]
    found += [jnp.einsum("ij,kl->ikjl", x, b), jnp.einsum("nij,nij->n", batched, batched)]
    found += [known @ b, known @ x.T, known @ known.T @ x, x @ known[:1].T, long @ long]
    picks = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    tree = jnp.asarray(picks, x.dtype)
    found += [tree @ b, x @ tree.T, tree.T @ tree, tree @ x[0], jnp.asarray(picks, k.dtype) @ k]
    found += [k @ k, jnp.outer(k, k), lax.dot(x, b, preferred_element_type=jnp.float32)]
    found += [lax.dot(k > 0, k < 5), lax.dot(k, k, preferred_element_type=x.dtype)]
    found += [
        x[:0] @ b,
        x[:, :0] @ b[:0],
        jnp.vdot(x, x),
        jnp.tensordot(batched, batched, ((1, 2), (1, 2))),
    ]
    return {"dot_general": found}


M = randoms(35, 5, 4, 4)
SPD = M @ np.swapaxes(M, 1, 2) + np.eye(4)


@case(
    "cholesky",
    "triangular_solve",
    args=[SPD, randoms(36, 5, 4, 3)],
    rtol={"float32": 1e-3, "float64": 1e-11},  # rounding times the condition of the matrix
)
def factors(a, b):
    indefinite = a - 3 * jnp.eye(4)  # NaN from the bad pivot on; XLA makes all of it NaN
    known = jnp.linalg.cholesky(jnp.eye(2) + 1)
    lower = jnp.linalg.cholesky(a)
    two = jnp.stack([a, 2 * a])
    made = [lower, jnp.linalg.cholesky(two), jnp.linalg.cholesky(a, upper=True), known * b[:2, :2]]
    made += [jnp.isnan(lax.linalg.cholesky(indefinite)).any(), lax.linalg.cholesky(a[:1, :1])]
    made += [lax.linalg.cholesky(jnp.tril(a), symmetrize_input=False)]
    solved = []
    for left in (True, False):
        right = b if left else b.T
        for lower_part in (True, False):
            for transposed in (True, False):
                for unit in (True, False):
                    m = lower if lower_part else lower.T
                    options = dict(left_side=left, lower=lower_part, transpose_a=transposed)
                    solved.append(
                        lax.linalg.triangular_solve(m, right, unit_diagonal=unit, **options)
                    )
    both = jnp.stack([lower, 2 * lower])
    solved.append(lax.linalg.triangular_solve(both, jnp.stack([b, b]), left_side=True, lower=True))
    return {"cholesky": made, "triangular_solve": solved}
