"""Space of situations and actions: numbers with ranges, and distances between points in it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

EXTENT = 4.0  # of a range by default, in the units of distances


@dataclass(frozen=True)
class Space:
    """Space of d numbers, those of the state (the situation) first, then those of the action.

    scale: (d,) of the distances (thesis, 6.4): a point times these. Points (..., d) are in the
    units of the numbers, z (..., d) are scaled.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    states: int  # how many of the numbers are of the state

    @classmethod
    def of(cls, state: Mapping[str, Sequence], action: Mapping[str, Sequence]) -> "Space":
        """Space of name -> (lower, upper[, scale]); by default a range is ``EXTENT`` long.

        Raises ValueError for an invalid range, a scale that is not positive, a name that is given
        twice, and where there is no state or no action.
        """
        if not (state and action):
            raise ValueError(
                "give at least one number of the state and one of the action, each with its range,"
                " as in state={'chair_height': (0.15, 0.75)}"
            )
        twice = sorted(set(state) & set(action))
        if twice:
            raise ValueError(f"{', '.join(twice)}: of the state and of the action; choose one")
        rows = [_axis(name, spec) for name, spec in [*state.items(), *action.items()]]
        lower, upper, scale = np.array(rows).T
        return cls((*state, *action), lower, upper, scale, len(state))

    @property
    def size(self) -> int:
        """Number d of dimensions."""
        return len(self.names)

    def inside(self, points: np.ndarray) -> np.ndarray:
        """True (...,) for points within all ranges."""
        return np.all((points >= self.lower) & (points <= self.upper), axis=-1)

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """Scale points to z."""
        return np.asarray(points, float) * self.scale

    def points(self, z: np.ndarray) -> np.ndarray:
        """Points of scaled z."""
        return np.asarray(z, float) / self.scale

    def index(self, name: str) -> int:
        """Index of a number. Raises KeyError that lists them."""
        if name not in self.names:
            raise KeyError(f"no number {name!r} in the model; it has {', '.join(self.names)}")
        return self.names.index(name)


def _axis(name: str, spec: Sequence) -> tuple[float, float, float]:
    good = not isinstance(spec, str) and len(spec) in (2, 3)
    if good:
        good = all(isinstance(x, (int, float)) and math.isfinite(x) for x in spec)
    if not good:
        raise ValueError(f"{name}: expected (lower, upper) or (lower, upper, scale), got {spec!r}")
    lower, upper = float(spec[0]), float(spec[1])
    if not lower < upper:
        raise ValueError(f"{name}: lower must be below upper, got {lower:g} and {upper:g}")
    scale = float(spec[2]) if len(spec) == 3 else EXTENT / (upper - lower)
    if not scale > 0:
        raise ValueError(f"{name}: the scale must be positive, got {scale:g}")
    return lower, upper, scale
