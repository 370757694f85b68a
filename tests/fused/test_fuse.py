"""``fuse`` as its users meet it: axes, pytrees, transformations, reuse of kernels, errors."""

import importlib
import os
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import FusedUnavailable, FuseError, errors, explain, fuse, fuse_one, lanes, launch
from tests.fused.agree import agree, by_xla, fused, numbers, same
from tests.fused.cases import randoms

X, Y = randoms(60, 5, 3).astype("float32"), randoms(61, 5, 3, 2).astype("float32")


@pytest.fixture
def lowered(monkeypatch):
    """The jaxprs that were lowered."""
    seen, lower = [], launch.lower
    monkeypatch.setattr(launch, "lower", lambda jaxpr: (seen.append(jaxpr), lower(jaxpr))[1])
    return seen


def _mixed(x, rest):
    return {"dot": x @ rest["y"], "rest": (rest["k"] + 1, rest["pair"][0] * x, rest["pair"][1])}


REST = {"y": Y, "k": np.arange(5), "pair": (np.float32(2.5), np.array([True, False]))}


@pytest.mark.parametrize(
    "in_axes, args",
    [
        (0, (X, {**REST, "pair": (X[:, 0], X > 0)})),
        ((0, 0), (X, {**REST, "pair": (X[:, 0], X > 0)})),
        ((1, None), (X.T, {**REST, "y": Y[0]})),
        (
            (None, {"y": 2, "k": 0, "pair": (None, None)}),
            (X[0], {**REST, "y": np.moveaxis(Y, 0, 2)}),
        ),
        ((-1, {"y": None, "k": None, "pair": None}), (X.T, {**REST, "y": Y[1]})),
        ((None, {"y": None, "k": 0, "pair": [None, 1][0]}), (X[0], {**REST, "y": Y[1]})),
        ([0, {"y": 0, "k": 0, "pair": (None, None)}], (X, REST)),
    ],
)
def test_axes_are_those_of_vmap(in_axes, args):
    agree(_mixed, *args, in_axes=in_axes)


def test_pytrees_of_all_kinds_go_in_and_come_out():
    def fn(a, b):
        return {"a": [a["x"], None, (b[0], ())], "b": a["n"] + jnp.int32(1), "c": 2.0, "d": b[1]}

    agree(fn, {"x": X, "n": np.arange(5)}, (Y, X > 0))
    assert fuse(lambda x: ())(X) == ()


def test_called_as_it_is_the_function_takes_one_member():
    one = fuse_one(lambda x, k: k * jnp.sum(x * x))
    assert one.__name__ == "<lambda>"
    np.testing.assert_allclose(one(jnp.arange(3.0), 2.0), 10.0)
    np.testing.assert_allclose(jax.vmap(one, (0, None))(jnp.ones((4, 3)), 2.0), 6 * np.ones(4))


@pytest.mark.parametrize("batch", [0, 1, 3, 16, 17, 100])
def test_batches_of_any_size(batch):
    x = randoms(62, batch, 3).astype("float32")
    agree(lambda x: (jnp.sin(x), jnp.sum(x), x[:0], jnp.argmax(x)), x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_do_not_depend_on_how_many_lanes_go_together(dtype):
    """A large batch may take wider vectors than a small one."""
    many = 256 * (os.cpu_count() or 1)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(many, 3)), dtype)

    def fn(x):
        turned, _ = lax.scan(lambda c, _: (jnp.sin(c) / (1 + c @ c), None), x, length=99)
        return jnp.maximum(turned, 0.01) + jnp.exp(x)

    fused = fuse(fn)
    whole = np.asarray(fused(x))
    for few in (3, 21):
        np.testing.assert_array_equal(fused(x[:few]), whole[:few])
    np.testing.assert_allclose(whole, jax.vmap(fn)(x), rtol=1e-5)
    import drjit  # after the back end, which chooses its library

    threads = drjit.thread_count()
    try:  # with fewer threads the same batch may take wider vectors, or the other way round
        drjit.set_thread_count(2 * threads)
        np.testing.assert_array_equal(fused(x), whole)
    finally:
        drjit.set_thread_count(threads)


def test_jit_and_nested_vmap():
    def fn(x, m, k):
        return jnp.tanh(m @ x) * k, jnp.argmin(x)

    x = randoms(63, 2, 4, 3).astype("float32")
    m, k = randoms(64, 4, 3, 3).astype("float32"), randoms(65, 2).astype("float32")
    want = jax.vmap(jax.vmap(fn, (0, 0, None)), (0, None, 0))(x, m, k)
    inner = fuse(fn, (0, 0, None))
    both = jax.vmap(inner, (0, None, 0))
    same(numbers(both(x, m, k)), numbers(want))
    same(numbers(jax.jit(both)(x, m, k)), numbers(want))
    same(numbers(jax.vmap(jax.jit(inner), (0, None, 0))(x, m, k)), numbers(want))
    within = jax.jit(lambda x: jnp.sum(inner(2 * x, m, k[0])[0] ** 2))(x[0])
    same(
        np.asarray(within), numbers(jnp.sum(jax.vmap(fn, (0, 0, None))(2 * x[0], m, k[0])[0] ** 2))
    )


