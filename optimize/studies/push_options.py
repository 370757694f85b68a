"""Options of a push map, and its result.

Forces lie on a grid of ``resolution``. All cells, a duration x direction x start each, are
bisected (``optimize.sweeps.edge``). The result was survived, and the next force up was not; of the
next ``checks`` forces down the map reports which were not survived. Where 0 N was not survived the
tolerance is NaN; where the strongest push was, it is that push, and the true one is larger.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.fused.fuse import BACKENDS


@dataclass(frozen=True)
class MapOptions:
    """Options of a push map. Raises ValueError for invalid ones."""

    scenario: str = "push"  # by name, or a file; its own forces do not count
    set: dict[str, Any] | None = None  # keys of its file, or numbers by label or path
    directions: int = 8
    durations: tuple[float, ...] = (0.1, 0.2, 0.4)  # [s]
    link: str = "pelvis"  # that is pushed, by name or role
    vary: dict[str, tuple[float, ...]] | None = None  # of the scenario: a map for each combination
    starts: int = 16
    resolution: float = 25.0  # [N]
    strongest: float = 750.0  # [N]
    checks: int = 2  # forces below the tolerance that are tried too
    seconds: float = 4.0  # that it must stand after the push
    seed: int = 0  # of the starts
    numbers: dict[str, Any] | None = None  # of the scenario, by label or path
    backend: str | None = None  # "fused" or "xla"; the faster one
    chunk: int = 128  # cells that are bisected, and then saved, together

    def __post_init__(self):
        for name in ("directions", "starts", "chunk"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; at least 1 is needed")
        for name in ("resolution", "strongest", "seconds"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        for name, values in (self.vary or {}).items():
            if not (len(values) and np.isfinite(np.asarray(values, float)).all()):
                raise ValueError(f"vary {name} is {values}; give finite numbers")
        good = [np.isfinite(d) and d > 0 for d in self.durations]
        if not (good and all(good)):
            raise ValueError(f"durations are {self.durations}; give positive ones in seconds")
        if self.backend not in (None, *BACKENDS):
            raise ValueError(f"backend {self.backend!r}: there are {', '.join(BACKENDS)}")
        if self.strongest < self.resolution:
            raise ValueError("the strongest push is weaker than the resolution")

    @property
    def varied(self) -> tuple[int, ...]:
        """Number of values that each number of ``vary`` takes; () where nothing varies."""
        return tuple(len(values) for values in (self.vary or {}).values())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the map: each varied number, then durations, directions, starts."""
        return *self.varied, len(self.durations), self.directions, self.starts

    def values_at(self, index: tuple[Any, ...]) -> dict[str, Any]:
        """Varied numbers of cells of the map, by their indices along the first axes."""
        return {
            name: np.asarray(v, float)[k] for (name, v), k in zip((self.vary or {}).items(), index)
        }

    @property
    def directions_deg(self) -> np.ndarray:
        """Directions (directions,) [deg]: 0 forward, 90 to the left."""
        return 360.0 * np.arange(self.directions) / self.directions

    @property
    def top(self) -> int:
        """Steps of the grid up to the strongest push."""
        return int(self.strongest / self.resolution + 1e-9)


@dataclass(frozen=True)
class PushMap:
    """Largest survived pushes, with the exceptions on the way.

    tolerated (varied numbers ..., durations, directions, starts) [N]; below (checks, ...) 1 where
    the next forces down the grid were survived, 0 where not, UNTRIED under 0 N; failed (...) runs
    that were not finite; unsolved (...) frames whose optimisation was not solved, residual (...)
    the largest force without a source at the root [N], of all runs while they stood.
    """

    options: MapOptions
    tolerated: np.ndarray
    below: np.ndarray
    failed: np.ndarray
    unsolved: np.ndarray
    residual: np.ndarray
    missing: tuple[str, ...] = ()  # what could not be written, and why
    settings: str = ""  # of the scheme, ``Scheme.settings_text``

    def quantiles(self, parts=(0.0, 0.25, 0.5, 0.75, 1.0)) -> np.ndarray:
        """Quantiles (parts, varied numbers ..., durations, directions) over the starts [N].

        A start that falls by itself tolerates nothing.
        """
        return np.quantile(np.nan_to_num(self.tolerated), parts, axis=-1, method="inverted_cdf")

    @property
    def first_fall(self) -> np.ndarray:
        """Weakest force that is known not to be survived [N], of the shape of ``tolerated``.

        Infinite where the strongest push was survived, and no weaker fall is known.
        """
        step, held = self.options.resolution, np.nan_to_num(self.tolerated, nan=-1.0)
        above = np.where(np.isnan(self.tolerated), 0.0, held + step)
        first = np.where(held >= self.options.top * step, np.inf, above)
        for k, stood in enumerate(self.below):
            first = np.where(stood == 0, held - (k + 1) * step, first)
        return first

    @property
    def least(self) -> float:
        """Smallest tolerated push over all cells [N]."""
        return float(np.nan_to_num(self.tolerated).min())
