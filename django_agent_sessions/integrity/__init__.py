"""Checking that what is stored is whole, and mending what can be.

A check reads in bounded pieces, session by session, so that its memory does not depend on how much
there is. Agents may go on meanwhile: what is suspicious is looked at a second time, while nobody
writes in that session, before it is told.
"""

from __future__ import annotations

from .checking import GRACE, Check, Result
from .findings import Finding, Kind, Severity

__all__ = ["GRACE", "Check", "Finding", "Kind", "Result", "Severity"]
