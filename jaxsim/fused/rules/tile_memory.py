"""Local memory of tiles of 8 by 8 numbers.

Each entry of the tiles has a separate memory, so that the 64 numbers of a tile are addressed by a
single computed index, the number of the tile.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.fused.builder import ProgramBuilder
from jaxsim.fused.program import KernelMemory, Value

TILE = 8
EntryFilter = Callable[[int, int], bool]


def whole(i: int, j: int) -> bool:
    """True for all entries of a tile."""
    return True


def lower(i: int, j: int) -> bool:
    """True for the entries of a tile's lower triangle."""
    return j <= i


@dataclass(frozen=True)
class Tiles:
    """Local memory of tiles, which loops read and write alternately."""

    builder: ProgramBuilder
    places: Any  # (8, 8) objects: Memory

    @classmethod
    def of(cls, builder: ProgramBuilder, count: int, dtype: np.dtype) -> "Tiles":
        """Allocate memory of ``count`` tiles."""
        places = np.empty((TILE, TILE), object)
        for at in np.ndindex(TILE, TILE):
            places[at] = KernelMemory("local", dtype, count)
        return cls(builder, places)

    def read(self, tile: Value, includes: EntryFilter = whole) -> Any:
        """Read the entries of a tile (8, 8) that ``includes`` accepts; the others are None."""
        out = np.empty((TILE, TILE), object)
        for at in np.ndindex(TILE, TILE):
            if includes(*at):
                out[at] = self.builder.read_now(self.places[at], tile)
        return out

    def write(self, tile: Value, numbers: np.ndarray) -> None:
        """Write the numbers (8, 8) of a tile that are not None."""
        for at, number in np.ndenumerate(numbers):
            if number is not None:
                self.builder.store(self.places[at], tile, number)


@dataclass(frozen=True)
class Matrix:
    """Read-only matrix in local memory, in tiles, row by row of them."""

    builder: ProgramBuilder
    places: Any  # (8, 8) objects: Memory; (8, 1) of a single column
    rows: int  # of tiles
    columns: int

    @classmethod
    def of(cls, b: ProgramBuilder, m: np.ndarray) -> "Matrix":
        """Store objects m (p, q) in tiles, padded with zeros; equal m share memory."""
        rows, columns = map(tiles_across, m.shape)
        padded = np.full((TILE * rows, TILE * columns), b.constant(m[0, 0].dtype.type(0)), object)
        padded[: m.shape[0], : m.shape[1]] = m
        places = np.empty((TILE, min(TILE, m.shape[1])), object)
        for r, c in np.ndindex(places.shape):
            places[r, c] = b.stored(list(padded[r::TILE, c::TILE].reshape(-1)))
        return cls(b, places, rows, columns)

    @classmethod
    def copied(
        cls, b: ProgramBuilder, source: KernelMemory, shape, start: int, pitch: int
    ) -> "Matrix":
        """Copy a matrix of ``shape`` from memory, whose rows are ``pitch`` numbers apart.

        Loops copy it, so that its size does not make the kernel larger.
        """
        rows, columns = map(tiles_across, shape)
        places: Any = np.empty((TILE, TILE), object)
        for at in np.ndindex(TILE, TILE):
            places[at] = KernelMemory("local", source.dtype, rows * columns, b.block)
        zero = b.constant(source.dtype.type(0))

        def parts(n: int) -> list[tuple[int, int, int]]:
            """Ranges of the full tiles, and of the last one: from, to, entries of each."""
            full, rest = divmod(n, TILE)
            return [part for part in ((0, full, TILE), (full, full + 1, rest)) if part[1] * part[2]]

        def copy(down: tuple[int, int, int], along: tuple[int, int, int]):
            def row(i, _):
                def column(j, _):
                    of_tile = b.op("add", b.op("mul", i, integer(b, pitch)), j)
                    first = b.op("mul", of_tile, integer(b, TILE))  # eight together: see packets
                    number = b.op("add", b.op("mul", i, integer(b, columns)), j)
                    for r, c in np.ndindex(TILE, TILE):
                        at = b.op("add", first, integer(b, start + r * pitch + c))
                        inside = r < down[2] and c < along[2]
                        b.store(places[r, c], number, b.load(source, at) if inside else zero)
                    return []

                loop(b, integer(b, along[0]), integer(b, along[1]), [], column)
                return []

            loop(b, integer(b, down[0]), integer(b, down[1]), [], row)

        for down, along in itertools.product(*map(parts, shape)):
            copy(down, along)
        return cls(b, places, rows, columns)

    def tile(self, i: Value, j: Value) -> np.ndarray:
        """Load the tile in row i and column j, of the shape of ``places``."""
        b = self.builder
        number = b.op("add", b.op("mul", i, integer(b, self.columns)), j)
        out = np.empty(self.places.shape, object)
        for at in np.ndindex(out.shape):
            out[at] = b.load(self.places[at], number)
        return out


def tiles_across(n: int) -> int:
    """Number of tiles that contain n rows or columns."""
    return -(-n // TILE)


def integer(b: ProgramBuilder, k: int) -> Value:
    """Make the value of a known int32."""
    return b.constant(np.int32(k))


def successor(b: ProgramBuilder, k: Value) -> Value:
    """Make the value k + 1."""
    return b.op("add", k, integer(b, 1))


def loop(
    b: ProgramBuilder, first: Value, last: Value, carry: list[Value], body: Callable
) -> list[Value]:
    """Make a loop carry = body(k, carry), k from ``first`` up to before ``last``: last carry."""

    def round_(_, values):
        out = body(values[1], values[2:])
        k = successor(b, values[1])
        return [b.op("lt", k, last), k, *out]

    begins = b.op("lt", first, last)
    if begins.is_constant and not begins.data:
        return carry
    return b.loop([begins, first, *carry], None, round_, alive=0)[2:]
