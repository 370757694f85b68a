"""Spheres, of sizes (r, 0, 0)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.model.kinds.kind import Geom, ShapeKind, Size
from jaxsim.model.kinds.round_cone import RoundCone
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True)
class SphereKeys:
    """Keys of a sphere in a scenario file."""

    radius: float = option(REQUIRED, "radius", unit="m", kind=float, above=0.0)


class Sphere(RoundCone):
    """Sphere."""

    name, numbers = "sphere", (("radius", 0),)
    ends, thin_sizes, geom_type = 1, 1, "sphere"
    between, stretch = ShapeKind.between, ShapeKind.stretch
    keys = SphereKeys

    def size(self, radius: float) -> tuple[float, float, float]:
        """(3,) sizes from a radius [m]."""
        return radius, 0.0, 0.0

    def solid(self, size: Size, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
        """Centre of mass and moments of a solid ball."""
        return (0.0, 0.0, 0.0), np.full(3, 0.4 * mass * size[0] ** 2)

    def balls(self, size: Size) -> list[tuple[np.ndarray, float]]:
        """Centre and radius of the ball itself."""
        return [(np.zeros(3), size[0])]

    def half(self, size: Size) -> Any:
        """Radius in all directions."""
        return size[0], size[0], size[0]

    def lowest(self, size: Size, down: np.ndarray) -> list[np.ndarray]:
        """Lowest place."""
        return [down]

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom]:
        """Sphere of MuJoCo."""
        return [Geom(name, {"type": "sphere", "size": size[0]}, turned=False)]

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes of a sphere of MuJoCo."""
        return self.size(size[0])


KIND = Sphere()
