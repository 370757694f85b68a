"""Reader of the keys of a shape, which follow from its kind, in ``[[fixed]]``, ``[[body]]`` and
``[[driven]]``."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.io.height_maps import GENERATORS
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table, is_number
from jaxsim.io.world import ZERO
from jaxsim.model import Shape
from jaxsim.options import REQUIRED, option

MOST_ROWS = 1024  # of heights that a generator makes
KIND = "kind of the [shape](#shapes)"
Grid = tuple[tuple[float, ...], ...]


def _length(meaning: str, **options: Any) -> Any:
    return option(REQUIRED, meaning, unit="m", kind=float, above=0.0, **options)


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

    @property
    def size(self) -> Any:
        """Numbers (3,) of the shape [m], see ``Shape``."""
        return ZERO

    def heights_of(self) -> Grid:
        """Heights of a height field [m], else none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class SphereKeys(ShapeKeys):
    """Sphere."""

    radius: float = _length("radius")

    @property
    def size(self) -> Any:
        return (self.radius, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class CapsuleKeys(ShapeKeys):
    """Capsule along its x axis."""

    radius: float = _length("radius")
    half_length: float = _length("half of its segment")

    @property
    def size(self) -> Any:
        return (self.radius, self.radius, self.half_length)


@dataclass(frozen=True, kw_only=True)
class TaperedCapsuleKeys(ShapeKeys):
    """Capsule along its x axis with two radii."""

    radius0: float = _length("radius of its end at +x")
    radius1: float = _length("radius of its end at -x")
    half_length: float = _length("half of its segment")

    @property
    def size(self) -> Any:
        return (self.radius0, self.radius1, self.half_length)


@dataclass(frozen=True, kw_only=True)
class BoxKeys(ShapeKeys):
    """Box."""

    half_extents: tuple = option(REQUIRED, "half of its edges", unit="m", kind=tuple, above=0.0)

    @property
    def size(self) -> Any:
        return self.half_extents


@dataclass(frozen=True, kw_only=True)
class PlaneKeys(ShapeKeys):
    """Half space below a plane, whose normal is its z axis."""


@dataclass(frozen=True, kw_only=True)
class HeightFieldKeys(ShapeKeys):
    """Height field over a rectangle, by rows of heights or a generator."""

    half_extents: tuple = option(
        REQUIRED, "half of its edges along x and y", unit="m", kind=tuple, size=2, above=0.0
    )
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

    @property
    def size(self) -> Any:
        return (*self.half_extents, 0.0)

    def heights_of(self) -> Grid:
        if (self.heights is None) == (self.generator is None):
            raise self.table.error("give either heights or a generator")
        if self.generator is not None:
            height = self.table.number("height", above=0.0)
            make = GENERATORS[self.generator]
            grid = make(rows=self.rows, columns=self.columns, height=height, seed=self.seed)
        else:
            for key in ("height", "rows", "columns", "seed"):
                if self.table.has(key):
                    raise self.table.error("is of a generator; leave it out", key)
            grid = np.array(_rows(self.table, self.heights), float)
        return tuple(map(tuple, grid.tolist()))


SHAPES: dict[str, type[ShapeKeys]] = {
    "sphere": SphereKeys,
    "capsule": CapsuleKeys,
    "tapered_capsule": TaperedCapsuleKeys,
    "box": BoxKeys,
    "plane": PlaneKeys,
    "height_field": HeightFieldKeys,
}
SOLIDS = ("sphere", "capsule", "tapered_capsule", "box")


@dataclass(frozen=True, kw_only=True)
class ShapedKeys(Keys):
    """Table with a shape, whose further keys follow from its kind (``SHAPES``)."""

    shape: str = option(REQUIRED, KIND, kind=str, choices=SOLIDS)

    def shape_of(self, friction: float, **placed: Any) -> Shape:
        """Shape at a place; friction: where the table gives none. Raises WorldError."""
        keys = SHAPES[self.shape].read(self.table)
        return Shape(
            self.shape,
            keys.size,
            heights=keys.heights_of(),
            friction=friction if keys.friction is None else keys.friction,
            restitution=keys.restitution,
            **placed,
        )


def _rows(table: Table, rows: Any) -> list[list[float]]:
    lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not lists or not all(is_number(value) for row in rows for value in row):
        rows = []
    if len(rows) < 2 or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        raise table.error("give at least 2 rows, along x, of equally many numbers", "heights")
    return rows
