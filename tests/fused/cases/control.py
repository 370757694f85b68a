"""Calls, branches and loops."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from jaxsim.fused import fuse
from tests.fused.cases import case, randoms

N = np.array([0, 1, 2, 5, 9, 3, -1])
X, V, ROWS = randoms(50, N.size, 3), randoms(51, N.size, 5, 2), randoms(52, N.size, 120, 2)
MANY = randoms(53, N.size, 12_000, 2)


@jax.custom_jvp
def _doubled(x):
    return 2 * x


_doubled.defjvp(lambda primals, tangents: (_doubled(*primals), 2 * tangents[0]))


@jax.custom_vjp
def _halved(x):
    return x / 2


_halved.defvjp(lambda x: (x / 2, None), lambda _, g: (g / 2,))


@custom_vmap
def _tripled(x):
    return 3 * x


_tripled.def_vmap(lambda _, batched, x: (3 * x, batched[0]))


@case(
    "jit",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vmap_call",
    "fused",
    args=[X],
)
def called(x):
    given = np.array([1.5, -2, 0.25], x.dtype)  # an array of the surroundings
    inner = jax.jit(lambda x, y: (x * y, jnp.asarray(given), x))
    checked = jax.checkpoint(lambda x: jnp.sin(x) * given)
    return {
        "jit": [
            inner(x, 3),
            jax.jit(lambda x: inner(*inner(x, 2 * x)[:2])[0])(x),
            given,
            1.5,
            x,
            x,
        ],
        "remat2": [checked(x), _slope(checked, x)],
        "custom_jvp_call": [_doubled(x), jax.nn.relu(x), _slope(_doubled, x)],
        "custom_vmap_call": _tripled(x),
        "custom_vjp_call": [_halved(x), _slope(_halved, x)],
        "fused": [
            fuse(lambda x, y: x * y + given[0], (0, None))(x, 2.0),
            fuse(lambda x: jnp.sum(x))(x[None]),
        ],
    }


if jax.__version_info__ >= (0, 11):

    @case("eval_jaxpr", args=[X])
    def evaluated(x):
        def function(x):
            return jnp.tanh(x), 2 * x

        return {"eval_jaxpr": jax.jit(function).trace(x)(x)}


def _slope(function, x):
    return jax.grad(lambda x: jnp.sum(function(x) ** 2))(x)


def _busy(x):
    """Work enough that a branch with it is not computed in vain."""
    for k in range(8):
        x = 0.3 * jnp.sin(jnp.outer(x, x) @ x / 4 + k) + 0.5 * x[::-1]
    return x


@case("cond", "platform_index", args=[X, V, N, ROWS])
def branches(x, v, n, rows):
    read = [lax.cond(x[1] > 0, lambda: _busy(x) * rows[3, 0], lambda: _busy(x)), rows[3] - 1]
    small = [lambda x, n: (x, n), lambda x, n: (2 * x, n + 1), lambda x, n: (jnp.zeros(3), 7 * n)]
    large = [lambda x, n: (_busy(x), n), lambda x, n: (x, n * n), lambda x, n: (_busy(2 * x), 2)]
    found = [
        *read,
        lax.switch(n, small, x, n),
        lax.switch(n, large, x, n),
        lax.switch(2, small, x, n),
    ]
    found += [
        lax.cond(x[0] > 0, _busy, jnp.cos, x),
        lax.cond(n > 2, lambda: x, lambda: v[0, 0] + x),
    ]
    found += [
        lax.cond(True, lambda x: x, _busy, x),
        lax.cond(n > 1, lambda: n > 2, lambda: x[0] > 0),
    ]

    def inner(x):
        return lax.cond(
            n > 2, lambda x: _busy(x) + v[0, 0], lambda x: lax.cond(n < 1, _busy, jnp.sin, x), x
        )

    def loops(x):
        return lax.scan(lambda c, row: (c * row[0] + _busy(x)[0], c), x[0], v)

    found += [
        lax.cond(x[1] > 0, inner, _busy, x),
        lax.cond(x[1] > 0, loops, lambda x: (x[0], v[:, 0]), x),
    ]
    # what one branch has computed is not there in the other, nor behind them
    found += [lax.cond(x[1] > 0, lambda: _busy(x), lambda: -_busy(x)), _busy(x), _busy(x) * n]
    found += [
        lax.switch(n, [lambda: _busy(x)[n % 3], lambda: v[n % 5, 0], lambda: jnp.sum(_busy(x))])
    ]
    table = jnp.cumsum(rows[:12, 0])
    found += [lax.cond(x[1] > 0, lambda: _busy(x) * rows[n, 1] + table[n], lambda: _busy(x))]
    found += [rows[n] * 2, table[n] - 1, lax.cond(x[0] > 0, lambda: x * table[n], lambda: _busy(x))]
    # a fused function does as the CPU does on every device, so the others are told to do the same
    picked = [
        lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.sin, default=jnp.cos),
        lax.platform_dependent(x, default=jnp.tan),
        lax.platform_dependent(
            x, fused=lambda x: x + x, cpu=lambda x: 2 * x, cuda=lambda x: 2 * x, default=jnp.tan
        ),
    ]
    return {"cond": found, "platform_index": picked}


@case("while", args=[X, V, N])
def while_loops(x, v, n):
    def halve(carry):
        k, y, on = carry
        return k + 1, y / 2 + v[k % 5, 0], ~on

    def rows(c, row):  # as many rounds as the lane and the row ask for
        return lax.while_loop(
            lambda c: c[0] < 3 * row[0], lambda c: (c[0] + 0.5, c[1] + c[0] * row[1]), c
        ), c[1]

    found = [lax.while_loop(lambda c: (c[0] < n) & (c[1][0] < 9), halve, (0, x, True))]
    found += [
        lax.fori_loop(0, n, lambda k, c: (c[1], c[0] + k), (1.0, x[0])),
        lax.fori_loop(2, 2, lambda k, c: -c, x),
    ]
    found += [
        lax.while_loop(lambda c: False, lambda c: c + 1, n),
        lax.while_loop(lambda c: c < 5, lambda c: c + 2, 0),
    ]
    found += [
        lax.scan(rows, (x[0], x[1]), v),
        lax.fori_loop(n, 5, lambda k, c: c.at[k % 3].add(v[k % 5, 1]), x),
    ]
    found += [lax.while_loop(lambda c: c[1] < n, lambda c: (c[0], c[1] + 1, c[2]), (x, 0, x[:0]))]
    found += [
        lax.fori_loop(0, n, lambda i, c: lax.fori_loop(0, i, lambda k, c: c + x[k % 3], c), 0.0)
    ]
    found += [jax.vmap(lambda y: lax.while_loop(lambda c: c < 4, lambda c: c * 1.5 + 1, y))(x)]
    found += [lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, _busy(c[1])), (0, x))]
    return {"while": found}


def _scans(xs, x, n, reverse: bool):
    """Loops over the rows of xs."""
    scan = partial(lax.scan, reverse=reverse)
    length = xs.shape[0]

    def swapped(c, row):
        a, b, k, still, known, late, on = c
        out = (row, a[0] * row[1], k, k > 3, still)
        known = known * 1.0  # as it was
        late = jnp.where(k > 1, late + row[0], late)  # as it was for two rounds
        return (b, 0.5 * a + row[0], k + n, still, known, late, ~on), out

    def nested(c, row):
        c, inner = scan(lambda c, r: (0.5 * c + r * row[0], (c[0], r)), c, xs[: length // 2])
        return c, (inner[0][:2], inner[1][:1].sum() if length > 1 else c[0])

    found = [scan(swapped, (x, 2 * x, 0, x[0], 1.0, 0.0, True), xs), scan(nested, x[:2], xs)]
    found += [
        scan(lambda c, _: (c * 0.5 + x[1], None), x[0], None, length=length),
        scan(lambda c, r: (c, r), (), xs),
    ]
    found += [
        scan(
            lambda c, r: (c + r["k"], {"b": ~r["b"], "k": r["k"] * c}),
            0,
            {"k": jnp.arange(length), "b": xs[:, 0] > 0},
        )
    ]
    found += [
        scan(lambda c, r: (c + r, c), x[0], jnp.full(length, 0.25)),
        scan(lambda c, r: (c + r, r), x, jnp.ones((length, 1)) * x),
    ]
    found += [
        scan(lambda c, r: (c, c[:0]), x[:0], xs),
        scan(lambda c, r: (c + r, r), x[0], xs[:, 1]),
        scan(lambda c, r: (c * r, 7), 1.0, xs.T[0]),
    ]
    return found


@case("scan", args=[X, V, N], sums=True)
def short_scans(x, v, n):
    found = [_scans(v[:0], x, n, False), _scans(v[:1], x, n, True)]
    found += [_scans(v, x, n, False), _scans(v, x, n, True)]
    _, ys = lax.scan(lambda c, r: (c + r, c * r), x[:2], v)
    found += [ys, ys[n], ys[::-1], ys, jnp.sum(ys), lax.map(lambda r: r * x[0], v)]
    return {"scan": [*found, lax.associative_scan(jnp.add, v)]}


@case("scan", args=[X, ROWS, N], sums=True)
def long_scans(x, rows, n):
    def body(c, r):
        return 0.9 * c + r * x[0], c[0]

    def busy(c, r):
        return c + lax.cond(r[0] > 0, _busy, jnp.sin, c), c[0]

    found = [_scans(rows, x, n, False), lax.scan(body, x[:2], rows, reverse=True)]
    found += [lax.scan(body, x[:2], rows[20:]), lax.scan(body, x[:2], rows.reshape(3, 80, 1)[1])]
    found += [lax.scan(lambda c, r: (_busy(c) + r[0], c[0]), x, rows[:70])]
    found += [lax.scan(busy, x, rows[:70])]
    known = randoms(54, 100, 2).astype(x.dtype)
    found += [lax.scan(lambda c, r: (0.5 * c + r, c * r), x[:2], known, reverse=True)]
    return {"scan": found}


@case("scan", args=[X, ROWS, N], sums=True)
def rows_read_again(x, rows, n):
    """What a long loop has stacked, in memory of the lane: read, returned, and both."""
    rows, scan = rows[:66], partial(lax.scan, lambda c, r: (0.5 * c + r, (c * r, c[0])))
    _, (first, second) = scan(x[:2], rows)
    _, (third, _) = scan(x[1:], first, reverse=True)
    _, (fourth, _) = scan(x[1:], third[10:])
    place = jnp.clip(n, 0, 65)
    found = [
        first,
        third[place],
        first[place, 1],
        fourth,
        jnp.sum(second),
        second[n],
        first[::2],
        fourth.reshape(-1),
    ]
    _, (fifth, sixth) = scan(x[:2], 2 * rows)
    found += [fifth, fifth, sixth[3:], sixth]  # the same rows twice; a part, and the whole
    _, (seventh, eighth) = scan(x[:2], 3 * rows)
    found += [
        seventh,
        seventh[5:9],
        eighth.reshape(11, 6),
        eighth,
        lax.cond(n > 2, lambda: eighth, lambda: second),
    ]

    def outer(c, row):
        _, (inner, last) = scan(c, rows)  # written anew in each round of this loop
        return inner[place] + row, (inner[0], last[place], inner[3:5])

    found += [lax.scan(outer, x[:2], rows), lax.scan(outer, x[:2], rows[:3])]
    kinds = lax.scan(lambda c, r: (c + 1, (r[0] > 0, c, c.astype("uint32"))), n, rows)[1]
    found += [kinds, [y[place] for y in kinds]]
    return {"scan": found}


@case("scan", "while", args=[X, ROWS, N], sums=True)
def tables_in_loops(x, rows, n):
    """Tables of more than eight rows, constant and computed, read where a loop says."""
    known = jnp.asarray(randoms(55, 30, 2), x.dtype)
    computed = jnp.cumsum(rows[:20, 0])

    def body(c, r):
        at = jnp.floor(9 * jnp.abs(c[0])).astype("int32")
        return jnp.sin(c + known[at] * r + computed[at % 20] / 9), computed[(at + n) % 20]

    rounds = lax.while_loop(
        lambda c: c[0] < n + 2, lambda c: (c[0] + 1, body(c[1], rows[c[0]])[0]), (0, x[:2])
    )
    return {"scan": [lax.scan(body, x[:2], rows), lax.scan(body, x[:2], rows[:4])], "while": rounds}


@case("scan", args=[MANY, X], sums=True)
def more_rows_than_could_be_unrolled(many, x):
    def mean(c, row):
        return c + (row - c) / 100, None

    ends = lax.scan(mean, x[:2], many)[0]
    part = lax.scan(mean, x[:2], many[4_000:9_000], reverse=True)[0]
    return {
        "scan": [
            ends,
            part,
            lax.dynamic_slice_in_dim(many, x[0].astype("int32") + 7_000, 2),
            many[11_999],
        ]
    }
