"""Large matrices in local memory: products, Cholesky factors and triangular solutions as loops.

Written out, the factor of 90 rows would be a hundred thousand operations. Here a tile of 8 by 8
numbers is worked on in registers, a part at a time, and loops go over the tiles: all of a product,
those of the lower triangle of a factor, row by row. What stands at one place of all tiles is a
memory of its own, so that the 64 numbers of a tile are addressed by a single computed index, the
number of the tile.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.fused.builder import Builder
from jaxsim.fused.program import Memory, Value

TILE = 8
BLOCK = 4  # rows and columns of a sum of products that registers hold at once
AT_ONCE = 4  # products in a round of the loop that adds them up; a power of 2
Wanted = Callable[[int, int], bool]


def whole(i: int, j: int) -> bool:
    """All entries of a tile."""
    return True


def lower(i: int, j: int) -> bool:
    """Those of its lower triangle."""
    return j <= i


@dataclass(frozen=True)
class Tiles:
    """Local memory of tiles, which loops read and write in turn."""

    builder: Builder
    places: Any  # (8, 8) objects: Memory

    @classmethod
    def of(cls, builder: Builder, count: int, dtype: np.dtype) -> "Tiles":
        """Memory of so many tiles."""
        places = np.empty((TILE, TILE), object)
        for at in np.ndindex(TILE, TILE):
            places[at] = Memory("local", dtype, count)
        return cls(builder, places)

    def read(self, tile: Value, wanted: Wanted = whole) -> Any:
        """A tile (8, 8) as it is now; entries that are not wanted are None."""
        out = np.empty((TILE, TILE), object)
        for at in np.ndindex(TILE, TILE):
            if wanted(*at):
                out[at] = self.builder.read_now(self.places[at], tile)
        return out

    def write(self, tile: Value, numbers: np.ndarray) -> None:
        """Write those of a tile's numbers (8, 8) that are not None."""
        for at, number in np.ndenumerate(numbers):
            if number is not None:
                self.builder.store(self.places[at], tile, number)


def cholesky(b: Builder, m: np.ndarray) -> np.ndarray:
    """The lower factor (n, n) of m (n, n), objects of which the lower triangle is read."""
    tiles, count = _lower_tiles(b, m), _tiles(len(m))

    def column(j, values):
        (row_j,) = values  # the number of the first tile in row j
        diagonal, inverse = _factor(b, _reduced(tiles, row_j, tiles, row_j, j, lower))
        tiles.write(b.op("add", row_j, j), diagonal)

        def row(i, values):
            (row_i,) = values
            tile = _reduced(tiles, row_i, tiles, row_j, j, whole)
            tiles.write(b.op("add", row_i, j), _divided(b, tile, diagonal, inverse))
            return [_next_row(b, row_i, i)]

        _loop(b, _next(b, j), _number(b, count), [_next_row(b, row_j, j)], row)
        return [_next_row(b, row_j, j)]

    _loop(b, _number(b, 0), _number(b, count), [_number(b, 0)], column)
    out = np.full((count * TILE, count * TILE), b.constant(m[0, 0].dtype.type(0)), object)
    for i, j, number in _numbered(count):
        tile = tiles.read(_number(b, number), lower if i == j else whole)
        for at in zip(*np.nonzero(tile)):
            out[TILE * i + at[0], TILE * j + at[1]] = tile[at]
    return out[: len(m), : len(m)]


def _reduced(x: Tiles, row_i: Value, y: Tiles, row_j: Value, j: Value, wanted: Wanted) -> Any:
    """The tile j from the first one of a row of x on, less the products of those before it with
    those of a row of y."""
    b = x.builder
    tile = x.read(b.op("add", row_i, j), wanted)

    def factors(k):
        left = x.read(b.op("add", row_i, k))
        return left, left if row_i is row_j else y.read(b.op("add", row_j, k))

    several = row_i is not row_j  # of the tiles on the diagonal there are few
    for at, taken in _sum_of_products(b, j, factors, tile[0, 0].dtype, wanted, several):
        tile[at] = b.op("sub", tile[at], taken)
    return tile


def _factor(b: Builder, m: np.ndarray) -> tuple[np.ndarray, list[Value]]:
    """The lower factor of a tile, and one over its diagonal."""
    out, inverse, one = m.copy(), [], b.constant(m[0, 0].dtype.type(1))
    for j in range(TILE):
        for i in range(j, TILE):
            rest = _minus(b, out[i, j], out[i, :j], out[j, :j])
            if i == j:
                out[j, j] = b.op("sqrt", rest)
                inverse.append(b.op("div", one, out[j, j]))
            else:
                out[i, j] = b.op("mul", rest, inverse[j])
    return out, inverse


