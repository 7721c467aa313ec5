"""Detection of personal data and credentials in text: addresses, numbers, keys.

Detection is best effort: text that no detector knows is not found.
"""

from __future__ import annotations

from .finding import Detection, Detector, MatchTuple, detect
from .known import available, labels, load, names

__all__ = ["Detection", "Detector", "MatchTuple", "available", "detect", "labels", "load", "names"]
