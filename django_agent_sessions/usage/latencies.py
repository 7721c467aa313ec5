"""Histograms of latencies: small, added up exactly, and read as percentiles.

Percentiles of two days cannot be added up; histograms can. The buckets grow by a tenth each, so
that 200 of them reach from a millisecond to a day, and the middle of a bucket is never more than
5 % from a value in it (DDSketch, https://arxiv.org/abs/1908.10693).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_GROWTH = 1.1
_LOG_GROWTH = math.log(_GROWTH)
# The value whose relative distance to both ends of a bucket is the same: (1.1 - 1) / (1.1 + 1).
_MIDDLE = 2 / (_GROWTH + 1)

_NOTHING = -1


def bucket(milliseconds: int) -> int:
    """Tells which bucket a latency belongs to."""
    if milliseconds < 1:
        return _NOTHING
    return math.ceil(math.log(milliseconds) / _LOG_GROWTH)


def percentile(latencies: Mapping[int, int], share: float) -> float | None:
    """Reads a percentile off a histogram, by the nearest rank.

    Args:
        latencies: How many latencies fell into each :func:`bucket`.
        share: 0.5 for the median, 0.95 for p95.

    Returns:
        Milliseconds, at most 5 % from the value that this share of all latencies does not
        exceed; ``None`` where there are none.
    """
    count = sum(latencies.values())
    if not count:
        return None
    rank = max(1, math.ceil(share * count))
    for number in sorted(latencies):
        rank -= latencies[number]
        if rank <= 0:
            break
    return 0.0 if number == _NOTHING else _MIDDLE * _GROWTH**number
