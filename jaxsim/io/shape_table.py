"""Reader of the keys of a shape, which follow from its kind, in ``[[fixed]]``, ``[[body]]`` and
``[[driven]]``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jaxsim.io.height_maps import GENERATORS
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table, is_number
from jaxsim.model import Shape
from jaxsim.model.kinds import KINDS, SOLIDS, ShapeKind
from jaxsim.options import REQUIRED, option, options_of

MOST_ROWS = 1024  # of heights that a generator makes
KIND = "kind of the [shape](#shapes)"
Grid = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ShapeKeys(Keys):
    """Shape of any kind."""

    friction: float | None = option(
        None,
        "in a contact, the root of the product of the two shapes' values",
        shown="the world's",
        kind=float,
        least=0.0,
    )
    restitution: float = option(
        0.0, "in a contact, the larger of the two shapes' values", least=0.0, most=1.0
    )


@dataclass(frozen=True, kw_only=True)
class GridKeys:
    """Grid of heights, by rows of numbers or a generator."""

    heights: Any = option(
        None,
        "rows along x of numbers along y",
        unit="m",
        shown="needed, or `generator`",
        kind=object,
        values="rows of numbers",
    )
    generator: str | None = option(
        None, "generator of the heights", shown="needed, or `heights`", kind=str, choices=GENERATORS
    )
    height: float | None = option(
        None,
        "of the generator: the largest height",
        unit="m",
        shown="needed with `generator`",
        kind=float,
        above=0.0,
    )
    rows: int = option(16, "of the generator, along x", least=2, most=MOST_ROWS)
    columns: int = option(16, "of the generator, along y", least=2, most=MOST_ROWS)
    seed: int = option(0, "of the generator", least=0)


@cache
def shape_keys(kind: ShapeKind) -> type[ShapeKeys]:
    """Record of all keys of a kind of shape: its sizes, a grid of heights, friction."""
    bases = (kind.keys, ShapeKeys) if not kind.grid else (GridKeys, kind.keys, ShapeKeys)
    record = type(kind.keys.__name__, bases, {"__doc__": type(kind).__doc__})
    return dataclass(frozen=True, kw_only=True)(record)  # type: ignore[return-value]


class _ShapeRecords(Mapping[str, type[ShapeKeys]]):
    """Record of the keys of each registered kind, by name."""

    def __getitem__(self, name: str) -> type[ShapeKeys]:
        return shape_keys(KINDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(KINDS)

    def __len__(self) -> int:
        return len(KINDS)


SHAPES = _ShapeRecords()


@dataclass(frozen=True, kw_only=True)
class ShapedKeys(Keys):
    """Table with a shape, whose further keys follow from its kind (``SHAPES``)."""

    shape: str = option(REQUIRED, KIND, kind=str, choices=SOLIDS)

    def shape_of(self, friction: float, **placed: Any) -> Shape:
        """Shape at a place; friction: where the table gives none. Raises WorldError."""
        kind, keys = KINDS[self.shape], SHAPES[self.shape].read(self.table)
        size = kind.size(**{o.field: getattr(keys, o.field) for o in options_of(kind.keys)})
        return Shape(
            self.shape,
            size,
            heights=_heights(keys) if kind.grid else (),
            friction=friction if keys.friction is None else keys.friction,
            restitution=keys.restitution,
            **placed,
        )


def _heights(keys: Any) -> Grid:
    """Heights [m] of ``GridKeys``."""
    table: Table = keys.table
    if (keys.heights is None) == (keys.generator is None):
        raise table.error("give either heights or a generator")
    if keys.generator is not None:
        height = table.number("height", above=0.0)
        make = GENERATORS[keys.generator]
        grid = make(rows=keys.rows, columns=keys.columns, height=height, seed=keys.seed)
    else:
        for key in ("height", "rows", "columns", "seed"):
            if table.has(key):
                raise table.error("is of a generator; leave it out", key)
        grid = np.array(_rows(table, keys.heights), float)
    return tuple(map(tuple, grid.tolist()))


def _rows(table: Table, rows: Any) -> list[list[float]]:
    lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not lists or not all(is_number(value) for row in rows for value in row):
        rows = []
    if len(rows) < 2 or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        raise table.error("give at least 2 rows, along x, of equally many numbers", "heights")
    return rows
