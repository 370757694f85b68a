"""Gradients through ``fuse``: what XLA gives, and what finite differences give."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from jaxsim.fused import fuse
from jaxsim.fused.gradient import _Pair
from jaxsim.fused.launch import Kernel
from jaxsim.fused.program import walk
from tests.compiling import quick_jit
from tests.fused import agree
from tests.fused.cases import randoms

pytestmark = pytest.mark.usefixtures("x64")

B = 5
X, M, K = randoms(70, B, 4), randoms(71, B, 4, 4), randoms(72, 3)
ROWS = randoms(73, B, 90, 4, low=-1, high=1)
N = np.array([0, 3, 1, 7, -2])
RTOL = {"float64": 1e-11}


def _elementwise(x, k):
    y = jnp.sin(x) * jnp.exp(-x * x) + jnp.sqrt(1 + x * x) / (2 + jnp.cos(k[0] * x)) + k[1] ** 2 * x
    return jnp.tanh(y) ** 3 + jnp.where(x > 0, x * k[2], jnp.abs(y)), jnp.log1p(y * y)


def _body(k, c, r):
    c = c + 0.1 * jnp.sin(r * k[0] + c[::-1]) * k[1]
    return c, c * r[0]


def _short(x, rows, k):
    return lax.scan(partial(_body, k), x, rows[:6])


def _long(x, rows, k):
    """Longer than the loops whose values are all kept."""
    return lax.scan(partial(_body, k), x, rows)


def _long_back(x, rows, k):
    def body(c, r):
        return _body(k, c, r)[0], None

    c, ys = lax.scan(partial(_body, k), x, rows, reverse=True)
    return lax.scan(body, c, ys)[0], ys[3]


def _nested(x, rows, k):
    def outer(c, r):
        c, ys = lax.scan(partial(_body, k / 2), c, rows[:80])
        return c * r, ys[2]

    return lax.scan(outer, x, rows[:3])


def _branches(x, n, k):
    far = lax.cond(x[0] > 0, lambda x: jnp.sin(x) * k[0], lambda x: x**2, x)
    return far, lax.switch(n, [jnp.cos, lambda x: x * k[1], lambda x: x[::-1] ** 3], x)


def _large_branches(x, m, n):
    def busy(x):
        for k in range(6):
            x = jnp.sin(m @ x + k) / 3 + x
        return x

    return lax.cond(x[0] > 0, busy, lambda x: busy(2 * x) * x, x), lax.cond(n > 0, busy, jnp.cos, x)


def _indexed(x, n, rows):
    picked = x[n % 4] * x[::2], lax.dynamic_slice(rows, (n, 1), (2, 2)), x.at[n].set(2 * x[0])
    return (
        picked,
        rows[jnp.abs(n), 0] ** 2,
        x.at[jnp.array([0, 2, 2])].add(x[1:]),
        jnp.cumsum(x)[n % 4],
    )


def _linear(m, x):
    a = m @ m.T + 4 * jnp.eye(4)
    lower = jnp.linalg.cholesky(a)
    y = lax.linalg.triangular_solve(lower, x[:, None], left_side=True, lower=True)[:, 0]
    back = lax.linalg.triangular_solve(lower, y[None], lower=True, transpose_a=False)
    return (
        y,
        jax.scipy.linalg.cho_solve((lower, True), x),
        jnp.trace(m @ m) + jnp.vdot(x, m @ x),
        back,
    )


def _mixed(x, n, flag, k):
    return {
        "y": jnp.where(flag, x * k[0], x * n),
        "n": n + 1,
        "unused": x**5,
        "same": x,
        "max": jnp.max(x),
    }


def _loops(x, m):
    return lax.fori_loop(0, 7, lambda i, x: jnp.tanh(m @ x) + i, x), lax.fori_loop(
        0, 100, lambda i, x: x * 0.9 + 0.1 * jnp.sin(x), x
    )


@jax.custom_vjp
def _clipped(x):
    return x * 2


_clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * jnp.sign(x),))


def _own_rules(x, m):
    inner = fuse(lambda row, x: jnp.sin(row @ x), (0, None))
    return (
        _clipped(x),
        jax.nn.relu(x),
        jax.checkpoint(jnp.sin)(x) ** 2,
        inner(m, x),
        lax.stop_gradient(x) * x,
    )


CASES = {
    "elementwise": (_elementwise, (X, K), (0, None)),
    "short scan": (_short, (X, ROWS, K), (0, 0, None)),
    "long scan": (_long, (X, ROWS, K), (0, 0, None)),
    "long scan, shared rows": (_long, (X, ROWS[0], K), (0, None, None)),
    "long scans, one after the other": (_long_back, (X, ROWS, K), (0, 0, None)),
    "scan in a scan": (_nested, (X, ROWS, K), (0, 0, None)),
    "cond": (_branches, (X, N, K), (0, 0, None)),
    "cond with large branches": (_large_branches, (X, M / 2, N), 0),
    "indices": (_indexed, (X, N, ROWS[:, :9]), 0),
    "linear": (_linear, (M, X), 0),
    "integers beside floats": (_mixed, (X, N, N > 0, K), (0, 0, 0, None)),
    "loops": (_loops, (X, M / 4), 0),
    "rules of their own": (_own_rules, (X, M), 0),
}


def _loss(mapped, weights, *args):
    """A number of all float outputs but "unused"."""
    out = mapped(*args)
    if isinstance(out, dict):
        out = {key: y for key, y in out.items() if key not in ("unused", "n")}
    leaves = jax.tree.leaves(out)
    return sum(jnp.vdot(w[: y.size], y) for w, y in zip(weights, leaves))


WEIGHTS = randoms(74, 8, 4000)


@pytest.mark.parametrize("fn, args, in_axes", CASES.values(), ids=CASES)
def test_gradients_are_those_of_xla(fn, args, in_axes):
    floats = [k for k, x in enumerate(args) if x.dtype.kind == "f"]
    args = [jnp.asarray(x) for x in args]
    got = jax.grad(partial(_loss, fuse(fn, in_axes), WEIGHTS), floats)(*args)
    want = quick_jit(jax.grad(partial(_loss, jax.vmap(fn, in_axes), WEIGHTS), floats))(*args)
    agree.same(got, want, RTOL, atol=1e-12)


@pytest.mark.parametrize("name", ["elementwise", "long scan", "linear"])
def test_inside_jit_and_with_the_value(name):
    fn, args, in_axes = CASES[name]
    args = [jnp.asarray(x) for x in args]
    step = jax.jit(jax.value_and_grad(partial(_loss, fuse(fn, in_axes), WEIGHTS)))
    want = quick_jit(jax.value_and_grad(partial(_loss, jax.vmap(fn, in_axes), WEIGHTS)))(*args)
    agree.same(step(*args), want, RTOL, atol=1e-12)


def test_what_is_named_costly_is_not_computed_again():
    """Of a function whose derivative takes its value alone."""

    def moved(named, x):
        @jax.custom_jvp
        def hard(x):
            return jnp.exp(x)

        @hard.defjvp
        def _(primals, tangents):
            y = hard(*primals)
            y = checkpoint_name(y, "costly") if named else y
            return y, y * tangents[0]

        return lax.scan(lambda x, _: (0.1 * x - hard(x), None), x, None, length=5000)[0]

    def exponentials(named):
        kernel = Kernel(jax.make_jaxpr(partial(moved, named))(X[0]))
        return sum(v.op == "exp" for v in walk(_Pair(kernel)._backward.program.block))

    assert (exponentials(False), exponentials(True)) == (X.shape[1], 0)
    x = jnp.asarray(X)
    named, plain = (jax.grad(lambda x, n=n: fuse(partial(moved, n))(x).sum())(x) for n in (1, 0))
    agree.same(named, plain, RTOL)


def test_of_one_member_and_over_a_batch_of_gradients():
    one = fuse(lambda x, k: (jnp.sin(x) * k[0]).sum() + x[0] ** 3, (0, None))
    slopes = jax.vmap(jax.grad(lambda x, k: one(x[None], k)[0], (0, 1)), (0, None))(
        jnp.asarray(X), K
    )
    plain = jax.grad(lambda x, k: (jnp.sin(x) * k[0]).sum() + x[0] ** 3, (0, 1))
    agree.same(slopes, quick_jit(jax.vmap(plain, (0, None)))(X, K), RTOL)
    jacobian = jax.jacrev(fuse(lambda x: jnp.cumsum(x) ** 2))(jnp.asarray(X))
    plain = quick_jit(jax.jacrev(jax.vmap(lambda x: jnp.cumsum(x) ** 2)))
    agree.same(jacobian, plain(jnp.asarray(X)), RTOL)


def test_gradients_against_finite_differences():
    fn, args, in_axes = CASES["long scan"]
    loss = partial(_loss, fuse(fn, in_axes), WEIGHTS)
    slopes = jax.grad(loss, (0, 1, 2))(*map(jnp.asarray, args))
    step = 1e-6
    for k, (x, slope) in enumerate(zip(args, slopes)):
        way = randoms(75 + k, *x.shape)
        ends = [loss(*args[:k], x + sign * step * way, *args[k + 1 :]) for sign in (1, -1)]
        np.testing.assert_allclose(np.vdot(slope, way), (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_float32_gradients_are_float32():
    with jax.enable_x64(False):
        fn, args, in_axes = CASES["short scan"]
        args = [jnp.asarray(x, "float32") for x in args]
        got = jax.grad(partial(_loss, fuse(fn, in_axes), np.float32(WEIGHTS)), (0, 1, 2))(*args)
        loss = partial(_loss, jax.vmap(fn, in_axes), np.float32(WEIGHTS))
        want = quick_jit(jax.grad(loss, (0, 1, 2)))(*args)
        agree.same(got, want, {"float32": 1e-4}, atol=1e-5)


def test_no_gradient_is_asked_where_none_is_needed():
    """Integer outputs and inputs have no cotangents; a function of integers alone runs as ever."""
    run = fuse(lambda n, x: (n * 2, x * n))
    value, slope = jax.value_and_grad(lambda x: run(jnp.asarray(N), x)[1].sum())(
        jnp.asarray(X[:, 0])
    )
    np.testing.assert_allclose(slope, N)
    assert np.isfinite(value)
    assert (
        jax.grad(lambda x: (fuse(lambda n: n + 1)(jnp.asarray(N)) * x).sum())(1.0) == (N + 1).sum()
    )


def test_forward_mode_is_refused():
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(fuse(jnp.sin), (jnp.asarray(X),), (jnp.asarray(X),))
