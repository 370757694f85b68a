"""Collision shapes, each with its own frame in a link (or in the world).

A capsule's segment runs along the shape's x axis from +half_length (end 0) to -half_length
(end 1). A tapered capsule has another radius at each end and is the hull of its two balls.
``size`` is always three numbers so that shapes of all kinds share one array:

    sphere (r, 0, 0)   capsule, tapered_capsule (r0, r1, half_length)
    box (hx, hy, hz)   plane (0, 0, 0), normal along the shape's z axis
"""

from dataclasses import dataclass

import numpy as np

KINDS = ("sphere", "capsule", "tapered_capsule", "box", "plane")
BALL_KINDS = ("sphere", "capsule", "tapered_capsule")


@dataclass(frozen=True)
class Shape:
    """A collision shape; pos (3,) [m] and quat (4,) place it in its link. All lengths in metres."""

    kind: str
    size: tuple[float, float, float]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    friction: float = 0.8
    restitution: float = 0.0
    name: str = ""


def sphere(radius: float, **options) -> Shape:
    """A ball."""
    return Shape("sphere", (radius, 0.0, 0.0), **options)


def capsule(radius: float, half_length: float, **options) -> Shape:
    """A segment along x with a ball at each end and their hull."""
    return Shape("capsule", (radius, radius, half_length), **options)


def tapered_capsule(radius0: float, radius1: float, half_length: float, **options) -> Shape:
    """A segment along x with a ball of radius0 at +x, of radius1 at -x, and their hull."""
    return Shape("tapered_capsule", (radius0, radius1, half_length), **options)


def box(half_extents, **options) -> Shape:
    """A box of the given half extents (3,)."""
    hx, hy, hz = np.asarray(half_extents, float).tolist()
    return Shape("box", (hx, hy, hz), **options)


def plane(**options) -> Shape:
    """The half space below the shape's z axis; belongs to the world."""
    return Shape("plane", (0.0, 0.0, 0.0), **options)