def test_what_it_closes_over_may_be_traced():
    x, k = jnp.asarray(X), jnp.float32(1.5)

    def through(run):
        return jax.jit(lambda x, k: run(lambda row: k * jnp.sin(row) + jnp.asarray(X)[0])(x))(x, k)

    same(numbers(through(fuse)), numbers(through(jax.vmap)))


def test_new_values_and_batches_lower_nothing_again(lowered):
    run = fuse(lambda x, k: jnp.sum(jnp.sin(x)) * k, (0, None))
    for k, rows in ((1.0, 5), (2.0, 5), (3.0, 2)):
        np.testing.assert_allclose(run(X[:rows], k), np.sin(X[:rows]).sum(1) * k, rtol=1e-5)
    jax.jit(run)(X, 4.0)
    assert len(lowered) == 1
    run(Y, 1.0)
    assert len(lowered) == 2


def test_new_values_are_recorded_and_compiled_only_once(monkeypatch):
    recorded = []
    record = launch.Kernel._record
    monkeypatch.setattr(
        launch.Kernel, "_record", lambda *args: (recorded.append(1), record(*args))[1]
    )
    table = randoms(66, 20).astype("float32")
    run = fuse(lambda x, k, i: jnp.asarray(table)[i] * x + k, (0, None, 0))
    for seed in range(3):
        x, i = randoms(seed, 8).astype("float32"), (np.arange(8) * (seed + 3)) % 20
        np.testing.assert_allclose(run(x, float(seed), i), table[i] * x + seed, rtol=1e-6)
    assert len(recorded) == 1
    import drjit

    with drjit.scoped_set_flag(drjit.JitFlag.KernelHistory, True):
        drjit.kernel_history_clear()
        run(2 * X[:, 0], 7.0, np.arange(5))
        run(3 * X[:, 0], 8.0, np.arange(5) + 9)
        history = drjit.kernel_history((drjit.KernelType.JIT,))
    assert len(history) == 2  # one kernel for a call


def test_tables_in_memory_with_other_sizes_of_the_batch():
    """Constant and computed tables survive in frozen recordings, and batches alternate."""
    table = randoms(67, 12, 2).astype("float32")

    def fn(x, i):
        return jnp.asarray(table)[i] + jnp.cumsum(jnp.tile(x, 4))[i], jnp.asarray(table)[i, 1] * x[
            i % 3
        ]

    run = fuse(fn)
    for rows in (5, 2, 5, 1, 2, 5):
        x, i = X[:rows] * rows, np.arange(rows) * 3 - 1
        same(numbers(run(x, i)), by_xla(fn, x, i))


def test_results_stay_when_more_are_computed():
    run = fuse(lambda x, k: (x * k, x))
    kept = [(k, run(X, np.full(5, k, np.float32))) for k in range(6)]
    one = [(k, run(X[:1], np.full(1, k, np.float32))) for k in range(6)]
    for k, (y, x) in (*kept, *one):
        np.testing.assert_array_equal(y, X[: len(y)] * k)
        np.testing.assert_array_equal(x, X[: len(y)])


def test_float64_and_float32_beside_each_other():
    run = fuse(lambda x: (x / 3, jnp.arange(2) * x[0], jnp.sum(x > 0)))
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            x = X.astype(float) if wide else X
            want = jax.vmap(lambda x: (x / 3, jnp.arange(2) * x[0], jnp.sum(x > 0)))(x)
            same(numbers(run(x)), numbers(want))
    with jax.enable_x64(True):  # a Python number has no precision of its own
        assert fuse(lambda x, k: x * k, (0, None))(X, 2.5).dtype == np.float32
        assert run(X)[1].dtype == by_xla(lambda x: jnp.arange(2) * x[0], X).dtype


def test_a_fused_function_within_another():
    inner = fuse_one(lambda x, k: jnp.sin(x) * k)
    rows = fuse(lambda x, k: jnp.cumsum(x) + k, (0, None))

    def fn(x, y):
        return inner(inner(x, 2.0), y[0, 0]), rows(y, x[0]), jax.vmap(inner, (1, None))(y, x[1])

    agree(fn, X, Y)


def test_both_backends_by_name():
    def fn(x):
        return jnp.cos(x) + 1

    same(numbers(fuse(fn, backend="xla")(X)), numbers(fuse(fn, backend="fused")(X)))
    with pytest.raises(ValueError, match="'drjit'; choose from fused, xla"):
        fuse(fn, backend="drjit")


