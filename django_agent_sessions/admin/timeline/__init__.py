"""Going back in time: branches and snapshots of a session, forks and rewinds from a message."""

from __future__ import annotations

from .views import timeline_urls

__all__ = ["timeline_urls"]
