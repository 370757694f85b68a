"""Where elements go: of all ranks, and with no elements at all."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fused.cases import case, randoms

X, A = randoms(20, 3, 2, 3), randoms(21, 3, 2, 1, 3, 2)
K = np.arange(18).reshape(3, 2, 3) - 7
NONE = np.zeros((3, 0, 2))
KNOWN = np.arange(6.0).reshape(2, 3)


@case("broadcast_in_dim", "reshape", "squeeze", "transpose", args=[X, A, K, NONE])
def rearranged(x, a, k, none):
    known = jnp.asarray(KNOWN, x.dtype)
    wide = [jnp.broadcast_to(x, (2, 2, 3)), x[:, None] + known, x[0, 0] + jnp.zeros((1, 2)), 2 + k]
    wide += [jnp.broadcast_to(none, (3, 0, 2)), lax.broadcast_in_dim(x, (3, 1, 2), (2, 0))]
    flat = [
        x.reshape(-1),
        a.reshape(3, 4),
        k.reshape(3, 1, 2),
        none.reshape(2, 3, 0),
        x[:1, :1].reshape(()),
    ]
    thin = [lax.squeeze(a, (1,)), x[0], k[1, 2], known.reshape(3, 2) + x.T]
    turned = [x.T, jnp.transpose(a, (3, 1, 0, 2)), jnp.moveaxis(k, 0, 1), none.T, known.T * 1]
    return {"broadcast_in_dim": wide, "reshape": flat, "squeeze": thin, "transpose": turned}


@case("slice", "rev", "pad", args=[X, A, K, NONE])
def cut(x, a, k, none):
    known = jnp.asarray(KNOWN, x.dtype)
    parts = [
        x[1:],
        x[:, ::2],
        a[:, :, 1:, :1],
        k[::-1, 1:],
        x[2:],
        none[:, 1:],
        known[:, 1:] + x[0, 0],
    ]
    back = [jnp.flip(x), jnp.flip(k, 1), jnp.flip(a, (0, 2)), jnp.flip(none), jnp.flip(known, 0)]
    wide = [lax.pad(x, x[0, 0], [(1, 0, 0), (0, 2, 1)]), lax.pad(k, 7, [(-1, 1, 0), (2, -1, 2)])]
    wide += [
        jnp.pad(a, [(0, 0), (1, 1), (0, 0), (0, 1)]),
        lax.pad(none, x[0, 0], [(1, 1, 0), (0, 1, 0)]),
    ]
    wide += [lax.pad(known, x[0, 0], [(0, 0, 0), (1, -2, 0)]), jnp.pad(x > 0, 1)]
    return {"slice": parts, "rev": back, "pad": wide}


@case("concatenate", "stack", "unstack", "split", "tile", args=[X, A, K, NONE])
def joined(x, a, k, none):
    known = jnp.asarray(KNOWN, x.dtype)
    rows = [jnp.concatenate([x, known, 2 * x]), jnp.concatenate([k, k[:, :1]], 1)]
    rows += [jnp.concatenate([none, none]), jnp.concatenate([known, known]) + x[0]]
    stacks = [jnp.stack([x, known], 1), jnp.stack([k[0, 0], k[1, 1], 5]), jnp.stack([a, a], -1)]
    apart = [*jnp.unstack(x), *jnp.unstack(a, axis=2), *jnp.unstack(known, axis=1)]
    parts = [*jnp.split(x, 3, 1), *lax.split(k, (1, 0, 2), 1), *jnp.split(known, 2)]
    repeated = [
        jnp.tile(x, (2, 2)),
        jnp.tile(k, 2),
        jnp.tile(none, (1, 2)),
        jnp.tile(known, (2, 1)),
    ]
    return dict(zip(("concatenate", "stack", "unstack", "split", "tile"),
                    (rows, stacks, apart, parts, repeated)))  # fmt: skip


@case("iota", "empty", args=[X])
def counted(x):
    counts = [jnp.arange(3) + x[0], lax.broadcasted_iota(jnp.int32, (2, 3), 1) * x, jnp.eye(2) @ x]
    return {"iota": [*counts, lax.iota(x.dtype, 4), jnp.arange(0) * x[0, 0]], "empty": _empty(x)}


def _empty(x):
    return jnp.where(x > 9, lax.empty(x.shape, x.dtype), x) if hasattr(lax, "empty") else x


@case("jit", args=[X, K])
def handed_on(x, k):
    inner = jax.jit(lambda x, k: (x, k, x + k, x, 1.5, jnp.arange(2)))
    ends = [np.iinfo(k.dtype).min, np.iinfo(k.dtype).max, np.iinfo(jnp.uint32).max]
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-30], x.dtype)
    known = [KNOWN.astype(x.dtype), *ends[:2], jnp.uint32(ends[2]), odd, True]
    used = [
        k[0, 0] + ends[0],
        k[0, 0] | ends[1],
        k[0, 0].astype("uint32") & known[3],
        odd * x[0, 0],
    ]
    return {"jit": [x, k, x, known, used, k > 0, *inner(x, k)]}
