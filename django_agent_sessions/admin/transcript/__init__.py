"""The page of a session: its conversation, in windows of messages."""

from __future__ import annotations

from .views import transcript_urls, transcript_view

__all__ = ["transcript_urls", "transcript_view"]
