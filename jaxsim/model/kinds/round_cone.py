"""Hulls of two balls on the x axis: what spheres, capsules and tapered capsules share."""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxsim.model.kinds.kind import Geom, ShapeKind, Size

SLICES = 2000


class RoundCone(ShapeKind):
    """Hull of a ball of radius r0 at +half_length and one of r1 at -half_length."""

    ends: ClassVar[int] = 2

    def solid(self, size: Size, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
        """Centre of mass and moments, summed up from slices along x to a relative 1e-6."""
        r0, r1, half = size
        edges = np.linspace(-half - r1, half + r0, SLICES + 1)
        x, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        square = _radius_square(x, r0, r1, half)
        share = square * width / np.sum(square * width) * mass
        com = float(np.sum(share * x) / mass)
        across = np.sum(share * (square / 4 + (x - com) ** 2))
        along = np.sum(share * square / 2)
        return (com, 0.0, 0.0), np.array([along, across, across])

    def balls(self, size: Size) -> list[tuple[np.ndarray, float]]:
        """Centres (3,) and radii of the end balls [m]."""
        r0, r1, half = size
        return [(np.array([half, 0.0, 0.0]), r0), (np.array([-half, 0.0, 0.0]), r1)]

    def depth(self, size: Size, points: np.ndarray) -> np.ndarray:
        """Penetration (n,) of points (n, 3), negative outside [m]."""
        along = np.clip(points[:, 0], -size[2], size[2])
        share = (along / size[2] + 1) / 2 if size[2] > 0 else 1.0
        apart = np.linalg.norm(points - along[:, None] * [1.0, 0.0, 0.0], axis=1)
        return size[1] + share * (size[0] - size[1]) - apart

    def half(self, size: Size) -> Any:
        """Half size: half the length and a radius along x, a radius across."""
        across = size[0]
        return across + size[2], across, across

    def lowest(self, size: Size, down: np.ndarray) -> list[np.ndarray]:
        """Lowest places of both ends."""
        half = np.array(self.half(size))
        return [(centre + radius * down) / half for centre, radius in self.balls(size)]

    def between(self, size: Size, ahead: np.ndarray, aside: np.ndarray) -> np.ndarray:
        """Place at the end of the axis that is aside, if one is."""
        between = super().between(size, ahead, aside)
        radius, half = size[0], np.rint(aside[0]) * size[-1]
        along = (half + radius * between[0]) / (radius + size[-1])
        return np.array([along, *between[1:]])

    def stretch(self, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any] | None:
        """Factors of both radii and of the half length."""
        radius = jnp.sqrt(y * z)
        return radius, radius, x

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom]:
        """Capsule of MuJoCo, or where the radii differ the end balls, all of it for a plane."""
        if size[0] == size[1]:
            return [Geom(name, {"type": "capsule", "size": size[[0, 2]]}, along_z=True)]
        balls = self.balls(size)
        return [
            Geom(f"{name}_{end}", {"type": "sphere", "size": size[end]}, balls[end][0], False)
            for end in ends
        ]


def _radius_square(x: np.ndarray, r0: float, r1: float, half: float) -> np.ndarray:
    """Squared radius at places x on the axis of the hull of balls r0 at +half, r1 at -half."""
    balls = [np.maximum(r**2 - (x - c) ** 2, 0.0) for r, c in ((r0, half), (r1, -half))]
    slope = np.clip((r0 - r1) / (2 * half), -1.0, 1.0)  # sine of the cone's half angle
    if abs(slope) == 1.0:
        return np.maximum(*balls)
    cosine = np.sqrt(1 - slope**2)
    first, last = -half - r1 * slope, half - r0 * slope
    line = (r1 + (x + half) * slope) / cosine
    return np.where((x > first) & (x < last), line**2, np.maximum(*balls))
