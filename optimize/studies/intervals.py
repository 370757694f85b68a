"""Intervals of a share."""

import math


def wilson(good: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of a share of which ``good`` of ``of`` were seen: 95 %, of z = 1.96.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    share, more = good / of, z * z / of
    middle = (share + more / 2) / (1 + more)
    half = z / (1 + more) * math.sqrt(share * (1 - share) / of + more / (4 * of))
    return max(middle - half, 0.0), min(middle + half, 1.0)
