"""Planes, half spaces below their z axis; their sizes are zero."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.model.kinds.kind import Geom, ShapeKind


@dataclass(frozen=True)
class PlaneKeys:
    """Keys of a plane in a scenario file: none."""


class Plane(ShapeKind):
    """Half space below a plane, whose normal is its z axis."""

    name, rank, numbers = "plane", 2, ()
    flat, world_only, endless, geom_type = True, True, True, "plane"
    keys = PlaneKeys

    def size(self) -> tuple[float, float, float]:
        """(3,) sizes, all zero."""
        return 0.0, 0.0, 0.0

    def stretch(self, x, y, z) -> None:
        """No factor: the world keeps its size."""
        return None

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom]:
        """Plane of MuJoCo."""
        return [Geom(name, {"type": "plane", "size": "0 0 1"})]

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes, all zero."""
        return self.size()


KIND = Plane()
