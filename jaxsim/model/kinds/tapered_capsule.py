"""Tapered capsules along x, of sizes (r0, r1, half_length)."""

from dataclasses import dataclass

from jaxsim.model.kinds.round_cone import RoundCone
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True)
class TaperedCapsuleKeys:
    """Keys of a tapered capsule in a scenario file."""

    radius0: float = option(REQUIRED, "radius of its end at +x", unit="m", kind=float, above=0.0)
    radius1: float = option(REQUIRED, "radius of its end at -x", unit="m", kind=float, above=0.0)
    half_length: float = option(
        REQUIRED,
        "half of its segment",
        unit="m",
        kind=float,
        above=0.0,
    )


class TaperedCapsule(RoundCone):
    """Capsule along its x axis with two radii."""

    name = "tapered_capsule"
    numbers = (("radius_0", 0), ("radius_1", 1), ("half_length", 2))
    keys = TaperedCapsuleKeys

    def size(self, radius0: float, radius1: float, half_length: float):
        """(3,) sizes from both radii and half the length of the segment [m]."""
        return radius0, radius1, half_length


KIND = TaperedCapsule()
