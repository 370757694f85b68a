"""Gauges: numbers that a controller shows over a motion, with thresholds, and flags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Gauge"]


@dataclass(frozen=True, eq=False)
class Gauge:
    """A number over T samples, in zones: below the first threshold, between, above the last.

    Values of type bool are a flag over time; these have neither unit nor thresholds, and are shown
    as a strip. Samples may hold NaN or infinity. Raises ValueError for values of another shape, and
    for thresholds that are not finite and increasing.
    """

    unit: str  # e.g. "N m"; "" for none
    thresholds: tuple[float, ...]  # in that unit
    values: np.ndarray  # (T,) in that unit, or bool

    def __post_init__(self) -> None:
        limits = np.asarray(self.thresholds, dtype=float)
        values = np.asarray(self.values)
        values = values if values.dtype.kind in "fb" else values.astype(float)
        if not isinstance(self.unit, str):
            raise ValueError(f"gauge: the unit is {self.unit!r}, a text is needed")
        if limits.ndim != 1 or not np.isfinite(limits).all() or (np.diff(limits) <= 0).any():
            raise ValueError(f"gauge: thresholds {self.thresholds} are not finite and increasing")
        if values.ndim != 1:
            raise ValueError(f"gauge: values have shape {values.shape}, expected (T,)")
        if values.dtype == bool and (self.unit or limits.size):
            raise ValueError(f"gauge: what is so or not has no unit {self.unit!r} or thresholds")
        object.__setattr__(self, "thresholds", tuple(limits.tolist()))
        object.__setattr__(self, "values", values)

    @property
    def is_strip(self) -> bool:
        """True for a flag, whose values are bool."""
        return self.values.dtype == bool

    def at(self, index: np.ndarray) -> Gauge:
        """The gauge at some frames. index: (n,) frame numbers, or a (T,) mask."""
        return Gauge(self.unit, self.thresholds, self.values[index])

    def scale(self) -> tuple[float, float]:
        """Range (low, high) of a bar that shows the gauge.

        From 0, over the thresholds, to half as much beyond them. Values may reach farther; without
        a threshold other than 0 the bar holds all that are finite.

        >>> Gauge("N m", (20.0, 40.0), np.array([3.0, 90.0])).scale()
        (0.0, 60.0)
        """
        limits = np.array(self.thresholds)
        known = limits if limits.any() else self.values[np.isfinite(self.values)]
        low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
        room = 0.5 * (high - low) if limits.any() else 0.0
        low, high = low - (room if low < 0 else 0.0), high + (room if high > 0 else 0.0)
        return low, high if high > low else low + 1.0
