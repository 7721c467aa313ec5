"""Branches, snapshots, forks and rewinds in the admin."""

from __future__ import annotations

from .views import timeline_urls

__all__ = ["timeline_urls"]