def test_without_its_libraries_xla_runs_and_one_warning_says_so(monkeypatch):
    def unavailable(platform):
        raise FusedUnavailable(f"nothing is there for a {platform}")

    module = importlib.import_module("jaxsim.fused.fuse")  # the package's name is the function
    monkeypatch.setattr(module, "prepare", unavailable)
    monkeypatch.setattr(errors, "_told", set())
    reason = f"nothing is there for a {jax.default_backend()}"
    with pytest.warns(UserWarning, match=f'using backend="xla": {reason}') as told:
        run = fuse(lambda x: jnp.sort(x))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fuse(lambda x: x)
    np.testing.assert_array_equal(run(X), np.sort(X))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_a_kernel_made_for_one_array_given_twice_serves_two(wrap):
    """A rollout often begins in the pose that is its target."""
    run = wrap(fuse(lambda x, y, k: (x + 10 * y, k * x), in_axes=(0, 0, None)))
    other = X + 1
    for x, y, k in ((X, X, X[0]), (X, other, X[0]), (other, X, other[0]), (X, X, other[0])):
        got = run(x, y, k)
        np.testing.assert_allclose(got[0], x + 10 * y, rtol=1e-6)
        np.testing.assert_allclose(got[1], k * x, rtol=1e-6)


def _sorts(x):
    return jnp.sort(x) + 1


def _draws(x):
    return x + jax.random.normal(jax.random.key(0), (3,))


def _solves(x):
    return jnp.linalg.solve(jnp.outer(x, x), x)


def _sorts_rows(x):
    return lax.scan(lambda c, r: (c, jnp.sort(r)), 0, jnp.outer(x, x))


def _gammas(x):
    return lax.lgamma(x)


def _counts(x):
    return lax.population_count(x.astype(jnp.int32))


def _prints(x):
    jax.debug.print("{}", x)
    return x


@pytest.mark.parametrize(
    "function, primitive, remedy",
    [
        (_sorts, "'sort'", "argmin"),
        (_sorts_rows, "'sort'", "argmin"),
        (_draws, "'random_|'threefry2x32'", "draw random numbers outside"),
        (_solves, "'lu'", "cholesky"),
        (_gammas, "'lgamma'", "polynomial"),
        (_counts, "'population_count'", 'backend="xla"'),
        (_prints, "'debug_", "print outside"),
    ],
)
def test_a_primitive_without_a_rule_is_named_with_its_line_and_the_remedy(
    function, primitive, remedy
):
    with pytest.raises(FuseError, match=primitive) as error:
        explain(function, X[0])
    line = function.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}, in {function.__name__}" in str(error.value)
    assert remedy in str(error.value)


@pytest.mark.parametrize("function", [_sorts, _sorts_rows, _draws, _solves, _gammas])
def test_a_function_with_a_primitive_without_a_rule_runs_by_xla_after_one_warning(
    function, monkeypatch
):
    monkeypatch.setattr(errors, "_told", set())
    wanted = jax.vmap(function)(X)
    with pytest.warns(UserWarning, match=r'using backend="xla": .*has no rule') as told:
        ours = fuse(function)(X)
    assert len(told) == 1 and function.__name__ in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for got in (ours, fuse(function)(X), jax.jit(fuse(function))(X)):
            jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), got, wanted)
        around = fuse(lambda x: jax.tree.map(lambda y: 2 * y, fuse_one(function)(x)))
        for got, y in zip(jax.tree.leaves(around(X)), jax.tree.leaves(wanted)):
            np.testing.assert_allclose(got, 2 * y, rtol=1e-5)


def test_where_xla_stands_in_for_a_kernel_it_differentiates():
    def function(x):
        return jnp.sum(jnp.sort(x) * jnp.arange(3) * x)

    with pytest.warns(UserWarning, match="'sort' has no rule"):
        got = jax.grad(lambda x: jnp.sum(fuse(function)(x)))(X)
    np.testing.assert_allclose(got, jax.vmap(jax.grad(function))(X), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "uint16"])
def test_other_dtypes_are_refused_by_name(dtype):
    with pytest.raises(FuseError, match=f"argument 0 of shape .* has dtype {dtype}"):
        fuse(lambda x: x + 1)(jnp.ones(3, dtype))
    with pytest.raises(FuseError, match=f"{dtype}"):
        fuse(lambda x: x.astype(dtype) * 2)(jnp.ones(3))
    with pytest.raises(FuseError, match=f"{dtype}"):
        fuse(lambda x: jnp.zeros(2, dtype))(jnp.ones(3))


