"""Large matrices in local memory: products, Cholesky factors and triangular solves as loops.

Unrolled, the factor of 90 rows would be a hundred thousand operations. Here a tile of 8 by 8
numbers is processed in registers, a block at a time, and loops iterate over the tiles: all of a
product, those of the lower triangle of a factor, row by row.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxsim.fused.builder import ProgramBuilder
from jaxsim.fused.program import KernelMemory, Value
from jaxsim.fused.rules.tile_memory import (
    TILE,
    EntryFilter,
    Matrix,
    Tiles,
    integer,
    loop,
    lower,
    successor,
    tiles_across,
    whole,
)

BLOCK = 4  # rows and columns of a sum of products that registers hold at once
AT_ONCE = 4  # products in a round of the loop that adds them up; a power of 2


def cholesky(b: ProgramBuilder, m: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor (n, n) of m (n, n), objects of which the lower triangle is read."""
    tiles, count = _lower_tiles(b, m), tiles_across(len(m))

    def column(j, values):
        (row_j,) = values  # the number of the first tile in row j
        diagonal, inverse = _factor(b, _reduced(tiles, row_j, tiles, row_j, j, lower))
        tiles.write(b.op("add", row_j, j), diagonal)

        def row(i, values):
            (row_i,) = values
            tile = _reduced(tiles, row_i, tiles, row_j, j, whole)
            tiles.write(b.op("add", row_i, j), _divided(b, tile, diagonal, inverse))
            return [_next_row(b, row_i, i)]

        loop(b, successor(b, j), integer(b, count), [_next_row(b, row_j, j)], row)
        return [_next_row(b, row_j, j)]

    loop(b, integer(b, 0), integer(b, count), [integer(b, 0)], column)
    out = np.full((count * TILE, count * TILE), b.constant(m[0, 0].dtype.type(0)), object)
    for i, j, number in _numbered(count):
        tile = tiles.read(integer(b, number), lower if i == j else whole)
        for at in zip(*np.nonzero(tile)):
            out[TILE * i + at[0], TILE * j + at[1]] = tile[at]
    return out[: len(m), : len(m)]


def _reduced(
    x: Tiles, row_i: Value, y: Tiles, row_j: Value, j: Value, includes: EntryFilter
) -> Any:
    """Tile j of a row of x less the products of the tiles before it with those of a row of y.

    row_i, row_j: numbers of the first tiles of both rows.
    """
    b = x.builder
    tile = x.read(b.op("add", row_i, j), includes)

    def factors(k):
        left = x.read(b.op("add", row_i, k))
        return left, left if row_i is row_j else y.read(b.op("add", row_j, k))

    several = row_i is not row_j  # there are few tiles on the diagonal
    for at, taken in _sum_of_products(b, j, factors, tile[0, 0].dtype, includes, several):
        tile[at] = b.op("sub", tile[at], taken)
    return tile


def _factor(b: ProgramBuilder, m: np.ndarray) -> tuple[np.ndarray, list[Value]]:
    """Lower Cholesky factor of a tile, and the inverse of its diagonal."""
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


def _divided(b: ProgramBuilder, tile: Any, diagonal: np.ndarray, inverse: list[Value]) -> Any:
    """Multiply a tile by the inverse transpose of a lower triangle; inverse: of its diagonal."""
    for c, r in np.ndindex(TILE, TILE):
        rest = _minus(b, tile[r, c], tile[r, :c], diagonal[c, :c])
        tile[r, c] = b.op("mul", rest, inverse[c])
    return tile


