"""Capsules along x, of sizes (r, r, half_length)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.model.kinds.round_cone import RoundCone
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True)
class CapsuleKeys:
    """Keys of a capsule in a scenario file."""

    radius: float = option(REQUIRED, "radius", unit="m", kind=float, above=0.0)
    half_length: float = option(
        REQUIRED,
        "half of its segment",
        unit="m",
        kind=float,
        above=0.0,
    )


class Capsule(RoundCone):
    """Capsule along its x axis."""

    name, numbers = "capsule", (("radius", 0), ("half_length", 2))
    geom_type, along_z = "capsule", True
    keys = CapsuleKeys

    def size(self, radius: float, half_length: float) -> tuple[float, float, float]:
        """(3,) sizes from a radius and half the length of the segment [m]."""
        return radius, radius, half_length

    def unpack(self, lengths: Sequence[float]) -> np.ndarray:
        """(3,) sizes of a motion's shape, which has one radius."""
        return np.array(self.size(*lengths))

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        """(3,) sizes of a capsule of MuJoCo."""
        return self.size(size[0], size[1])


KIND = Capsule()
