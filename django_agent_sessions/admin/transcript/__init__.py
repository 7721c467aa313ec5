"""A session read like a chat, in windows around a message."""

from __future__ import annotations

from .views import transcript_urls, transcript_view

__all__ = ["transcript_urls", "transcript_view"]
