"""Rows that loops read and write: eight numbers at a time, cut and joined before that."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused.gradient import _Pair
from jaxsim.fused.launch import Kernel
from jaxsim.fused.program import KernelMemory, blocks, walk
from jaxsim.fused.replay import PACKET, packets
from tests.fused import agree
from tests.fused.cases import randoms

ROUNDS = 70  # too many to be unrolled
B = 5


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def _rows(width: int, dtype: str):
    return randoms(80, B, ROUNDS, width, low=0.5).astype(dtype)


def _running(x, rows, reverse=False):
    """Rows as wide as they are read, and half as wide; of positive numbers, so that none cancel."""

    def body(c, row):
        c = 0.9 * c + jnp.sin(row)
        return c, (c * row, c[: len(c) // 2])

    return lax.scan(body, x, rows, reverse=reverse)


def _program(fn, *args):
    return Kernel(jax.make_jaxpr(fn)(*(x[0] for x in args))).program


def _together(program) -> dict[str, int]:
    """How many packets are read and written."""
    found = {"load": 0, "store": 0}
    for block in blocks(program.block):
        for packet in {id(p): p for p in packets(block).values()}.values():
            found[packet.numbers[0].op] += 1
    return found


@pytest.mark.parametrize("reverse", [False, True], ids=["forth", "back"])
def test_rows_of_whole_packets_move_together(dtype, reverse):
    x, rows = randoms(81, B, 16, low=0.5).astype(dtype), _rows(16, dtype)
    fn = partial(_running, reverse=reverse)
    assert PACKET == 8
    assert _together(_program(fn, x, rows)) == {"load": 2, "store": 2 + 1}
    agree.agree(fn, x, rows)


def test_shared_rows_move_together(dtype):
    x, rows = randoms(81, B, 8, low=0.5).astype(dtype), _rows(8, dtype)
    assert _together(_program(_running, x, rows))["load"] == 1
    agree.agree(_running, x, rows[0], in_axes=(0, None))


def test_rows_by_a_computed_index_move_together(dtype):
    """Of a part of an input, so that constants come before the index and behind it."""
    rows = _rows(8, dtype)

    def fn(rows, n):
        body = rows[3:60]
        return lax.dynamic_slice(body, (n, 0), (2, 8)), body[5:][n], rows[n + 1, 1:]

    program = Kernel(jax.make_jaxpr(fn)(rows[0], 1)).program
    assert _together(program)["load"] >= 3
    agree.agree(fn, rows, np.array([0, 1, 30, 55, 60]))


@pytest.mark.parametrize("width", [6, 12, 15])
def test_other_rows_move_one_by_one(dtype, width):
    """Rows of 12 numbers begin at half a packet, or at a whole one."""
    x, rows = randoms(81, B, width, low=0.5).astype(dtype), _rows(width, dtype)
    assert _together(_program(_running, x, rows)) == {"load": 0, "store": 0}
    agree.agree(_running, x, rows)


def test_a_part_of_a_packet_is_read_alone(dtype):
    x, rows = randoms(81, B, 16, low=0.5).astype(dtype), _rows(16, dtype)

    def fn(x, rows):
        return lax.scan(lambda c, row: (c + row[:11].sum(), row[15]), x[0], rows)

    assert _together(_program(fn, x, rows)) == {"load": 1, "store": 0}
    agree.agree(fn, x, rows)


def test_rows_are_joined_and_cut_before_they_are_written(dtype):
    x, rows = randoms(81, B, 4, low=0.5).astype(dtype), _rows(4, dtype)

    def fn(x, rows):
        _, (wide, narrow) = _running(x, rows)
        joined = jnp.concatenate([wide, jnp.full((ROUNDS, 2), 3, x.dtype), narrow], axis=1)
        again = lax.scan(lambda c, row: (c + row @ row, None), x[0], joined[:, 2:7])[0]
        return joined, again, joined[:, 5:7].reshape(ROUNDS, 1, 2), wide

    program = _program(fn, x, rows)
    stacked = [y for y in program.outputs if isinstance(y, KernelMemory)]
    assert [m.size for m in stacked] == [8 * ROUNDS, 2 * ROUNDS, 4 * ROUNDS]
    assert _together(program)["store"] == 1  # of the joined ones
    agree.agree(fn, x, rows)


def test_what_cannot_stay_in_rows_is_still_right(dtype):
    """Other loops' rows, known rows that differ, columns in one line, and rows read by index."""
    x, rows = randoms(81, B, 4, low=0.5).astype(dtype), _rows(4, dtype)

    def fn(x, rows, n):
        first, second = (_running(y, rows)[1][0] for y in (x, 2 * x))
        count = jnp.arange(2 * ROUNDS, dtype=x.dtype).reshape(ROUNDS, 2)
        cut = rows[:, 1:3]
        return (
            jnp.concatenate([first, second], axis=1),
            jnp.concatenate([first, count], axis=1)[:, 3:5],
            cut.reshape(-1)[3:9],
            cut[5:8],
            (both := jnp.concatenate([first, first], axis=1)),
            both[-1],
            lax.dynamic_slice(cut, (n, 0), (3, 2)),
            lax.dynamic_slice(first[:, 1:], (n, 1), (2, 2)),
        )

    agree.agree(fn, x, rows, np.arange(B) * 17)


def test_a_stack_that_only_a_branch_reads_is_written_in_its_loop(dtype):
    x, rows = randoms(81, B, 4, low=0.5).astype(dtype), _rows(4, dtype)

    def busy(wide):
        return lax.scan(lambda c, row: (0.1 * c + row.sum(), None), 1.0, wide)[0]

    def fn(x, rows):
        wide = _running(x, rows)[1][0]
        return lax.cond(
            x[0] > 0, lambda: lax.cond(x[1] > 0, lambda: busy(wide), lambda: 0.0), lambda: 1.0
        )

    program = _program(fn, x, rows)
    stores = [v for v in walk(program.block) if v.op == "store"]
    assert {v.block for v in stores} == {v.args[1].block for v in stores} and len(stores) == 4
    agree.agree(fn, x, rows)


@jax.jit
def _jitted(x, rows):
    def body(c, row):
        c = jnp.sin(c * row) + 0.3 * c[::-1]
        return c, c**2

    return lax.scan(body, x, rows)


def _twice(x, rows):
    """The same jaxpr twice: two loops all the same."""
    c, ys = _jitted(x, rows)
    return _jitted(c + ys[3], rows)


def test_what_a_loop_keeps_for_the_gradient_is_one_array(dtype):
    x, rows = randoms(81, B, 5, low=0.5).astype(dtype), _rows(5, dtype)
    kernel = Kernel(jax.make_jaxpr(_twice)(x[0], rows[0]))
    kept = [a.shape for a in _Pair(kernel)._forward.out_avals[2:]]
    assert kept.count((ROUNDS, 8)) == 2  # beside arguments and last values
    assert all(len(shape) < 2 or shape in [(ROUNDS, 8), (ROUNDS, 5)] for shape in kept), kept

    def gradient(mapped):
        return lambda x, rows: jax.grad(lambda x: jnp.sum(mapped(x, rows)[1] ** 2))(x)

    fused = agree.fuse(_twice)
    got = gradient(fused)(jnp.asarray(x), jnp.asarray(rows))
    wanted = gradient(jax.vmap(_twice))(jnp.asarray(x), jnp.asarray(rows))
    np.testing.assert_allclose(got, wanted, rtol={"float32": 2e-4, "float64": 1e-11}[dtype])
