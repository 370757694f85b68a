"""Large matrices in local memory: products and Cholesky factors as loops over tiles.

Written out, the factor of 90 rows would be a hundred thousand operations. Here a tile of 8 by 8
numbers is worked on in registers, and loops go over the tiles, which lie one after the other in
local memory: all of a product, those of the lower triangle of a factor, row by row of tiles.
"""

import math
from collections.abc import Callable

import numpy as np

from jaxsim.fused.builder import Builder
from jaxsim.fused.program import Memory, Value

TILE = 8
SIZE = TILE * TILE
RUN = 4  # terms of a product that a round adds
INT = np.dtype(np.int32)


class Tiles:
    """Local memory of tiles, which loops read and write in turn."""

    def __init__(self, builder: Builder, count: int, dtype: np.dtype):
        self.builder = builder
        self.memory = Memory("local", dtype, count * SIZE)

    def read(self, start: Value, wanted=lambda i, j: True) -> np.ndarray:
        """A tile (8, 8) as it is now; entries that are not wanted are None."""
        out = np.empty((TILE, TILE), object)
        for i, j in np.ndindex(TILE, TILE):
            if wanted(i, j):
                out[i, j] = self.builder.read_now(self.memory, _after(self.builder, start, i, j))
        return out

    def write(self, start: Value, tile: np.ndarray) -> None:
        """Write the entries of a tile (8, 8) that are not None."""
        for i, j in np.ndindex(TILE, TILE):
            if tile[i, j] is not None:
                self.builder.store(self.memory, _after(self.builder, start, i, j), tile[i, j])


def _number(builder: Builder, k: int) -> Value:
    return builder.constant(INT.type(k))


def _after(builder: Builder, start: Value, i: int, j: int) -> Value:
    return builder.op("add", start, _number(builder, TILE * i + j))


