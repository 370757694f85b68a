"""Record of a kind of collision shape: sizes, points, mass, keys of files, geoms of MJCF."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

Size = Any
"""(3,) sizes of a shape [m], numpy, JAX or a tuple; a kind without some of them has zeros."""


class Geom(NamedTuple):
    """Geom of MJCF that stands for a shape, or for a part of it."""

    name: str
    attributes: dict[str, Any]  # texts, or numbers
    offset: np.ndarray | None = None  # (3,) of its origin in the shape's frame [m]; None: zero
    turned: bool = True  # whether its rotation matters
    along_z: bool = False  # whether its z axis is the shape's x axis


class ShapeKind:
    """Base of the kinds of collision shapes, by default convex ones without flat faces.

    A kind is a module of this package with a constant ``KIND``. It needs ``name``, ``numbers``,
    ``keys``, ``size`` and ``solid``, and either ``ends`` (hulls of one or two balls, which all
    collision routines of balls and capsules take) or ``support`` and ``corners``.

    ``keys`` is a dataclass with an ``option`` for each key that gives a size in scenario files;
    ``size`` takes these. Points and directions are in the shape's frame.
    """

    name: ClassVar[str]
    rank: ClassVar[int] = 0  # order in a pair, lower first: balls 0, boxes 1, ground 2
    numbers: ClassVar[tuple[tuple[str, int], ...]]  # lengths of a motion's shape
    keys: ClassVar[type]
    ends: ClassVar[int] = 0  # end balls, of sizes (r0, r1, half length); 0 for other shapes
    flat: ClassVar[bool] = False  # has flat faces along its axes
    grid: ClassVar[bool] = False  # has a grid of heights
    world_only: ClassVar[bool] = False
    endless: ClassVar[bool] = False  # half space without outline
    thin_sizes: ClassVar[int] = 2  # first sizes, whose least is half the thickness
    geom_type: ClassVar[str] = ""  # of MuJoCo's geoms that are read as this kind; "" for none
    along_z: ClassVar[bool] = False  # whether the z axis of such a geom is the shape's x axis

    @property
    def n_positive(self) -> int:
        """Number of the first sizes that have to be positive."""
        return max((column + 1 for _, column in self.numbers), default=0)

    def size(self, *lengths: Any, **keys: Any) -> tuple[float, float, float]:
        """(3,) sizes from the fields of ``keys``."""
        raise NotImplementedError

    def pack(self, size: Size) -> tuple[float, ...]:
        """Lengths of a motion's shape, as ``numbers`` names them [m]."""
        return tuple(float(size[column]) for _, column in self.numbers)

    def unpack(self, lengths: Sequence[float]) -> np.ndarray:
        """(3,) sizes of a motion's shape."""
        size = np.zeros(3)
        size[[column for _, column in self.numbers]] = lengths
        return size

    # ---- mass

    def solid(self, size: Size, mass: float) -> tuple[tuple[float, ...], np.ndarray]:
        """Centre of mass (3,) [m] and principal moments (3,) about it [kg m^2], along the axes.

        mass [kg], of uniform density.
        """
        raise NotImplementedError(f"a {self.name} has no mass")

    # ---- points

    def support(self, size: Size, direction: Any) -> Any:
        """() support function: extent from the origin in a direction (3,) [m]; numpy or JAX."""
        raise NotImplementedError(f"a {self.name} has no support function")

    def balls(self, size: Size) -> list[tuple[np.ndarray, float]]:
        """Centres (3,) and radii of the end balls [m]."""
        return []

    def corners(self, size: Size) -> np.ndarray:
        """(n, 3) points whose convex hull is the shape, or nearly so [m]."""
        return np.zeros((0, 3))

    def bound(self, size: Size) -> float:
        """Radius of the ball about the origin that contains the shape [m]."""
        reach = [float(np.linalg.norm(centre)) + radius for centre, radius in self.balls(size)]
        return max([*reach, *np.linalg.norm(self.corners(size), axis=1).tolist()])

    def faces(
        self, size: Size, pos: np.ndarray, axes: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Flat faces in the world, polygons (n, 3) and outward normals (3,); none of round shapes.

        pos (3,), axes (3, 3), one a row: the shape's frame in the world.
        """
        return []

    def depth(self, size: Size, points: np.ndarray) -> np.ndarray:
        """Penetration (n,) of points (n, 3), negative outside [m]."""
        ways = self.corners(size)
        ways = ways / np.linalg.norm(ways, axis=1, keepdims=True)
        reach = np.array([self.support(size, way) for way in ways])
        return np.min(reach - points @ ways.T, axis=1)

    # ---- places on the shape, in shares of its half size

    def half(self, size: Size) -> Any:
        """(3,) half size that places on the shape are shares of [m]: an array or three numbers."""
        return tuple(self.support(size, axis) for axis in np.eye(3))

    def lowest(self, size: Size, down: np.ndarray) -> list[np.ndarray]:
        """Lowest places (3,) in a direction (3,), on which the shape can stand."""
        corners = self.corners(size)
        return [corners[np.argmax(corners @ down)] / np.array(self.half(size))]

    def between(self, size: Size, ahead: np.ndarray, aside: np.ndarray) -> np.ndarray:
        """Place (3,) between two orthogonal directions (3,)."""
        return (ahead + aside) / np.linalg.norm(ahead + aside)

    def stretch(self, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any] | None:
        """Factors of the sizes where space is stretched by x, y, z along the axes; None: all 1."""
        mean = jnp.cbrt(x * y * z)
        return mean, mean, mean

    # ---- MJCF

    def geoms(
        self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]
    ) -> list[Geom] | None:
        """Geoms of MJCF that stand for a shape; None where there are none.

        heights: grid of a height field; ends: end balls that can touch first.
        """
        return None

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes of a geom that MuJoCo has read, of type ``geom_type``."""
        raise NotImplementedError
