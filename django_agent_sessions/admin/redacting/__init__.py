"""Redacting from the admin: what, a preview, and why."""

from __future__ import annotations

from .views import redact_urls

__all__ = ["redact_urls"]