def _tiles(n: int) -> int:
    return -(-n // TILE)


def _lower(i: int, j: int) -> bool:
    return j <= i


def _loop(b: Builder, first: Value, last: Value, carry: list[Value], body: Callable) -> list[Value]:
    """carry = body(k, carry) for k from ``first`` up to before ``last``; the last carry."""

    def round_(_, values):
        k = values[1]
        out = body(k, values[2:])
        k = b.op("add", k, _number(b, 1))
        return [b.op("lt", k, last), k, *out]

    return b.loop([b.op("lt", first, last), first, *carry], None, round_, alive=0)[2:]


def _minus_product(b: Builder, c: np.ndarray, x: np.ndarray, y: np.ndarray, wanted) -> np.ndarray:
    """c - x y^T of tiles, of the entries that are wanted."""
    out = np.empty((TILE, TILE), object)
    for i, j in np.ndindex(TILE, TILE):
        if wanted(i, j):
            out[i, j] = c[i, j]
            for k in range(TILE):
                out[i, j] = b.op("sub", out[i, j], b.op("mul", x[i, k], y[j, k]))
    return out


def cholesky(b: Builder, m: np.ndarray) -> np.ndarray:
    """The lower factor (n, n) of m (n, n), objects of which the lower triangle is read."""
    n, dtype = len(m), m[0, 0].dtype
    count = _tiles(n)
    zero, one = (b.constant(dtype.type(x)) for x in (0, 1))
    tiles = Tiles(b, count * (count + 1) // 2, dtype)
    starts = {}
    for i in range(count):
        for j in range(i + 1):
            starts[i, j] = _number(b, SIZE * (i * (i + 1) // 2 + j))
    padded = np.full((count * TILE, count * TILE), zero, object)
    np.fill_diagonal(padded, one)
    padded[:n, :n] = m
    for (i, j), start in starts.items():
        tile = padded[TILE * i : TILE * (i + 1), TILE * j : TILE * (j + 1)].copy()
        if i == j:
            tile[np.triu_indices(TILE, 1)] = None
        tiles.write(start, tile)

    end, size = _number(b, count), _number(b, SIZE)

    def next_row(start: Value, k: Value) -> Value:
        """Where the row of tiles after that of k, which begins at ``start``, begins."""
        return b.op("add", start, b.op("mul", b.op("add", k, _number(b, 1)), size))

    def reduced(row_i: Value, row_j: Value, j: Value, wanted) -> np.ndarray:
        """The tile (i, j) less the products of those before it."""
        column = b.op("mul", j, size)
        first = tiles.read(b.op("add", row_i, column), wanted)
        at = [entry for entry in np.ndindex(TILE, TILE) if wanted(*entry)]

        def minus(k, values):
            tile = _filled(at, values)
            along = b.op("mul", k, size)
            x = tiles.read(b.op("add", row_i, along))
            y = x if row_i is row_j else tiles.read(b.op("add", row_j, along))
            tile = _minus_product(b, tile, x, y, wanted)
            return [tile[entry] for entry in at]

        return _filled(at, _loop(b, _number(b, 0), j, [first[entry] for entry in at], minus))

    def column(j, values):
        (row_j,) = values
        diagonal, inverse = _small_factor(b, reduced(row_j, row_j, j, _lower))
        along = b.op("mul", j, size)
        tiles.write(b.op("add", row_j, along), diagonal)

        def row(i, values):
            (row_i,) = values
            tile = reduced(row_i, row_j, j, lambda *_: True)
            for c in range(TILE):
                for r in range(TILE):
                    for k in range(c):
                        product = b.op("mul", tile[r, k], diagonal[c, k])
                        tile[r, c] = b.op("sub", tile[r, c], product)
                    tile[r, c] = b.op("mul", tile[r, c], inverse[c])
            tiles.write(b.op("add", row_i, along), tile)
            return [next_row(row_i, i)]

        below = b.op("add", j, _number(b, 1))
        _loop(b, below, end, [next_row(row_j, j)], row)
        return [next_row(row_j, j)]

    _loop(b, _number(b, 0), end, [_number(b, 0)], column)
    out = np.full(padded.shape, zero, object)
    for (i, j), start in starts.items():
        tile = tiles.read(start, _lower if i == j else lambda *_: True)
        tile[tile == None] = zero  # noqa: E711
        out[TILE * i : TILE * (i + 1), TILE * j : TILE * (j + 1)] = tile
    return out[:n, :n]


def _filled(at: list[tuple[int, int]], values: list[Value]) -> np.ndarray:
    tile = np.empty((TILE, TILE), object)
    for entry, value in zip(at, values):
        tile[entry] = value
    return tile


def _small_factor(b: Builder, m: np.ndarray) -> tuple[np.ndarray, list[Value]]:
    """The lower factor of a tile, and one over its diagonal."""
    out, inverse = m.copy(), []
    one = b.constant(m[0, 0].dtype.type(1))
    for j in range(TILE):
        for i in range(j, TILE):
            for k in range(j):
                out[i, j] = b.op("sub", out[i, j], b.op("mul", out[i, k], out[j, k]))
            if i == j:
                out[j, j] = b.op("sqrt", out[j, j])
                inverse.append(b.op("div", one, out[j, j]))
            else:
                out[i, j] = b.op("mul", out[i, j], inverse[j])
    return out, inverse


def product(b: Builder, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left right^T (p, q) of objects left (p, m) and right (q, m); half of it where they are one."""
    same = left is right
    (p, m), q, dtype = left.shape, len(right), left[0, 0].dtype
    rounds = -(-m // RUN)
    x = _columns(b, left, rounds)
    y = x if same else _columns(b, right, rounds)
    rows, columns = _tiles(p), _tiles(q)
    tiles = Tiles(b, rows * (rows + 1) // 2 if same else rows * columns, dtype)
    zero, zero_at, side = b.constant(dtype.type(0)), _number(b, 0), _number(b, TILE)

    def entries(memory: Memory, start: Value, width: int) -> np.ndarray:
        """(RUN, 8) from RUN rows of the memory."""
        out = np.empty((RUN, TILE), object)
        for k, i in np.ndindex(RUN, TILE):
            at = b.op("add", start, _number(b, k * width + i))
            out[k, i] = b.load(memory, at)
        return out

    def one_tile(row: Value, column: Value) -> list[Value]:
        def plus(k, values):
            to_x, to_y = (
                b.op("add", b.op("mul", k, _number(b, RUN * TILE * count)), b.op("mul", at, side))
                for count, at in ((rows, row), (columns, column))
            )
            of_x = entries(x, to_x, TILE * rows)
            of_y = entries(y, to_y, TILE * columns)
            values = list(values)
            for entry, (i, j) in enumerate(np.ndindex(TILE, TILE)):
                for a, c in zip(of_x[:, i], of_y[:, j]):
                    values[entry] = b.op("add", values[entry], b.op("mul", a, c))
            return values

        return _loop(b, zero_at, _number(b, rounds), [zero] * SIZE, plus)

    def over_columns(row, values):
        def over(column, values):
            tile = np.array(one_tile(row, column), object).reshape(TILE, TILE)
            tiles.write(values[0], tile)
            return [b.op("add", values[0], _number(b, SIZE))]

        last = b.op("add", row, _number(b, 1)) if same else _number(b, columns)
        return _loop(b, zero_at, last, [values[0]], over)

    _loop(b, zero_at, _number(b, rows), [zero_at], over_columns)
    out = np.empty((TILE * rows, TILE * columns), object)
    start = 0
    for i in range(rows):
        for j in range(i + 1 if same else columns):
            tile = tiles.read(_number(b, start))
            start += SIZE
            out[TILE * i : TILE * (i + 1), TILE * j : TILE * (j + 1)] = tile
            if same:
                out[TILE * j : TILE * (j + 1), TILE * i : TILE * (i + 1)] = tile.T
    return out[:p, :q]


def _columns(b: Builder, rows: np.ndarray, rounds: int) -> Memory:
    """Memory of the columns of ``rows`` (p, m), one after the other, filled up with zeros."""
    p, m = rows.shape
    zero = b.constant(rows[0, 0].dtype.type(0))
    padded = np.full((RUN * rounds, TILE * _tiles(p)), zero, object)
    padded[:m, :p] = rows.T
    return b.stored(list(padded.reshape(-1)))


def bytes_of_factor(n: int, dtype: np.dtype) -> int:
    """Of the local memory that ``cholesky`` takes."""
    return math.comb(_tiles(n) + 1, 2) * SIZE * dtype.itemsize
