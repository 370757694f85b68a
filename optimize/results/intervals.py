"""Confidence intervals of shares, means and medians."""

import math
from collections.abc import Callable

import numpy as np


def wilson(good: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Confidence interval of a share, ``good`` out of ``of``: 95 % for z = 1.96.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    share, more = good / of, z * z / of
    middle = (share + more / 2) / (1 + more)
    half = z / (1 + more) * math.sqrt(share * (1 - share) / of + more / (4 * of))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def bootstrap_interval(
    values: np.ndarray, of: Callable[..., np.ndarray] = np.mean
) -> tuple[float, float]:
    """Confidence interval (95 %) of a mean, or of another statistic, over values (n,).

    By percentiles of resampled values, the same ones in every run; of one value, that value twice.
    """
    values = np.asarray(values, float)
    if len(values) < 2 or np.ptp(values) == 0:
        return float(of(values)), float(of(values))
    from scipy.stats import bootstrap  # a second to import

    found = bootstrap((values,), of, method="percentile", rng=np.random.default_rng(0))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
