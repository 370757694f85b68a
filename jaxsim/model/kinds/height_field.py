"""Height fields, of sizes (hx, hy, 0): solid ground below a grid of heights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.model.kinds.kind import Geom, ShapeKind
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True)
class HeightFieldKeys:
    """Keys of a height field in a scenario file, without those of its heights."""

    half_extents: tuple[float, ...] = option(
        REQUIRED, "half of its edges along x and y", unit="m", kind=tuple, size=2, above=0.0
    )


class HeightField(ShapeKind):
    """Height field over a rectangle, by rows of heights or a generator."""

    name, rank = "height_field", 2
    numbers = (("half_x", 0), ("half_y", 1))
    grid, world_only, geom_type = True, True, "hfield"
    keys = HeightFieldKeys

    def size(self, half_extents: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes from half extents (2,) [m]."""
        hx, hy = np.asarray(half_extents, float).tolist()
        return hx, hy, 0.0

    def stretch(self, x, y, z) -> None:
        """No factor: the world keeps its size."""
        return None

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom]:
        """Height field of MuJoCo, whose lowest node is at its origin."""
        low = np.array([0.0, 0.0, heights.min()])
        return [Geom(name, {"type": "hfield", "hfield": name}, low)]

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes of a height field of MuJoCo, of which it has four."""
        return self.size(size[:2])


KIND = HeightField()
