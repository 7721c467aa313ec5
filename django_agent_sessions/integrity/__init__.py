"""Check the integrity of stored data, and repair what can be repaired without loss.

A check reads sessions in bounded batches, so its memory does not grow with the database. Agents may
continue to run: before a finding is reported, its session is checked a second time, with the
session's row locked.
"""

from __future__ import annotations

from .checker import GRACE, Check, Result
from .findings import Finding, Kind, Severity

__all__ = ["GRACE", "Check", "Finding", "Kind", "Result", "Severity"]
