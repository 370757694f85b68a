"""Boxes, of sizes (hx, hy, hz)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot
from typing import Any

import numpy as np

from jaxsim.model.kinds.kind import Geom, ShapeKind, Size
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True)
class BoxKeys:
    """Keys of a box in a scenario file."""

    half_extents: tuple[float, ...] = option(
        REQUIRED, "half of its edges", unit="m", kind=tuple, above=0.0
    )


class Box(ShapeKind):
    """Box."""

    name, rank, flat = "box", 1, True
    numbers = (("half_x", 0), ("half_y", 1), ("half_z", 2))
    thin_sizes, geom_type = 3, "box"
    keys = BoxKeys

    def size(self, half_extents: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes from half extents (3,) [m]."""
        hx, hy, hz = np.asarray(half_extents, float).tolist()
        return hx, hy, hz

    def solid(self, size: Size, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
        """Centre of mass and moments of a solid box."""
        x, y, z = np.square(size)
        return (0.0, 0.0, 0.0), mass / 3 * np.array([y + z, x + z, x + y])

    def support(self, size: Size, direction: Any) -> Any:
        """() support function [m]."""
        return abs(direction) @ size

    def corners(self, size: Size) -> np.ndarray:
        """(8, 3) corners [m]."""
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
        return signs * np.asarray(size)

    def bound(self, size: Size) -> float:
        """Half the diagonal [m]."""
        return hypot(*size)

    def faces(
        self, size: Size, pos: np.ndarray, axes: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Six faces in the world: polygons (4, 3) and outward normals (3,)."""
        polygons = []
        for k in range(3):
            across = [size[j] * axes[j] for j in range(3) if j != k]
            square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) @ across
            for sign in (-1, 1):
                polygons.append((pos + sign * size[k] * axes[k] + square, sign * axes[k]))
        return polygons

    def depth(self, size: Size, points: np.ndarray) -> np.ndarray:
        """Penetration (n,) of points (n, 3), negative outside [m]."""
        return np.min(size - np.abs(points), axis=1)

    def half(self, size: Size) -> Any:
        """Half extents."""
        return size

    def lowest(self, size: Size, down: np.ndarray) -> list[np.ndarray]:
        """Corners of the face that points down."""
        face = int(np.argmax(np.abs(down)))
        corners = map(np.array, product((1.0, -1.0), repeat=3))
        return [corner for corner in corners if corner[face] == np.sign(down[face])]

    def between(self, size: Size, ahead: np.ndarray, aside: np.ndarray) -> np.ndarray:
        """Place on the edge between two faces."""
        return np.rint(ahead) + np.rint(aside)

    def stretch(self, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
        """Factors along the axes."""
        return x, y, z

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom]:
        """Box of MuJoCo."""
        return [Geom(name, {"type": "box", "size": size})]

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes of a box of MuJoCo."""
        return self.size(size)


KIND = Box()