def test_what_does_not_fit_is_told_with_its_line():
    x, i = jnp.zeros((2, 60_000)), jnp.arange(2)
    with pytest.raises(FuseError, match=f"{__file__}:.*60000 numbers.*a row at a time"):
        fuse(lambda x: jnp.sum(jnp.sin(x)))(x)
    with pytest.raises(FuseError, match=f"{__file__}:.*written at a computed index"):
        fuse(lambda x, i: x[:5_000].at[i].set(0))(x, i)

    def rereads(x, i):
        ys = lax.scan(lambda c, r: (c + r, c * r), 0.0, x)[1]
        return ys[i]

    with pytest.raises(FuseError, match="bytes a lane"):
        fuse(rereads)(jnp.zeros((2, lanes.room() // 4 + 1)), i)
    kernel = launch.Kernel(jax.make_jaxpr(lambda x: x[0])(jnp.zeros(2**12)))
    huge = np.broadcast_to(np.float32(0), (2**20, 2**12))
    with pytest.raises(FuseError, match=r"4294967296 numbers.*smaller batch"):
        kernel.run([huge], (True,), 2**20)
    agree(lambda x: x + 1, X)  # and the next function runs as ever


def test_functions_that_look_at_values_are_refused_as_by_jit():
    with pytest.raises((FuseError, jax.errors.ConcretizationTypeError)):
        fuse(lambda x: x if x[0] > 0 else -x)(X)


def test_garbage_is_not_collected_while_a_kernel_is_recorded():
    """A kernel's arrays that are freed within a recording end the process."""
    for k in range(12):
        fuse(lambda x, k=k: x * (k + 0.5) + len([[] for _ in range(2_000)]))(X)


def test_from_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    runs = [fuse(lambda x, k=k: jnp.sin(x * k)) for k in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for k, y in zip(range(12), pool.map(lambda k: runs[k % 3](X), range(12))):
            np.testing.assert_allclose(y, np.sin(X * (k % 3)), rtol=1e-5, atol=1e-6)


def test_angles_beyond_reach_give_nan():
    """Dr.Jit's circular functions are wrong for large angles; NaN says so."""
    x = np.array([9e4, 1.1e5, -1e9, np.inf], np.float32)
    for function in (jnp.sin, jnp.cos, jnp.tan):
        np.testing.assert_array_equal(np.isnan(fused(function, x)), x != 9e4)


def test_what_a_branch_hands_on_stays_as_it_was():
    """A number that one side of a branch returns is used after it too, and keeps its value."""

    def kept(x):
        def step(carry, k):
            x, held = carry
            x = x + 1.0

            def take(_):
                y = x
                for _ in range(150):
                    y = jnp.sin(y)
                return x, y

            held = jax.lax.cond(k == 0, take, lambda held: held, held)
            return (x, held), None

        (x, held), _ = jax.lax.scan(step, (x, (x, x)), jnp.arange(100))
        return x, held

    x = jnp.array([0.5, 1.5, 2.5])
    for ours, reference in zip(jax.tree.leaves(fuse(kept)(x)), jax.tree.leaves(jax.vmap(kept)(x))):
        np.testing.assert_allclose(ours, reference, rtol=1e-5)


@pytest.mark.usefixtures("x64")
def test_numbers_of_64_bits_keep_them_inside_jit():
    """Also those without an axis: the thread of a callback may round to 32 bits."""

    def split(x, n):
        return x + 2.0**-40, jnp.sum(x), n + 2**40

    x, n = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2))), jnp.arange(5)
    reference = jax.vmap(split)(x, n)
    same(jax.jit(fuse(split))(x, n), reference)
    same(jax.jit(fuse_one(split))(x[0], n[0]), jax.tree.map(lambda a: a[0], reference))


def test_a_long_chain_of_selects_of_constants_is_lowered():
    """As of the choice among many contacts; longer than Python may recurse."""

    def last_below(x):
        found = jnp.int32(-1)
        for k in range(1200):
            found = jnp.where(x > k, jnp.int32(k), found)
        return found == 3, found

    x = jnp.asarray([-1.0, 0.5, 3.5, 700.5], jnp.float32)
    below, found = fuse(last_below)(x)
    np.testing.assert_array_equal(found, [-1, 0, 3, 700])
    np.testing.assert_array_equal(below, found == 3)


def test_a_function_in_pmap_is_a_kernel_too():
    """There JAX reshards the arrays that a function closes over, as trainers of brax have it."""
    closed = jnp.arange(3.0)

    def scaled(x):
        return jnp.sum(x * jnp.where(closed > 0, 1 / jnp.where(closed > 0, closed, 1.0), 0.0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as of a function that runs by XLA
        found = jax.pmap(lambda x: jax.vmap(fuse_one(scaled))(x))(X[None])
    np.testing.assert_allclose(found[0], jax.vmap(scaled)(X), rtol=1e-6)
