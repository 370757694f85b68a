"""The figures of a fused function, against counts by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import Explanation, FuseError, explain, fuse_one
from jaxsim.fused.explain import GATHER, KNOWN, WEIGHTS, BlockReport

F = jax.ShapeDtypeStruct((), np.float32)
PAIR = jax.ShapeDtypeStruct((2,), np.float32)
INDEX = jax.ShapeDtypeStruct((), np.int32)


def triangular(x):
    return jnp.asarray([[2.0, 0.0], [3.0, 4.0]]) @ x


def rounds(body, *carry, length=100, xs=None):
    """A scan of so many rounds that it stays a loop."""
    return lax.scan(lambda c, row: (body(*c), None), carry, xs, length=length)[0]


def test_a_structural_zero_costs_nothing():
    """2 x0, and 3 x0 + 4 x1 as a product and a joined product and sum."""
    e = explain(triangular, PAIR)
    assert e.before == 2 * 2 * 2
    assert e.call.operations == {"mul": 2, "fma": 1}
    assert (e.call.total, e.after) == (3, 4)
    assert (e.call.read, e.call.written) == ({"input": 8}, {"output": 8})
    assert (e.step, e.main, e.loops, e.local_bytes) == (None, None, (), 0)
    # both loaded, and 2 x0; then 3 x0 takes the place of x0
    assert e.parts == (
        BlockReport("function", 0, 1, 0, operations=3, live=3, place="the function"),
    )
    assert e.call.cost == 3 + 2 * GATHER + 2 * GATHER


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_zero_of_either_sign_stays_one_when_it_may_be_replaced_by_zero(sign):
    """-A has zeros that say minus: in ``where(finite, -A, 0)`` they cost nothing either."""

    def fn(x, y):
        m = sign * jnp.asarray([[2.0, 0.0], [0.0, 4.0]]) * y
        return jnp.where(y < 1, m, 0.0) @ x

    e = explain(fn, PAIR, F)
    assert e.call.operations == {"mul": 4, "lt": 1, "select": 2}


def test_arguments_may_be_arrays_numbers_and_trees():
    def fn(tree, k):
        return {"out": k * tree["x"] + tree["y"][0]}

    a = explain(fn, {"x": np.ones(3), "y": [jnp.ones(())]}, 2.0)
    b = explain(fn, {"x": jax.ShapeDtypeStruct((3,), np.float32), "y": [F]}, F)
    assert a.call == b.call
    assert a.call.operations == {"fma": 3}
    assert a.call.read == {"input": 5 * 4}


@pytest.mark.parametrize(
    ("fn", "operations"),
    [
        (lambda z, p, q: z + (p + q), {"fma": 2}),
        (lambda z, p, q: z - (p + q), {"fnma": 2}),
        (lambda z, p, q: z - (p - q), {"fma": 1, "fnma": 1}),
        (lambda z, p, q: (p + q) - z, {"fma": 1, "fms": 1}),
        (lambda z, p, q: z + (-p - q), {"fnma": 2}),
        (lambda z, p, q: z - (-p - q), {"fma": 2}),
        (lambda z, p, q: (p + q) + jnp.sin(z), {"add": 1, "fma": 1, "mul": 1, "sin": 1}),
    ],
)
def test_a_sum_of_products_begins_with_what_is_added_to_it(fn, operations):
    """Unless, as in the last case, that is known after the products."""

    def of_products(z, a, b):
        z = jnp.abs(z)
        return fn(z, a[0] * b[0], a[1] * b[1])

    assert explain(of_products, F, PAIR, PAIR).call.operations == operations | {"abs": 1}
    args = np.float32(0.3), np.float32([1.7, -0.4]), np.float32([0.6, 2.9])
    np.testing.assert_allclose(fuse_one(of_products)(*args), of_products(*args), rtol=1e-6)


def test_a_scan_is_weighted_by_its_rounds():
    e = explain(lambda x: rounds(lambda c: (1.5 * c + 0.25,), x), F)
    assert e.before == 200
    assert e.after == 200
    assert e.call.operations == {"fma": 100}
    assert e.step is not None and e.step.operations == {"fma": 1}
    (loop,) = e.loops
    assert e.main is loop
    assert (loop.depth, loop.rounds, loop.carries, loop.operations) == (1, 100, 1, 1)
    assert loop.live == 2  # the counter and the carry
    assert "test_explain.py:" in loop.place
    assert (e.call.read, e.call.written) == ({"input": 4}, {"output": 4})
    assert (e.step.read, e.step.written, e.step.cost) == ({}, {}, 1)


def test_a_short_scan_is_no_loop():
    e = explain(lambda x: rounds(lambda c: (1.5 * c + 0.25,), x, length=4), F)
    assert e.loops == ()
    assert e.call.operations == {"fma": 4}


def test_what_does_not_change_stands_before_the_loop():
    e = explain(lambda x, k: rounds(lambda c: (jnp.sin(k) * c,), x), F, F)
    assert e.before == 200
    assert e.call.operations == {"mul": 100, "sin": 1}
    assert e.step is not None and e.step.operations == {"mul": 1}
    assert e.call.cost == 100 + WEIGHTS["sin"] + 3 * GATHER
    (loop,) = e.loops
    assert (loop.carries, loop.live) == (1, 3)  # the counter, the carry, the sine


def test_what_is_needed_after_a_loop_is_alive_within():
    e = explain(lambda x, k: k * rounds(lambda c: (1.5 * c,), x)[0], F, F)
    without = explain(lambda x, k: rounds(lambda c: (1.5 * c,), x)[0], F, F)
    assert [p.live for p in without.parts] == [1, 2]
    # k is loaded after the loop, for its first use is there; 2 k x is known before
    assert [p.live for p in e.parts] == [2, 2]
    both = explain(lambda x, k: (k * x, rounds(lambda c: (1.5 * c,), x)[0]), F, F)
    assert [p.live for p in both.parts] == [2, 3]
    assert both.live == 3


def test_a_dead_output_is_dropped():
    def fn(x, y):
        return rounds(lambda a, b: (2.0 * a, jnp.exp(b) + a), x, y)[0]

    e = explain(fn, F, F)
    assert e.before == 300
    assert e.call.operations == {"mul": 100}
    assert e.loops[0].carries == 1
    assert e.call.read == {"input": 4}


def test_a_carry_that_starts_at_nothing_and_a_dead_one():
    e = explain(lambda x: rounds(lambda a, n: (a + x, n + 1), 0.0, 0), F)
    assert e.call.operations == {"add": 200}
    assert e.loops[0].carries == 2
    # the counter, both carries, and x
    assert e.loops[0].live == 4


def test_a_computed_index_reads_a_table_of_constants():
    table = np.linspace(0.0, 1.0, 16, dtype=np.float32) ** 2

    def fn(i):
        return lax.dynamic_index_in_dim(jnp.asarray(table), lax.clamp(0, i, 15), keepdims=False)

    e = explain(fn, INDEX)
    assert e.call.read == {"constant": 4, "input": 4}
    assert e.call.written == {"output": 4}
    assert e.local_bytes == 0


def test_rows_of_a_shared_table_are_read_each_round():
    def fn(x, rows):
        return lax.scan(lambda c, row: (row[0] * c + row[1], None), x, rows)[0]

    e = explain(fn, F, jax.ShapeDtypeStruct((100, 2), np.float32))
    assert e.step is not None
    assert e.step.read == {"input": 8}
    assert e.call.read == {"input": 4 + 800}
    # row[0] is at 2 k, row[1] at 2 k + 1
    assert e.step.operations == {"add": 1, "fma": 1, "mul": 1}
    assert e.step.cost == 3 + 2 * GATHER


def test_rows_that_are_read_again_are_local_memory():
    def fn(x):
        last, rows = lax.scan(lambda c, _: (1.5 * c, c), x, None, length=100)
        return lax.scan(lambda c, row: (c + row, None), last, rows, reverse=True)[0]

    e = explain(fn, F)
    assert e.local_bytes == 400
    assert e.call.written == {"local": 400, "output": 4}
    assert e.call.read == {"local": 400, "input": 4}
    assert [p.rounds for p in e.loops] == [100, 100]


def test_rows_that_are_only_returned_are_written_to_the_output():
    e = explain(lambda x: lax.scan(lambda c, _: (1.5 * c, c), x, None, length=100), F)
    assert e.call.written == {"output": 404}
    assert e.step is not None and e.step.written == {"output": 4}
    assert e.local_bytes == 0


def test_local_memory_at_a_known_index_is_near():
    def fn(x, i):
        return lax.dynamic_index_in_dim(jnp.sin(x), i, keepdims=False)

    e = explain(fn, jax.ShapeDtypeStruct((16,), np.float32), INDEX)
    assert e.local_bytes == 64
    assert e.call.written == {"local": 64, "output": 4}
    index = sum(n * WEIGHTS.get(op, 1) for op, n in e.call.operations.items() if op != "sin")
    known = 16 * (GATHER + WEIGHTS["sin"] + KNOWN)  # each loaded, its sine, stored
    assert e.call.cost == known + index + 3 * GATHER  # the index, the element, the output


def test_loops_within_loops_multiply():
    def fn(x):
        return rounds(lambda c: (rounds(lambda d: (1.5 * d + 0.25,), c)[0] + 1.0,), x, length=200)

    e = explain(fn, F)
    assert [(p.depth, p.rounds, p.operations) for p in e.parts] == [
        (0, 1, 20_200),
        (1, 200, 101),
        (2, 100, 1),
    ]
    assert e.main is e.parts[1]
    assert e.call.operations == {"fma": 20_000, "add": 200}
    assert e.step is not None and e.step.operations == {"fma": 100, "add": 1}
    # each loop's counter, and the innermost carry
    assert [p.live for p in e.parts] == [1, 2, 3]


def test_the_step_is_a_round_of_the_loop_that_does_most():
    def fn(x):
        (x,) = rounds(lambda c: (c + 1.0,), x, length=500)
        (x,) = rounds(lambda c: (jnp.sin(c) * c + c * c * c,), x, length=300)
        return x

    e = explain(fn, F)
    assert e.main is e.loops[1]
    assert e.main.rounds == 300


def test_a_while_loop_counts_one_round_and_says_so():
    def fn(x):
        return lax.while_loop(lambda c: c < 100.0, lambda c: 2.0 * c + 1.0, x)

    e = explain(fn, F)
    assert e.before == 3
    assert e.call.operations == {"fma": 1, "lt": 2}  # compared before it, and in it
    assert e.loops[0].rounds is None
    assert e.main is e.loops[0]
    assert "not known" in str(e)
    assert "not known" not in str(explain(triangular, PAIR))


def heavy(x):
    return jnp.sin(x) / x


def light(x):
    return x + 1.0


def test_the_table_names_the_functions_that_cost_most():
    e = explain(lambda x: light(heavy(x)), F)
    assert e.call.functions == {"test_explain.py:heavy": 2, "test_explain.py:light": 1}
    # the argument is loaded where it is used first
    cost = WEIGHTS["sin"] + WEIGHTS["div"] + GATHER
    assert e.call.costs["test_explain.py:heavy"] == cost
    assert e.table(1) == [("test_explain.py:heavy", 2, cost / e.call.cost)]
    assert sum(share for *_, share in e.table()) == pytest.approx(1)
    assert [name for name, *_ in e.table()][-1] == "test_explain.py:light"


def test_cost_in_time():
    e = explain(lambda x: x / 3.0, F)
    assert e.call.cost == WEIGHTS["div"] + 2 * GATHER
    assert e.call.nanoseconds(1e9) == e.call.cost
    assert e.call.nanoseconds(4e9) == e.call.cost / 4


def test_both_branches_and_calls_count():
    def fn(x):
        return lax.cond(x > 0.0, jax.jit(jnp.sin), lambda y: 2.0 * y, x)

    e = explain(fn, F)
    assert e.call.operations.items() >= {"gt": 1, "mul": 1, "select": 1, "sin": 1}.items()
    assert e.loops == ()


def test_of_a_large_branch_both_sides_count():
    def much(x):
        for _ in range(300):
            x = jnp.sin(x) + x
        return x

    def fn(x, y):
        return y + lax.cond(x > 0.0, much, lambda x: rounds(lambda c: (1.5 * c,), x)[0], x)

    e = explain(fn, F, F)
    assert e.call.operations.items() >= {"sin": 300, "mul": 100, "add": 301}.items()
    assert e.before == 600 + 100 + 3  # compared, made an index, and the sum
    kinds = [(p.kind, p.depth, p.rounds, p.operations) for p in e.parts[1:]]
    assert sorted(kinds) == [("branch", 1, 1, 100), ("branch", 1, 1, 600), ("loop", 2, 100, 1)]
    assert e.main is e.loops[0]
    assert "both sides" in str(e)


def test_a_fused_function_within_counts_as_itself():
    inner = explain(heavy, F)
    outer = explain(fuse_one(heavy), F)
    assert (outer.before, outer.call) == (inner.before, inner.call)


def test_the_report_can_be_read():
    e = explain(lambda x: rounds(lambda c: (1.5 * c + 0.25,), x), F)
    assert isinstance(e, Explanation)
    lines = str(e).splitlines()
    assert lines[0] == "200 operations before folding, 200 after (x y + z as two)"
    assert lines[1] == "a call: 100 operations, cost 140, reads 4 B of input, writes 4 B of output"
    assert lines[2] == "a step: 1 operations, cost 1, reads nothing, writes nothing"
    assert "fma                      100           1" in lines
    assert max(map(len, lines)) < 100


def test_what_cannot_be_fused_cannot_be_explained():
    with pytest.raises(FuseError, match="sort"):
        explain(jnp.sort, jax.ShapeDtypeStruct((3,), np.float32))


def test_sums_that_are_parts_of_others_are_used_there():
    """Of a chain of eight and two branches of three, each link's sum of all that it carries."""
    parents, carries = [-1, *range(10), 7, 11, 12], np.zeros((14, 14))
    for link in range(14):
        carrier = link
        while carrier >= 0:
            carries[carrier, link], carrier = 1, parents[carrier]
    x = jax.ShapeDtypeStruct((14,), np.float32)
    assert carries.sum() > 80
    count = explain(lambda x: jnp.asarray(carries, x.dtype) @ x, x)
    assert count.call.operations == {"add": 13}


