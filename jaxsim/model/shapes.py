"""Collision shapes, each with its own frame in a link (or in the world).

A capsule's segment runs along the shape's x axis from +half_length (end 0) to -half_length
(end 1). A tapered capsule has another radius at each end and is the hull of its two balls.
``size`` is always three numbers so that shapes of all kinds share one array:

    sphere (r, 0, 0)   capsule, tapered_capsule (r0, r1, half_length)
    box (hx, hy, hz)   plane (0, 0, 0), normal along the shape's z axis
    height_field (hx, hy, 0), its heights along the shape's z axis are ``Model.heights``

All else that a kind has of its own is in its record, see ``jaxsim.model.kinds``.

``group`` and ``mask`` are bits: two shapes are candidates for contact if the group of one has a bit
in common with the mask of the other. Every shape has bit 1 in both unless it says otherwise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.model.errors import ModelError
from jaxsim.model.kinds import KINDS, ShapeKind


@dataclass(frozen=True)
class Shape:
    """Collision shape; pos (3,) [m] and quat (4,) place it in its link. All lengths in metres."""

    kind: str
    size: tuple[float, float, float]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    friction: float = 0.8
    restitution: float = 0.0
    name: str = ""
    group: int = 1
    mask: int = 1
    heights: tuple[tuple[float, ...], ...] = ()  # of a height field: rows along x, columns along y

    @property
    def record(self) -> ShapeKind:
        """Record of the shape's kind."""
        return KINDS[self.kind]

    def solid(self, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
        """Centre of mass (3,) [m] and principal moments (3,) about it [kg m^2], in its own axes.

        mass [kg], of uniform density.
        """
        return self.record.solid(self.size, mass)

    def may_touch(self, other: "Shape") -> bool:
        """True where the group of one meets the mask of the other."""
        return bool(self.group & other.mask or other.group & self.mask)


def sphere(radius: float, **options) -> Shape:
    """Make a sphere of a radius [m]."""
    return Shape("sphere", KINDS["sphere"].size(radius), **options)


def capsule(radius: float, half_length: float, **options) -> Shape:
    """Make a capsule: a segment along x with a ball at each end and their hull."""
    return Shape("capsule", KINDS["capsule"].size(radius, half_length), **options)


def tapered_capsule(radius0: float, radius1: float, half_length: float, **options) -> Shape:
    """Make a tapered capsule: the hull of a ball of radius0 at +x and one of radius1 at -x."""
    size = KINDS["tapered_capsule"].size(radius0, radius1, half_length)
    return Shape("tapered_capsule", size, **options)


def box(half_extents, **options) -> Shape:
    """Make a box of half extents (3,) [m]."""
    return Shape("box", KINDS["box"].size(half_extents), **options)


def plane(**options) -> Shape:
    """Make a plane, the half space below the shape's z axis; belongs to the world."""
    return Shape("plane", KINDS["plane"].size(), **options)


def height_field(heights, half_extents, **options) -> Shape:
    """Make solid ground below a grid of heights (nx, ny) [m]; belongs to the world.

    heights[i, j] is over x from -half_extents[0] to +half_extents[0] and y likewise, both ends
    included. Each cell is two triangles, split from its corner (i, j) to (i + 1, j + 1). There is
    nothing to touch outside of the extents.
    """
    try:
        grid = np.asarray(heights, float)
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if grid.ndim != 2 or min(grid.shape) < 2:
        raise ModelError(
            f"shape {options.get('name', '')!r}: heights must be a grid of at least 2 x 2 numbers, "
            "rows along x and columns along y"
        )
    rows: Any = grid.tolist()
    size = KINDS["height_field"].size(half_extents)
    return Shape("height_field", size, heights=tuple(map(tuple, rows)), **options)
