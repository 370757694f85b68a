"""Centre of mass and inertia of solid shapes of uniform density."""

import numpy as np

from jaxsim.model import Shape

SLICES = 2000


def solid(shape: Shape, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
    """Centre of mass (3,) [m] and principal moments (3,) about it [kg m^2], in the shape's axes.

    For spheres, capsules, tapered capsules and boxes of ``mass`` [kg]. Round shapes are summed up
    from slices along x; the relative error is below 1e-6.
    """
    if shape.kind == "box":
        x, y, z = np.square(shape.size)
        return (0.0, 0.0, 0.0), mass / 3 * np.array([y + z, x + z, x + y])
    r0, r1, half = shape.size
    if shape.kind == "sphere":
        return (0.0, 0.0, 0.0), np.full(3, 0.4 * mass * r0**2)
    edges = np.linspace(-half - r1, half + r0, SLICES + 1)
    x, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    square = _radius_square(x, r0, r1, half)
    share = square * width / np.sum(square * width) * mass
    com = float(np.sum(share * x) / mass)
    across = np.sum(share * (square / 4 + (x - com) ** 2))
    along = np.sum(share * square / 2)
    return (com, 0.0, 0.0), np.array([along, across, across])


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
