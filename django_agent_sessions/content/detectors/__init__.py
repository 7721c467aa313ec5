"""Detection of personal data and credentials in text: addresses, numbers, keys.

Detection is best effort: text that no detector knows is not found.
"""

from __future__ import annotations

from .detection import Detection, Detector, MatchTuple, detect
from .registry import available, labels, load, names

__all__ = ["Detection", "Detector", "MatchTuple", "available", "detect", "labels", "load", "names"]
