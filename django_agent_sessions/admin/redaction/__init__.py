"""Redaction in the admin: a form, a preview and a confirmation with a reason."""

from __future__ import annotations

from .views import redact_urls

__all__ = ["redact_urls"]
