"""Reading and writing by index: known or computed, inside and out of bounds, in every mode."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fused.cases import INT_MAX, INT_MIN, case, pairs, randoms

# The indices of a member: inside, at the ends, beyond them, negative.
I, J = pairs([0, 1, 2, -1, -3, 3, 5, -9, INT_MAX, INT_MIN], [0, 2, -2, 4, 7, -50])
N = I.size
X, V, LONG = randoms(40, N, 3, 4), randoms(41, N, 5), randoms(42, N, 11)
K = np.arange(N * 3).reshape(N, 3) - N
TABLE = randoms(43, 3, 13)
MODES = ("clip", "fill", "promise_in_bounds")


@case("dynamic_slice", args=[X, V, LONG, K, I, J])
def windows(x, v, long, k, i, j):
    short, big, known = i.astype("int32"), j.astype("uint32"), jnp.asarray(TABLE, x.dtype)
    found = [lax.dynamic_slice(x, (i, j), (2, 3)), lax.dynamic_slice(x, (short, 0 * short), (1, 4))]
    found += [lax.dynamic_slice(v, (i,), (5,)), lax.dynamic_slice(long, (j,), (3,)), k[i], x[i, j]]
    found += [lax.dynamic_slice(long, (big,), (2,)), x[:0].shape[0] * v, long[j], x[i], x[:, j]]
    found += [
        known[i, j],
        known[:, j],
        known[2],
        known[1, i],
        lax.dynamic_slice(known, (i, j), (2, 6)),
    ]
    found += [lax.dynamic_index_in_dim(x, i, keepdims=False), (k > 0)[i], (known > 0)[i, j]]
    computed = jnp.sin(jnp.concatenate([long, v]))  # neither in memory nor known
    found += [computed[i], computed.reshape(4, 4)[i, j], lax.dynamic_slice(computed, (j,), (2,))]
    found += [
        lax.dynamic_slice(x, (i, j), (0, 2)),
        known[jnp.where(i > 1, 2, 0), jnp.where(j > 0, 3, 1)],
    ]
    return {"dynamic_slice": found}


@case("gather", args=[X, V, LONG, K, I, J])
def gathered(x, v, long, k, i, j):
    two, known = jnp.stack([i, j]), jnp.asarray(TABLE, x.dtype)
    found = []
    for mode in MODES:
        found += [x.at[i, j].get(mode=mode), x.at[:, i].get(mode=mode), long.at[two].get(mode=mode)]
        found += [
            k.at[j].get(mode=mode),
            known.at[i, j].get(mode=mode),
            x.at[two, 1].get(mode=mode),
        ]
        found += [(k > 0).at[two].get(mode=mode), k.astype("uint32").at[i].get(mode=mode)]
        found += [x.at[two, two[::-1]].get(mode=mode), x.at[5, 1].get(mode=mode)]
    found += [
        x.at[i, j].get(mode="fill", fill_value=7),
        jnp.take(x, two, axis=1, mode="wrap"),
        x[:, jnp.array([1, 1, 3])],
    ]
    found += [
        jnp.take_along_axis(x, jnp.clip(two, 0, 2)[:, None], 0),
        x[jnp.array([2, 0])[:, None], two],
    ]
    found += [jax.vmap(lambda row, at: row[at])(x, jnp.stack([i, j, i + 1])), x[two[:0]]]
    found += [jax.vmap(lambda at: lax.dynamic_slice(long, (at,), (3,)))(two), jnp.diag(x[:, :3])]
    found += [
        x.at[two].get(mode="clip"),
        x[..., ::2],
        x[1:, i],
        known[two, 1:3],
        long[two.astype("uint32")],
    ]
    return {"gather": found}


@case("dynamic_update_slice", args=[X, V, LONG, K, I, J])
def windows_written(x, v, long, k, i, j):
    known = jnp.asarray(TABLE, x.dtype)
    found = [lax.dynamic_update_slice(x, v[:4].reshape(2, 2), (i, j)), x.at[i].set(v[:4])]
    found += [lax.dynamic_update_slice(v, v[:2], (i.astype("int32"),)), known.at[0].set(v[0])]
    found += [
        lax.dynamic_update_slice(x, x[:0], (i, j)),
        lax.dynamic_update_slice(x, 2 * x, (i, j)),
    ]
    found += [
        lax.dynamic_update_index_in_dim(k, 9, i, 0),
        lax.dynamic_update_slice(known, x, (j, i)),
    ]
    found += [lax.dynamic_update_slice(long, v[:1], (j.astype("uint32"),)), (k > 0).at[1].set(True)]
    return {"dynamic_update_slice": found}


WAYS = {
    **{f"scatter-{way[:3]}": way for way in ("add", "subtract", "multiply", "min", "max")},
    "scatter": "set",
}


@case(*WAYS, args=[X, V, LONG, K, I, J])
def scattered(x, v, long, k, i, j):
    two, known = jnp.stack([i, j]), jnp.asarray(TABLE, x.dtype)
    # No two updates of one place, the order of which is not said; within the array in the mode
    # that brings both to its edge.
    far, within = jnp.stack([i, i + 1]), jnp.stack([i % 5, i % 5 + 6])
    found = {name: [] for name in WAYS}
    for name, way in WAYS.items():
        for mode in MODES if way in ("set", "add") else MODES[:1]:
            apart = within if mode == "clip" and way == "set" else far

            def write(a, *at, value, way=way, mode=mode):
                return getattr(a.at[at], way)(value, mode=mode)

            found[name] += [
                write(x, i, j, value=v[0]),
                write(x, i, value=v[:4]),
                write(k, j, value=3),
            ]
            found[name] += [write(x, slice(0, 2), j, value=v[:2]), write(long, apart, value=v[:2])]
        found[name] += [write(known, i, 2, value=v[1]), write(x, jnp.array([2, 0]), 1, value=v[:2])]
        found[name] += [
            write(x, apart, j, value=2.5),
            write(x, 5, 0, value=1),
            write(k, i, value=k[0]),
        ]
        found[name] += [write(x, slice(None, None, 2), 1, value=v[:2]), write(x, two[:0], value=0)]
        every = jax.vmap(lambda row, at, value: getattr(row.at[at], way)(value))  # noqa: B023
        found[name].append(every(x, jnp.stack([i, j, 0 * i]), v[:3]))
    found["scatter"] += [
        (k > 0).at[i].set(True),
        (k > 0).at[i].set(k[0] > 2),
        x.at[i].apply(jnp.sin),
    ]
    found["scatter"] += [x.at[i, j].apply(lambda y: 2 * y), known.at[i, j].set(v[0])]
    found["scatter-add"] += [
        x.at[two].add(1),
        x.at[two, two].add(v[:2]),
        jnp.bincount(two, length=4),
    ]
    found["scatter-max"].append((k > 0).at[i].max(k[0] > 2))
    return found


@case("dynamic_slice", "gather", args=[TABLE[:, :9], np.array([0, 8, -3])])
def tables_in_memory(long, i):
    """More than eight rows: the index goes to memory; the same table is read at several places."""
    known = jnp.asarray(TABLE, long.dtype).T
    # computed, then kept; a sine, since XLA joins a square and a difference to one operation
    sines = jnp.sin(jnp.cumsum(long))
    found = [known[i], known[i + 1, 1], known[2 * i], sines[i], sines[i + 1] - sines[i]]
    found += [jnp.where(i > 0, sines[i], known[i, 0]), long[i] * known[i]]
    return {
        "dynamic_slice": found,
        "gather": [sines[jnp.stack([i, 3 - i])], known[jnp.stack([i, i])]],
    }