def test_a_program_as_text():
    def fn(x):
        return jnp.asarray([[2.0, 0.0], [3.0, 1.0]]) @ x

    assert explain(fn, PAIR).listing().splitlines() == [
        "v0 = input0[0]",
        "v1 = input0[1]",
        "v2 = v0 * 2.0",
        "v3 = v0 * 3.0 + v1",
        "output0 = v2, v3",
    ]


def test_branches_as_text():
    def far(x):
        for _ in range(100):
            x = jnp.sin(x) + x
        return x

    lines = explain(lambda x: lax.cond(x > 0.0, far, jnp.cos, x), F).listing().splitlines()
    assert lines[3:8] == [
        "v3 = le(v2, 0)",
        "if v3:",
        "    v4 = cos(v0)",
        "    -> v4",
        "else:",
    ]
    assert lines[-2:] == ["v205 = these in the end", "output0 = v205"]


def test_loops_and_memory_as_text():
    def fn(x, k):
        return lax.scan(lambda c, _: (k - c * c, c), x, None, length=100)

    assert explain(fn, F, F).listing().splitlines() == [
        "v0 = input0[0]",
        "v1 = input1[0]",
        "for v2 in 0..99 with v3 = v0:",
        "    v4 = v1 - v3 * v3",
        "    output1[v2] = v3",
        "    -> v4",
        "v5 = these in the end",
        "output0 = v5",
    ]


def test_a_while_loop_as_text():
    text = explain(lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * c, x), F).listing()
    assert text.splitlines() == [
        "v0 = input0[0]",
        "v1 = lt(v0, 9.0)",
        "while v2 with v2 = v1, v3 = v0:",
        "    v4 = v3 * v3",
        "    v5 = lt(v4, 9.0)",
        "    -> v5, v4",
        "v6, v7 = these in the end",
        "output0 = v7",
    ]
