"""Finding what should not be kept: addresses, numbers and keys that identify or open something.

A detector is a net with holes: what none of them knows stays where it is.
"""

from __future__ import annotations

from .finding import Detection, Detector, Place, detect
from .known import available, labels, load, names

__all__ = ["Detection", "Detector", "Place", "available", "detect", "labels", "load", "names"]