def solve(
    b: ProgramBuilder, m: np.ndarray, right: np.ndarray, transposed=False, unit=False
) -> np.ndarray:
    """Solve m^-1 right (n, k) for a lower triangle m (n, n), or m^-T right.

    Column by column, or for many columns of m^-1 right in tiles.
    """
    n, count, dtype = len(m), tiles_across(len(m)), m[0, 0].dtype
    tiles = _tiles_of_factor(b, m) or _lower_tiles(b, m)
    if right.shape[1] >= TILE and not transposed and not unit:
        return _solve_together(tiles, right.T, count)[:n]
    padded = np.full((count * TILE, right.shape[1]), b.constant(dtype.type(0)), object)
    padded[:n] = right
    places = [KernelMemory("local", dtype, count) for _ in range(TILE)]  # of one column
    rows = [(places[k % TILE], integer(b, k // TILE)) for k in range(len(padded))]
    out = np.empty(right.shape, object)
    for column in range(right.shape[1]):
        for (place, at), value in zip(rows, padded[:, column]):
            b.store(place, at, value)
        loop(b, integer(b, 0), integer(b, count), [], _substitute(tiles, places, transposed, unit))
        out[:, column] = [b.read_now(place, at) for place, at in rows[:n]]
    return out


def _solve_together(tiles: Tiles, right: np.ndarray, count: int) -> np.ndarray:
    """Transpose of right (q, n) L^-T, padded to whole tiles.

    Its rows are computed like those below a factor with ``count`` known columns of tiles.
    """
    b, rows = tiles.builder, tiles_across(len(right))
    padded = np.full((rows * TILE, count * TILE), b.constant(right[0, 0].dtype.type(0)), object)
    padded[: right.shape[0], : right.shape[1]] = right
    x = Tiles.of(b, rows * count, right[0, 0].dtype)
    cut = padded.reshape(rows, TILE, count, TILE)
    for number, (i, j) in enumerate(np.ndindex(rows, count)):
        x.write(integer(b, number), cut[i, :, j])

    def column(j, values):
        (row_j,) = values
        diagonal = tiles.read(b.op("add", row_j, j), lower)
        one = b.constant(right[0, 0].dtype.type(1))
        inverse = [b.op("div", one, diagonal[r, r]) for r in range(TILE)]

        def row(i, values):
            (row_i,) = values
            tile = _reduced(x, row_i, tiles, row_j, j, whole)
            x.write(b.op("add", row_i, j), _divided(b, tile, diagonal, inverse))
            return [b.op("add", row_i, integer(b, count))]

        loop(b, integer(b, 0), integer(b, rows), [integer(b, 0)], row)
        return [_next_row(b, row_j, j)]

    loop(b, integer(b, 0), integer(b, count), [integer(b, 0)], column)
    for number, (i, j) in enumerate(np.ndindex(rows, count)):
        cut[i, :, j] = x.read(integer(b, number))
    return padded[: len(right)].T


def _substitute(tiles: Tiles, places: list[KernelMemory], transposed: bool, unit: bool) -> Callable:
    """Body of the substitution loop, which solves for the next eight unknowns."""
    b, count = tiles.builder, places[0].size
    last, order = integer(b, count - 1), range(TILE)[:: -1 if transposed else 1]

    def read(at: Value) -> list[Value]:
        return [b.read_now(place, at) for place in places]

    def step(k, _):
        i = b.op("sub", last, k) if transposed else k
        row_i = _row(b, i)

        def minus(j, values):
            tile = tiles.read(b.op("add", _row(b, j), i) if transposed else b.op("add", row_i, j))
            x = read(j)
            return [_minus(b, v, row, x) for v, row in zip(values, tile.T if transposed else tile)]

        ends = (successor(b, i), integer(b, count)) if transposed else (integer(b, 0), i)
        x = loop(b, *ends, read(i), minus)
        tile = tiles.read(b.op("add", row_i, i), lower)
        for done, r in enumerate(order):
            before = order[:done]
            along = [tile[c, r] if transposed else tile[r, c] for c in before]
            x[r] = _minus(b, x[r], along, [x[c] for c in before])
            if not unit:
                x[r] = b.op("div", x[r], tile[r, r])
        for place, value in zip(places, x):
            b.store(place, i, value)
        return []

    return step


def product(b: ProgramBuilder, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Product left right^T (p, q) of objects left (p, m) and right (q, m), by loops over tiles.

    Only half of it is computed if both are one array.
    """
    x = Matrix.of(b, left.T)
    y = x if left is right else Matrix.of(b, right.T)
    return product_of(x, y)[: len(left), : len(right)]


def product_of(x: Matrix, y: Matrix) -> np.ndarray:
    """Product x^T y of whole tiles, as objects; only half is computed if both are one matrix."""
    b, dtype, same = x.builder, x.places[0, 0].dtype, x is y
    numbers = [(i, j) for i in range(x.columns) for j in range(i + 1 if same else y.columns)]
    tiles = Tiles.of(b, len(numbers), dtype)

    def row(i, values):
        def column(j, values):
            tile = np.empty((TILE, TILE), object)

            def factors(k):
                return x.tile(k, i).T, y.tile(k, j).T

            for at, number in _sum_of_products(b, integer(b, x.rows), factors, dtype):
                tile[at] = number
            tiles.write(values[0], tile)
            return [successor(b, values[0])]

        last = successor(b, i) if same else integer(b, y.columns)
        return loop(b, integer(b, 0), last, values, column)

    loop(b, integer(b, 0), integer(b, x.columns), [integer(b, 0)], row)
    out = np.empty((x.columns, TILE, y.columns, TILE), object)
    for number, (i, j) in enumerate(numbers):
        out[i, :, j] = tiles.read(integer(b, number))
        if same:
            out[j, :, i] = out[i, :, j].T
    return out.reshape(x.columns * TILE, y.columns * TILE)


def times(b: ProgramBuilder, m: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Product m x (p,) of objects m (p, q) and x (q,); a matrix and its transpose share memory."""
    transposed = m.shape[0] < m.shape[1]
    return times_of(Matrix.of(b, m.T if transposed else m), x, transposed)[: len(m)]


def times_of(matrix: Matrix, x: np.ndarray, transposed: bool) -> np.ndarray:
    """Product of a matrix, or its transpose, with objects x, as objects of whole tiles."""
    b, dtype = matrix.builder, x[0].dtype
    vector, zero = Matrix.of(b, x[:, None]), b.constant(dtype.type(0))
    rows, columns = matrix.rows, matrix.columns
    if transposed:
        rows, columns = columns, rows
    places = [KernelMemory("local", dtype, rows) for _ in range(TILE)]

    def row(i, _):
        def plus(j, values):
            tile = matrix.tile(j, i).T if transposed else matrix.tile(i, j)
            along = vector.tile(j, integer(b, 0))[:, 0]
            return [_plus(b, v, of_row, along) for v, of_row in zip(values, tile)]

        found = loop(b, integer(b, 0), integer(b, columns), [zero] * TILE, plus)
        for place, value in zip(places, found):
            b.store(place, i, value)
        return []

    loop(b, integer(b, 0), integer(b, rows), [], row)
    out = [b.read_now(places[k % TILE], integer(b, k // TILE)) for k in range(TILE * rows)]
    return np.array(out, object)


def _sum_of_products(
    b: ProgramBuilder,
    count: Value,
    factors: Callable,
    dtype,
    includes: EntryFilter = whole,
    several=True,
):
    """Sum of x y^T over (8, 8) x, y of ``factors(k)``, k up to before ``count``.

    Yields positions and values of the entries that ``includes`` accepts, a block after the other,
    with ``several`` by ``AT_ONCE`` products a round: a loop that carries all 64, or has little work
    a round, would spend as long on moving its carries.
    """
    zero, at_once = b.constant(dtype.type(0)), AT_ONCE if several else 1
    power = integer(b, at_once.bit_length() - 1)
    rounds = b.op("shift_right_logical", count, power)
    rest = b.op("shift_left", rounds, power)
    for above, before in np.ndindex(TILE // BLOCK, TILE // BLOCK):
        block = [(BLOCK * above + r, BLOCK * before + c) for r, c in np.ndindex(BLOCK, BLOCK)]
        block = [at for at in block if includes(*at)]
        if not block:
            continue

        def add_product(k, values, block=block):
            x, y = factors(k)
            return [_plus(b, v, x[r], y[c]) for v, (r, c) in zip(values, block)]

        def round_(k, values, add_product=add_product):
            first = b.op("shift_left", k, power)
            for further in range(at_once):
                values = add_product(b.op("add", first, integer(b, further)), values)
            return values

        values = loop(b, integer(b, 0), rounds, [zero] * len(block), round_)
        values = loop(b, rest, count, values, add_product)
        yield from zip(block, values)


def _next_row(b: ProgramBuilder, first: Value, i: Value) -> Value:
    """Number of the first tile in row i + 1 of a lower triangle, from that of row i."""
    return b.op("add", first, successor(b, i))


def _row(b: ProgramBuilder, i: Value) -> Value:
    """Number of the first tile in row i of a lower triangle."""
    twice = b.op("mul", i, successor(b, i))
    return b.op("shift_right_logical", twice, integer(b, 1))


def _numbered(count: int):
    """Iterate over row, column and number of the tiles of a lower triangle."""
    return ((i, j, i * (i + 1) // 2 + j) for i in range(count) for j in range(i + 1))


def _lower_tiles(b: ProgramBuilder, m: np.ndarray) -> Tiles:
    """Store the lower triangle of m (n, n) in tiles, padded with that of the identity."""
    n, count, dtype = len(m), tiles_across(len(m)), m[0, 0].dtype
    padded = np.full((count * TILE, count * TILE), b.constant(dtype.type(0)), object)
    np.fill_diagonal(padded, b.constant(dtype.type(1)))
    padded[:n, :n] = m
    tiles = Tiles.of(b, count * (count + 1) // 2, dtype)
    for i, j, number in _numbered(count):
        tile = padded[TILE * i : TILE * (i + 1), TILE * j : TILE * (j + 1)].copy()
        if i == j:
            tile[np.triu_indices(TILE, 1)] = None
        tiles.write(integer(b, number), tile)
    return tiles


def _tiles_of_factor(b: ProgramBuilder, m: np.ndarray) -> Tiles | None:
    """Memory that m (n, n) was read from, if it is the beginning of a factor in tiles."""
    places = np.empty((TILE, TILE), object)
    for at in zip(*np.tril_indices(len(m))):
        value, (i, r), (j, c) = m[at], divmod(at[0], TILE), divmod(at[1], TILE)
        if value.op != "load" or not value.args[0].is_constant:
            return None
        places[r, c] = places[r, c] or value.data
        if value.data is not places[r, c] or value.args[0].data != i * (i + 1) // 2 + j:
            return None
    return Tiles(b, places)


def _minus(b: ProgramBuilder, value: Value, x, y) -> Value:
    """Make value - sum x y."""
    for u, v in zip(x, y):
        value = b.op("sub", value, b.op("mul", u, v))
    return value


def _plus(b: ProgramBuilder, value: Value, x, y) -> Value:
    for u, v in zip(x, y):
        value = b.op("add", value, b.op("mul", u, v))
    return value