def _divided(b: Builder, tile: Any, diagonal: np.ndarray, inverse: list[Value]) -> Any:
    """A tile times the inverse of the transpose of a lower triangle; inverse: of its diagonal."""
    for c, r in np.ndindex(TILE, TILE):
        rest = _minus(b, tile[r, c], tile[r, :c], diagonal[c, :c])
        tile[r, c] = b.op("mul", rest, inverse[c])
    return tile


def solve(b: Builder, m: np.ndarray, right: np.ndarray, transposed=False, unit=False) -> np.ndarray:
    """m^-1 right (n, k) of a lower triangle m (n, n), or m^-T right; a column after the other, or
    where m^-1 has many of them in tiles."""
    n, count, dtype = len(m), _tiles(len(m)), m[0, 0].dtype
    tiles = _tiles_of_factor(b, m) or _lower_tiles(b, m)
    if right.shape[1] >= TILE and not transposed and not unit:
        return _solve_together(tiles, right.T, count)[:n]
    padded = np.full((count * TILE, right.shape[1]), b.constant(dtype.type(0)), object)
    padded[:n] = right
    places = [Memory("local", dtype, count) for _ in range(TILE)]  # of one column
    rows = [(places[k % TILE], _number(b, k // TILE)) for k in range(len(padded))]
    out = np.empty(right.shape, object)
    for column in range(right.shape[1]):
        for (place, at), value in zip(rows, padded[:, column]):
            b.store(place, at, value)
        _loop(b, _number(b, 0), _number(b, count), [], _substitute(tiles, places, transposed, unit))
        out[:, column] = [b.read_now(place, at) for place, at in rows[:n]]
    return out


def _solve_together(tiles: Tiles, right: np.ndarray, count: int) -> np.ndarray:
    """The transpose of right (q, n) L^-T, filled up to whole tiles: rows of it like those below a
    factor of which ``count`` columns of tiles are known."""
    b, rows = tiles.builder, _tiles(len(right))
    padded = np.full((rows * TILE, count * TILE), b.constant(right[0, 0].dtype.type(0)), object)
    padded[: right.shape[0], : right.shape[1]] = right
    x = Tiles.of(b, rows * count, right[0, 0].dtype)
    cut = padded.reshape(rows, TILE, count, TILE)
    for number, (i, j) in enumerate(np.ndindex(rows, count)):
        x.write(_number(b, number), cut[i, :, j])

    def column(j, values):
        (row_j,) = values
        diagonal = tiles.read(b.op("add", row_j, j), lower)
        one = b.constant(right[0, 0].dtype.type(1))
        inverse = [b.op("div", one, diagonal[r, r]) for r in range(TILE)]

        def row(i, values):
            (row_i,) = values
            tile = _reduced(x, row_i, tiles, row_j, j, whole)
            x.write(b.op("add", row_i, j), _divided(b, tile, diagonal, inverse))
            return [b.op("add", row_i, _number(b, count))]

        _loop(b, _number(b, 0), _number(b, rows), [_number(b, 0)], row)
        return [_next_row(b, row_j, j)]

    _loop(b, _number(b, 0), _number(b, count), [_number(b, 0)], column)
    for number, (i, j) in enumerate(np.ndindex(rows, count)):
        cut[i, :, j] = x.read(_number(b, number))
    return padded[: len(right)].T


def _substitute(tiles: Tiles, places: list[Memory], transposed: bool, unit: bool) -> Callable:
    """A round of a loop: the next eight unknowns."""
    b, count = tiles.builder, places[0].size
    last, order = _number(b, count - 1), range(TILE)[:: -1 if transposed else 1]

    def read(at: Value) -> list[Value]:
        return [b.read_now(place, at) for place in places]

    def step(k, _):
        i = b.op("sub", last, k) if transposed else k
        row_i = _row(b, i)

        def minus(j, values):
            tile = tiles.read(b.op("add", _row(b, j), i) if transposed else b.op("add", row_i, j))
            x = read(j)
            return [_minus(b, v, row, x) for v, row in zip(values, tile.T if transposed else tile)]

        ends = (_next(b, i), _number(b, count)) if transposed else (_number(b, 0), i)
        x = _loop(b, *ends, read(i), minus)
        tile = tiles.read(b.op("add", row_i, i), lower)
        for done, r in enumerate(order):
            known = order[:done]
            along = [tile[c, r] if transposed else tile[r, c] for c in known]
            x[r] = _minus(b, x[r], along, [x[c] for c in known])
            if not unit:
                x[r] = b.op("div", x[r], tile[r, r])
        for place, value in zip(places, x):
            b.store(place, i, value)
        return []

    return step


def product(b: Builder, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left right^T (p, q) of objects left (p, m) and right (q, m); half of it if they are one."""
    same, zero = left is right, b.constant(left[0, 0].dtype.type(0))
    x = _Matrix.of(b, left.T)
    y = x if same else _Matrix.of(b, right.T)
    numbers = [(i, j) for i in range(x.columns) for j in range(i + 1 if same else y.columns)]
    tiles = Tiles.of(b, len(numbers), zero.dtype)

    def row(i, values):
        def column(j, values):
            tile = np.empty((TILE, TILE), object)

            def factors(k):
                return x.tile(k, i).T, y.tile(k, j).T

            for at, number in _sum_of_products(b, _number(b, x.rows), factors, zero.dtype):
                tile[at] = number
            tiles.write(values[0], tile)
            return [_next(b, values[0])]

        last = _next(b, i) if same else _number(b, y.columns)
        return _loop(b, _number(b, 0), last, values, column)

    _loop(b, _number(b, 0), _number(b, x.columns), [_number(b, 0)], row)
    out = np.empty((x.columns, TILE, y.columns, TILE), object)
    for number, (i, j) in enumerate(numbers):
        out[i, :, j] = tiles.read(_number(b, number))
        if same:
            out[j, :, i] = out[i, :, j].T
    return out.reshape(x.columns * TILE, y.columns * TILE)[: len(left), : len(right)]


def times(b: Builder, m: np.ndarray, x: np.ndarray) -> np.ndarray:
    """m x (p,) of objects m (p, q) and x (q,). A matrix and its transpose are kept once."""
    transposed = m.shape[0] < m.shape[1]
    matrix = _Matrix.of(b, m.T if transposed else m)
    given, zero = _Matrix.of(b, x[:, None]), b.constant(x[0].dtype.type(0))
    rows, columns = matrix.rows, matrix.columns
    if transposed:
        rows, columns = columns, rows
    places = [Memory("local", zero.dtype, rows) for _ in range(TILE)]

    def row(i, _):
        def plus(j, values):
            tile = matrix.tile(j, i).T if transposed else matrix.tile(i, j)
            along = given.tile(j, _number(b, 0))[:, 0]
            return [_plus(b, v, of_row, along) for v, of_row in zip(values, tile)]

        found = _loop(b, _number(b, 0), _number(b, columns), [zero] * TILE, plus)
        for place, value in zip(places, found):
            b.store(place, i, value)
        return []

    _loop(b, _number(b, 0), _number(b, rows), [], row)
    out = [b.read_now(places[k % TILE], _number(b, k // TILE)) for k in range(len(m))]
    return np.array(out, object)


@dataclass(frozen=True)
class _Matrix:
    """A matrix in local memory that is not written any more, in tiles, row by row of them."""

    builder: Builder
    places: Any  # (8, 8) objects: Memory; (8, 1) of a single column
    rows: int  # of tiles
    columns: int

    @classmethod
    def of(cls, b: Builder, m: np.ndarray) -> "_Matrix":
        """One of objects m (p, q), filled up with zeros; the same again for the same m."""
        rows, columns = map(_tiles, m.shape)
        padded = np.full((TILE * rows, TILE * columns), b.constant(m[0, 0].dtype.type(0)), object)
        padded[: m.shape[0], : m.shape[1]] = m
        places = np.empty((TILE, min(TILE, m.shape[1])), object)
        for r, c in np.ndindex(places.shape):
            places[r, c] = b.stored(list(padded[r::TILE, c::TILE].reshape(-1)))
        return cls(b, places, rows, columns)

    def tile(self, i: Value, j: Value) -> np.ndarray:
        """Its tile in row i and column j, of the shape of ``places``."""
        b = self.builder
        number = b.op("add", b.op("mul", i, _number(b, self.columns)), j)
        out = np.empty(self.places.shape, object)
        for at in np.ndindex(out.shape):
            out[at] = b.load(self.places[at], number)
        return out


# --- of all


def _sum_of_products(
    b: Builder, count: Value, factors: Callable, dtype, wanted: Wanted = whole, several=True
):
    """The sum of x y^T, for x, y (8, 8) of ``factors(k)``, k up to before ``count``: the places of
    the entries that are wanted, and their values.

    A block of them after the other, and, if several are wanted, ``AT_ONCE`` products a round: a
    loop that carries all 64, or little work a round, spends as long on moving its carries.
    """
    zero, at_once = b.constant(dtype.type(0)), AT_ONCE if several else 1
    power = _number(b, at_once.bit_length() - 1)
    rounds = b.op("shift_right_logical", count, power)
    rest = b.op("shift_left", rounds, power)
    for above, before in np.ndindex(TILE // BLOCK, TILE // BLOCK):
        block = [(BLOCK * above + r, BLOCK * before + c) for r, c in np.ndindex(BLOCK, BLOCK)]
        block = [at for at in block if wanted(*at)]
        if not block:
            continue

        def one(k, values, block=block):
            x, y = factors(k)
            return [_plus(b, v, x[r], y[c]) for v, (r, c) in zip(values, block)]

        def round_(k, values, one=one):
            first = b.op("shift_left", k, power)
            for further in range(at_once):
                values = one(b.op("add", first, _number(b, further)), values)
            return values

        values = _loop(b, _number(b, 0), rounds, [zero] * len(block), round_)
        values = _loop(b, rest, count, values, one)
        yield from zip(block, values)


def _tiles(n: int) -> int:
    return -(-n // TILE)


def _number(b: Builder, k: int) -> Value:
    return b.constant(np.int32(k))


def _next(b: Builder, k: Value) -> Value:
    return b.op("add", k, _number(b, 1))


def _next_row(b: Builder, first: Value, i: Value) -> Value:
    """The number of the first tile in row i + 1 of a lower triangle, from that of row i."""
    return b.op("add", first, _next(b, i))


def _row(b: Builder, i: Value) -> Value:
    """The number of the first tile in row i of a lower triangle."""
    twice = b.op("mul", i, _next(b, i))
    return b.op("shift_right_logical", twice, _number(b, 1))


def _numbered(count: int):
    """Row, column and number of the tiles of a lower triangle."""
    return ((i, j, i * (i + 1) // 2 + j) for i in range(count) for j in range(i + 1))


def _lower_tiles(b: Builder, m: np.ndarray) -> Tiles:
    """Memory that holds the lower triangle of m (n, n), filled up with that of the identity."""
    n, count, dtype = len(m), _tiles(len(m)), m[0, 0].dtype
    padded = np.full((count * TILE, count * TILE), b.constant(dtype.type(0)), object)
    np.fill_diagonal(padded, b.constant(dtype.type(1)))
    padded[:n, :n] = m
    tiles = Tiles.of(b, count * (count + 1) // 2, dtype)
    for i, j, number in _numbered(count):
        tile = padded[TILE * i : TILE * (i + 1), TILE * j : TILE * (j + 1)].copy()
        if i == j:
            tile[np.triu_indices(TILE, 1)] = None
        tiles.write(_number(b, number), tile)
    return tiles


def _tiles_of_factor(b: Builder, m: np.ndarray) -> Tiles | None:
    """The memory that m (n, n) was read from, if it is the beginning of a factor in tiles."""
    places = np.empty((TILE, TILE), object)
    for at in zip(*np.tril_indices(len(m))):
        value, (i, r), (j, c) = m[at], divmod(at[0], TILE), divmod(at[1], TILE)
        if value.op != "load" or not value.args[0].is_constant:
            return None
        places[r, c] = places[r, c] or value.data
        if value.data is not places[r, c] or value.args[0].data != i * (i + 1) // 2 + j:
            return None
    return Tiles(b, places)


def _loop(b: Builder, first: Value, last: Value, carry: list[Value], body: Callable) -> list[Value]:
    """carry = body(k, carry) for k from ``first`` up to before ``last``; the last carry."""

    def round_(_, values):
        out = body(values[1], values[2:])
        k = _next(b, values[1])
        return [b.op("lt", k, last), k, *out]

    begins = b.op("lt", first, last)
    if begins.is_constant and not begins.data:
        return carry
    return b.loop([begins, first, *carry], None, round_, alive=0)[2:]


def _minus(b: Builder, value: Value, x, y) -> Value:
    """value - sum x y."""
    for u, v in zip(x, y):
        value = b.op("sub", value, b.op("mul", u, v))
    return value


def _plus(b: Builder, value: Value, x, y) -> Value:
    for u, v in zip(x, y):
        value = b.op("add", value, b.op("mul", u, v))
    return value
