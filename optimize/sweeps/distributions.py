"""Distributions of numbers by their quantiles, so that every way of sampling can use them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Uniform:
    """Uniform distribution between two numbers.

    >>> Uniform(2.0, 4.0).quantile(0.25)
    2.5
    """

    low: float
    high: float

    def __post_init__(self):
        _increasing(self)

    def quantile(self, part: Any) -> Any:
        """Number below which a part of the distribution lies; part: array in [0, 1]."""
        return self.low + (self.high - self.low) * part


@dataclass(frozen=True)
class LogUniform:
    """Distribution between two positive numbers whose logarithm is uniform."""

    low: float
    high: float

    def __post_init__(self):
        _increasing(self)
        if self.low <= 0:
            raise ValueError(f"LogUniform from {self.low}; both ends must be positive")

    def quantile(self, part: Any) -> Any:
        """Quantile, see ``Uniform.quantile``."""
        return np.clip(self.low * (self.high / self.low) ** part, self.low, self.high)


@dataclass(frozen=True)
class Normal:
    """Normal distribution, cut off at ``low`` and ``high`` if they are given."""

    mean: float
    deviation: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self):
        if not (math.isfinite(self.mean) and 0 < self.deviation < math.inf):
            raise ValueError(f"{self}: give a finite mean and a positive deviation")
        if not self.low < self.high:
            raise ValueError(f"{self}: low must be below high")

    def quantile(self, part: Any) -> Any:
        """Quantile, see ``Uniform.quantile``."""
        from scipy.stats import truncnorm

        ends = [(end - self.mean) / self.deviation for end in (self.low, self.high)]
        # 0 and 1 themselves would be infinite where nothing is cut off
        inner = np.clip(part, 1e-12, 1 - 1e-12)
        return truncnorm.ppf(inner, *ends, loc=self.mean, scale=self.deviation)


Distribution = Uniform | LogUniform | Normal
KINDS = {kind.__name__: kind for kind in (Uniform, LogUniform, Normal)}


def as_json(distribution: Distribution) -> dict[str, Any]:
    """Dictionary of a distribution for JSON; infinite ends are left out."""
    numbers = {name: value for name, value in asdict(distribution).items() if math.isfinite(value)}
    return {"distribution": type(distribution).__name__, **numbers}


def of_json(content: Mapping[str, Any]) -> Distribution:
    """Distribution from the dictionary of ``as_json``.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    numbers = {name: float(x) for name, x in content.items() if name != "distribution"}
    return KINDS[content["distribution"]](**numbers)


def _increasing(distribution: Uniform | LogUniform) -> None:
    if not (
        math.isfinite(distribution.low)
        and math.isfinite(distribution.high)
        and distribution.low < distribution.high
    ):
        raise ValueError(f"{distribution}: low must be below high, and both finite")
