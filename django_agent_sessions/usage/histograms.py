"""Histograms of latencies: small, exactly summable, and readable as percentiles.

Percentiles of two days cannot be added; histograms can. Each bucket is 10 % wider than the one
before: 200 buckets reach from a millisecond to a day, and the middle of a bucket is at most 5 %
from a value in it (DDSketch, https://arxiv.org/abs/1908.10693).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_GROWTH = 1.1
_LOG_GROWTH = math.log(_GROWTH)
# The value with the same relative distance to both ends of a bucket: (1.1 - 1) / (1.1 + 1).
_MIDDLE = 2 / (_GROWTH + 1)

_ZERO_BUCKET = -1


def bucket_of(milliseconds: int) -> int:
    """Return the number of the bucket of a latency."""
    if milliseconds < 1:
        return _ZERO_BUCKET
    return math.ceil(math.log(milliseconds) / _LOG_GROWTH)


def percentile(latencies: Mapping[int, int], share: float) -> float | None:
    """Return a percentile of a histogram, by the nearest rank.

    Args:
        latencies: Number of latencies per bucket; see :func:`bucket_of`.
        share: 0.5 for the median, 0.95 for p95.

    Returns:
        Milliseconds, at most 5 % from the exact percentile; ``None`` for an empty histogram.
    """
    count = sum(latencies.values())
    if not count:
        return None
    rank = max(1, math.ceil(share * count))
    for number in sorted(latencies):
        rank -= latencies[number]
        if rank <= 0:
            break
    return 0.0 if number == _ZERO_BUCKET else _MIDDLE * _GROWTH**number
